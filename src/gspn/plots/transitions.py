"""Which state leads to which: the learned transitions between levels, and the prior they start from, as heat maps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gspn.errors import InputError
from gspn.plots.canvas import SMALL, TEXT, WIDTH, import_matplotlib, plain
from gspn.plots.colours import INK, PAPER, QUIET, SEQUENTIAL, colour_map
from gspn.plots.inputs import read_numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_A_ROW = 4
_MOST_MAPS = 24


def transitions(parameters: Mapping[str, Any], *, edge_type: int = 0, unit: int = 0, title: str = "") -> Figure:
    """Heat maps of one edge type and one sum unit: the prior [C], then a map [C, C] for every pair of levels.

    `parameters` are those of `model.get_parameters()`. A row is a neighbour's state, a column the state that it makes
    likely one level higher; rows sum to 1. All maps share one scale of probabilities.
    """
    if not {"prior", "transitions"} <= set(parameters):
        raise InputError("parameters must have 'prior' and 'transitions', as model.get_parameters() has them")
    prior = read_numbers(parameters["prior"], "'prior'", ndim=2)
    table = np.asarray(parameters["transitions"], dtype=np.float64)
    if table.ndim != 5:
        raise InputError(f"'transitions' must be [levels − 1, edge types, sum units, C, C], got {list(table.shape)}")
    states = prior.shape[1]
    if len(table):
        read_numbers(table, "'transitions'", ndim=5)
        if table.shape[2:] != (len(prior), states, states):
            wanted = [len(prior), states, states]
            raise InputError(f"'transitions' must end in {wanted}, as 'prior' has it; got {list(table.shape)}")
    if len(table) > _MOST_MAPS:
        raise InputError(f"{len(table)} pairs of levels are too many for one figure: at most {_MOST_MAPS}")
    for name, number, count in (("edge_type", edge_type, max(table.shape[1], 1)), ("unit", unit, len(prior))):
        if not 0 <= number < count:
            raise InputError(f"{name} must be 0 … {count - 1}, got {number}")
    maps = [(f"level {level} → {level + 1}", each[edge_type, unit]) for level, each in enumerate(table)]
    most = max([float(prior[unit].max()), *(float(each.max()) for _, each in maps)])
    columns = min(_A_ROW, max(len(maps), 2))
    return _draw(prior[unit], maps, columns, most, title)


def _draw(prior: Any, maps: list[tuple[str, Any]], columns: int, most: float, title: str) -> Figure:
    import_matplotlib()
    from matplotlib.figure import Figure

    rows = -(-len(maps) // columns)
    side = 6.2 / columns
    figure = Figure(figsize=(WIDTH, 1.5 + (side + 0.35) * rows), dpi=100, facecolor=PAPER, layout="constrained")
    grid = figure.add_gridspec(1 + rows, columns, height_ratios=[0.16 * side + 0.12, *[side] * rows])
    colours = colour_map(SEQUENTIAL)
    strip = figure.add_subplot(grid[0, :])
    image = strip.imshow(prior[None], cmap=colours, vmin=0, vmax=most, aspect="auto")
    strip.set_title("prior of the states", fontsize=SMALL + 0.5, color=INK, loc="left")
    strip.set_yticks([])
    axes = [strip]
    for number, (name, each) in enumerate(maps):
        panel = figure.add_subplot(grid[1 + number // columns, number % columns])
        panel.imshow(each, cmap=colours, vmin=0, vmax=most)
        panel.set_title(name, fontsize=SMALL + 0.5, color=INK, loc="left")
        if number % columns == 0:
            panel.set_ylabel("neighbour's state", fontsize=SMALL, color=INK)
        panel.set_xlabel("state", fontsize=SMALL, color=INK)
        axes.append(panel)
    ticks = _ticks(len(prior))
    for panel in axes:
        panel.set_xticks(ticks)
        if panel is not strip:
            panel.set_yticks(ticks)
        panel.tick_params(labelsize=SMALL - 1.5, colors=QUIET, labelcolor=INK, length=2)
        panel.spines[:].set_color(QUIET)
    bar = figure.colorbar(image, ax=axes, shrink=min(1.0, 2.5 / figure.get_figheight()), pad=0.02, aspect=18)
    bar.set_label("probability", fontsize=SMALL, color=INK)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=SMALL - 0.5, colors=QUIET, labelcolor=INK)
    if title:
        figure.suptitle(plain(title), fontsize=TEXT + 1, color=INK, fontweight="bold", x=0.01, ha="left")
    return figure


def _ticks(states: int) -> list[int]:
    """All states, or every fifth or so: numbers must not touch."""
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 1000, states) if states / step <= 8 or step >= states)
    return list(range(0, states, step))
