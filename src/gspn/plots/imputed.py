"""What was filled in against what is true: numbers with their intervals, categories as a table of confusions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gspn.circuits.distributions import CategoricalDistribution, Distribution, MixtureDistribution, encoded
from gspn.columns import shorten
from gspn.errors import InputError
from gspn.plots.canvas import SMALL, WIDTH, name_axes, new_figure, plain
from gspn.plots.colours import INK, PALETTE, QUIET, SEQUENTIAL, blend, colour_map, ink_on

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_INTERVALS = 300
"""Points up to which each shows its interval; more would be one grey cloud."""
_MOST_CATEGORIES = 40
_NUMBERED = 12
"""Columns up to which there is room for numbers."""
_NOTHING = 0.005


def observed_against_imputed(
    distributions: Distribution, truth: Any, *, level: float = 0.9, unit: str = "", title: str = ""
) -> Figure:
    """Truths against what a model said before it knew them; entries without a truth are left out.

    Continuous attributes and counts: the mean with the interval of probability `level`, on the diagonal when right.
    Categorical and binary ones: for every true category, the mean probability that each category was given; categories
    that are never true and never likely are left out.
    """
    if not isinstance(distributions, CategoricalDistribution | MixtureDistribution):
        raise InputError(f"distributions come from model.conditional, got {shorten(distributions)}")
    values = encoded(distributions.attribute, truth, len(distributions))
    present = ~values.isnan()
    if not present.any():
        raise InputError("there is no truth to compare with: all values are missing")
    known, values = distributions[present], values[present]
    if isinstance(known, CategoricalDistribution):
        return _confusions(known, values.long().numpy(), title)
    return _scatter(known, values.numpy(), level, unit, title)


def _scatter(known: MixtureDistribution, truth: Any, level: float, unit: str, title: str) -> Figure:
    means, intervals = known.mean.numpy(), known.interval(level).numpy()
    figure, (axes,) = new_figure(height=5.2, width=5.6)
    shown = intervals if len(truth) <= _MOST_INTERVALS else means[:, None]
    least, greatest = min(truth.min(), shown.min()), max(truth.max(), shown.max())
    margin = 0.04 * ((greatest - least) or 1.0)
    limits = (least - margin, greatest + margin)
    axes.plot(limits, limits, "--", color=QUIET, linewidth=1.2)
    inside = (intervals[:, 0] <= truth) & (truth <= intervals[:, 1])
    for which, colour, marker in ((inside, PALETTE[0], "o"), (~inside, PALETTE[1], "D")):
        if len(truth) <= _MOST_INTERVALS:
            axes.vlines(truth[which], *intervals[which].T, color=colour, alpha=0.3, linewidth=1.2)
        name = f"{which.sum():,} {f'inside their {level:.0%} intervals' if which is inside else 'outside'}"
        alpha = 0.85 if len(truth) <= _MOST_INTERVALS else 0.4
        axes.plot(truth[which], means[which], marker, color=colour, markersize=4, alpha=alpha, linewidth=0, label=name)
    axes.set(xlim=limits, ylim=limits, aspect="equal")
    what = f"{known.attribute.name} ({unit})" if unit else known.attribute.name
    name_axes(axes, f"{what}, true", f"{what}, imputed mean", title, legend=2)
    return figure


def _confusions(known: CategoricalDistribution, codes: Any, title: str) -> Figure:
    categories = [plain(category) for category in known.categories]
    if len(categories) > _MOST_CATEGORIES:
        raise InputError(f"{len(categories)} categories are too many for one table: at most {_MOST_CATEGORIES}")
    probs = known.probs.numpy()
    counts = np.bincount(codes, minlength=len(categories))
    rows = np.flatnonzero(counts)  # a category that is never true has no row
    shares = np.stack([probs[codes == k].mean(0) for k in rows])
    columns = np.flatnonzero((counts > 0) | (shares.max(0) >= _NOTHING))
    shares = shares[:, columns]
    figure, (axes,) = new_figure(
        width=min(WIDTH, 4.2 + 0.4 * len(columns)),
        height=1.7 + (0.5 if len(columns) <= _NUMBERED else 0.28) * len(rows),
    )
    axes.grid(False)
    image = axes.imshow(shares, cmap=colour_map(SEQUENTIAL), vmin=0, vmax=1, aspect="auto")
    if len(columns) <= _NUMBERED:
        for i, j in zip(*np.nonzero(shares >= _NOTHING), strict=True):
            ink = ink_on(blend(SEQUENTIAL, shares[i, j]))
            axes.text(j, i, f"{shares[i, j]:.2f}", ha="center", va="center", fontsize=SMALL - 0.5, color=ink)
    names = [categories[k] for k in columns]
    axes.set_xticks(range(len(names)), names, rotation=90 if max(map(len, names)) * len(names) > 60 else 0)
    axes.set_yticks(range(len(rows)), [f"{categories[k]} ({counts[k]:,})" for k in rows])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    right = float((probs.argmax(1) == codes).mean())
    asked = f"mean probability of each value of {known.attribute.name}\n(the most likely one is right in {right:.1%})"
    name_axes(axes, asked, "true (number)", title)
    bar = figure.colorbar(image, ax=axes, shrink=0.9, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=SMALL, colors=QUIET, labelcolor=INK)
    return figure
