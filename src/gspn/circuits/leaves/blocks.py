"""Densities of Gaussians over sub-blocks: what is known differs from row to row, and equal patterns share a factor.

For r = x − μ with a pattern of known entries O, and covariances Σ: log N(r_O; 0, Σ_OO) and the solved rows
Σ_OO⁻¹ r_O, from which conditional expectations follow. Twice: in plain torch (differentiable at will, on any device),
and compiled, differentiable once. What the rows and covariances are belongs to the leaves.

Everything unknown is padded: a factor's rows and columns outside O are 0, and so are the solved rows there.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gspn.compiling import compiled, once_differentiable, prefers_plain_torch

Array = NDArray[Any]
_LOG_2PI = math.log(2 * math.pi)


class Patterns(NamedTuple):
    """Which entries of n rows are known: the distinct patterns, and every row's."""

    known: Tensor
    """[U, d] True where known"""
    of_row: Tensor
    """[n] number of each row's pattern"""

    @classmethod
    def of(cls, x: Tensor) -> Patterns:
        """The patterns of rows x [n, d], NaN where unknown."""
        known = ~torch.isnan(x)
        if known.shape[1] < 63 and len(known):
            # One number per row: sorting these is much faster than sorting rows.
            code = (known.long() << torch.arange(known.shape[1], device=x.device)).sum(1)
            distinct, of_row = torch.unique(code, return_inverse=True)
            return cls((distinct[:, None] >> torch.arange(known.shape[1], device=x.device)) & 1 > 0, of_row)
        rows, of_row = torch.unique(known, dim=0, return_inverse=True)
        return cls(rows, of_row)

    def every_row_its_own(self) -> Patterns:
        """A pattern for each row, for covariances that differ from row to row."""
        return Patterns(self.known[self.of_row], torch.arange(len(self.of_row), device=self.of_row.device))

    def sorted_rows(self) -> tuple[Array, Array, Array]:
        """For compiled loops: the rows sorted by pattern, where each pattern's begin, and what is known of it."""
        order = torch.argsort(self.of_row, stable=True).numpy()
        start = np.concatenate([[0], np.cumsum(np.bincount(self.of_row.numpy(), minlength=len(self.known)))])
        return order, start, self.known.numpy()


class Solved(NamedTuple):
    log_density: Tensor
    """[A, n, M]"""
    rows: Tensor
    """[A, n, M, d] Σ_OO⁻¹ r_O, 0 where unknown"""


def log_density(x: Tensor, location: Tensor, covariance: Tensor, patterns: Patterns) -> Tensor:
    """[A, n, M] log-densities alone; the arguments are those of `solve`."""
    if prefers_plain_torch(x, location, covariance):
        return solve_plainly(x, location, covariance, patterns).log_density
    function: Any = _Solve.apply
    found: Tensor = function(x, location, covariance, patterns, False)[0]
    return found


def solve(x: Tensor, location: Tensor, covariance: Tensor, patterns: Patterns) -> Solved:
    """Log-densities and solved rows of rows x [n, d] about locations [A, 1 or n, M, d]; unknown entries are not read.

    `covariance` is [A, R, K, d, d] with K = M, or K = 1 for one that all leaves share, and R = 1, or R = n: then every
    row has its own, and its own pattern.
    """
    if prefers_plain_torch(x, location, covariance):
        return solve_plainly(x, location, covariance, patterns)
    function: Any = _Solve.apply
    found: tuple[Tensor, Tensor] = function(x, location, covariance, patterns, True)
    return Solved(*found)


def solve_plainly(x: Tensor, location: Tensor, covariance: Tensor, patterns: Patterns) -> Solved:
    """The same in plain torch."""
    residual = torch.where(patterns.known[patterns.of_row][:, None], x[:, None] - location, 0.0)
    factor, log_det = inverse_factors(covariance, patterns)
    own = factor[:, patterns.of_row]
    white = (own @ residual.to(own.dtype).unsqueeze(-1)).squeeze(-1)
    size = patterns.known.sum(1)[patterns.of_row].to(own.dtype)
    log_density = -0.5 * (white.square().sum(-1) + log_det[:, patterns.of_row] + _LOG_2PI * size[:, None])
    return Solved(log_density.to(residual.dtype), (own.mT @ white.unsqueeze(-1)).squeeze(-1).to(residual.dtype))


def inverse_factors(covariance: Tensor, patterns: Patterns) -> tuple[Tensor, Tensor]:
    """Inverse Cholesky factors of all sub-blocks [A, U, K, d, d], padded with 0, and log-determinants [A, U, K].

    Σ_OO⁻¹ = Fᵀ F.
    """
    known = patterns.known.to(covariance.dtype)
    both = known[:, None, :, None] * known[:, None, None, :]
    # Where nothing is known, the identity: it adds nothing to the determinant, and is taken off again.
    padded = covariance * both + torch.diag_embed(1 - known).unsqueeze(1)
    lower = torch.linalg.cholesky(padded)
    identity = torch.eye(known.shape[1], dtype=covariance.dtype, device=covariance.device)
    inverse = torch.linalg.solve_triangular(lower, identity.expand_as(lower), upper=False)
    log_det = 2 * torch.diagonal(lower, dim1=-2, dim2=-1).log().sum(-1)
    return inverse * both, log_det


def conditional_covariances(covariance: Tensor, patterns: Patterns) -> Tensor:
    """[A, U, K, d, d] covariances of what is unknown given what is known, 0 elsewhere, by pattern."""
    factor, _ = inverse_factors(covariance, patterns)
    explained = factor @ covariance
    unknown = (~patterns.known).to(covariance.dtype)
    both = unknown[:, None, :, None] * unknown[:, None, None, :]
    return (covariance - explained.mT @ explained) * both


class _Solve(torch.autograd.Function):
    """(rows, locations, covariances) → log-densities, solved rows."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, location: Tensor, covariance: Tensor, patterns: Patterns, with_rows: bool
    ) -> tuple[Tensor, Tensor | None]:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, location, covariance)
        ctx.rows = patterns.sorted_rows()
        log_density, white, factor = _upward(doubles(x), doubles(location), doubles(covariance), *ctx.rows)
        ctx.white, ctx.factor = white, factor
        found = torch.from_numpy(log_density).to(location.dtype)
        if not with_rows:
            return found, None
        return found, torch.from_numpy(_turn(white, factor, *ctx.rows)).to(location.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_density: Tensor | None, of_rows: Tensor | None) -> tuple[Tensor | None, ...]:
        given = ctx.saved_tensors
        _, location, covariance = given
        by_density = np.zeros(ctx.white.shape[:3]) if of_density is None else doubles(of_density)
        by_rows = np.zeros((0, 0, 0, 0)) if of_rows is None else doubles(of_rows)
        order, start, known = ctx.rows
        found = _downward(
            ctx.white, ctx.factor, order, start, known, by_density, by_rows, location.shape[1], covariance.shape[1]
        )
        gradients = [torch.from_numpy(one).to(like.dtype) for one, like in zip(found, given, strict=True)]
        return (*gradients, None, None)


def doubles(value: Tensor) -> Array:
    """In double precision: single would lose digits in the factors, and there is little to gain."""
    return value.detach().cpu().double().contiguous().numpy()


@compiled
def places(known: Any, place: Any) -> Any:
    """Put the columns of known entries into `place`; gives their number."""
    count = 0
    for j in range(len(known)):
        if known[j]:
            place[count] = j
            count += 1
    return count


@compiled
def invert_factor(sigma: Any, place: Any, count: Any, lower: Any, inverse: Any) -> Any:
    """Put the inverse Cholesky factor of a sub-block of Σ into `inverse`; gives the log-determinant of the block."""
    log_det = 0.0
    for i in range(count):
        for j in range(i + 1):
            total = sigma[place[i], place[j]]
            for h in range(j):
                total -= lower[i, h] * lower[j, h]
            if i == j:
                lower[i, i] = math.sqrt(total)
                log_det += math.log(total)
            else:
                lower[i, j] = total / lower[j, j]
    for i in range(count):
        inverse[i, i] = 1 / lower[i, i]
        for j in range(i):
            total = 0.0
            for h in range(j, i):
                total -= lower[i, h] * inverse[h, j]
            inverse[i, j] = total / lower[i, i]
    return log_det


@compiled
def add_covariance_gradient(target: Any, gram: Any, inverse: Any, place: Any, count: Any, half: Any) -> None:
    """Add Fᵀ G F to the gradient of Σ, of G [count, count] the lower triangle; `half` is room to work in."""
    for i in range(count):
        for j in range(i):
            gram[j, i] = gram[i, j]
    for i in range(count):  # half = G F
        for j in range(count):
            value = 0.0
            for h in range(j, count):
                value += gram[i, h] * inverse[h, j]
            half[i, j] = value
    for i in range(count):
        for j in range(count):
            value = 0.0
            for h in range(i, count):
                value += inverse[h, i] * half[h, j]
            target[place[i], place[j]] += value


@compiled
def _upward(x: Any, location: Any, covariance: Any, order: Any, start: Any, known: Any) -> Any:
    """Log-densities [A, n, M], whitened rows F r [A, n, M, d] and factors F [A, U, K, d, d].

    Of a pattern with m known entries the first m rows and columns of F count; whitened rows are as long.
    """
    rows, width = x.shape
    stacks, own_locations, leaves = location.shape[:3]
    own_rows, own_leaves = covariance.shape[1], covariance.shape[2]
    log_density = np.empty((stacks, rows, leaves))
    white = np.empty((stacks, rows, leaves, width))
    factor = np.empty((stacks, len(known), own_leaves, width, width))
    place, lower, r = np.empty(width, np.int64), np.empty((width, width)), np.empty(width)
    for a in range(stacks):
        for p in range(len(known)):
            count = places(known[p], place)
            for k in range(own_leaves):
                sigma, inverse = covariance[a, p if own_rows > 1 else 0, k], factor[a, p, k]
                log_det = invert_factor(sigma, place, count, lower, inverse)
                constant = log_det + count * _LOG_2PI
                for n in range(start[p], start[p + 1]):
                    row = order[n]
                    for m in range(k if own_leaves > 1 else 0, k + 1 if own_leaves > 1 else leaves):
                        centre, y = location[a, row if own_locations > 1 else 0, m], white[a, row, m]
                        square = 0.0
                        for i in range(count):
                            r[i] = x[row, place[i]] - centre[place[i]]
                            total = 0.0
                            for j in range(i + 1):
                                total += inverse[i, j] * r[j]
                            y[i] = total
                            square += total * total
                        log_density[a, row, m] = -0.5 * (square + constant)
    return log_density, white, factor


@compiled
def _turn(white: Any, factor: Any, order: Any, start: Any, known: Any) -> Any:
    """Solved rows Fᵀ F r [A, n, M, d] in their own places, 0 where unknown."""
    stacks, rows, leaves, width = white.shape
    own_leaves = factor.shape[2]
    solved = np.zeros((stacks, rows, leaves, width))
    place = np.empty(width, np.int64)
    for a in range(stacks):
        for p in range(len(known)):
            count = places(known[p], place)
            for n in range(start[p], start[p + 1]):
                row = order[n]
                for m in range(leaves):
                    inverse, y = factor[a, p, m if own_leaves > 1 else 0], white[a, row, m]
                    for i in range(count):
                        for j in range(i + 1):
                            solved[a, row, m, place[j]] += inverse[i, j] * y[i]
    return solved


@compiled
def _downward(
    white: Any,
    factor: Any,
    order: Any,
    start: Any,
    known: Any,
    by_density: Any,
    by_rows: Any,
    own_locations: int,
    own_rows: int,
) -> Any:
    """Gradients of rows [n, d], locations [A, 1 or n, M, d] and covariances [A, R, K, d, d].

    With r = x − μ, y = F r, s = Fᵀ y and weights w of the log-densities: −w s for r, ½ w (s sᵀ − Fᵀ F) for Σ; of the
    solved rows with weights q: t = Fᵀ F q for r, −½ (t sᵀ + s tᵀ) for Σ. Sums over rows are made before F is applied:
    all of Σ's gradient is Fᵀ G F of a sum G over whitened rows.
    """
    stacks, rows, leaves, width = white.shape
    own_leaves = factor.shape[2]
    of_x, of_location = np.zeros((rows, width)), np.zeros((stacks, own_locations, leaves, width))
    of_covariance = np.zeros((stacks, own_rows, own_leaves, width, width))
    place, gram, half = np.empty(width, np.int64), np.empty((width, width)), np.empty((width, width))
    q = np.empty(width)
    for a in range(stacks):
        for p in range(len(known)):
            count = places(known[p], place)
            for k in range(own_leaves):
                inverse, total = factor[a, p, k], 0.0
                gram[:count, :count] = 0.0
                for n in range(start[p], start[p + 1]):
                    row = order[n]
                    for m in range(k if own_leaves > 1 else 0, k + 1 if own_leaves > 1 else leaves):
                        y, w, out = white[a, row, m], by_density[a, row, m], of_x[row]
                        back = of_location[a, row if own_locations > 1 else 0, m]
                        total += w
                        q[:count] = 0.0
                        if len(by_rows):
                            for i in range(count):
                                for j in range(i + 1):
                                    q[i] += inverse[i, j] * by_rows[a, row, m, place[j]]
                        for i in range(count):
                            pull = q[i] - w * y[i]
                            for j in range(i + 1):
                                out[place[j]] += inverse[i, j] * pull
                                back[place[j]] -= inverse[i, j] * pull
                                gram[i, j] += 0.5 * (w * y[i] * y[j] - q[i] * y[j] - y[i] * q[j])
                for i in range(count):
                    gram[i, i] -= 0.5 * total
                add_covariance_gradient(
                    of_covariance[a, p if own_rows > 1 else 0, k], gram, inverse, place, count, half
                )
    return of_x, of_location, of_covariance
