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
    """Vertices and edges of several graphs, vertices numbered through.

    `x` stays in float64 and in the users' units, whatever the model's dtype: cast to float32 before standardising, a
    column such as a time stamp would lose the digits that matter. The leaves cast after standardising.
    """

    x: Tensor
    """[N, d] entries, columns in schema order, NaN where missing."""
    source: Tensor
    """[E] vertex that sends along each edge."""
    target: Tensor
    """[E] vertex that receives along each edge."""
    in_degree: Tensor
    """[N] number of incoming edges, with multiplicity."""
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
    y: Tensor | None = None
    """Targets: one row a graph or one row a vertex."""

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

    def to(self, device: torch.device | str) -> Batch:
        moved: dict[str, Any] = {
            name: value.to(device) for name, value in vars(self).items() if isinstance(value, Tensor)
        }
        return replace(self, **moved)


def count_incoming(target: Tensor, num_vertices: int) -> tuple[Tensor, int]:
    """In-degrees with multiplicity, and the largest of them."""
    in_degree = torch.bincount(target, minlength=num_vertices)
    return in_degree, int(in_degree.max()) if num_vertices else 0
