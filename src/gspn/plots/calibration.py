"""Whether intervals hold what they promise: the share of truths inside them against their probability."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gspn.circuits.distributions import MixtureDistribution, encoded
from gspn.columns import shorten
from gspn.errors import InputError
from gspn.plots.canvas import SMALL, name_axes, new_figure, plain
from gspn.plots.colours import INK, QUIET, tell_apart
from gspn.plots.inputs import read_numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEVELS = (*(round(0.05 * i, 2) for i in range(1, 20)), 0.99)


def coverage(distributions: MixtureDistribution, truth: Any, levels: Any = LEVELS) -> NDArray[np.float64]:
    """[len(levels)] share of truths inside the central intervals; missing truths do not count.

    Intervals of counts hold at least what they promise, for counts are whole: their shares lie above the levels.
    """
    if not isinstance(distributions, MixtureDistribution):
        raise InputError(f"only continuous attributes and counts have intervals, got {shorten(distributions)}")
    values = encoded(distributions.attribute, truth, len(distributions)).numpy()
    present = ~np.isnan(values)
    if not present.any():
        raise InputError("there is no truth to compare with: all values are missing")
    asked = read_numbers(levels, "levels")
    shares = []
    for level in asked:
        low, high = distributions.interval(float(level)).numpy().T
        shares.append(float(((low <= values) & (values <= high))[present].mean()))
    return np.array(shares)


def calibration(
    answers: Mapping[str, tuple[MixtureDistribution, Any]] | tuple[MixtureDistribution, Any],
    *,
    levels: Any = LEVELS,
    title: str = "",
) -> Figure:
    """Observed against promised coverage of central intervals; on the diagonal they are honest.

    `answers` is a pair of distributions (from `model.conditional`) and truths, or several pairs by name. The band is
    where 95 of 100 honest models would be, given as few truths as there are (the fewest, if there are several answers).
    """
    several = answers if isinstance(answers, Mapping) else {"": answers}
    if not several:
        raise InputError("there is nothing to calibrate")
    asked = read_numbers(levels, "levels")
    shares = {name: coverage(*pair, levels=asked) for name, pair in several.items()}
    count = min(_count(*pair) for pair in several.values())
    figure, (axes,) = new_figure(height=5.2, width=5.4)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.plot([0, 1], [0, 1], "--", color=QUIET, linewidth=1.2, label="honest, and the range of chance")
    grid = np.linspace(0, 1, 101)
    axes.fill_between(grid, *_honest_band(grid, count), color=QUIET, alpha=0.12, linewidth=0)
    for number, (name, share) in enumerate(shares.items()):
        colour, marker, dashes = tell_apart(number)
        axes.plot(asked, share, dashes, marker=marker, markersize=4.5, color=colour, label=plain(name) or "_")
    name_axes(axes, "probability of the interval", f"share of truths inside (n = {count:,})", title)
    axes.legend(frameon=False, fontsize=SMALL, labelcolor=INK, loc="best")
    return figure


def _honest_band(levels: NDArray[np.float64], count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    from scipy.stats import binom

    return binom.ppf(0.025, count, levels) / count, binom.ppf(0.975, count, levels) / count


def _count(distributions: MixtureDistribution, truth: Any) -> int:
    return int((~np.isnan(encoded(distributions.attribute, truth, len(distributions)).numpy())).sum())
