"""Findings as one HTML page that needs nothing else: no script, no other file. Its looks are in `templates`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from gspn.columns import shorten
from gspn.errors import InputError
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

_TEMPLATES = Path(__file__).parent / "templates"


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
    return (
        _templates()
        .get_template("report.html.j2")
        .render(
            findings=findings,
            complete=findings.done >= findings.planned > 0,
            progress=progress(findings.done, findings.planned),
            parts=[_part(part, number) for number, part in enumerate(findings.parts, 1)],
        )
    )


@cache
def _templates() -> Environment:
    return Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
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


def inline_svg(svg: str, prefix: str, title: str) -> Markup:
    """SVG as a part of a page: well formed, announced by its title, and with names that no other picture has.

    What else it may contain does not matter: the page forbids scripts and everything from elsewhere.
    """
    try:
        root = ET.fromstring(svg)
    except ET.ParseError as error:
        raise InputError(f"the picture {shorten(title)} is no well-formed SVG: {error}") from None
    if root.tag != "{http://www.w3.org/2000/svg}svg":
        raise InputError(f"the picture {shorten(title)} is no SVG but begins with <{root.tag}>")
    text = svg[svg.index("<svg") :]
    names = "|".join(re.escape(element.attrib["id"]) for element in root.iter() if "id" in element.attrib)
    if names:
        text = re.sub(rf'(\bid="|url\(#|href="#)({names})(?=["\)])', rf"\g<1>{prefix}\g<2>", text)
    return Markup(text)
