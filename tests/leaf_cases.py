"""The library's own leaf families with known parameters and scipy's densities, as the suite of leaves takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import informative_leaves
import numpy as np
import scipy.stats

from gspn.attributes import Binary, Categorical, Continuous, Count
from gspn.testing import LeafCase


def alone(distribution: Callable[[Mapping[str, Any]], Any], log: str = "logpmf") -> Any:
    """The density of a family of one attribute, for which gaps mean nothing."""

    def density(leaf: Mapping[str, Any], values: Sequence[float | None], codes: Sequence[str], context: Any) -> float:
        (value,) = values
        return 0.0 if value is None else float(getattr(distribution(leaf), log)(value))

    return density


def tabulated(probs: Any) -> Any:
    """The counts of a table whose last probability is that of a tail which halves at each step, to 2⁻⁹⁰ of it."""
    tail = 0.5 ** np.arange(1, 91)
    every = np.concatenate([probs[:-1], probs[-1] * tail / tail.sum()])
    return scipy.stats.rv_discrete(values=(np.arange(len(every)), every / every.sum()))


CASES = {
    "gaussian": LeafCase(
        "gaussian",
        [Continuous("x")],
        {"mean": [[0, 1], [-2, 0.5], [3, 3]], "std": [[1, 0.5], [2, 1], [0.6, 5]]},
        alone(lambda leaf: scipy.stats.norm(leaf["mean"], leaf["std"]), "logpdf"),
        around={"x": (0.5, 0.5)},
    ),
    "gaussian in units of the data": LeafCase(
        "gaussian",
        [Continuous("x")],
        {"mean": [[-40, -37], [-41.3, -45]], "std": [[2.5, 0.5], [1.1, 8]]},
        alone(lambda leaf: scipy.stats.norm(leaf["mean"], leaf["std"]), "logpdf"),
        units={"x": (-40.0, 2.5)},
        around={"x": (-40.0, 0.5)},
    ),
    "categorical": LeafCase(
        "categorical",
        [Categorical("c", ["a", "b", "c"])],
        {"probs": [[[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]], [[0.98, 0.01, 0.01], [0.1, 0.1, 0.8]]]},
        alone(lambda leaf: scipy.stats.rv_discrete(values=(range(3), leaf["probs"]))),
    ),
    "bernoulli": LeafCase(
        "bernoulli",
        [Binary("b")],
        {"probs": [[0.3, 0.5], [1e-3, 0.9], [0.75, 0.02]]},
        alone(lambda leaf: scipy.stats.bernoulli(leaf["probs"])),
    ),
    "poisson": LeafCase(
        "poisson",
        [Count("n")],
        {"rate": [[0.1, 1], [2.5, 7], [30, 4]]},
        alone(lambda leaf: scipy.stats.poisson(leaf["rate"])),
    ),
    "negative binomial": LeafCase(
        "negative_binomial",
        [Count("n", "negative_binomial")],
        {"mean": [[0.5, 1], [2.5, 7]], "dispersion": [[1, 0.5], [0.1, 2]]},
        alone(lambda leaf: scipy.stats.nbinom(1 / leaf["dispersion"], 1 / (1 + leaf["dispersion"] * leaf["mean"]))),
    ),
    "count table": LeafCase(
        "count_table",
        [Count("n", "count_table")],
        {"probs": [[[0.5, 0.3, *[0.01] * 10, 0.1], [*[0.02] * 12, 0.76]], [[0.952, *[0.004] * 12], [1 / 13] * 13]]},
        alone(lambda leaf: tabulated(leaf["probs"])),
    ),
}

INFORMATIVE = LeafCase(
    "informative_gaussian",
    [Continuous("x")],
    {"mean": [[0, 1], [-2, 0.5]], "std": [[1, 0.5], [2, 1]], "gap": [[0.1, 0.5], [0.3, 0.9]]},
    informative_leaves.density,
    units={"x": (0.5, 2.0)},
    around={"x": (0.5, 0.5)},
    build=informative_leaves.InformativeGaussianLeaves,
)
