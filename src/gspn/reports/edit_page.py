"""An edit list as one HTML page: the molecule with its atoms numbered, and the edits that change the property most."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from markupsafe import Markup

from gspn import __version__
from gspn.attributes import Binary, Categorical
from gspn.graph_level.edit_list import ranked_by
from gspn.pages import inline_svg, render
from gspn.plots.structures import draw_structure
from gspn.plots.themes import CSS, themed
from gspn.reports.page import write_number

_TEMPLATES = Path(__file__).parent / "templates"
MOST_DRAWN = 12
"""At either end of the list; the others are in the table."""


def write_edit_page(table: Any, smiles: str, target: Any, level: float) -> str:
    """The page of what `edit_list` gives."""
    rows = table.to_dict("records")
    classes = isinstance(target, Categorical | Binary)
    change = ranked_by(table)
    up = [row for row in rows if row[change] > 0][:MOST_DRAWN]
    down = [row for row in reversed(rows) if row[change] < 0][:MOST_DRAWN]
    return render(
        _TEMPLATES / "edits.html.j2",
        css=Markup(CSS + (_TEMPLATES / "report.css").read_text(encoding="utf-8")),
        smiles=smiles,
        target=target.name,
        classes=classes,
        change=change,
        what=change.removeprefix("change of ") if classes else target.name,
        level=level,
        start=_drawn(smiles, "start", numbers=True),
        groups=[
            (name, [(row, _drawn(row["smiles"], f"{name}-{number}")) for number, row in enumerate(each)])
            for name, each in (("increase", up), ("decrease", down))
        ],
        rows=rows,
        write=write_number,
        version=__version__,
    )


def _drawn(smiles: str, name: str, *, numbers: bool = False) -> Markup:
    return inline_svg(themed(draw_structure(smiles, numbers)), f"{name}-", smiles)
