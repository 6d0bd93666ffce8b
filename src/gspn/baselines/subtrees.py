"""Weisfeiler-Lehman subtrees: which neighbourhoods occur in a graph, and how often, exactly.

A vertex's first colour are its entries; every round makes a new one of its own and the multiset of its neighbours',
with the types of the edges. Colours are 64-bit hashes that need no dictionary, so graphs may come in any order and at
any time; that two different neighbourhoods share one has a probability of about n² / 2⁶⁵ for n of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gspn.attributes import Binary, Categorical, FloatArray, Schema
from gspn.baselines.attribute_columns import AT_ONCE
from gspn.errors import InputError
from gspn.graphs import Batch, GraphDataset

Colours = NDArray[np.uint64]

_BINS = 10
"""Parts of equal weight into which continuous attributes and counts of many values are cut."""
_MOST = 2_000
"""Of frequent subtrees"""
_OWN, _OF_NEIGHBOURS, _OF_TYPE, _OF_COLUMN = (np.uint64(odd) for odd in (
    0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93,
))  # fmt: skip


@dataclass(frozen=True, eq=False)
class Subtrees:
    """How colours are made: rounds, and where numbers are cut into parts, as training graphs have it."""

    rounds: int
    cuts: tuple[Tensor | None, ...]
    """by attribute, ascending; None for categories"""

    @classmethod
    def of(cls, schema: Schema, entries: Tensor, rounds: int) -> Subtrees:
        """Cuts learned from training entries [n, d]; few different values are told apart as they are."""
        cuts: list[Tensor | None] = []
        for attribute, column in zip(schema, entries.unbind(1), strict=True):
            if column.isnan().all():
                raise InputError(
                    f"attribute '{attribute.name}' is missing at every vertex; nothing can be learned of it"
                )
            if isinstance(attribute, Categorical | Binary):
                cuts.append(None)
                continue
            values = column[~column.isnan()].unique()
            if len(values) > 2 * _BINS:
                known = column[~column.isnan()].numpy()
                values = torch.from_numpy(np.unique(np.quantile(known, np.arange(1, _BINS) / _BINS)))
            cuts.append(values)
        return cls(rounds, tuple(cuts))

    def count(self, dataset: GraphDataset) -> Counts:
        """All subtrees of checked graphs, chunk after chunk."""
        graph, colours, numbers, start = [], [], [], 0
        for batch in dataset.chunks(AT_ONCE):
            of_vertex = np.repeat(np.arange(batch.num_graphs) + start, batch.vertex_ptr.diff().numpy())
            start += batch.num_graphs
            for own in self.colours(batch):
                # A graph's number and a colour together are a row of two columns; sorted by colour within graphs.
                order = np.lexsort((own, of_vertex))
                rows, found = of_vertex[order], own[order]
                first = np.flatnonzero(
                    np.concatenate([[True], (rows[1:] != rows[:-1]) | (found[1:] != found[:-1])])[: len(rows)]
                )
                graph.append(rows[first])
                colours.append(found[first])
                numbers.append(np.diff(np.append(first, len(rows))))
        if not graph:
            return Counts(len(dataset), np.zeros(0, np.int64), np.zeros(0, np.uint64), np.zeros(0, np.int64))
        return Counts(len(dataset), np.concatenate(graph), np.concatenate(colours), np.concatenate(numbers))

    def frequent(self, dataset: GraphDataset, rare: float) -> Colours:
        """The subtrees of at least a share of the graphs, and of two; the 2,000 most frequent ones of more."""
        return self.count(dataset).vocabulary(max(2, int(np.ceil(rare * len(dataset)))), _MOST)

    def rows(self, dataset: GraphDataset, vocabulary: Colours) -> FloatArray:
        """[G, V] logarithms of 1 + how often each occurs."""
        found: FloatArray = np.log1p(self.count(dataset).matrix(vocabulary).toarray())
        return found

    def colours(self, batch: Batch) -> Iterator[Colours]:
        """The colours [N] of every round, the first ones included."""
        own = np.zeros(batch.num_vertices, dtype=np.uint64)
        for number, (column, cuts) in enumerate(zip(batch.x.unbind(1), self.cuts, strict=True)):
            code = column if cuts is None else torch.searchsorted(cuts, column.nan_to_num(0.0).contiguous()).double()
            code = torch.where(column.isnan(), -1.0, code)
            own += _mixed(
                code.numpy().astype(np.int64).astype(np.uint64) + np.array([number + 1], dtype=np.uint64) * _OF_COLUMN
            )
        own = _mixed(own)
        yield own
        source, ends = batch.source.long().numpy(), batch.row_ptr.numpy()
        kinds = np.uint64(0) if batch.edge_type is None else batch.edge_type.numpy().astype(np.uint64) * _OF_TYPE
        for number in range(1, self.rounds + 1):
            received = _mixed(own[source] + kinds)
            # Sums know no order. They may overflow, and are a function of the multiset all the same.
            total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(received, dtype=np.uint64)])
            own = _mixed(own * _OWN + (total[ends[1:]] - total[ends[:-1]]) * _OF_NEIGHBOURS + np.uint64(number))
            yield own


@dataclass(frozen=True, eq=False)
class Counts:
    """How often each colour occurs in each graph; colours of different rounds are different."""

    graphs: int
    graph: NDArray[np.int64]
    colour: Colours
    number: NDArray[np.int64]

    def vocabulary(self, least: int = 1, most: int | None = None) -> Colours:
        """Colours of at least so many graphs, ascending; the most frequent ones of too many."""
        colours, occurrences = np.unique(self.colour, return_counts=True)
        kept = occurrences >= least
        colours, occurrences = colours[kept], occurrences[kept]
        if most is not None and len(colours) > most:
            colours = np.sort(colours[np.argsort(-occurrences, kind="stable")[:most]])
        return colours

    def matrix(self, vocabulary: Colours) -> Any:
        """[G, V] sparse: what the vocabulary does not have is left out."""
        from scipy.sparse import csr_array

        place = np.searchsorted(vocabulary, self.colour)
        known = place < len(vocabulary)
        known[known] = vocabulary[place[known]] == self.colour[known]
        coordinates = (self.graph[known], place[known])
        return csr_array((self.number[known].astype(np.float64), coordinates), shape=(self.graphs, len(vocabulary)))

    def lengths(self) -> NDArray[np.float64]:
        """[G] Euclidean length of each graph's counts, colours outside of any vocabulary included."""
        return np.sqrt(np.bincount(self.graph, self.number.astype(np.float64) ** 2, minlength=self.graphs))


def _mixed(values: Colours) -> Colours:
    """A bijection of 64 bits in which every bit depends on all (the end of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Colours = values ^ (values >> np.uint64(31))
    return mixed
