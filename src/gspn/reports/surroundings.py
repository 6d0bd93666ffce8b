"""The graph in numbers: its size, degrees and parts, and how much neighbours have in common, column by column."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from gspn.attributes import Binary, Categorical
from gspn.graphs import GraphDataset
from gspn.random_streams import keyed_generator

_SHUFFLED = 52
"""Names the stream of random numbers that shuffles values."""
_SHUFFLES = 20
_CHANCE = 2.5
"""Deviations of what shuffled values give, within which likeness may be chance."""
_MOST_EDGES = 200_000


@dataclass(frozen=True)
class Likeness:
    """Of a column: 1 if neighbours always have the same value, 0 if they are like any two vertices, below 0 if less."""

    name: str
    value: float
    """NaN where no two neighbours are both observed"""
    chance: float
    """Within ± this, shuffled values give the same"""
    pairs: int
    """Edges of which both ends are observed"""

    @property
    def words(self) -> str:
        if math.isnan(self.value):
            return "cannot be told: no two neighbours are both known"
        if abs(self.value) <= self.chance:
            return "no more alike than any two"
        if self.value < 0:
            return "differ more than any two"
        return "much alike" if self.value > 0.5 else "alike" if self.value > 0.2 else "a little alike"


@dataclass(frozen=True, eq=False)
class Surroundings:
    """The graph, or all graphs together."""

    graphs: int
    vertices: int
    edges: int
    """An edge in both directions counts once"""
    directed: bool
    degrees: NDArray[np.int64]
    """[N] incoming edges"""
    parts: int
    largest: int
    """Vertices of the largest part"""
    alone: int
    """Vertices without any edge"""
    likeness: tuple[Likeness, ...]


def describe(dataset: GraphDataset, seed: int = 0) -> Surroundings:
    """Numbers of the graph; None of them depends on a model."""
    batch = dataset.batch(torch.arange(len(dataset)))
    source, target = batch.source.long(), batch.target.long()
    count = batch.num_vertices
    joined = coo_array((np.ones(len(source)), (source.numpy(), target.numpy())), shape=(count, count)).tocsr()
    parts, of = connected_components(joined, directed=False)
    mutual = joined.astype(bool)
    directed = (mutual != mutual.T).nnz > 0
    touched = torch.zeros(count, dtype=torch.bool)
    touched[source], touched[target] = True, True
    return Surroundings(
        graphs=len(dataset),
        vertices=count,
        edges=len(source) if directed else (len(source) + int((source == target).sum())) // 2,
        directed=directed,
        degrees=batch.in_degree.numpy().astype(np.int64),
        parts=int(parts),
        largest=int(np.bincount(of).max()) if count else 0,
        alone=count - int(touched.sum()),
        likeness=tuple(_likenesses(dataset, source, target, seed)) if len(source) else (),
    )


def _likenesses(dataset: GraphDataset, source: Tensor, target: Tensor, seed: int) -> list[Likeness]:
    generator = keyed_generator(seed, _SHUFFLED)
    different = source != target
    source, target = source[different], target[different]
    if len(source) > _MOST_EDGES:
        chosen = torch.randperm(len(source), generator=generator)[:_MOST_EDGES]
        source, target = source[chosen], target[chosen]
    found = []
    for attribute, x in zip(dataset.schema, dataset.entries().unbind(1), strict=True):
        known = ~x[source].isnan() & ~x[target].isnan()
        ends, measure = (source[known], target[known]), _agreement
        if not isinstance(attribute, Categorical | Binary):
            measure = _correlation
        value, chance = math.nan, math.nan
        if bool(known.any()):
            value = measure(x[ends[0]], x[ends[1]])
            observed = (~x.isnan()).nonzero().squeeze(1)
            shuffled = []
            for _ in range(_SHUFFLES):
                other = x.clone()
                other[observed] = x[observed[torch.randperm(len(observed), generator=generator)]]
                shuffled.append(measure(other[ends[0]], other[ends[1]]))
            chance = _CHANCE * float(np.nanstd(shuffled)) if not np.isnan(shuffled).all() else math.nan
        found.append(Likeness(attribute.name, value, chance, int(known.sum())))
    return found


def _correlation(one: Tensor, other: Tensor) -> float:
    a, b = one - one.mean(), other - other.mean()
    scale = float((a.square().sum() * b.square().sum()).sqrt())
    return float((a * b).sum()) / scale if scale > 0 else math.nan


def _agreement(one: Tensor, other: Tensor) -> float:
    """Share of pairs that agree, 0 if as many as by chance and 1 if all."""
    codes = int(max(one.max(), other.max())) + 1
    shares = [torch.bincount(side.long(), minlength=codes).double() / len(side) for side in (one, other)]
    expected = float((shares[0] * shares[1]).sum())
    return (float((one == other).double().mean()) - expected) / (1 - expected) if expected < 1 else math.nan
