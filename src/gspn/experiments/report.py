"""Findings as text: Markdown, one HTML page, and the folder with all forms of the report.

The page needs nothing else: no script, no other file. Its looks are in `templates`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np

from gspn.experiments.findings import Chart, Findings, Line, Number, Picture, ResultTable
from gspn.experiments.formatting import (
    Mark,
    caption,
    counted_otherwise,
    has_published,
    is_complete,
    marks,
    mean_and_deviation,
    progress,
    unmarked,
)
from gspn.files import replace_file
from gspn.pages import inline_svg, render
from gspn.plots.charts import Curve, curves
from gspn.plots.files import save_figure, svg_text

FIGURES = "figures"
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~$&])")
_LIST_MARKER = re.compile(r"^(\d*)([-+.)])(?=\s|$)")


@dataclass(frozen=True)
class Cell:
    """What stands in one cell: our number and the paper's, either of which may be absent (None)."""

    ours: tuple[str, str] | None
    published: tuple[str, str] | None
    mark: Mark | None
    over: str
    """how many runs or folds, where the caption says something else"""


def page(findings: Findings) -> str:
    """The report as a self-contained page. All text is escaped; pictures stand in it as SVG."""
    return render(
        Path(__file__).parent / "templates" / "report.html.j2",
        findings=findings,
        complete=is_complete(findings),
        progress=progress(findings),
        parts=[_part(part, number) for number, part in enumerate(findings.parts, 1)],
    )


def _part(part: Any, number: int) -> dict[str, Any]:
    shown: dict[str, Any] = {"title": part.title, "anchor": f"part-{number}", "notes": notes_of(part)}
    if not isinstance(part, ResultTable):
        svg = figure_of(part)
        return shown | {"svg": None if svg is None else inline_svg(svg, f"part-{number}-", part.title)}
    marked = marks(part)
    return shown | {
        "caption": caption(part),
        "columns": part.columns,
        "rows": [(row.label, list(_cells(part, index, marked))) for index, row in enumerate(part.rows)],
        "marked": bool(marked),
        "unmarked": unmarked(part),
        "beside": part.beside if has_published(part) else None,
    }


def _cells(table: ResultTable, index: int, marked: Mapping[tuple[int, str], Mark]) -> Iterator[Cell]:
    row = table.rows[index]

    def written(number: Number | None) -> tuple[str, str] | None:
        return None if number is None else mean_and_deviation(number, table.digits)

    for column in table.columns:
        ours = row.ours.get(column)
        over = counted_otherwise(ours, table)
        yield Cell(written(ours), written(row.published.get(column)), marked.get((index, column)), over)


def write_report(findings: Findings, folder: str | Path) -> Path:
    """Write report.md, report.html and the figures into the folder; give the path of the page.

    Every file is replaced as a whole. The text comes after the figures that it shows; those of an earlier report that
    it does not show any more go last.
    """
    folder = Path(folder)
    (folder / FIGURES).mkdir(parents=True, exist_ok=True)
    shown = set()
    for part, name in zip(findings.parts, figure_names(findings), strict=True):
        if (figure := figure_of(part)) is not None:
            shown.add(save_figure(figure, folder / FIGURES / name))
    replace_file(folder / "report.md", markdown(findings).encode())
    replace_file(folder / "report.html", page(findings).encode())
    for left in {*(folder / FIGURES).glob("*.svg")} - shown:
        if left.is_file():
            left.unlink()
    return folder / "report.html"


def figure_of(part: ResultTable | Chart | Picture) -> str | None:
    """A chart or picture as SVG text; None of a table, and of a chart in which there is nothing to see yet."""
    if isinstance(part, ResultTable):
        return None
    if isinstance(part, Picture):
        return part.svg
    lines = [_curve(line) for line in part.lines if np.isfinite(line.y).any()]
    return svg_text(curves(lines, x_label=part.x_label, y_label=part.y_label)) if lines else None


def is_visible(part: Chart | Picture) -> bool:
    return isinstance(part, Picture) or any(np.isfinite(line.y).any() for line in part.lines)


def notes_of(part: ResultTable | Chart | Picture) -> tuple[str, ...]:
    """The notes of a part, and for a chart which of its lines cannot be seen."""
    if not isinstance(part, Chart):
        return part.notes
    lost = [line.label for line in part.lines if not np.isfinite(line.y).any()]
    return (*part.notes, *(f"{label}: no finite number to draw" for label in lost))


def _curve(line: Line) -> Curve:
    """A diverged run has infinite losses: they are gaps of its curve, and the rest is still worth seeing."""
    y, spread = (
        None if values is None or not np.isfinite(values).any() else np.where(np.isfinite(values), values, np.nan)
        for values in (line.y, line.spread)
    )
    return Curve(line.label, line.x, y, spread)


def figure_names(findings: Findings) -> list[str]:
    """A file name for every part, from its title; those of tables are not used."""
    names: list[str] = []
    for part in findings.parts:
        stem = re.sub(r"[^a-z0-9]+", "-", part.title.lower()).strip("-")[:60] or "figure"
        candidates = chain([f"{stem}.svg"], (f"{stem}-{number}.svg" for number in count(2)))
        names.append(next(name for name in candidates if name not in names))
    return names


def markdown(findings: Findings) -> str:
    """The report as Markdown; figures are files in the folder `figures` beside it."""
    blocks = [f"# {_plain(findings.title)}", _status(findings)]
    blocks += [_plain(note) for note in findings.notes]
    for part, name in zip(findings.parts, figure_names(findings), strict=True):
        blocks.append(f"## {_plain(part.title)}")
        if isinstance(part, ResultTable):
            blocks += markdown_table(part)
        elif is_visible(part):
            blocks.append(f"![{_plain(part.title)}]({FIGURES}/{name})")
        else:
            blocks.append("No results yet.")
        if notes := notes_of(part):
            blocks.append("\n".join(f"- {_plain(note)}" for note in notes))
    blocks += ["## How it was made", _fenced(findings.command)]
    if findings.made_with:
        blocks.append("\n".join(f"- {_plain(what)}: {_plain(value)}" for what, value in findings.made_with.items()))
    return "\n\n".join(blocks) + "\n"


def _status(findings: Findings) -> str:
    text = progress(findings)
    return f"{text[0].upper()}{text[1:]}." if is_complete(findings) else f"**{text[0].upper()}{text[1:]}.**"


def markdown_table(table: ResultTable) -> Iterator[str]:
    """A table as blocks of Markdown: what it shows, the table, what marks in it mean."""
    yield _plain(caption(table)) + "."
    if not table.rows or not table.columns:
        yield "No results yet."
        return
    marked = marks(table)
    lines = [["", *map(_plain, table.columns)], [":--", *["--:"] * len(table.columns)]]
    for number, row in enumerate(table.rows):
        cells = []
        for column in table.columns:
            ours = "–"
            if column in row.ours:
                ours = _marked(_in_words(row.ours[column], table.digits), marked.get((number, column)))
                if over := counted_otherwise(row.ours[column], table):
                    ours += f" <sub>({over})</sub>"
            beside = ""
            if column in row.published:
                beside = f"<br><sub>paper {_in_words(row.published[column], table.digits)}</sub>"
            cells.append(ours + beside)
        lines.append([_plain(row.label), *cells])
    yield "\n".join(f"| {' | '.join(line)} |" for line in lines)
    if key := _key(table, bool(marked)):
        yield key


def _marked(text: str, mark: Mark | None) -> str:
    return f"**{text}**" if mark == "best" else f"<u>{text}</u>" if mark == "second" else text


def _key(table: ResultTable, any_marks: bool) -> str:
    key = [f"**Bold**: best of ours in its column; <u>underlined</u>: second{unmarked(table)}."] if any_marks else []
    key += [f"In small type: {table.beside}."] if has_published(table) else []
    return " ".join(key)


def _in_words(number: Number, digits: int) -> str:
    mean, deviation = mean_and_deviation(number, digits)
    return f"{mean} ± {deviation}" if deviation else mean


def _plain(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return _LIST_MARKER.sub(r"\1\\\2", _MARKDOWN.sub(r"\\\1", " ".join(str(text).split())))


def _fenced(text: str) -> str:
    """Code; the fence is longer than any row of backticks in it."""
    fence = "`" * max(3, 1 + max((len(row) for row in re.findall("`+", text)), default=0))
    return f"{fence}sh\n{text}\n{fence}"
