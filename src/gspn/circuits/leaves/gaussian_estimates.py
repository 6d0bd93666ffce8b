"""The weighted estimate of correlated Gaussian leaves: sufficient statistics with the missing entries' second moments.

Rows are completed by what each leaf expects of them, and what it does not know adds its covariance to the scatter:
leaving that out would make every state too sure. A compiled loop adds up the moments of completed rows and contexts,
so that no row is ever held once for every leaf. All in units of the data and double precision; which structure the
covariances have is the business of `covariances`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gspn.circuits.evidence import Context
from gspn.circuits.leaves.blocks import Patterns, doubles, invert_factor, places
from gspn.circuits.leaves.contract import RIDGE
from gspn.compiling import compiled

_LEAST_VARIANCE = 1e-3
"""Of a pooled covariance, which is never singular."""

_STEPS, _EXACT = 200, 1e-20
"""Conjugate gradients that solve for tied slopes: at most so many, or until so little of the residual is left."""


class Level(NamedTuple):
    """The present parameters of one level."""

    mean: Tensor
    """[leaves, d]"""
    covariance: Tensor
    """[leaves, d, d]"""
    slope: Tensor | None
    """[leaves, d, D]"""
    tied_slopes: bool
    pool: Tensor
    """[d, d] what tied slopes are measured by"""


class LevelEstimate(NamedTuple):
    """What a level should have."""

    mass: Tensor
    """[leaves] total weight"""
    mean: Tensor
    """[leaves, d]"""
    slope: Tensor
    """[leaves, d, D], or [1, d, D] where they are tied; D = 0 without a context"""
    scatter: Tensor
    """[leaves, d, d] about the new means, what is missing and the ridge included"""


def estimate_level(level: Level, x: Tensor, weights: Tensor, context: Context | None) -> LevelEstimate:
    """The estimate from rows x [n, d], NaN where unknown, with weights [n, leaves]."""
    received = _received(context, x)
    if level.slope is None or context is None:
        received = received[:, :0]
    size, mass = x.shape[1], weights.sum(0)
    mean, moments = _moments(level, x, weights, received)
    mean, usual = mean[:, :size], mean[:, size:]
    scatter, cross, square = moments[:, :size, :size], moments[:, :size, size:], moments[:, size:, size:]
    slope = _slopes(level, cross, square)
    if level.slope is not None and slope.shape[-1] and not level.tied_slopes:
        # A leaf without any weight keeps its slopes, which a covariance that all leaves share has to bear.
        slope = torch.where(mass[:, None, None] > 0, slope, level.slope)
    mean = mean - torch.einsum("kdc,kc->kd", slope.expand(len(mass), -1, -1), usual)
    explained = slope @ cross.mT
    scatter = scatter - explained - explained.mT + slope @ square @ slope.mT
    if not level.tied_slopes:
        scatter = scatter + RIDGE * slope @ slope.mT
    return LevelEstimate(mass, mean, slope, scatter)


def spreads(level: Level, x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """[d, d] the covariance within the leaves, and that of all rows, of a first fit without slopes; never singular."""
    found = estimate_level(level._replace(slope=None), x.double(), weights.double(), None)
    total = found.mass.sum().clamp_min(1.0)
    within = found.scatter.sum(0) / total
    # As if two more rows had these variances, but no correlations.
    alone = torch.diag(torch.diagonal(within).clamp_min(_LEAST_VARIANCE))
    within = (total * within + 2 * alone) / (total + 2)
    apart = found.mean - (found.mass / total) @ found.mean
    return within, within + (found.mass[:, None] / total * apart).mT @ apart


def _received(context: Context | None, x: Tensor) -> Tensor:
    """[n, D] contexts, 0 where there is none."""
    if context is None:
        return x.new_zeros(len(x), 0)
    return torch.where(context.present[:, None], context.mean, 0.0).to(x)


def _moments(level: Level, x: Tensor, weights: Tensor, received: Tensor) -> tuple[Tensor, Tensor]:
    """[leaves, d + D] means of completed rows and contexts, and their scatters about them."""
    order, start, known = Patterns.of(x).sorted_rows()
    leaves, size, width = weights.shape[1], x.shape[1], received.shape[1]
    slope = x.new_zeros(leaves, size, width) if level.slope is None else level.slope[..., :width]
    given = [doubles(value) for value in (x, weights, received, level.mean, slope, level.covariance)]
    mean, scatter = _add_up(given[0], given[1], given[2], given[3], given[4], given[5], order, start, known)
    return torch.from_numpy(mean).to(x), torch.from_numpy(scatter).to(x)


@compiled
def _add_up(
    x: Any, weights: Any, received: Any, means: Any, slope: Any, covariance: Any, order: Any, start: Any, known: Any
) -> Any:
    """Weighted means [leaves, d + D] of completed rows and contexts, and their scatters; x is NaN where unknown."""
    leaves, size = means.shape
    width = size + received.shape[1]
    # About what each leaf expects at first: the differences are small, and so is what the shift costs.
    total, first, second = np.zeros(leaves), np.zeros((leaves, width)), np.zeros((leaves, width, width))
    r, row = np.empty(size), np.empty(width)
    place, gaps = np.empty(size, np.int64), np.empty(size, np.int64)
    lower, inverse, half = np.empty((size, size)), np.empty((size, size)), np.empty((size, size))
    regression = np.empty((size, size))
    for p in range(len(known)):
        count, unknown = places(known[p], place), places(~known[p], gaps)
        for k in range(leaves):
            sigma, mass = covariance[k], 0.0
            for n in range(start[p], start[p + 1]):
                mass += weights[order[n], k]
            if mass == 0.0:
                continue
            total[k] += mass
            if unknown:
                invert_factor(sigma, place, count, lower, inverse)
                _regress(sigma, place, gaps, count, unknown, inverse, half, regression)
                for i in range(unknown):
                    for j in range(i + 1):
                        value = sigma[gaps[i], gaps[j]]
                        for h in range(count):
                            value -= half[h, i] * half[h, j]
                        second[k, gaps[i], gaps[j]] += mass * value
            for n in range(start[p], start[p + 1]):
                v = order[n]
                weight = weights[v, k]
                for j in range(size):
                    row[j] = 0.0
                    for c in range(width - size):
                        row[j] += slope[k, j, c] * received[v, c]
                for j in range(count):
                    r[j] = x[v, place[j]] - means[k, place[j]] - row[place[j]]
                    row[place[j]] += r[j]
                for i in range(unknown):
                    for j in range(count):
                        row[gaps[i]] += regression[i, j] * r[j]
                for c in range(width - size):
                    row[size + c] = received[v, c]
                for i in range(width):
                    weighted = weight * row[i]
                    first[k, i] += weighted
                    for j in range(i + 1):
                        second[k, i, j] += weighted * row[j]
    for k in range(leaves):
        mass = max(total[k], np.finfo(np.float64).tiny)
        for i in range(width):
            first[k, i] /= mass
            for j in range(i + 1):
                second[k, i, j] -= total[k] * first[k, i] * first[k, j]
                second[k, j, i] = second[k, i, j]
        for i in range(size):
            first[k, i] += means[k, i]
    return first, second


@compiled
def _regress(
    sigma: Any, place: Any, gaps: Any, count: Any, unknown: Any, inverse: Any, half: Any, regression: Any
) -> None:
    """Put F Σ_OM into `half`, and Σ_MO Σ_OO⁻¹ into `regression`."""
    for i in range(count):
        for j in range(unknown):
            value = 0.0
            for h in range(i + 1):
                value += inverse[i, h] * sigma[place[h], gaps[j]]
            half[i, j] = value
    for i in range(unknown):
        for j in range(count):
            value = 0.0
            for h in range(j, count):
                value += half[h, i] * inverse[h, j]
            regression[i, j] = value


def _slopes(level: Level, cross: Tensor, square: Tensor) -> Tensor:
    """[leaves, d, D] free or [1, d, D] tied slopes: `cross` are scatters of rows and contexts, `square` of contexts."""
    leaves, size, width = cross.shape
    if not width:
        return cross.new_zeros(1 if level.tied_slopes else leaves, size, 0)
    if not level.tied_slopes:
        ridge = RIDGE * torch.eye(width, dtype=square.dtype, device=square.device)
        free: Tensor = torch.cholesky_solve(cross.mT, torch.linalg.cholesky(square + ridge)).mT
        return free
    precision: Tensor = torch.linalg.inv(level.covariance)
    measure: Tensor = torch.linalg.inv(level.pool)

    def apply(slope: Tensor) -> Tensor:
        return (precision @ slope @ square).sum(0) + RIDGE * measure @ slope

    assert level.slope is not None
    return _conjugate_gradients(apply, (precision @ cross).sum(0), level.slope[0])[None]


def _conjugate_gradients(apply: Callable[[Tensor], Tensor], wanted: Tensor, start: Tensor) -> Tensor:
    """The solution of a symmetric, positive definite system; every step comes nearer, so that stopping is harmless."""
    found = start.clone()
    rest = wanted - apply(found)
    direction, square = rest.clone(), rest.square().sum()
    least = _EXACT * wanted.square().sum()
    for _ in range(_STEPS):
        if square <= least:
            break
        image = apply(direction)
        step = square / (direction * image).sum()
        found, rest = found + step * direction, rest - step * image
        after = rest.square().sum()
        direction, square = rest + after / square * direction, after
    return found
