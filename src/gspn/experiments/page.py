"""Findings as one HTML page that needs nothing else: no script, no other file. Its looks are in `templates`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gspn.experiments.findings import Findings, Number, ResultTable
from gspn.experiments.formatting import (
    Mark,
    caption,
    counted_otherwise,
    has_published,
    marks,
    mean_and_deviation,
    progress,
    unmarked,
)
from gspn.experiments.report import figure_of, notes_of
from gspn.pages import inline_svg, render


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
        complete=findings.done >= findings.planned > 0,
        progress=progress(findings.done, findings.planned),
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
