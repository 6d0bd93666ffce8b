"""What questions are put to: anything that can say how likely entries are, and give the roots of vertices' trees.

A `Hierarchy` is one; several models that answer as one are another. Questions know nothing else of a model. How much is
asked at once, where a question is about many graphs, depends on it too.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from gspn.attributes import Schema
from gspn.circuits.given import Roots
from gspn.graphs.batch import Batch

_NUMBERS_AT_ONCE = 4_000_000
"""Posterior entries of one chunk: 16 MB in float32, about what a processor's cache holds.

Larger chunks are slower: their memory has to be fetched from the system, page by page, for every chunk anew.
"""


class Answering(Protocol):
    """All of it without gradients."""

    @property
    def schema(self) -> Schema: ...

    @property
    def reach(self) -> int:
        """How many steps away another vertex can be and still matter; edges into a vertex matter one step less far."""

    @property
    def dtype(self) -> torch.dtype:
        """Of likelihoods; distributions are in float64."""

    @property
    def reads_out_degree(self) -> bool:
        """Whether what a vertex sends depends on its number of outgoing edges."""

    @property
    def numbers_per_vertex(self) -> int:
        """How much one pass keeps of a vertex, to bound the memory of a chunk."""

    def roots(self, batch: Batch, vertices: Tensor, hidden: Tensor) -> Roots:
        """The distributions over the vertices' entries given all else that is observed in the graph.

        `hidden` [len(vertices), d] entries of each vertex leave the evidence in that vertex's own tree, everywhere.
        """

    def roots_after(self, batch: Batch, vertices: Tensor) -> Roots:
        """The same with exactly those entries hidden that the batch hides, from everybody: one pass."""

    def log_likelihood(self, batch: Batch, vertices: Tensor) -> Tensor:
        """[len(vertices)] log P(x_v | tree below v): the paper's pseudo-likelihood."""

    def log_prob_hidden(self, batch: Batch, vertices: Tensor, hidden: Tensor | None = None) -> Tensor:
        """[len(vertices)] log P(hidden entries of v | v's other observed entries, all other vertices).

        `hidden` [len(vertices), d]; by default all of them: the vertex given the others.
        """

    def log_prob_missing(self, batch: Batch, truth: Tensor) -> Tensor:
        """[N] joint log-density of each vertex's own missing entries at `truth` [N, d]; 0 where none is missing."""


def chunk_size(model: Answering) -> int:
    """Vertices and edges of one chunk, for `GraphDataset.chunks`."""
    return max(1, _NUMBERS_AT_ONCE // model.numbers_per_vertex)
