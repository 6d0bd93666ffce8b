"""Densities of Gaussians over sub-blocks where all leaves share a covariance, and all rows the means of the leaves.

The same numbers as those of `blocks`, with less work: a row is whitened once, not once for every leaf, and neither is
the difference of every row and mean ever stored. Differentiable once; `blocks` has the way in plain torch.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gspn.circuits.leaves.blocks import (
    Patterns,
    add_covariance_gradient,
    doubles,
    invert_factor,
    places,
    solve_plainly,
)
from gspn.compiling import compiled, once_differentiable, prefers_plain_torch

_LOG_2PI = math.log(2 * math.pi)


def shared_log_density(x: Tensor, mean: Tensor, covariance: Tensor, patterns: Patterns) -> Tensor:
    """[A, n, M] log-densities of rows [n, d] under means [A, M, d] and covariances [A, d, d]."""
    if prefers_plain_torch(x, mean, covariance):
        return solve_plainly(x, mean.unsqueeze(1), covariance[:, None, None], patterns).log_density
    function: Any = _Density.apply
    found: Tensor = function(x, mean, covariance, patterns)
    return found


class _Density(torch.autograd.Function):
    """(rows, means, covariances) → log-densities."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mean: Tensor, covariance: Tensor, patterns: Patterns) -> Tensor:
        ctx.save_for_backward(x, mean, covariance)
        ctx.rows = patterns.sorted_rows()
        found, *ctx.whitened = _upward(doubles(x), doubles(mean), doubles(covariance), *ctx.rows)
        return torch.from_numpy(found).to(mean.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_density: Tensor) -> tuple[Tensor | None, ...]:
        (rows, means, factor), (order, start, known) = ctx.whitened, ctx.rows
        found = _downward(rows, means, factor, order, start, known, doubles(of_density))
        given = zip(found, ctx.saved_tensors, strict=True)
        return (*(torch.from_numpy(gradient).to(like.dtype) for gradient, like in given), None)


@compiled
def _upward(x: Any, mean: Any, covariance: Any, order: Any, start: Any, known: Any) -> Any:
    """Log-densities [A, n, M]; whitened rows F x [A, n, d] and means F μ [A, U, d, M], and factors F [A, U, d, d].

    Of a pattern with m known entries the first m rows and columns of F count; whitened rows and means are as long.
    """
    stacks, leaves, width = mean.shape
    log_density = np.empty((stacks, len(x), leaves))
    rows, means = np.empty((stacks, len(x), width)), np.empty((stacks, len(known), width, leaves))
    factor = np.empty((stacks, len(known), width, width))
    place, lower = np.empty(width, np.int64), np.empty((width, width))
    for a in range(stacks):
        for p in range(len(known)):
            count = places(known[p], place)
            inverse, centre = factor[a, p], means[a, p]
            constant = invert_factor(covariance[a], place, count, lower, inverse) + count * _LOG_2PI
            for i in range(count):
                centre[i] = 0.0
                for j in range(i + 1):
                    for m in range(leaves):
                        centre[i, m] += inverse[i, j] * mean[a, m, place[j]]
            for n in range(start[p], start[p + 1]):
                row = order[n]
                y, out = rows[a, row], log_density[a, row]
                for m in range(leaves):
                    out[m] = constant
                for i in range(count):
                    total = 0.0
                    for j in range(i + 1):
                        total += inverse[i, j] * x[row, place[j]]
                    y[i] = total
                    for m in range(leaves):
                        out[m] += (total - centre[i, m]) * (total - centre[i, m])
                for m in range(leaves):
                    out[m] *= -0.5
    return log_density, rows, means, factor


@compiled
def _downward(rows: Any, means: Any, factor: Any, order: Any, start: Any, known: Any, by_density: Any) -> Any:
    """Gradients of rows [n, d], means [A, M, d] and covariances [A, d, d].

    With r = F (x − μ) and weights w: −w Fᵀ r for x, w Fᵀ r for μ, ½ w (Fᵀ r rᵀ F − Fᵀ F) for Σ. What is quadratic in
    columns is done once a row, not once a row and leaf: Σ_m w r rᵀ has only y = F x and Σ_m w F μ in it, and a sum over
    means alone that waits for the end of a pattern.
    """
    stacks, patterns, width, leaves = means.shape
    of_x = np.zeros((rows.shape[1], width))
    of_mean, of_covariance = np.zeros((stacks, leaves, width)), np.zeros((stacks, width, width))
    place, gram, half = np.empty(width, np.int64), np.empty((width, width)), np.empty((width, width))
    pull, usual = np.empty((width, leaves)), np.empty(width)
    mass = np.empty(leaves)
    for a in range(stacks):
        for p in range(patterns):
            if start[p] == start[p + 1]:
                continue
            count = places(known[p], place)
            inverse, centre = factor[a, p], means[a, p]
            gram[:count, :count] = 0.0
            pull[:count] = 0.0
            mass[:] = 0.0
            for n in range(start[p], start[p + 1]):
                row = order[n]
                y, w = rows[a, row], by_density[a, row]
                total = 0.0
                for m in range(leaves):
                    total += w[m]
                    mass[m] += w[m]
                for i in range(count):
                    weighted = 0.0
                    for m in range(leaves):
                        weighted += w[m] * centre[i, m]
                        pull[i, m] += w[m] * y[i]
                    usual[i] = weighted
                for i in range(count):
                    rest = total * y[i] - usual[i]
                    for j in range(i + 1):
                        of_x[row, place[j]] -= inverse[i, j] * rest
                        gram[i, j] += 0.5 * (rest * y[j] - y[i] * usual[j])
            total = 0.0
            for m in range(leaves):
                total += mass[m]
            for i in range(count):
                for j in range(i + 1):
                    value = 0.0
                    for m in range(leaves):
                        value += mass[m] * centre[i, m] * centre[j, m]
                    gram[i, j] += 0.5 * value
                gram[i, i] -= 0.5 * total
                for m in range(leaves):
                    pull[i, m] -= mass[m] * centre[i, m]
            for i in range(count):
                for j in range(i + 1):
                    for m in range(leaves):
                        of_mean[a, m, place[j]] += inverse[i, j] * pull[i, m]
            add_covariance_gradient(of_covariance[a], gram, inverse, place, count, half)
    return of_x, of_mean, of_covariance
