"""The suite of leaves on the library's own families, with a context too, and on one for which gaps are evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats
from leaf_cases import CASES, INFORMATIVE

from gspn.attributes import Binary, Categorical, Count
from gspn.testing import LeafCase, LeafSuite


@pytest.mark.parametrize("check", LeafSuite.checks())
@pytest.mark.parametrize("name", CASES)
def test_built_in(name: str, check: str) -> None:
    LeafSuite.on(case=CASES[name])().run(check)


class TestInformativeGaussian(LeafSuite):
    case = INFORMATIVE


def regressing(family: str) -> Any:
    """Densities with predictors that are moved by slope · context, as scipy has them."""

    def density(
        leaf: Mapping[str, Any], values: Sequence[float | None], codes: Sequence[str], context: Sequence[float] | None
    ) -> float:
        (value,) = values
        if value is None:
            return 0.0
        moved = np.zeros(len(leaf["slope"])) if context is None else np.asarray(leaf["slope"]) @ np.asarray(context)
        if family == "categorical":
            return float(scipy.special.log_softmax(np.log(leaf["probs"]) + moved)[int(value)])
        if family == "bernoulli":
            prob = scipy.special.expit(scipy.special.logit(leaf["probs"]) + moved[0])
            return float(scipy.stats.bernoulli.logpmf(value, prob))
        if family == "poisson":
            return float(scipy.stats.poisson.logpmf(value, leaf["rate"] * np.exp(moved[0])))
        mean, alpha = leaf["mean"] * np.exp(moved[0]), leaf["dispersion"]
        return float(scipy.stats.nbinom.logpmf(value, 1 / alpha, 1 / (1 + alpha * mean)))

    return density


CONTEXTS = [[0.5, -1.0], None, [-2.0, 0.3]]

SLOPES = {
    True: [[[[0, 0]]] * 2, [[[0.4, -0.3]]] * 2],
    False: [[[[0, 0]], [[0, 0]]], [[[0.4, -0.3]], [[-0.6, 1.1]]]],
}
"""By whether they are tied, [levels][leaves][predictors][columns of the context]."""

OF_CATEGORIES = {
    True: [[np.zeros((3, 2)).tolist()] * 2, [[[0.4, -0.3], [1, 0.2], [-1, 0]]] * 2],
    False: [[np.zeros((3, 2)).tolist()] * 2, [[[0.4, -0.3], [1, 0.2], [-1, 0]], [[0, 0.7], [0.5, -0.5], [0.1, 2]]]],
}

REGRESSING = {
    f"{family}, slopes {'tied' if tied else 'free'}": LeafCase(
        family,
        [attribute],
        {**exported, "slope": (OF_CATEGORIES if family == "categorical" else SLOPES)[tied]},
        regressing(family),
        contexts=CONTEXTS,
        counts=1_000,
        tied_slopes=tied,
    )
    for tied in (True, False)
    for family, attribute, exported in (
        (
            "categorical",
            Categorical("c", ["a", "b", "c"]),
            {"probs": [[[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]], [[0.9, 0.05, 0.05], [0.1, 0.1, 0.8]]]},
        ),
        ("bernoulli", Binary("b"), {"probs": [[0.3, 0.5], [0.01, 0.9]]}),
        ("poisson", Count("n"), {"rate": [[0.1, 1], [2.5, 7]]}),
        (
            "negative_binomial",
            Count("n", "negative_binomial"),
            {"mean": [[0.5, 1], [2.5, 7]], "dispersion": [[1, 0.5], [0.1, 0.8]]},
        ),
    )
}


@pytest.mark.parametrize("check", LeafSuite.checks())
@pytest.mark.parametrize("name", REGRESSING)
def test_regressing(name: str, check: str) -> None:
    LeafSuite.on(case=REGRESSING[name])().run(check)
