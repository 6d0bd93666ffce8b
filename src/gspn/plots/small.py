"""Small charts of reports, as wide as a phone: errors beside each other, promises against what came true, histograms.

They take plain numbers; distributions are drawn by `calibration` and `imputed`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from gspn.errors import InputError
from gspn.plots.canvas import SMALL, name_axes, new_figure, plain
from gspn.plots.colours import PALETTE, QUIET, tell_apart
from gspn.plots.inputs import check_length, read_numbers
from gspn.plots.scales import write_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDE = 3.5
"""Inches; a hundred pixels each."""
_LONGEST = 18
"""Letters of a label."""
_MOST_INTERVALS = 250
"""Points beyond which intervals would hide each other."""
_LEAST_IN_BIN = 5
"""Answers in a bin of probabilities without which its share is left out."""


def errors_beside(names: Sequence[str], errors: Mapping[str, Sequence[float]], x_label: str = "") -> Figure:
    """A row of marks for every name, one for each method; shorter is better. NaN leaves a mark out."""
    if not names or not errors:
        raise InputError("there are no errors to draw")
    numbers = {method: read_numbers(each, f"errors of {method!r}", gaps=True) for method, each in errors.items()}
    for method, each in numbers.items():
        check_length(each, len(names), f"errors of {method!r}", "names")
    figure, (axes,) = new_figure(width=WIDE, height=1.0 + 0.2 * len(errors) + 0.26 * len(names))
    places = np.arange(len(names))[::-1]
    axes.axvline(1.0, color=QUIET, linestyle="--", linewidth=1.2)
    for number, (method, each) in enumerate(numbers.items()):
        colour, marker, _ = tell_apart(number)
        size = 8 if number == 0 else 5.5
        axes.plot(each, places, marker, color=colour, markersize=size, alpha=0.9, linewidth=0, label=plain(method))
    finite = np.concatenate(list(numbers.values()))
    finite = finite[np.isfinite(finite)]
    # Whoever errs by far more than the others would leave no room for them.
    axes.set_xlim(0, min(max(1.1, 1.05 * finite.max()), 2.0) if len(finite) else 1.1)
    axes.set_ylim(-0.7, len(names) - 0.3)
    axes.set_yticks(places, [_shortened(name) for name in names])
    name_axes(axes, x_label)
    figure.legend(
        *axes.get_legend_handles_labels(),
        frameon=False,
        fontsize=SMALL,
        labelcolor="linecolor",
        loc="outside upper left",
        handletextpad=0.3,
        labelspacing=0.2,
    )
    return figure


def promises(levels: Sequence[float], shares: Mapping[str, Any], count: int) -> Figure:
    """Shares of truths inside intervals against the intervals' probabilities; on the diagonal they are honest."""
    asked = read_numbers(levels, "levels")
    figure, (axes,) = new_figure(width=WIDE, height=WIDE)
    _honest(axes, count)
    for number, (name, share) in enumerate(shares.items()):
        colour, marker, dashes = tell_apart(number)
        axes.plot(
            asked,
            read_numbers(share, f"shares of {name!r}"),
            dashes,
            marker=marker,
            markersize=3.5,
            color=colour,
            label=plain(_shortened(name)) or "_",
        )
    name_axes(axes, "probability of the interval", "share of truths inside")
    axes.legend(frameon=False, fontsize=SMALL - 1, labelcolor="linecolor", loc="upper left", handlelength=1.4)
    return figure


def reliability(promised: Any, right: Any, bins: int = 8) -> Figure:
    """How often the value that was called most probable is right, by the probability that it was given."""
    chances, came = read_numbers(promised, "promised"), read_numbers(right, "right")
    check_length(came, len(chances), "right", "promised")
    figure, (axes,) = new_figure(width=WIDE, height=WIDE)
    edges = np.linspace(0, 1, bins + 1)
    place = np.clip(np.digitize(chances, edges) - 1, 0, bins - 1)
    counts = np.bincount(place, minlength=bins)
    told = counts >= _LEAST_IN_BIN
    means = np.bincount(place, chances, bins)[told] / counts[told]
    shares = np.bincount(place, came, bins)[told] / counts[told]
    low, high = (binom.ppf(at, counts[told], means) / counts[told] for at in (0.025, 0.975))
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.plot([0, 1], [0, 1], "--", color=QUIET, linewidth=1.2)
    axes.vlines(means, low, high, color=QUIET, alpha=0.35, linewidth=5, label="honest, by chance")
    axes.plot(means, shares, "o-", color=PALETTE[0], markersize=5, label="gspn")
    name_axes(axes, "probability that was given", "share that is right")
    axes.legend(frameon=False, fontsize=SMALL - 1, labelcolor=QUIET, loc="upper left")
    return figure


def against_truth(truth: Any, mean: Any, low: Any, high: Any, name: str = "") -> Figure:
    """Numbers as they were predicted, with their intervals, over what is true; on the diagonal they are right."""
    x, y, below, above = (read_numbers(each, "numbers") for each in (truth, mean, low, high))
    figure, (axes,) = new_figure(width=WIDE, height=WIDE)
    with_intervals = len(x) <= _MOST_INTERVALS
    shown = np.concatenate([x, y, below, above] if with_intervals else [x, y])
    margin = 0.04 * ((shown.max() - shown.min()) or 1.0)
    limits = (shown.min() - margin, shown.max() + margin)
    axes.plot(limits, limits, "--", color=QUIET, linewidth=1.2)
    inside = (below <= x) & (x <= above)
    for which, colour, marker in ((inside, PALETTE[0], "o"), (~inside, PALETTE[1], "D")):
        if with_intervals:
            axes.vlines(x[which], below[which], above[which], color=colour, alpha=0.3, linewidth=1.1)
        axes.plot(x[which], y[which], marker, color=colour, markersize=3.2, alpha=0.8, linewidth=0)
    axes.set(xlim=limits, ylim=limits, aspect="equal")
    axes.locator_params(nbins=5)
    name_axes(axes, f"{_shortened(name)}, true", f"{_shortened(name)}, predicted")
    return figure


def histogram(numbers: Any, x_label: str = "", y_label: str = "") -> Figure:
    """How often whole numbers occur; many different ones are put together."""
    values = read_numbers(numbers, "numbers")
    if not len(values):
        raise InputError("there are no numbers to count")
    figure, (axes,) = new_figure(width=WIDE, height=2.3)
    least, most = int(values.min()), int(values.max())
    width = max(1, -(-(most - least + 1) // 24))
    counts, edges = np.histogram(values, np.arange(least, most + 1 + width, width))
    axes.bar(edges[:-1] + (width - 1) / 2, counts, 0.85 * width, color=PALETTE[0])
    axes.grid(False, axis="x")
    axes.locator_params(axis="x", integer=True)
    axes.locator_params(axis="y", nbins=5)
    axes.yaxis.set_major_formatter(lambda value, _: write_number(value))
    name_axes(axes, x_label, y_label)
    return figure


def _honest(axes: Axes, count: int) -> None:
    grid: NDArray[np.float64] = np.linspace(0, 1, 101)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.plot([0, 1], [0, 1], "--", color=QUIET, linewidth=1.2, label="honest")
    low, high = (binom.ppf(at, count, grid) / count for at in (0.025, 0.975))
    axes.fill_between(grid, low, high, color=QUIET, alpha=0.12, linewidth=0)


def _shortened(name: str) -> str:
    text = str(name)
    return plain(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…")
