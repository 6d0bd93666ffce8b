"""The weighted estimate of correlated Gaussian leaves: sufficient statistics with the missing entries' second moments.

Rows are completed by what each leaf expects of them, and what it does not know adds its covariance to the scatter:
leaving that out would make every state too sure. All in units of the data and double precision; which structure the
covariances have is the business of `covariances`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from gspn.circuits.evidence import Context
from gspn.circuits.leaves.blocks import Patterns, conditional_scatter, solve
from gspn.circuits.leaves.contract import RIDGE

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


class Found(NamedTuple):
    """What a level should have."""

    mass: Tensor
    """[leaves] total weight"""
    mean: Tensor
    """[leaves, d]"""
    slope: Tensor
    """[leaves, d, D], or [1, d, D] where they are tied; D = 0 without a context"""
    scatter: Tensor
    """[leaves, d, d] about the new means, what is missing and the ridge included"""


def estimate_level(level: Level, x: Tensor, weights: Tensor, context: Context | None) -> Found:
    """The estimate from rows x [n, d], NaN where unknown, with weights [n, leaves]."""
    received = _received(context, x)
    if level.slope is None or context is None:
        received = received[:, :0]
    rows, scatter = _completed(level, x, weights, received)
    mass = weights.sum(0)
    share = weights / mass.clamp_min(torch.finfo(mass.dtype).tiny)
    mean, usual = torch.einsum("nk,nkd->kd", share, rows), share.mT @ received
    slope = _slopes(level, weights, rows - mean, received, usual)
    if level.slope is not None and slope.shape[-1] and not level.tied_slopes:
        # A leaf without any weight keeps its slopes, which a covariance that all leaves share has to bear.
        slope = torch.where(mass[:, None, None] > 0, slope, level.slope)
    mean = mean - torch.einsum("kdc,kc->kd", slope.expand(len(mass), -1, -1), usual)
    for leaf in range(len(mass)):
        own = slope[min(leaf, len(slope) - 1)]
        rest = rows[:, leaf] - mean[leaf] - received @ own.mT
        scatter[leaf] += (weights[:, leaf, None] * rest).mT @ rest
        if not level.tied_slopes:
            scatter[leaf] += RIDGE * own @ own.mT
    return Found(mass, mean, slope, scatter)


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


def _completed(level: Level, x: Tensor, weights: Tensor, received: Tensor) -> tuple[Tensor, Tensor]:
    """[n, leaves, d] rows with what each leaf expects, and [leaves, d, d] the covariances of that, added up."""
    location = level.mean[None]
    if received.shape[1] and level.slope is not None:
        location = location + torch.einsum("nc,kdc->nkd", received, level.slope)
    patterns, covariance = Patterns.of(x), level.covariance
    known = patterns.known[patterns.of_row][:, None]
    x = x.nan_to_num(0.0)
    solved = solve(x, location[None], covariance[None, None], patterns).rows[0]
    rows = torch.where(known, x[:, None], location + torch.einsum("kde,nke->nkd", covariance, solved))
    mass = weights.new_zeros(len(patterns.known), weights.shape[1]).index_add(0, patterns.of_row, weights)
    return rows, conditional_scatter(covariance, patterns, mass)


def _slopes(level: Level, weights: Tensor, centred: Tensor, received: Tensor, usual: Tensor) -> Tensor:
    """[leaves, d, D] free or [1, d, D] tied slopes from rows centred by leaf [n, leaves, d]."""
    leaves, size, width = weights.shape[1], centred.shape[2], received.shape[1]
    if not width:
        return centred.new_zeros(1 if level.tied_slopes else leaves, size, 0)
    cross, square = centred.new_zeros(leaves, size, width), centred.new_zeros(leaves, width, width)
    for leaf in range(leaves):
        z = received - usual[leaf]
        weighted = weights[:, leaf, None] * z
        cross[leaf], square[leaf] = centred[:, leaf].mT @ weighted, weighted.mT @ z
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
