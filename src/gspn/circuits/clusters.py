"""Clusters of rows with gaps, to start a mixture from: k-means, refined and judged by a few steps of EM.

scikit-learn's k-means and mixtures accept no missing values; these exist for that reason alone. Distances, centres and
densities are taken over the observed entries only.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import one_hot

_EM_STEPS = 10
"""Enough to tell which of several k-means solutions leads to the better mixture; learning does the rest."""

_LEAST_VARIANCE = 1e-4


def cluster(rows: Tensor, num_clusters: int, generator: torch.Generator, restarts: int = 8) -> Tensor:
    """[n] cluster of every row of `rows` [n, p] (columns of deviation about 1, NaN = missing).

    Several runs of k-means, each refined by EM on a mixture of diagonal Gaussians; the likeliest wins. A row with
    nothing observed goes to a random cluster.
    """
    known = ~torch.isnan(rows).all(1)
    assignment = torch.randint(num_clusters, (len(rows),), generator=generator)
    if known.any():
        # Centred, so that the 0 which stands for a gap is nowhere special.
        some = rows[known] - rows[known].nanmean(0)
        best, best_score = assignment[known], -math.inf
        for _ in range(restarts):
            score, found = refine(some, kmeans(some, num_clusters, generator), num_clusters)
            # Clearly better: among equally good ones the first, or rounding would choose.
            if score > best_score + 1e-6:
                best, best_score = found, score
        assignment[known] = best
    return assignment


def kmeans(rows: Tensor, num_clusters: int, generator: torch.Generator, iterations: int = 50) -> Tensor:
    """[n] nearest centre of every row; each row has something observed.

    A row's squared distance is averaged over its observed entries, so that rows with gaps compare fairly. Clusters
    that run empty restart at the rows farthest from their centres.
    """
    points, observed = rows.nan_to_num(0.0), (~torch.isnan(rows)).to(rows.dtype)
    weights = observed / observed.sum(1, keepdim=True)
    centres = _seed(points, weights, num_clusters, generator)
    best, nearest = _distances(points, weights, centres).min(1)
    for _ in range(iterations):
        members = one_hot(nearest, num_clusters).to(rows.dtype).T
        counts = members @ observed
        centres = torch.where(counts > 0, (members @ points) / counts.clamp_min(1), centres)
        empty = (members.sum(1) == 0).nonzero().squeeze(1)
        if len(empty) and len(points) > num_clusters:
            centres[empty] = points[best.argsort(descending=True)[: len(empty)]]
        best, now = _distances(points, weights, centres).min(1)
        if torch.equal(now, nearest):
            break
        nearest = now
    return nearest


def refine(rows: Tensor, assignment: Tensor, num_clusters: int) -> tuple[float, Tensor]:
    """Mean log-likelihood and likeliest clusters after a few steps of EM from an assignment."""
    points, observed = rows.nan_to_num(0.0), (~torch.isnan(rows)).to(rows.dtype)
    shares = one_hot(assignment, num_clusters).to(rows.dtype)
    log_likelihood = torch.zeros(len(rows))
    for _ in range(_EM_STEPS):
        mass = (shares.T @ observed).clamp_min(1e-9)
        mean = (shares.T @ points) / mass
        variance = ((shares.T @ points.square()) / mass - mean.square()).clamp_min(_LEAST_VARIANCE)
        weight = (shares.sum(0) + 1) / (len(rows) + num_clusters)
        # Σ over observed entries of (x − μ)²/σ² + log 2πσ², as three products of matrices.
        twice = points.square() @ (1 / variance).T - 2 * points @ (mean / variance).T
        twice = twice + observed @ (mean.square() / variance + torch.log(2 * math.pi * variance)).T
        joint = weight.log() - 0.5 * twice
        log_likelihood = torch.logsumexp(joint, dim=1)
        shares = torch.exp(joint - log_likelihood[:, None])
    return log_likelihood.mean().item(), shares.argmax(1)


def _distances(points: Tensor, weights: Tensor, centres: Tensor) -> Tensor:
    """[n, k] weighted squared distances, Σ w (x − c)²."""
    squares = (weights * points.square()).sum(1, keepdim=True)
    cross = (weights * points) @ centres.T
    return (squares - 2 * cross + weights @ centres.square().T).clamp_min(0.0)


def _seed(points: Tensor, weights: Tensor, num_clusters: int, generator: torch.Generator) -> Tensor:
    """Greedy k-means++: candidates are drawn in proportion to their squared distance, the one that helps most stays."""
    chosen = torch.randint(len(points), (1,), generator=generator)
    distance = _distances(points, weights, points[chosen]).squeeze(1)
    candidates = 2 + int(math.log(num_clusters))
    while len(chosen) < num_clusters:
        if float(distance.sum()) > 0:
            drawn = torch.multinomial(distance, candidates, replacement=True, generator=generator)
        else:  # fewer distinct rows than clusters
            drawn = torch.randint(len(points), (1,), generator=generator)
        remaining = torch.minimum(distance[:, None], _distances(points, weights, points[drawn]))
        helpful = int(remaining.sum(0).argmin())
        chosen, distance = torch.cat([chosen, drawn[helpful : helpful + 1]]), remaining[:, helpful]
    return points[chosen]
