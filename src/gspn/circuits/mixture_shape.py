"""Modes and entropies of mixtures, which have no formula: n mixtures with weights [n, C] of the same C leaves.

That the leaves are shared is what makes it cheap: their densities on a grid are computed once, and a matrix product
gives those of all mixtures. Deterministic, in float64, in bounded memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

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
_MOST_COUNTS = 2**24


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
    breaks, _ = _on_grid(mean, std, torch.arange(-_REACH, _REACH + 1, dtype=torch.float64))
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
    """[n] the most likely count from `first` to `last`, and −Σ p log p over them; `leaf_probs` gives [values, C]."""
    if last - first >= _MOST_COUNTS:
        raise InputError(
            f"counts reach {last:g}, too many to go through one by one; a continuous attribute (their logarithm, say) "
            f"has a mode and an entropy"
        )
    best, mode, entropy = (torch.zeros(len(weights), dtype=torch.float64) for _ in range(3))
    at_once = max(1, _NUMBERS_AT_ONCE // max(1, *weights.shape))
    for start in range(first, last + 1, at_once):
        values = torch.arange(start, min(start + at_once, last + 1), dtype=torch.float64)
        probs = weights @ leaf_probs(values).T
        highest, place = probs.max(1)
        mode = torch.where(highest > best, values[place], mode)
        best = torch.maximum(best, highest)
        entropy -= torch.xlogy(probs, probs).sum(1)
    return mode, entropy


def _split(weights: Tensor, numbers: int) -> Iterator[Tensor]:
    return iter(weights.split(max(1, _NUMBERS_AT_ONCE // max(1, numbers))))
