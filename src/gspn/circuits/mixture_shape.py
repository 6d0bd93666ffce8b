"""Modes and entropies of mixtures, which have no formula: n mixtures with weights [n, C] of C leaves.

Where Gaussian leaves are shared by all rows, their densities on a grid are computed once, and a matrix product gives
those of all mixtures; leaves of any other shape, or of each row's own, are searched and integrated row by row.
Deterministic, in float64, in bounded memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from gspn.errors import InputError

_NUMBERS_AT_ONCE = 5_000_000

_REACH = 9
"""Deviations of a Gaussian leaf that are integrated over: 2·10⁻¹⁹ of it lies outside."""

_NODES = 10
"""Gauss–Legendre nodes between two neighbouring breakpoints."""

_TOPS = 4
"""Tops of the grid that are climbed; where more are within a per cent of the highest, one of these may be missed."""

_CLIMBS = 100
_SECTIONS = 90
"""Golden sections of an interval around a top: more than float64 has digits."""
_GOLDEN = (math.sqrt(5) - 1) / 2
_MOST_COUNTS = 2**24


ENTROPY_STEPS = torch.arange(-_REACH, _REACH + 1, dtype=torch.float64)
"""Deviations around a Gaussian leaf between which its density is integrated."""

LogDensities: TypeAlias = Callable[[slice, Tensor], Tensor]
"""(rows, places [rows, P]) → log-densities [rows, P, C] of every leaf"""


def continuous_mode(weights: Tensor, log_densities: LogDensities, breaks: Tensor) -> Tensor:
    """[n] the place of the highest density: the highest few tops among the breakpoints, each searched to its end.

    `breaks` [n or 1, …] are places around the leaves, dense enough for every top to show.
    """
    modes = []
    for rows, grid in _grids(weights, breaks):
        log_weights = weights[rows].log()

        def height(places: Tensor, rows: slice = rows, log_weights: Tensor = log_weights) -> Tensor:
            return torch.logsumexp(log_weights[:, None, :] + log_densities(rows, places), dim=-1)

        density = height(grid)
        inner = density[:, 1:-1]
        top = (inner >= density[:, :-2]) & (inner >= density[:, 2:])
        tops = inner.masked_fill(~top, -torch.inf).topk(min(_TOPS, inner.shape[1]), dim=1).indices
        low, high = grid.gather(1, tops), grid.gather(1, tops + 2)
        for _ in range(_SECTIONS):
            left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
            better = height(left) > height(right)
            low, high = torch.where(better, low, left), torch.where(better, right, high)
        place = (low + high) / 2
        modes.append(place.gather(1, height(place).argmax(1, keepdim=True)).squeeze(1))
    return torch.cat(modes) if modes else weights.new_zeros(0)


def continuous_entropy(weights: Tensor, log_densities: LogDensities, breaks: Tensor) -> Tensor:
    """[n] −∫ p log p, by Gauss–Legendre quadrature between the breakpoints [n or 1, …] of all leaves."""
    nodes, node_weights = (torch.from_numpy(a) for a in np.polynomial.legendre.leggauss(_NODES))
    entropies = []
    if len(breaks) == 1 and len(weights) > 1:  # all rows share the leaves: their densities are computed once
        grid = breaks.flatten(1).sort(dim=1).values
        half = grid.diff(dim=1)[..., None] / 2
        points, widths = (grid[:, :-1, None] + half * (1 + nodes)).flatten(1), (half * node_weights).flatten()
        densities = log_densities(slice(0, 1), points)[0].T.exp()
        for part in _split(weights, points.shape[1]):
            density = part @ densities
            entropies.append(-torch.xlogy(density, density) @ widths)
        return torch.cat(entropies)
    for rows, grid in _grids(weights, breaks, _NODES):
        half = grid.diff(dim=1)[..., None] / 2
        points = (grid[:, :-1, None] + half * (1 + nodes)).flatten(1)
        log_density = torch.logsumexp(weights[rows].log()[:, None, :] + log_densities(rows, points), dim=-1)
        entropies.append(-(log_density.exp() * log_density.clamp_min(-1e4) * (half * node_weights).flatten(1)).sum(1))
    return torch.cat(entropies) if entropies else weights.new_zeros(0)


def _grids(weights: Tensor, breaks: Tensor, each: int = 1) -> Iterator[tuple[slice, Tensor]]:
    """Rows in pieces, with their sorted breakpoints [rows, B]."""
    places = breaks.flatten(1)
    step = max(1, _NUMBERS_AT_ONCE // (each * places.shape[1] * weights.shape[1]))
    for start in range(0, len(weights), step):
        rows = slice(start, start + step)
        own = places if len(places) == 1 else places[rows]
        yield rows, own.sort(dim=1).values.expand(len(weights[rows]), -1)


def gaussian_mode(weights: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """[n] the place of the highest density: the best of the highest few tops on a grid, each climbed to its end.

    The grid has quarters of deviations around every leaf, so no top lies between its points unseen, and the height of
    each is known to a per cent before the climb.
    """
    # Around their own middle: far from 0 the last digits of a place would be lost.
    middle = mean.mean()
    steps = torch.arange(-3, 3.01, 0.25, dtype=torch.float64)
    grid, densities = _on_grid(mean - middle, std, steps)
    modes = []
    for part in _split(weights, len(grid)):
        density = part @ densities
        inner = density[:, 1:-1]
        top = (inner >= density[:, :-2]) & (inner >= density[:, 2:])
        places = inner.masked_fill(~top, -1.0).topk(min(_TOPS, len(grid) - 2), dim=1).indices
        modes.append(_climb(part, grid[1 + places], mean - middle, std))
    return middle + torch.cat(modes)


def _climb(weights: Tensor, place: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """From places [n, P] to the best of their tops [n].

    By Newton's steps where the logarithm of the density is concave and the step does not descend, else by the
    fixed-point (mean-shift) step, which never does.
    """
    if not len(weights):
        return weights.sum(1)
    log_weights = weights.log()
    density, slope, curvature, shifted = _look(log_weights, place, mean, std)
    for _ in range(_CLIMBS):
        new = torch.where(curvature < 0, place - slope / curvature, shifted)
        after = _look(log_weights, new, mean, std)
        worse = ~(after[0] >= density)
        if worse.any():
            new = torch.where(worse, shifted, new)
            after = _look(log_weights, new, mean, std)
        moved = ((new - place).abs() / std.min()).max()
        place, (density, slope, curvature, shifted) = new, after
        if moved < 1e-9:
            break
    return place.gather(1, density.argmax(1, keepdim=True)).squeeze(1)


def _look(log_weights: Tensor, place: Tensor, mean: Tensor, std: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """At places [n, P]: log-density, its first and second derivative, and where the fixed-point step leads."""
    z = (place.unsqueeze(-1) - mean) / std
    terms = log_weights.unsqueeze(1) - 0.5 * z.square() - std.log()
    density = torch.logsumexp(terms, dim=-1)
    share = (terms - density.unsqueeze(-1)).exp()
    pull = share / std.square()
    slope = -(share * z / std).sum(-1)
    curvature = (share * (z.square() - 1) / std.square()).sum(-1) - slope.square()
    return density, slope, curvature, (pull * mean).sum(-1) / pull.sum(-1)


def gaussian_entropy(weights: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """[n] −∫ p log p, by Gauss–Legendre quadrature between breakpoints at whole deviations of every leaf."""
    mean = mean - mean.mean()
    breaks, _ = _on_grid(mean, std, ENTROPY_STEPS)
    nodes, node_weights = (torch.from_numpy(a) for a in np.polynomial.legendre.leggauss(_NODES))
    half = breaks.diff()[:, None] / 2
    points = (breaks[:-1, None] + half * (1 + nodes)).flatten()
    widths = (half * node_weights).flatten()
    densities = _densities(points, mean, std)
    entropies = []
    for part in _split(weights, len(points)):
        density = part @ densities
        entropies.append(-torch.xlogy(density, density) @ widths)
    return torch.cat(entropies)


def _on_grid(mean: Tensor, std: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
    """Sorted places at the given steps, in deviations, around every leaf, and the leaves' densities [C, places]."""
    grid = torch.unique((mean[:, None] + std[:, None] * steps).flatten())
    return grid, _densities(grid, mean, std)


def _densities(places: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    z = (places[None, :] - mean[:, None]) / std[:, None]
    return (-0.5 * z.square()).exp() / (std * math.sqrt(2 * math.pi))[:, None]


def sum_over_counts(
    weights: Tensor, leaf_probs: Callable[[Tensor], Tensor], first: int, last: int
) -> tuple[Tensor, Tensor]:
    """[n] the most likely count from `first` to `last`, and −Σ p log p over them.

    `leaf_probs` gives [1, values, C] where all rows share the leaves, else [n, values, C].
    """
    if last - first >= _MOST_COUNTS:
        raise InputError(
            f"counts reach {last:g}, too many to go through one by one; a continuous attribute (their logarithm, say) "
            f"has a mode and an entropy"
        )
    best, mode, entropy = (torch.zeros(len(weights), dtype=torch.float64) for _ in range(3))
    shared = len(leaf_probs(torch.tensor([float(first)], dtype=torch.float64))) == 1
    at_once = max(1, _NUMBERS_AT_ONCE // max(1, *(weights.shape if shared else [weights.numel()])))
    for start in range(first, last + 1, at_once):
        values = torch.arange(start, min(start + at_once, last + 1), dtype=torch.float64)
        of_leaves = leaf_probs(values)
        probs = weights @ of_leaves[0].T if shared else torch.einsum("nc,nvc->nv", weights, of_leaves)
        highest, place = probs.max(1)
        mode = torch.where(highest > best, values[place], mode)
        best = torch.maximum(best, highest)
        entropy -= torch.xlogy(probs, probs).sum(1)
    return mode, entropy


def _split(weights: Tensor, numbers: int) -> Iterator[Tensor]:
    return iter(weights.split(max(1, _NUMBERS_AT_ONCE // max(1, numbers))))
