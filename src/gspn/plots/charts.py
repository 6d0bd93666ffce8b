"""Plain charts: curves with their spread, and bars in groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gspn.errors import InputError
from gspn.plots.canvas import SMALL, label_ends, name_axes, new_figure, plain
from gspn.plots.colours import INK, PALETTE, QUIET, tell_apart
from gspn.plots.inputs import check_length, read_numbers
from gspn.plots.scales import write_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_MARKED = 30
"""Points of a curve that are marked one by one."""


class Curve(NamedTuple):
    """y over x, with its spread to both sides where there is one. NaN in y or the spread is a gap."""

    label: str
    x: Any
    y: Any
    spread: Any = None


def curves(
    lines: Sequence[Curve],
    *,
    x_label: str = "",
    y_label: str = "",
    title: str = "",
    log_x: bool = False,
    log_y: bool = False,
) -> Figure:
    """Curves in one pair of axes, labelled at their right ends; bands show their spread."""
    if not lines:
        raise InputError("there are no curves to draw")
    read = [_read(Curve(*line)) for line in lines]
    figure, (axes,) = new_figure()
    if log_x:
        _check_positive("x", [x for x, _, _ in read])
        axes.set_xscale("log")
    if log_y:
        _check_positive("y", [y for _, y, _ in read])
        axes.set_yscale("log")
    ends = []
    for number, (line, (x, y, spread)) in enumerate(zip(lines, read, strict=True)):
        colour, marker, dashes = tell_apart(number)
        marked = marker if len(x) <= _MOST_MARKED else ""
        label = plain(line.label) or "_"
        axes.plot(x, y, dashes, color=colour, marker=marked, markersize=5, linewidth=1.8, label=label)
        if spread is not None:
            low = np.maximum(y - spread, y[y > 0].min() / 10) if log_y else y - spread
            axes.fill_between(x, low, y + spread, color=colour, alpha=0.15, linewidth=0)
        last = np.flatnonzero(~np.isnan(y))[-1]
        ends.append((float(x[last]), float(y[last]), str(line.label), colour))
    places = np.unique(np.concatenate([x for x, _, _ in read]))
    if len(places) <= 12 and not log_x and np.allclose(places, np.round(places)):
        axes.set_xticks(places)  # numbers of layers, states, …: 2.5 of them would be odd
    name_axes(axes, x_label, y_label, title)
    if len(lines) > 1:
        label_ends(axes, ends)
    return figure


def bars(
    groups: Sequence[str],
    heights: Mapping[str, Any],
    *,
    spread: Mapping[str, Any] | None = None,
    y_label: str = "",
    title: str = "",
    log_y: bool = False,
) -> Figure:
    """Bars in groups, one of each colour in every group, with their numbers above; NaN leaves a bar out.

    `heights` has for every name (a model) one number a group (a dataset), and `spread` likewise where it is known.
    """
    if not groups or not heights:
        raise InputError("there are no bars to draw")
    spread = spread or {}
    if unknown := set(spread) - set(heights):
        raise InputError(f"spread is given for {sorted(unknown)[0]!r}, which has no heights")
    numbers = {name: _per_group(each, f"heights of {name!r}", groups) for name, each in heights.items()}
    errors = {name: _per_group(each, f"spread of {name!r}", groups) for name, each in spread.items()}
    figure, (axes,) = new_figure()
    axes.grid(False, axis="x")
    if log_y:
        _check_positive("heights", list(numbers.values()))
        axes.set_yscale("log")
    width = 0.8 / len(numbers)
    for i, (name, each) in enumerate(numbers.items()):
        x = np.arange(len(groups)) + (i - (len(numbers) - 1) / 2) * width
        drawn = axes.bar(
            x,
            each,
            width * 0.92,
            color=PALETTE[i % len(PALETTE)],
            hatch="" if i < len(PALETTE) else "//",
            label=plain(name),
            yerr=errors.get(name),
            error_kw={"ecolor": QUIET, "capsize": 2},
        )
        if len(groups) * len(numbers) <= 24:
            texts = ["" if np.isnan(value) else write_number(float(value)) for value in each]
            axes.bar_label(drawn, texts, padding=2, fontsize=SMALL - 1, color=INK)
    axes.set_xticks(np.arange(len(groups)), [plain(group) for group in groups])
    axes.tick_params(axis="x", length=0)
    axes.margins(y=0.1)
    name_axes(axes, "", y_label, title, legend=len(numbers))
    return figure


def _read(line: Curve) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64] | None]:
    x = read_numbers(line.x, f"x of {line.label!r}")
    y = read_numbers(line.y, f"y of {line.label!r}", gaps=True)
    check_length(y, len(x), f"y of {line.label!r}", "places x")
    if line.spread is None:
        return x, y, None
    spread = read_numbers(line.spread, f"spread of {line.label!r}", gaps=True)
    check_length(spread, len(x), f"spread of {line.label!r}", "places x")
    if (spread < 0).any():
        raise InputError(f"spread of {line.label!r} is negative")
    return x, y, spread


def _check_positive(name: str, arrays: Sequence[NDArray[np.float64]]) -> None:
    if any((array <= 0).any() for array in arrays):
        raise InputError(f"{name} has values that are not positive: a logarithmic axis cannot show them")


def _per_group(values: Any, name: str, groups: Sequence[str]) -> NDArray[np.float64]:
    numbers = read_numbers(values, name, gaps=True)
    check_length(numbers, len(groups), name, "groups")
    return numbers
