"""The bare figure of matplotlib: its size, type and axes, alike in all charts. No pyplot, so nothing is global."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gspn.errors import from_extra
from gspn.plots.colours import GRID, INK, PAPER, QUIET

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 7.0
"""Inches; a hundred pixels each."""
TEXT, SMALL = 10.5, 9.5
_A_ROW = 4
"""Entries of a legend beside each other."""


def import_matplotlib() -> Any:
    """matplotlib, or an error that names the extra."""
    with from_extra("plots", "charts are drawn with matplotlib"):
        import matplotlib
    return matplotlib


def new_figure(height: float = 4.0, columns: int = 1, rows: int = 1, width: float = WIDTH) -> tuple[Figure, list[Axes]]:
    """A figure with a grid of empty axes, row by row."""
    import_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=100, facecolor=PAPER, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for each in axes:
        dress(each)
    return figure, axes


def dress(axes: Axes) -> None:
    """Two quiet axes and a faint grid behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(QUIET)
    axes.tick_params(colors=QUIET, labelcolor=INK, labelsize=SMALL)
    axes.grid(True, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)


def name_axes(axes: Axes, x: str = "", y: str = "", title: str = "", legend: int = 0) -> None:
    """Say what is shown; with a legend of so many entries above the axes, if they are at least two."""
    axes.set_xlabel(plain(x), fontsize=TEXT, color=INK)
    axes.set_ylabel(plain(y), fontsize=TEXT, color=INK)
    if title:
        pad = 6 + (18 * -(-legend // _A_ROW) if legend > 1 else 0)
        axes.set_title(plain(title), fontsize=TEXT + 1, color=INK, loc="left", fontweight="bold", pad=pad)
    if legend > 1:
        axes.legend(
            frameon=False,
            fontsize=SMALL,
            labelcolor=INK,
            loc="lower left",
            bbox_to_anchor=(-0.01, 1.0),
            borderaxespad=0.1,
            handletextpad=0.5,
            columnspacing=1.2,
            ncols=min(legend, _A_ROW),
        )


def label_ends(axes: Axes, ends: Sequence[tuple[float, float, str, str]], gap: float = 0.055) -> None:
    """Write labels at the right end of curves, in their colours, moved apart where they would collide.

    `ends` are x, y, label and colour. The limits of the axes must be final.
    """
    axes.get_xlim(), axes.get_ylim()  # matplotlib finds limits when they are asked for, and transforms do not ask
    to_axes = axes.transData + axes.transAxes.inverted()
    heights = spread_out([float(to_axes.transform((x, y))[1]) for x, y, _, _ in ends], gap)
    for (_, _, label, colour), height in zip(ends, heights, strict=True):
        axes.text(1.015, height, plain(label), transform=axes.transAxes, va="center", fontsize=SMALL, color=colour)


def spread_out(heights: Sequence[float], gap: float) -> list[float]:
    """The heights moved as little as needed for every two to be `gap` apart; their order stays."""
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    groups: list[list[int]] = []

    def middle(group: list[int]) -> float:
        return sum(heights[i] for i in group) / len(group)

    for i in order:
        groups.append([i])
        # Neighbouring groups that overlap become one around their common middle.
        while (
            len(groups) > 1 and middle(groups[-1]) - middle(groups[-2]) < gap * (len(groups[-1]) + len(groups[-2])) / 2
        ):
            last = groups.pop()
            groups[-1] += last
    placed = dict.fromkeys(order, 0.0)
    for group in groups:
        first = middle(group) - gap * (len(group) - 1) / 2
        placed |= {i: first + gap * position for position, i in enumerate(group)}
    return [placed[i] for i in range(len(heights))]


def plain(text: object) -> str:
    """Text from outside; dollars in it begin no formula."""
    return str(text).replace("$", r"\$")
