"""One picture of the yardstick's report: a dot and an interval for every method."""

from __future__ import annotations

from collections.abc import Mapping

from gspn.plots.canvas import name_axes, new_figure, plain
from gspn.plots.colours import PALETTE, QUIET
from gspn.plots.files import svg_text


def dots(values: Mapping[str, tuple[float, float, float]], label: str, wanted: float | None = None) -> str:
    """SVG of values with intervals, smallest at the top; `wanted` is marked by a line."""
    order = sorted(values, key=lambda name: values[name][0], reverse=True)
    figure, (axes,) = new_figure(height=1.0 + 0.28 * max(len(order), 1))
    for place, name in enumerate(order):
        value, low, high = values[name]
        axes.plot([low, high], [place, place], color=PALETTE[0], linewidth=1.5, alpha=0.5)
        axes.plot([value], [place], "o", color=PALETTE[0], markersize=5)
    if wanted is not None:
        axes.axvline(wanted, color=QUIET, linewidth=1.0, linestyle="--")
    axes.set_yticks(range(len(order)), [plain(name) for name in order])
    name_axes(axes, label)
    return svg_text(figure)
