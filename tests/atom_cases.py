"""Atoms beside Gaussians, alone and together, of every covariance and with a context: cases of the suite of leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import correlated_cases as correlated
import numpy as np
import scipy.stats

import gspn
from gspn.testing import LeafCase

ATOMS = {"a": [0.1, -40.0], "b": [99.0]}
"""One among the values, a sentinel, and a cap far above"""

MASSES = [[[0.3, 0.2, 0.45], [0.05, 0.6, 0.1]], [[0.02, 0.01, 0.8], [0.5, 0.2, 0.3]]]
"""[levels][leaves] of a's in ascending order, then of b's"""


def places(leaf: Mapping[str, Any], values: Sequence[float | None], names: str) -> tuple[float, list[float | None]]:
    """Log-probability of where the values are, and those that are elsewhere."""
    total, rest, start = 0.0, list(values), 0
    for i, name in enumerate(names):
        own = sorted(ATOMS[name])
        masses = np.atleast_1d(leaf["atoms"])[start : start + len(own)]
        start += len(own)
        value = values[i]
        if value is None:
            continue
        if value in own:
            total, rest[i] = total + np.log(masses[own.index(value)]), None
        else:
            total += np.log1p(-masses.sum())
    return float(total), rest


def together(leaf: Mapping[str, Any], values: Sequence[float | None], codes: Sequence[str], context: Any) -> float:
    total, rest = places(leaf, values, "ab")
    return total + correlated.density(leaf, rest, codes, context)


def alone(leaf: Mapping[str, Any], values: Sequence[float | None], codes: Sequence[str], context: Any) -> float:
    total, (value,) = places(leaf, values, "a")
    return total + (0.0 if value is None else float(scipy.stats.norm(leaf["mean"], leaf["std"]).logpdf(value)))


def with_atoms(case: LeafCase) -> LeafCase:
    exported = {**case.exported, "atoms": MASSES}
    return replace(case, exported=exported, density=together, atoms=ATOMS)


CASES = {name: with_atoms(case) for name, case in correlated.CASES.items()} | {
    "alone": LeafCase(
        "gaussian",
        [gspn.Continuous("a")],
        {"mean": [[0, 1], [-2, 0.5]], "std": [[1, 0.5], [2, 1]], "atoms": np.array(MASSES)[..., :2]},
        alone,
        units={"a": (0.5, 2.0)},
        around={"a": (0.5, 0.5)},
        atoms=ATOMS,
    ),
    "of one of two attributes": replace(
        correlated.case("full", "tied"),
        exported={**correlated.parameters("full", "tied"), "atoms": np.array(MASSES)[..., 2:]},
        density=lambda leaf, values, codes, context: together(
            {**leaf, "atoms": np.array([0.0, 0.0, *np.atleast_1d(leaf["atoms"])])}, values, codes, context
        ),
        atoms={"b": ATOMS["b"]},
    ),
}
