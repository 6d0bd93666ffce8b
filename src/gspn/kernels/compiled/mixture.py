"""The compiled mixture on top of a readout: log Σ_i π_i p_i(y) of every row, and its gradients, in one pass each.

In plain torch this is a dozen operations forward and as many backward, which take longer than computing does for the
few graphs of a batch. Differentiable once, like `fast`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gspn.compiling import compiled, once_differentiable
from gspn.kernels.compiled.simd import WIDTH, exp_negative, fill, larger, largest, load, store, total


def log_mixture(log_prior: Tensor, log_density: Tensor, evidence: Tensor | None, y: Tensor) -> Tensor:
    """[G] log Σ_i exp(log_prior + log_density); exactly 0 where a row of y [G, T] has no entry.

    `log_prior` [G, C] and `log_density` [U, C], of which `evidence` [G] tells each row's; None: one per row, in order.
    """
    number = np.arange(len(y), dtype=np.int32) if evidence is None else evidence.numpy()
    log_prob: Tensor = _Mixture.apply(log_prior, log_density, number, y.numpy())  # type: ignore[no-untyped-call]
    return log_prob


class _Mixture(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, log_prior: Tensor, log_density: Tensor, number: Any, y: Any) -> Tensor:
        log_prob, posterior = _mix(_rows(log_prior), _rows(log_density), number, y)
        ctx.save_for_backward(log_prior, log_density)
        ctx.posterior, ctx.number, ctx.num_densities = posterior, number, len(log_density)
        return torch.from_numpy(log_prob)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_log_prob: Tensor) -> tuple[Tensor | None, ...]:
        found = _unmix(_rows(of_log_prob), ctx.posterior, ctx.number, ctx.num_densities)
        return torch.from_numpy(found[0]), torch.from_numpy(found[1]), None, None


def _rows(value: Tensor) -> Any:
    """A tensor as an array whose rows lie one after another, sharing its memory if possible."""
    return np.ascontiguousarray(value.detach().numpy())


@compiled
def _mix(log_prior: Any, log_density: Any, number: Any, y: Any) -> Any:
    """The logarithms [G], and the posteriors [G, C] of the states, 0 where a row of y has no entry."""
    rows, states = log_prior.shape
    wide = -(-states // WIDTH) * WIDTH
    log_prob, posterior = np.zeros(rows, log_prior.dtype), np.zeros((rows, states), log_prior.dtype)
    row = np.full(wide, -np.inf, log_prior.dtype)
    for g in range(rows):
        observed = False
        for t in range(y.shape[1]):
            observed |= not math.isnan(y[g, t])
        if not observed:
            continue
        for i in range(states):
            row[i] = log_prior[g, i] + log_density[number[g], i]
        most = load(row, 0)
        for b in range(WIDTH, wide, WIDTH):
            most = larger(most, load(row, b))
        peak = largest(most)
        top, sums = fill(row, peak), fill(row, 0)
        for b in range(0, wide, WIDTH):
            weight = exp_negative(load(row, b) - top)
            store(row, b, weight)
            sums = sums + weight
        whole = total(sums)
        log_prob[g] = peak + math.log(whole)
        for i in range(states):
            posterior[g, i] = row[i] / whole
        row[states:] = -np.inf
    return log_prob, posterior


@compiled
def _unmix(of_log_prob: Any, posterior: Any, number: Any, num_densities: int) -> Any:
    """Gradients of log_prior [G, C] and log_density [U, C]."""
    rows, states = posterior.shape
    of_log_prior, sums = np.empty_like(posterior), np.zeros((num_densities, states))
    for g in range(rows):
        for i in range(states):
            of_log_prior[g, i] = of_log_prob[g] * posterior[g, i]
            sums[number[g], i] += of_log_prior[g, i]
    return of_log_prior, sums.astype(posterior.dtype)
