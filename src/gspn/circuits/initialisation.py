"""Where learning starts: rows of data are dealt down the circuit, and every leaf starts from the rows that reach it.

A sum splits its rows among its children by clusters of its continuous and count attributes, a product hands all its
rows to every child. For naive Bayes these are clusters of the whole table. scikit-learn's k-means and mixtures accept
no missing values; only therefore clusters are found here: k-means, refined and judged by a few steps of EM, with
distances, centres and densities over the observed entries.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from gspn.attributes import Schema
from gspn.circuits.leaves import Leaves
from gspn.circuits.structure import Leaf, Product, Sum, Unit, bottom_up, walk
from gspn.circuits.templates import Template

MAX_ROWS = 20_000
"""Rows used for initialisation: enough for any mixture, few enough to cluster in a blink."""

_FLAT_NOISE = 0.1

_EM_STEPS = 10
"""Enough to tell which of several k-means solutions leads to the better mixture; learning does the rest."""
_LEAST_VARIANCE = 1e-4


def initialise(
    template: Template, leaves: Sequence[Leaves], schema: Schema, x: Tensor, num_states: int, generator: torch.Generator
) -> Tensor:
    """Set all leaves from rows x [n, d] (users' units, NaN = missing); gives the sum units' priors as logits [S, C]."""
    if len(x) > MAX_ROWS:
        x = x[torch.randperm(len(x), generator=generator)[:MAX_ROWS]]
    features = _features(template, leaves, x)
    dealt, logits = _deal(template.structure, schema, features, x, num_states, generator)
    by_scope = defaultdict[tuple[int, ...], list[Leaf]](list)
    for unit in walk(template.structure):
        if isinstance(unit, Leaf):
            by_scope[tuple(sorted(map(schema.index, unit.attributes)))].append(unit)
    for scope, family in zip(template.scopes, leaves, strict=True):
        columns = x[:, list(scope)]  # first, or a thousand attributes would copy all of x as often
        family.start([columns[dealt[id(leaf)]] for leaf in by_scope[tuple(scope)]], generator)
    return logits


def _deal(
    root: Unit,
    schema: Schema,
    features: dict[tuple[int, ...], Tensor],
    x: Tensor,
    num_states: int,
    generator: torch.Generator,
) -> tuple[dict[int, Tensor], Tensor]:
    """Rows for every leaf, and the log-shares of every sum's children. The first parent deals to a shared unit."""
    covered = _scopes(root, schema)
    rows = {id(root): torch.arange(len(x))}
    logits = []
    for unit in walk(root):
        mine = rows[id(unit)]
        if isinstance(unit, Product):
            for child in unit.children:
                rows.setdefault(id(child), mine)
        elif isinstance(unit, Sum):
            own = [features[scope][mine] for scope in features if set(scope) <= covered[id(unit)]]
            if own and len(mine):
                table = torch.cat(own, dim=1)
                share = cluster(table, num_states, generator)
                counts = torch.bincount(share, minlength=num_states).double()
                logits.append(torch.log(counts + 1) - torch.log(counts.sum() + num_states))
                for k, child in enumerate(unit.children):
                    rows.setdefault(id(child), mine[share == k])
            else:
                # Nothing to cluster by: the leaves' own noise tells the states apart.
                logits.append(_FLAT_NOISE * torch.randn(num_states, generator=generator, dtype=torch.float64))
                for child in unit.children:
                    rows.setdefault(id(child), mine)
    return rows, torch.stack(logits)


def _features(template: Template, leaves: Sequence[Leaves], x: Tensor) -> dict[tuple[int, ...], Tensor]:
    """By scope, columns to cluster by, each of deviation about 1; those of an attribute count once."""
    features, taken = {}, set[int]()
    for scope, family in zip(template.scopes, leaves, strict=True):
        found = None if taken & set(scope) else family.features(x[:, list(scope)])
        if found is not None:
            features[scope] = found
            taken |= set(scope)
    return features


def _scopes(root: Unit, schema: Schema) -> dict[int, set[int]]:
    scopes: dict[int, set[int]] = {}
    for unit in bottom_up(root):
        if isinstance(unit, Leaf):
            scopes[id(unit)] = set(map(schema.index, unit.attributes))
        else:
            scopes[id(unit)] = {column for child in unit.children for column in scopes[id(child)]}
    return scopes


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
