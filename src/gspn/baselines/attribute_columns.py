"""What can be said of a graph without any model: its attributes pooled, histograms of degrees, counts of edge types.

Pooling makes numbers of graphs from numbers of vertices, whatever these are: sums, means, deviations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gspn.attributes import Categorical, FloatArray, Schema
from gspn.baselines.features import Features
from gspn.graphs import Batch, GraphDataset


@dataclass(frozen=True, eq=False)
class Pooled:
    """Statistics of [N, D] rows by graph; of a graph without vertices all are 0."""

    mean: Tensor
    """[G, D] float64"""
    log_sum: Tensor
    """[G, D] sign(s) · log(1 + |s|) of the sum s"""
    deviation: Tensor
    """[G, D]"""


def pool(rows: Tensor, sizes: Tensor) -> Pooled:
    """Statistics of the rows of graphs that have so many vertices each, one graph after another."""
    total = sums(rows, sizes)
    count = sizes.clamp_min(1)[:, None]
    mean = total / count
    # Centred before they are squared: a difference of large squares would be noise.
    apart = rows.double() - torch.repeat_interleave(mean, sizes, dim=0)
    return Pooled(mean, total.sign() * total.abs().log1p(), (sums(apart.square(), sizes) / count).sqrt())


def sums(rows: Tensor, sizes: Tensor) -> Tensor:
    """[G, D] float64 sums of rows [N, D], accumulated in double precision."""
    graph = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
    return torch.zeros(len(sizes), rows.shape[1], dtype=torch.float64).index_add_(0, graph, rows.double())


AT_ONCE = 200_000
"""Vertices and edges of one chunk."""

_SINGLE = 10
"""Degrees up to here have a place of their own in the histogram; from there on places get wider and wider."""
_WIDER = 1.5


@dataclass(frozen=True, eq=False)
class AttributeColumns:
    """Pooled attributes with a histogram of degrees, learned from training graphs."""

    features: Features
    degrees: Tensor
    """[B] the least degree of every place of the histogram, ascending from 0"""
    edge_types: int

    @classmethod
    def of(cls, schema: Schema, dataset: GraphDataset) -> AttributeColumns:
        largest = max(
            (int(batch.in_degree.max()) for batch in dataset.chunks(AT_ONCE) if batch.num_vertices), default=0
        )
        places = list(range(_SINGLE + 1))
        while places[-1] * _WIDER <= largest:
            places.append(int(np.ceil(places[-1] * _WIDER)))
        types = dataset.edge_type
        known = 0 if types is None or not len(types) else int(types.max()) + 1
        return cls(Features.of(schema, dataset.entries()), torch.tensor(places), known)

    @property
    def names(self) -> list[str]:
        """What the columns are called."""
        own = []
        for attribute in self.features.schema:
            if isinstance(attribute, Categorical):
                own += [f"{attribute.name}={category}" for category in attribute.categories]
            else:
                own.append(attribute.name)
        pooled = [f"{name}_{statistic}" for statistic in ("mean", "logsum", "sd") for name in own]
        degrees = [f"degree_{least}" for least in self.degrees.tolist()]
        types = [f"edge_type_{code}" for code in range(self.edge_types)]
        histograms = [f"{name}_{statistic}" for statistic in ("share", "logsum") for name in degrees + types]
        return [*pooled, *histograms, "log_vertices", "log_edges"]

    def __call__(self, dataset: GraphDataset) -> FloatArray:
        """[G, columns] of checked graphs, chunk after chunk."""
        parts = [self.of_batch(batch).numpy() for batch in dataset.chunks(AT_ONCE)]
        return np.concatenate([np.zeros((0, len(self.names))), *parts])

    def of_batch(self, batch: Batch) -> Tensor:
        sizes = batch.vertex_ptr.diff()
        pooled = pool(self.features(batch.x), sizes)
        histograms = torch.cat(list(self._histograms(batch, sizes)), dim=1)
        edges = sums(batch.in_degree[:, None], sizes)
        shares = histograms / torch.cat(
            [sizes.clamp_min(1)[:, None].expand(-1, len(self.degrees)), edges.clamp_min(1).expand(-1, self.edge_types)],
            dim=1,
        )
        both = torch.stack([sizes.double().log1p(), edges[:, 0].log1p()], dim=1)
        return torch.cat([pooled.mean, pooled.log_sum, pooled.deviation, shares, histograms.log1p(), both], dim=1)

    def _histograms(self, batch: Batch, sizes: Tensor) -> Iterator[Tensor]:
        """Numbers of vertices by degree, of edges by type."""
        graphs = torch.arange(batch.num_graphs)
        graph = torch.repeat_interleave(graphs, sizes)
        place = torch.searchsorted(self.degrees, batch.in_degree, right=True) - 1
        yield _counts(graph, place, len(graphs), len(self.degrees))
        if self.edge_types:
            of_edge = torch.repeat_interleave(graph, batch.in_degree)
            known = torch.zeros(0, dtype=torch.long) if batch.edge_type is None else batch.edge_type
            of_edge = of_edge[: len(known)]
            seen = known < self.edge_types
            yield _counts(of_edge[seen], known[seen], len(graphs), self.edge_types)


def _counts(graph: Tensor, place: Tensor, graphs: int, places: int) -> Tensor:
    return torch.bincount(graph * places + place, minlength=graphs * places).view(graphs, places).double()
