"""The oracle's leaves: densities of one leaf, and what it expects of entries that are not known, in plain numbers.

A leaf is given as its own parameters by name, in users' units, and may regress on what its node has received. Which
leaves there are, and what a node has received, belongs in `oracle`; nothing of the library belongs here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Parameters: TypeAlias = Mapping[str, Any]  # of one leaf, by name
Units: TypeAlias = tuple[float, float]  # centre and spread

LARGEST_COUNT = 200_000


@dataclass(frozen=True)
class NodeContext:
    """What a node of a model that regresses on neighbours has received from the level below."""

    mean: Array  # [D] relative to what is usual; 0 where nothing was received
    covariance: Array  # [D, D] how uncertain it is, as far as that is taken into account
    present: bool  # False: no edge arrives


@dataclass(frozen=True)
class LeafExpectation:
    """What is told of several attributes if one leaf is their distribution, attribute after attribute."""

    mean: list[list[float]]
    covariance: Array | None  # of all these numbers, 0 where entries are known; None: nobody has said it


# ---- Densities


def log_leaf(
    kinds: Sequence[str], leaf: Parameters, values: Sequence[float | None], received: NodeContext | None
) -> float:
    """Log density of what is known of a leaf's attributes; None is not known, and marginalised."""
    if all(kind == "continuous" for kind in kinds):
        mean, covariance = gaussian(leaf, received)
        known = [i for i, value in enumerate(values) if value is not None]
        return log_normal(np.array([values[i] for i in known], dtype=float), mean[known], block(covariance, known))
    (kind,), (value,) = kinds, values
    return 0.0 if value is None else log_density(kind, rows(shifted(kind, leaf, received)), 0, value)


def gaussian(leaf: Parameters, received: NodeContext | None) -> tuple[Array, Array]:
    """Mean [d] and covariance [d, d] of the attributes at a node that has received this: Σ + B (κ V) Bᵀ."""
    mean = np.atleast_1d(np.asarray(leaf["mean"], dtype=np.float64))
    covariance = np.array([[leaf["std"] ** 2]]) if "std" in leaf else np.asarray(leaf["covariance"], dtype=np.float64)
    if received is None or "slope" not in leaf:
        return mean, covariance
    slope = leaf["slope"]
    return mean + slope @ received.mean, covariance + slope @ received.covariance @ slope.T


def shifted(kind: str, leaf: Parameters, received: NodeContext | None) -> dict[str, Any]:
    """The parameters of a discrete leaf at a node that has received this: logits and log-rates follow the slopes."""
    moved = {key: value for key, value in leaf.items() if key != "slope"}
    if received is None or "slope" not in leaf:
        return moved
    shift = leaf["slope"] @ received.mean
    match kind:
        case "categorical" | "count_table":
            weights = leaf["probs"] * np.exp(shift - shift.max())
            moved["probs"] = weights / weights.sum()
        case "binary":
            odds = leaf["probs"] * math.exp(shift[0])
            moved["probs"] = odds / (odds + 1 - leaf["probs"])
        case "count":
            moved["rate"] = leaf["rate"] * math.exp(shift[0])
        case "negative_binomial":
            moved["mean"] = leaf["mean"] * math.exp(shift[0])
        case _:
            raise ValueError(f"no slopes are known of {kind!r}")
    return moved


def log_density(kind: str, leaf: Mapping[str, Array], m: int, x: float) -> float:
    """Log density (or probability) of the value x under the m-th leaf of an attribute."""
    match kind:
        case "continuous":
            mean, std = float(leaf["mean"][m]), float(leaf["std"][m])
            return -0.5 * ((x - mean) / std) ** 2 - log(std) - 0.5 * log(2 * math.pi)
        case "categorical":
            return log(float(leaf["probs"][m, int(x)]))
        case "binary":
            p = float(leaf["probs"][m])
            return log(p) if x == 1 else log(1 - p)
        case "count":
            rate = float(leaf["rate"][m])
            return log_power(rate, int(x)) - rate
        case "negative_binomial":  # the Gamma functions written out as a product: exact for tiny dispersions, too
            mean, dispersion = float(leaf["mean"][m]), float(leaf["dispersion"][m])
            spread = math.log1p(dispersion * mean)
            ratios = math.fsum(math.log1p(dispersion * i) - spread for i in range(int(x)))
            return log_power(mean, int(x)) + ratios - spread / dispersion
        case "count_table":  # what is beyond the table halves with each step
            probs, last = leaf["probs"][m], leaf["probs"].shape[1] - 1
            steps = max(int(x) - int(last) + 1, 0)
            return log(float(probs[min(int(x), int(last))])) - steps * math.log(2)
    raise ValueError(f"no such kind of attribute: {kind!r}")


def log_normal(x: Array, mean: Array, covariance: Array) -> float:
    """Log density of a multivariate normal; 0 of no attributes."""
    off = x - mean
    _, log_determinant = np.linalg.slogdet(covariance)
    square = off @ np.linalg.solve(covariance, off)
    return float(-0.5 * (square + log_determinant + len(x) * math.log(2 * math.pi)))


def log_cauchy(x: float, units: Units) -> float:
    """Log density of a Cauchy about the centre, of five spreads' scale."""
    center, scale = units[0], 5 * units[1]
    return -math.log(math.pi * scale * (1 + ((x - center) / scale) ** 2))


# ---- What is told


def told(
    kinds: Sequence[str],
    leaf: Parameters,
    values: Sequence[float | None],
    units: Sequence[Units],
    received: NodeContext | None,
) -> LeafExpectation:
    """Known entries as they are, others by their conditional expectation, with the covariance of what is not known."""
    if all(kind == "continuous" for kind in kinds):
        return told_by_gaussian(leaf, values, units, received)
    (kind,), (value,) = kinds, values
    own = shifted(kind, leaf, received)
    match kind:
        case "categorical":
            probs = own["probs"]
            if value is not None:
                return LeafExpectation(
                    [[float(code == value) for code in range(len(probs))]], np.zeros((len(probs), len(probs)))
                )
            return LeafExpectation([[float(p) for p in probs]], np.diag(probs) - np.outer(probs, probs))
        case "binary":
            p = float(own["probs"])
            return (
                LeafExpectation([[p]], np.array([[p * (1 - p)]]))
                if value is None
                else LeafExpectation([[value]], np.zeros((1, 1)))
            )
        case "count" | "negative_binomial" | "count_table":
            if value is not None:
                return LeafExpectation([[math.log1p(value)]], np.zeros((1, 1)))
            probs = count_probabilities(kind, own)
            mean = math.fsum(p * math.log1p(n) for n, p in enumerate(probs))
            variance = math.fsum(p * (math.log1p(n) - mean) ** 2 for n, p in enumerate(probs))
            return LeafExpectation([[mean]], np.array([[variance]]))
    raise ValueError(f"no such kind of attribute: {kind!r}")


def told_by_gaussian(
    leaf: Parameters, values: Sequence[float | None], units: Sequence[Units], received: NodeContext | None
) -> LeafExpectation:
    """ξ and Cov(x | known x) of a joint Gaussian, in units: known entries are regressed on, by sub-blocks."""
    mean, covariance = gaussian(leaf, received)
    known = [i for i, value in enumerate(values) if value is not None]
    unknown = [i for i, value in enumerate(values) if value is None]
    x = np.array([math.nan if value is None else value for value in values])
    among, across = block(covariance, known), covariance[np.ix_(unknown, known)]
    x[unknown] = mean[unknown] + across @ np.linalg.solve(among, x[known] - mean[known])
    left = np.zeros_like(covariance)
    left[np.ix_(unknown, unknown)] = block(covariance, unknown) - across @ np.linalg.solve(among, across.T)
    spreads = np.array([spread for _, spread in units])
    standardised = [[(float(value) - center) / spread] for value, (center, spread) in zip(x, units, strict=True)]
    return LeafExpectation(standardised, left / np.outer(spreads, spreads))


def count_probabilities(kind: str, leaf: Parameters) -> list[float]:
    """P(0), P(1), … as far as they matter, each from the one before."""
    if kind == "count_table":
        return [math.exp(log_density(kind, rows(leaf), 0, float(n))) for n in range(len(leaf["probs"]) + 80)]
    mean = float(leaf["rate"] if kind == "count" else leaf["mean"])
    dispersion = 0.0 if kind == "count" else float(leaf["dispersion"])
    current, found = log_density(kind, rows(leaf), 0, 0.0), []
    for n in range(LARGEST_COUNT):
        found.append(math.exp(current))
        step = log(mean) - math.log(n + 1) + math.log1p(dispersion * n) - math.log1p(dispersion * mean)
        # Beyond the mean every ratio is smaller than the one before: what is left is less than a geometric series.
        if n > mean and found[-1] < 1e-20 * -math.expm1(step):
            assert abs(math.fsum(found) - 1) < 1e-9, "the probabilities of counts do not sum to 1"
            return found
        current += step
    raise AssertionError(f"counts are larger than {LARGEST_COUNT}, which the oracle does not sum over")


# ---- Numbers


def rows(leaf: Parameters) -> dict[str, Array]:
    """One leaf as the only one of its attribute."""
    return {key: np.asarray(value, dtype=np.float64)[None] for key, value in leaf.items()}


def block(matrix: Array, chosen: list[int]) -> Array:
    return matrix[np.ix_(chosen, chosen)]


def log_power(mean: float, x: int) -> float:
    """log(mean^x / x!)"""
    return (x * log(mean) if x > 0 else 0.0) - math.lgamma(x + 1)


def log(p: float) -> float:
    return -math.inf if p == 0 else math.log(p)


def log_sum_exp(terms: Iterable[float]) -> float:
    values = list(terms)
    top = max(values)
    return top if top == -math.inf else top + math.log(math.fsum(math.exp(value - top) for value in values))
