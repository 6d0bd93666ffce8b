"""A batch: several graphs side by side as one disconnected graph, in the form the levels are computed from.

A batch is plain data. How it is cut from a dataset is the dataset's business; what is computed on it, the hierarchy's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Batch:
    """Vertices and edges of several graphs, vertices numbered through, edges sorted by the vertex that receives.

    `x` stays in float64 and in the users' units, whatever the model's dtype: cast to float32 before standardising, a
    column such as a time stamp would lose the digits that matter. The leaves cast after standardising.
    """

    x: Tensor
    """[N, d] entries, columns in schema order, NaN where missing."""
    source: Tensor
    """[E] vertex that sends along each edge."""
    row_ptr: Tensor
    """[N + 1] vertex v receives along the edges row_ptr[v] … row_ptr[v + 1] - 1."""
    max_in_degree: int
    """Largest in-degree: decides how carefully long sums are accumulated, and is known before any tracing."""
    vertex_ptr: Tensor
    """[G + 1] graph g owns the vertices vertex_ptr[g] … vertex_ptr[g + 1] - 1."""
    graph_ids: Tensor
    """[G] position of each graph in the dataset the batch was cut from."""
    edge_type: Tensor | None = None
    """[E] edge types, or None where edges have none."""
    hidden: Tensor | None = None
    """[N, d] True where an entry leaves the evidence everywhere but stays known to the root as what is asked for."""
    missing: Tensor | None = None
    """[N, d] True where an entry is missing in the data, whether or not `x` has a value; None: wherever it has none.

    False where `x` has none: an entry that is known to be there, and nothing else of it."""
    y: Tensor | None = None
    """Targets: one row per graph or one row per vertex."""
    known_out_degree: Tensor | None = None
    """[N] in the whole graph, where a batch has copies of vertices or lacks some; None: the edges here are all"""
    identity: Tensor | None = None
    """[N] which vertex a row is, where several are the same (private copies); None: every row is a vertex of its own"""

    @property
    def num_vertices(self) -> int:
        return self.x.shape[0]

    @property
    def num_edges(self) -> int:
        return self.source.shape[0]

    @property
    def num_graphs(self) -> int:
        return self.graph_ids.shape[0]

    @property
    def in_degree(self) -> Tensor:
        """[N] number of incoming edges, with multiplicity."""
        return self.row_ptr.diff()

    @property
    def out_degree(self) -> Tensor:
        """[N] number of outgoing edges in the whole graph, with multiplicity."""
        if self.known_out_degree is not None:
            return self.known_out_degree
        return torch.bincount(self.source, minlength=self.num_vertices)

    @property
    def target(self) -> Tensor:
        """[E] vertex that receives along each edge."""
        numbers = torch.arange(self.num_vertices, device=self.row_ptr.device, dtype=self.source.dtype)
        return torch.repeat_interleave(numbers, self.in_degree, output_size=self.num_edges)

    @property
    def visible(self) -> Tensor:
        """[N, d] the evidence: `x` with hidden entries turned into missing ones."""
        return self.x if self.hidden is None else self.x.masked_fill(self.hidden, torch.nan)

    @property
    def observed(self) -> Tensor:
        """[N, d] True where an entry is present in the data, hidden or not."""
        return ~torch.isnan(self.x)

    def vertex_keys(self) -> tuple[Tensor, Tensor]:
        """For every vertex the id of its graph and its number inside that graph: a name independent of batching."""
        sizes = self.vertex_ptr.diff()
        first = torch.repeat_interleave(self.vertex_ptr[:-1], sizes)
        return torch.repeat_interleave(self.graph_ids, sizes), torch.arange(len(first), device=first.device) - first

    def hiding(self, hidden: Tensor | None) -> Batch:
        return replace(self, hidden=hidden)

    def hiding_withheld(self) -> Batch:
        """With entries of which no more is known than that they are there hidden, so that this is not known either."""
        if self.missing is None:
            return self
        withheld = self.x.isnan() & ~self.missing
        return self.hiding(withheld if self.hidden is None else withheld | self.hidden)

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on a device; itself if it is there already."""
        if self.x.device == torch.device(device):
            return self
        given = {name: value for name, value in vars(self).items() if name in self.__dataclass_fields__}
        moved: dict[str, Any] = {k: v.to(device) for k, v in given.items() if isinstance(v, Tensor)}
        return replace(self, **moved)


def rows_by_target(target: Tensor, num_vertices: int) -> tuple[Tensor, Tensor]:
    """The order that sorts edges by receiving vertex (stably), and the row pointer [num_vertices + 1] of that order."""
    row_ptr = torch.zeros(num_vertices + 1, dtype=torch.long)
    torch.cumsum(torch.bincount(target, minlength=num_vertices), 0, out=row_ptr[1:])
    return torch.argsort(target, stable=True), row_ptr
