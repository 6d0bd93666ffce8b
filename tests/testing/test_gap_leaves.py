"""The suite of leaves on probabilities of gaps around other families: of one attribute, of several, with atoms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import atom_cases
import correlated_cases as correlated
import numpy as np
import pytest
from leaf_cases import CASES as PLAIN

from gspn.errors import InputError
from gspn.testing import LeafCase, LeafSuite

GAPS = np.array([[[0.1, 0.7], [0.55, 0.02]], [[0.3, 0.25], [0.9, 0.5]], [[0.4, 0.6], [0.2, 0.05]]])
"""[levels][leaves][attributes]"""


def with_gaps(case: LeafCase) -> LeafCase:
    levels, leaves = case.shape
    gaps = GAPS[:levels, :leaves, : len(case.attributes)]

    def density(leaf: Mapping[str, Any], values: Sequence[float | None], codes: Sequence[str], context: Any) -> float:
        factors = zip(np.atleast_1d(leaf["gaps"]).tolist(), codes, strict=True)
        of_codes = sum(math.log({"observed": 1 - gap, "missing": gap, "hidden": 1.0}[code]) for gap, code in factors)
        rest = {key: value for key, value in leaf.items() if key != "gaps"}
        return of_codes + case.density(rest, values, codes, context)

    exported = {**case.exported, "gaps": gaps if len(case.attributes) > 1 else gaps[..., 0]}
    return replace(case, exported=exported, density=density, gaps="informative")


CASES = {
    name: with_gaps(case)
    for name, case in {
        "gaussian": PLAIN["gaussian in units of the data"],
        "categorical": PLAIN["categorical"],
        "full": correlated.CASES["full, free slopes"],
        "atoms, together": atom_cases.CASES["shrunk, tied slopes"],
    }.items()
}


@pytest.mark.parametrize("check", LeafSuite.checks())
@pytest.mark.parametrize("name", CASES)
def test_with_gaps(name: str, check: str) -> None:
    LeafSuite.on(case=CASES[name])().run(check)


def test_no_probability_is_refused_and_0_is_one() -> None:
    case = CASES["full"]
    leaves, parameters = case.leaves(), case.parameters()
    parameters["gaps"][0, 0, 0] = 1.5
    with pytest.raises(InputError, match="'gaps' must be probabilities"):
        leaves.assign(parameters)
    parameters["gaps"][0, 0] = 0.0
    parameters["gaps"][0, 1] = 1.0
    leaves.assign(parameters)
    found = leaves.export(leaves.natural())["gaps"][0].detach()
    np.testing.assert_allclose(found, parameters["gaps"][0], atol=1e-15)
    assert bool(leaves.natural()["gap_odds"].isfinite().all())
