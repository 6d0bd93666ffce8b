"""The oracle's atoms: values of continuous attributes with a mass of their own, split from the rest of a leaf.

A leaf with atoms has "atoms": the masses of all its attributes' atoms, one after another, ascending within each. What
is left of it, and of the values, is a leaf like any other; nothing of the library belongs here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from gspn.testing.oracle_leaves import Array, LeafExpectation, Parameters, Units, log, log_cauchy

Atoms: TypeAlias = Mapping[str, Sequence[float]]  # by attribute, ascending


def masses(names: Sequence[str], leaf: Parameters, atoms: Atoms) -> list[dict[float, float]]:
    """For each attribute of a leaf the probability of each of its atoms."""
    left = [float(p) for p in leaf["atoms"]]
    found = [{float(value): left.pop(0) for value in atoms.get(name, ())} for name in names]
    assert not left, "there are more masses than atoms"
    return found


def without(leaf: Parameters) -> dict[str, Array]:
    return {key: value for key, value in leaf.items() if key != "atoms"}


def elsewhere(values: Sequence[float | None], of: Sequence[Mapping[float, float]]) -> list[float | None]:
    """Values of which those at an atom are not known: they leave the density as if missing."""
    return [None if value in own else value for value, own in zip(values, of, strict=True)]


def log_places(values: Sequence[float | None], of: Sequence[Mapping[float, float]]) -> float:
    """Log probability of where the known values are: at which atom, or elsewhere."""
    known = [(value, own) for value, own in zip(values, of, strict=True) if value is not None]
    return math.fsum(log(own[value]) if value in own else log(1 - math.fsum(own.values())) for value, own in known)


def told(
    rest: LeafExpectation, values: Sequence[float | None], of: Sequence[Mapping[float, float]], units: Sequence[Units]
) -> LeafExpectation:
    """What is told of continuous attributes, given what the rest alone would tell: known values as they are.

    Unknown ones are at an atom or elsewhere, independently of each other.
    """
    size = len(values)
    mean, covariance = np.zeros(size), np.zeros((size, size))
    assert rest.covariance is not None
    for a, (value, own, (center, spread)) in enumerate(zip(values, of, units, strict=True)):
        if value is not None:
            mean[a] = (value - center) / spread
            continue
        share, (xi,) = 1 - math.fsum(own.values()), rest.mean[a]
        at = {(v - center) / spread: p for v, p in own.items()}
        mean[a] = share * xi + math.fsum(p * z for z, p in at.items())
        second = share * (rest.covariance[a, a] + xi**2) + math.fsum(p * z**2 for z, p in at.items())
        covariance[a, a] = second - mean[a] ** 2
        for b in range(a):
            if values[b] is None:
                both = share * (1 - math.fsum(of[b].values())) * rest.covariance[a, b]
                covariance[a, b] = covariance[b, a] = both
    return LeafExpectation([[float(number)] for number in mean], covariance)


def log_guard(x: float, units: Units, atoms: Sequence[float]) -> float:
    """Log density of a guard: a Cauchy that shares its weight with the atoms alike."""
    share = -math.log(len(atoms) + 1)
    return share if x in atoms else share + log_cauchy(x, units)
