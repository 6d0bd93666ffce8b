"""k-means for rows with gaps: distances and centres are taken over the observed entries only.

scikit-learn's k-means accepts no missing values; this one exists for that reason alone.
"""

from __future__ import annotations

import torch
from torch import Tensor


def kmeans(rows: Tensor, num_clusters: int, generator: torch.Generator, iterations: int = 50) -> Tensor:
    """[n] cluster of every row of `rows` [n, p] (NaN = missing).

    A row's squared distance is averaged over its observed entries, so that rows with gaps compare fairly; a row with
    none goes to a random cluster. Clusters that run empty restart at the row farthest from its centre.
    """
    observed = ~torch.isnan(rows)
    known = observed.any(1)
    assignment = torch.randint(num_clusters, (len(rows),), generator=generator)
    if not known.any():
        return assignment
    points, weights = rows[known].nan_to_num(0.0), observed[known].to(rows.dtype)
    weights = weights / weights.sum(1, keepdim=True)
    centres = _seed(points, weights, num_clusters, generator)
    nearest = torch.full((len(points),), -1)
    for _ in range(iterations):
        distances = _distances(points, weights, centres)
        best, now = distances.min(1)
        if torch.equal(now, nearest):
            break
        nearest = now
        centres = _centres(points, weights > 0, nearest, centres)
        empty = (torch.bincount(nearest, minlength=num_clusters) == 0).nonzero().squeeze(1)
        if len(empty) and len(points) > num_clusters:
            centres[empty] = points[best.argsort(descending=True)[: len(empty)]]
    assignment[known] = nearest
    return assignment


def _distances(points: Tensor, weights: Tensor, centres: Tensor) -> Tensor:
    """[n, k] weighted squared distances, Σ w (x − c)²."""
    squares = (weights * points.square()).sum(1, keepdim=True)
    cross = (weights * points) @ centres.T
    return (squares - 2 * cross + weights @ centres.square().T).clamp_min(0.0)


def _seed(points: Tensor, weights: Tensor, num_clusters: int, generator: torch.Generator) -> Tensor:
    """k-means++: each new centre is a row, drawn with probability proportional to its squared distance."""
    chosen = [int(torch.randint(len(points), (1,), generator=generator))]
    distance = _distances(points, weights, points[chosen]).squeeze(1)
    while len(chosen) < num_clusters:
        if float(distance.sum()) > 0:
            chosen.append(int(torch.multinomial(distance, 1, generator=generator)))
        else:  # fewer distinct rows than clusters
            chosen.append(int(torch.randint(len(points), (1,), generator=generator)))
        distance = torch.minimum(distance, _distances(points, weights, points[chosen[-1:]]).squeeze(1))
    return points[chosen].clone()


def _centres(points: Tensor, observed: Tensor, nearest: Tensor, previous: Tensor) -> Tensor:
    totals = torch.zeros_like(previous).index_add(0, nearest, points * observed)
    counts = torch.zeros_like(previous).index_add(0, nearest, observed.to(points.dtype))
    return torch.where(counts > 0, totals / counts.clamp_min(1), previous)
