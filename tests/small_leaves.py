"""Leaves of every family with known parameters, and scipy's distributions as the measure of what they compute.

Expected values are computed from what a family exports, that is, from its parameters after rounding to the model's
dtype: a test then sees the family's arithmetic and not the rounding of what it was given. In float64 densities of
moderate size are right to about 1e-13, so the 1e-9 that is asked for leaves room for unlucky cancellations. In float32
a value is rounded to 6e-8 before it is measured in deviations; the cases stay within a hundred deviations of sharp
states, which makes about 1e-5 relative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch
from leaf_cases import tabulated
from numpy.typing import NDArray
from torch import Tensor

from gspn.attributes import Attribute, Binary, Categorical, Continuous, Count
from gspn.circuits.leaves import GaussianLeaves, Natural, UnivariateLeaves, leaves_for

LEVELS, LEAVES = 3, 2
DTYPES = (torch.float32, torch.float64)
QUANTILES = (1e-3, 0.05, 0.25, 0.5, 0.8, 0.95, 0.999)

SHARP = 0.02
"""The floor of the Gaussian case of that name: low enough to matter, high enough for float32 to follow."""


def univariate(attribute: Attribute, levels: int, leaves: int) -> UnivariateLeaves:
    """The family of an attribute, known to be over it alone."""
    family = leaves_for(attribute, levels, leaves)
    assert isinstance(family, UnivariateLeaves)
    return family


@dataclass(frozen=True)
class Case:
    """A family with parameters as people read them, [levels][leaves]…, and the units of its attribute."""

    name: str
    attribute: Attribute
    exported: dict[str, Any] = field(repr=False)
    center: float = 0.0
    spread: float = 1.0

    def parameters(self) -> dict[str, Tensor]:
        return {key: torch.tensor(value, dtype=torch.float64) for key, value in self.exported.items()}

    def empty(self, dtype: torch.dtype = torch.float64, levels: int = LEVELS, leaves: int = LEAVES) -> UnivariateLeaves:
        family = univariate(self.attribute, levels, leaves).to(dtype)
        if isinstance(family, GaussianLeaves):
            family.center, family.spread = self.center, self.spread
        return family

    def build(self, dtype: torch.dtype = torch.float64) -> UnivariateLeaves:
        family = self.empty(dtype)
        family.assign(family.check_exported(self.parameters(), LEVELS))
        return family

    @property
    def continuous(self) -> bool:
        return isinstance(self.attribute, Continuous)


CASES = [
    Case("gaussian", Continuous("x"), {"mean": [[0, 1], [-2, 0.5], [3, 3]], "std": [[1, 0.5], [2, 1], [0.3, 5]]}),
    Case(
        "gaussian in units of the data",
        Continuous("x"),
        {"mean": [[-40, -37], [-41.3, -45], [-40, -39.9]], "std": [[2.5, 0.5], [1.1, 8], [2, 3.3]]},
        center=-40.0,
        spread=2.5,
    ),
    Case(
        "gaussian, sharp",
        Continuous("x", floor=SHARP),
        {"mean": [[101, 99], [100, 103], [98, 100]], "std": [[3 * SHARP, 4 * SHARP], [0.1, 0.2], [0.3, 3 * SHARP]]},
        center=100.0,
        spread=3.0,
    ),
    Case(
        "categorical",
        Categorical("c", ["a", "b", "c"]),
        {"probs": [[[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]], [[0.98, 0.01, 0.01], [0.1, 0.1, 0.8]], [[1 / 3] * 3] * 2]},
    ),
    Case(
        "categorical, two values",
        Categorical("c", [7, 9]),
        {"probs": [[[1e-4, 1 - 1e-4], [0.5, 0.5]], [[0.25, 0.75], [0.9, 0.1]], [[0.999, 0.001], [0.4, 0.6]]]},
    ),
    Case("categorical, one value", Categorical("c", ["only"]), {"probs": [[[1.0], [1.0]]] * LEVELS}),
    Case("bernoulli", Binary("b"), {"probs": [[0.3, 0.5], [1e-3, 0.9], [0.75, 0.02]]}),
    Case("poisson", Count("n"), {"rate": [[0.1, 1], [2.5, 7], [30, 4]]}),
    Case("poisson, large", Count("n"), {"rate": [[500, 1000.5], [120, 999], [1e-3, 800]]}),
    Case(
        "negative binomial",
        Count("n", "negative_binomial"),
        {"mean": [[0.1, 1], [2.5, 7], [30, 4]], "dispersion": [[1, 0.5], [0.1, 2], [0.3, 0.05]]},
    ),
    Case(
        "negative binomial, nearly Poisson",
        Count("n", "negative_binomial"),
        {"mean": [[5, 0.5], [100, 20], [3, 1]], "dispersion": [[1e-2, 5e-3], [2e-3, 1e-2], [1e-3, 3e-3]]},
    ),
    Case(
        "count table",
        Count("n", "count_table"),
        {
            "probs": [
                [[0.9, 0.05, *[0.004] * 10, 0.01], [1 / 13] * 13],
                [[*[0.02] * 12, 0.76], [*[0.1] * 9, *[0.025] * 4]],
                [[1e-6, *[0.05] * 11, 0.449999], [0.04, *[0.08] * 12]],
            ]
        },
    ),
]
ORDERED = [case for case in CASES if not isinstance(case.attribute, Categorical)]
FAMILIES = [
    next(case for case in CASES if case.name == name)
    for name in (
        "gaussian in units of the data",
        "categorical",
        "bernoulli",
        "poisson",
        "negative binomial",
        "count table",
    )
]

over_cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
over_families = pytest.mark.parametrize("case", FAMILIES, ids=lambda case: case.name)
over_dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def numbers(natural: Natural) -> dict[str, NDArray[np.float64]]:
    return {key: value.detach().double().numpy() for key, value in natural.items()}


def scipy_distribution(attribute: Attribute, exported: dict[str, NDArray[np.float64]], level: int, leaf: int) -> Any:
    own = {key: value[level, leaf] for key, value in exported.items()}
    if isinstance(attribute, Continuous):
        return scipy.stats.norm(own["mean"], own["std"])
    if isinstance(attribute, Categorical):
        return scipy.stats.rv_discrete(values=(np.arange(len(own["probs"])), own["probs"]))
    if isinstance(attribute, Binary):
        return scipy.stats.bernoulli(own["probs"])
    if attribute.distribution == "poisson":
        return scipy.stats.poisson(own["rate"])
    if attribute.distribution == "count_table":
        return tabulated(own["probs"])
    return scipy.stats.nbinom(1 / own["dispersion"], 1 / (1 + own["dispersion"] * own["mean"]))


def every_leaf(family: UnivariateLeaves) -> Iterator[tuple[int, int, Any]]:
    """Level, leaf and scipy's form of that distribution."""
    exported = numbers(family.export(family.natural()))
    for level in range(family.num_levels):
        for leaf in range(family.num_leaves):
            yield level, leaf, scipy_distribution(family.attribute, exported, level, leaf)


def by_scipy(family: UnivariateLeaves, ask: Callable[[Any], Any]) -> NDArray[np.float64]:
    """[levels, leaves, …] of whatever is asked of each distribution."""
    answers: list[list[Any]] = [[None] * family.num_leaves for _ in range(family.num_levels)]
    for level, leaf, distribution in every_leaf(family):
        answers[level][leaf] = ask(distribution)
    return np.array(answers, dtype=np.float64)


def log_densities(distribution: Any, x: NDArray[np.float64]) -> NDArray[np.float64]:
    discrete = isinstance(getattr(distribution, "dist", distribution), scipy.stats.rv_discrete)
    return np.asarray(distribution.logpmf(x) if discrete else distribution.logpdf(x), dtype=np.float64)


def support(case: Case, family: UnivariateLeaves) -> NDArray[np.float64]:
    """Values that carry all the probability up to about 1e-12: a fine grid, or every value."""
    if isinstance(case.attribute, Categorical):
        return np.arange(len(case.attribute.categories), dtype=np.float64)
    low = by_scipy(family, lambda d: d.ppf(1e-13)).min()
    high = by_scipy(family, lambda d: d.isf(1e-13)).max()
    return np.linspace(low, high, 20_001) if case.continuous else np.arange(0.0, high + 1)


def values(case: Case, family: UnivariateLeaves) -> NDArray[np.float64]:
    """A few dozen values from the middle and the tails of every leaf."""
    everything = support(case, family)
    tails = everything[:: max(1, len(everything) // 40)]
    if isinstance(case.attribute, Categorical):
        return tails
    return np.unique(np.concatenate([tails, by_scipy(family, lambda d: d.ppf(QUANTILES)).ravel()]))
