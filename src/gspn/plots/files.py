"""Figures as files: charts as PNG or SVG by the name's suffix, drawings, which are SVG already, as they are."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from gspn.errors import InputError
from gspn.files import replace_file
from gspn.plots.canvas import import_matplotlib

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


def save_figure(figure: Figure | str, path: str | Path) -> Path:
    """Write a chart, or a drawing as SVG text, so that a crash leaves the old file or the new one.

    The suffix is .svg or, for charts, also .png (200 dots an inch). The same figure gives the same bytes.
    """
    path = Path(path)
    kind = path.suffix.lower()
    if kind not in (".svg", ".png"):
        raise InputError(f"figures are saved as .svg or .png, not as {path.name!r}")
    if isinstance(figure, str):
        if kind != ".svg":
            raise InputError(f"a drawing is SVG text and is saved as .svg, not as {path.name!r}")
        content = figure.encode()
    else:
        content = svg_text(figure).encode() if kind == ".svg" else _png(figure)
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent} to save {path.name} in")
    replace_file(path, content)
    return path


def svg_text(figure: Figure) -> str:
    """A chart as SVG. Text stays text, in whatever plain font the reader has; nothing in it tells when it was made."""
    matplotlib = import_matplotlib()
    buffer = BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "gspn"}):
        figure.savefig(buffer, format="svg", metadata=_NO_METADATA)
    text = buffer.getvalue().decode()
    return text[text.index("<svg") :]  # without the document type, which would not do inside a page


def _png(figure: Figure) -> bytes:
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=200, metadata={"Software": None})
    return buffer.getvalue()
