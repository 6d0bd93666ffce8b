"""Average ranks of methods over cases and sets, with intervals from a bootstrap over sets.

Sets, not cases, are drawn: masks of one set are no independent evidence. Means are over the cases of a set first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

Scores = Mapping[tuple[str, str], Mapping[str, float]]
"""By set and case, by method: lower is better, infinite where a method failed."""

_DRAWS = 2_000
_TAIL = 0.05


def average_ranks(scores: Scores) -> dict[str, tuple[float, float, float]]:
    """By method its mean rank (equal scores share theirs) and the ends of its 90 % interval."""
    return over_sets({where: _ranks(found) for where, found in scores.items()})


def gains(scores: Scores, against: str, relative: bool) -> dict[str, tuple[float, float, float]]:
    """By method how much lower its score is than that of the method `against`, in the same cases.

    Relative ones are means of log-ratios, and given as shares of the other's score.
    """
    paired: dict[tuple[str, str], dict[str, float]] = {}
    for where, found in scores.items():
        base = found[against]
        if not math.isfinite(base) or (relative and base <= 0):
            continue
        paired[where] = {
            name: (math.log(max(score, 1e-12) / base) if relative else score - base) for name, score in found.items()
        }
    means = over_sets(paired)
    if not relative:
        return means
    return {name: (math.expm1(mean), math.expm1(low), math.expm1(high)) for name, (mean, low, high) in means.items()}


def over_sets(scores: Scores) -> dict[str, tuple[float, float, float]]:
    """By method the mean over sets of the mean over their cases, with its interval; the same sets are drawn for all."""
    if not scores:
        return {}
    methods = list(next(iter(scores.values())))
    sets = list(dict.fromkeys(name for name, _ in scores))
    table = np.array([[_mean_of_set(scores, one, method) for method in methods] for one in sets])
    drawn = np.random.default_rng(0).integers(len(sets), size=(_DRAWS, len(sets)))
    with np.errstate(invalid="ignore"):
        draws: NDArray[np.float64] = table[drawn].mean(1)
        low, high = np.quantile(draws, [_TAIL, 1 - _TAIL], axis=0)
    return dict(zip(methods, zip(table.mean(0).tolist(), low.tolist(), high.tolist(), strict=True), strict=True))


def _mean_of_set(scores: Scores, one: str, method: str) -> float:
    return float(np.mean([found[method] for (name, _), found in scores.items() if name == one]))


def _ranks(found: Mapping[str, float]) -> dict[str, float]:
    ranks: Sequence[float] = rankdata([score if not math.isnan(score) else math.inf for score in found.values()])
    return dict(zip(found, map(float, ranks), strict=True))
