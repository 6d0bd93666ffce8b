"""Mixtures and tables with known parameters, and scipy's distributions and brute force as their measure.

Mixtures and tables compute in float64, so 1e-12 relative is asked for wherever nothing is cancelled or searched for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.integrate
import scipy.special
import scipy.stats
import torch
from leaf_cases import tabulated
from numpy.typing import NDArray
from small_leaves import univariate
from torch import Tensor

from gspn.attributes import Attribute, Binary, Categorical, Continuous, Count
from gspn.circuits import Rows
from gspn.circuits.components import Components
from gspn.circuits.distributions import CategoricalDistribution, MixtureDistribution, mix
from gspn.circuits.leaves import GaussianLeaves, UnivariateLeaves

WEIGHTS = torch.tensor(
    [[0.5, 0.3, 0.2], [1 - 2e-9, 1e-9, 1e-9], [0.0, 0.0, 1.0], [1 / 3, 1 / 3, 1 / 3]], dtype=torch.float64
)
"""Of four mixtures of three leaves: an ordinary one, nearly one leaf, exactly one leaf, and all alike."""

SIGNIFICANCE = 1e-4
"""Seeds are fixed, so a test of draws fails only if the code changes; then by chance once in ten thousand."""


@dataclass(frozen=True)
class Case:
    """Three leaves with parameters as people read them."""

    name: str
    attribute: Attribute
    exported: dict[str, list[Any]]
    distributions: list[Any]
    center: float = 0.0
    spread: float = 1.0

    def leaves(self, dtype: torch.dtype = torch.float64) -> UnivariateLeaves:
        family = univariate(self.attribute, 1, 3).to(dtype)
        if isinstance(family, GaussianLeaves):
            family.center, family.spread = self.center, self.spread
        given = {key: torch.tensor([value], dtype=torch.float64) for key, value in self.exported.items()}
        family.assign(family.check_exported(given, 1))
        return family

    def mixture(self, dtype: torch.dtype = torch.float64, weights: Tensor = WEIGHTS) -> MixtureDistribution:
        family = self.leaves(dtype)
        made = mix(Components([Rows(family, family.natural())]), weights.log())
        assert isinstance(made, MixtureDistribution)
        return made

    def mixed(self, ask: Callable[[Any], Any]) -> NDArray[np.float64]:
        """[4, …] the mean, with the mixtures' weights, of whatever is asked of each leaf."""
        return np.tensordot(WEIGHTS.numpy(), np.array([ask(d) for d in self.distributions]), axes=1)

    @property
    def counts(self) -> NDArray[np.float64]:
        """All whole numbers that carry probability."""
        return np.arange(1 + max(d.isf(1e-15) for d in self.distributions))


GAUSSIAN = Case(
    "gaussian",
    Continuous("x"),
    {"mean": [-3.0, 0.0, 40.0], "std": [1.0, 0.2, 7.0]},
    [scipy.stats.norm(-3, 1), scipy.stats.norm(0, 0.2), scipy.stats.norm(40, 7)],
    center=12.0,
    spread=20.0,
)
POISSON = Case(
    "poisson",
    Count("x"),
    {"rate": [0.3, 4.0, 60.0]},
    [scipy.stats.poisson(0.3), scipy.stats.poisson(4.0), scipy.stats.poisson(60.0)],
)
NEGATIVE_BINOMIAL = Case(
    "negative binomial",
    Count("x", "negative_binomial"),
    {"mean": [0.5, 3.0, 20.0], "dispersion": [0.1, 1.0, 0.3]},
    [scipy.stats.nbinom(1 / a, 1 / (1 + a * m)) for m, a in ((0.5, 0.1), (3.0, 1.0), (20.0, 0.3))],
)
_SHARES = ([0.7, 0.2, *[0.009] * 10, 0.01], [*[0.02] * 12, 0.76], [1 / 13] * 13)
COUNT_TABLE = Case(
    "count table", Count("x", "count_table"), {"probs": list(_SHARES)}, [tabulated(np.array(one)) for one in _SHARES]
)
CASES = [GAUSSIAN, POISSON, NEGATIVE_BINOMIAL, COUNT_TABLE]
COUNTS = [POISSON, NEGATIVE_BINOMIAL, COUNT_TABLE]
ELEMENT = Categorical("element", ["C", "N", "O"])
PROBS = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [0.25, 0.5, 0.25]])
OF_TRUE = np.array([0.1, 0.5, 0.9])


def element_table() -> CategoricalDistribution:
    family = univariate(ELEMENT, 1, 3).double()
    family.assign({"probs": torch.from_numpy(PROBS)[None]})
    made = mix(Components([Rows(family, family.natural())]), WEIGHTS.log())
    assert isinstance(made, CategoricalDistribution)
    return made


def binary_table() -> CategoricalDistribution:
    family = univariate(Binary("aromatic"), 1, 3).double()
    family.assign({"probs": torch.from_numpy(OF_TRUE)[None]})
    made = mix(Components([Rows(family, family.natural())]), WEIGHTS.log())
    assert isinstance(made, CategoricalDistribution)
    return made


# ---- Answers of which a test knows what they are


def as_table(found: object) -> CategoricalDistribution:
    assert isinstance(found, CategoricalDistribution)
    return found


def as_mixture(found: object) -> MixtureDistribution:
    assert isinstance(found, MixtureDistribution)
    return found
