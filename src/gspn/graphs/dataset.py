"""GraphDataset: all graphs of a collection as flat arrays, without a Python object per graph.

Slicing batches and single graphs out of the arrays belongs here; turning `Data` objects into arrays, and checking them,
belongs to `pack`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from gspn.attributes import Attribute, Schema
from gspn.graphs.batch import Batch, count_incoming
from gspn.graphs.splits import Fold


@dataclass(frozen=True, eq=False)
class GraphDataset:
    """Graphs one after another in flat arrays; `positions` selects and orders them without copying."""

    schema: Schema
    x: Tensor
    """[ΣN, d]"""
    edge_index: Tensor
    """[2, ΣE] vertex numbers inside each edge's own graph, int64 or, to save memory, int32"""
    vertex_ptr: Tensor
    edge_ptr: Tensor
    positions: Tensor
    """[G] which stored graphs this dataset consists of, in order"""
    edge_type: Tensor | None = None
    y: Tensor | None = None
    """[stored graphs, …] or [ΣN, …], as `target_level` says"""
    target_level: str | None = None
    """"graph", "vertex" or None where there is no y"""
    target: Attribute | Schema | None = None
    """what y means: one typed target, or a schema of several"""
    splits: tuple[Fold, ...] = ()
    """published or drawn folds over the graphs of this dataset; a selection of graphs has none"""
    vertex_names: NDArray[Any] | None = None
    """[ΣN] what the vertices are called where they come from, to carry results back"""
    graph_names: NDArray[Any] | None = None
    """[stored graphs] the same for graphs"""

    def __len__(self) -> int:
        return len(self.positions)

    def __iter__(self) -> Iterator[Data]:
        return (self[i] for i in range(len(self)))

    @overload
    def __getitem__(self, index: int) -> Data: ...
    @overload
    def __getitem__(self, index: slice | Sequence[int] | Tensor) -> GraphDataset: ...
    def __getitem__(self, index: int | slice | Sequence[int] | Tensor) -> Data | GraphDataset:
        if isinstance(index, int):
            return self._graph(int(self.positions[index]))
        if isinstance(index, slice):
            return replace(self, positions=self.positions[index], splits=())
        return replace(self, positions=self.positions[torch.as_tensor(index)], splits=())

    def __repr__(self) -> str:
        vertices, edges = int(self.num_vertices_per_graph().sum()), int(self.num_edges_per_graph().sum())
        names = ", ".join(self.schema.names)
        return f"GraphDataset({len(self):,} graphs, {vertices:,} vertices, {edges:,} edges; attributes: {names})"

    def num_vertices_per_graph(self) -> Tensor:
        return self.vertex_ptr.diff()[self.positions]

    def num_edges_per_graph(self) -> Tensor:
        return self.edge_ptr.diff()[self.positions]

    def entries(self) -> Tensor:
        """[ΣN, d] the attributes of all vertices, graph after graph."""
        return self.x[_ranges(self.vertex_ptr, self.positions)[0]].double()

    def _graph(self, stored: int) -> Data:
        vertices = slice(int(self.vertex_ptr[stored]), int(self.vertex_ptr[stored + 1]))
        edges = slice(int(self.edge_ptr[stored]), int(self.edge_ptr[stored + 1]))
        data = Data(x=self.x[vertices], edge_index=self.edge_index[:, edges].long())
        if self.edge_type is not None:
            data.edge_type = self.edge_type[edges].long()
        if self.y is not None:
            data.y = self.y[vertices] if self.target_level == "vertex" else self.y[stored : stored + 1]
        return data

    def batch(self, graph_ids: Tensor) -> Batch:
        """The chosen graphs (numbers within this dataset) as one batch, assembled by slicing."""
        stored = self.positions[graph_ids]
        vertices, vertex_ptr = _ranges(self.vertex_ptr, stored)
        edges, edge_ptr = _ranges(self.edge_ptr, stored)
        offset = torch.repeat_interleave(vertex_ptr[:-1], edge_ptr.diff())
        source, target = self.edge_index[:, edges] + offset
        in_degree, max_in_degree = count_incoming(target, len(vertices))
        y = None
        if self.y is not None:
            y = self.y[vertices] if self.target_level == "vertex" else self.y[stored]
        return Batch(
            x=self.x[vertices].double(),
            source=source,
            target=target,
            in_degree=in_degree,
            max_in_degree=max_in_degree,
            vertex_ptr=vertex_ptr,
            graph_ids=graph_ids,
            edge_type=None if self.edge_type is None else self.edge_type[edges].long(),
            y=y,
        )

    def chunks(self, max_size: int) -> Iterator[Batch]:
        """All graphs in order, in batches of at most `max_size` vertices and edges (a larger graph stands alone)."""
        sizes = (self.num_vertices_per_graph() + self.num_edges_per_graph()).tolist()
        start, filled = 0, 0
        for graph, size in enumerate(sizes):
            if filled and filled + size > max_size:
                yield self.batch(torch.arange(start, graph))
                start, filled = graph, 0
            filled += size
        if start < len(sizes):
            yield self.batch(torch.arange(start, len(sizes)))

    def digest(self) -> str:
        """A fingerprint of the graphs' content, the same however they are stored or chunked."""
        parts = {name: hashlib.blake2b(digest_size=16) for name in ("x", "edges", "types", "sizes", "y")}
        for batch in self.chunks(1_000_000):
            _, number = batch.vertex_keys()
            parts["x"].update(batch.x.contiguous().numpy().tobytes())
            parts["edges"].update(torch.stack([number[batch.source], number[batch.target]], 1).numpy().tobytes())
            if batch.edge_type is not None:
                parts["types"].update(batch.edge_type.contiguous().numpy().tobytes())
            if batch.y is not None:
                parts["y"].update(batch.y.double().contiguous().numpy().tobytes())
        parts["sizes"].update(
            torch.stack([self.num_vertices_per_graph(), self.num_edges_per_graph()]).numpy().tobytes()
        )
        return "-".join(part.hexdigest() for part in parts.values())


def _ranges(ptr: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Positions of all rows of the chosen segments, and the segments' own pointer in that order."""
    sizes = ptr[chosen + 1] - ptr[chosen]
    own = torch.zeros(len(chosen) + 1, dtype=torch.long)
    torch.cumsum(sizes, 0, out=own[1:])
    rows = torch.arange(int(own[-1])) + torch.repeat_interleave(ptr[chosen] - own[:-1], sizes)
    return rows, own
