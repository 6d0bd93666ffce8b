"""The bare figure of matplotlib: its size, type and axes, alike in all charts. No pyplot, so nothing is global."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gspn.errors import MissingExtraError
from gspn.plots.colours import GRID, INK, PAPER, QUIET

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 7.0
"""Inches; a hundred pixels each."""
TEXT, SMALL = 10.5, 9.5


def import_matplotlib() -> Any:
    """matplotlib, or an error that names the extra."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtraError(
            "charts are drawn with matplotlib, which is not installed: pip install 'gspn[plots]'"
        ) from error
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


def name_axes(axes: Axes, x: str = "", y: str = "", title: str = "") -> None:
    axes.set_xlabel(plain(x), fontsize=TEXT, color=INK)
    axes.set_ylabel(plain(y), fontsize=TEXT, color=INK)
    if title:
        axes.set_title(plain(title), fontsize=TEXT + 1, color=INK, loc="left", fontweight="bold")


def add_legend(axes: Axes, entries: int, beside: bool = False) -> None:
    """The labels of what was drawn: none for a single thing, above the axes for a few, beside them for many."""
    if entries < 2:
        return
    if entries > 4 or beside:
        axes.legend(frameon=False, fontsize=SMALL, loc="upper left", bbox_to_anchor=(1.0, 1.0), labelcolor=INK)
    else:
        axes.legend(
            frameon=False,
            fontsize=SMALL,
            labelcolor=INK,
            loc="lower left",
            bbox_to_anchor=(-0.01, 1.0),
            borderaxespad=0.1,
            ncols=entries,
        )


def label_ends(axes: Axes, ends: Sequence[tuple[float, float, str, str]], gap: float = 0.055) -> None:
    """Write labels at the right end of curves, in their colours, moved apart where they would collide.

    `ends` are x, y, label and colour. The limits of the axes must be final.
    """
    low, high = axes.get_ylim()
    heights = {
        i: axes.transAxes.inverted().transform(axes.transData.transform((x, y)))[1] for i, (x, y, *_) in enumerate(ends)
    }
    spread = spread_out([heights[i] for i in range(len(ends))], gap)
    for (x, y, label, colour), height in zip(ends, spread, strict=True):
        axes.annotate(
            plain(label),
            xy=(x, min(max(y, low), high)),
            xytext=(1.015, height),
            textcoords="axes fraction",
            va="center",
            fontsize=SMALL,
            color=colour,
            annotation_clip=False,
        )


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
