"""GraphDataset: all graphs of a collection as flat arrays, without a Python object per graph.

Slicing batches and single graphs out of the arrays belongs here; turning `Data` objects into arrays, and checking them,
belongs to `pack`.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, SupportsIndex, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from gspn.attributes import Attribute, Schema
from gspn.graphs.assembly import copy_graphs, measure
from gspn.graphs.batch import Batch
from gspn.graphs.splits import Fold


@dataclass(frozen=True, eq=False)
class GraphDataset:
    """Graphs one after another in flat arrays; `positions` selects and orders them without copying."""

    schema: Schema
    x: Tensor
    """[ΣN, d] entries, float32 or float64; NaN where missing, or withheld"""
    source: Tensor
    """[ΣE] int32, the vertex that sends along each edge, numbered inside its graph; sorted by the receiving vertex"""
    row_ptr: Tensor
    """[ΣN + 1] vertex v (numbered through all graphs) receives along the edges row_ptr[v] … row_ptr[v + 1] - 1"""
    vertex_ptr: Tensor
    """[stored graphs + 1] a graph owns the vertices vertex_ptr[g] … vertex_ptr[g + 1] - 1"""
    positions: Tensor
    """[G] which stored graphs this dataset consists of, in order"""
    edge_order: Tensor | None = None
    """[ΣE] int32, the place of each edge among its graph's edges as they were given; None for this very order"""
    edge_type: Tensor | None = None
    """[ΣE] in the order of `source`"""
    edge_types: tuple[Any, ...] | None = None
    """what the edge types are called, by code, where they have names"""
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
    withheld: Tensor | None = None
    """[ΣN, d] True where an entry is known but left out of `x`, to judge by: it is no gap in the data"""

    def __len__(self) -> int:
        return len(self.positions)

    def __iter__(self) -> Iterator[Data]:
        return (self[i] for i in range(len(self)))

    @overload
    def __getitem__(self, index: int) -> Data: ...
    @overload
    def __getitem__(self, index: slice | Sequence[int] | Tensor) -> GraphDataset: ...
    def __getitem__(self, index: int | slice | Sequence[int] | Tensor) -> Data | GraphDataset:
        if isinstance(index, slice):
            chosen = torch.tensor(range(len(self))[index], dtype=torch.long)
            return replace(self, positions=self.positions[chosen], splits=())
        several = isinstance(index, Tensor | np.ndarray) and index.ndim > 0
        if isinstance(index, SupportsIndex) and not several:
            return self._graph(int(self.positions[operator.index(index)]))
        if not isinstance(index, Sequence | Tensor | np.ndarray):
            raise TypeError(f"graphs are chosen by integers, slices or sequences of integers, not by {index!r}")
        numbers = torch.as_tensor(index)
        # An empty list has no dtype of its own.
        return replace(self, positions=self.positions[numbers if len(numbers) else numbers.long()], splits=())

    def __repr__(self) -> str:
        vertices, edges = int(self.num_vertices_per_graph().sum()), int(self.num_edges_per_graph().sum())
        names = ", ".join(self.schema.names)
        return f"GraphDataset({len(self):,} graphs, {vertices:,} vertices, {edges:,} edges; attributes: {names})"

    def num_vertices_per_graph(self) -> Tensor:
        return self.vertex_ptr.diff()[self.positions]

    def num_edges_per_graph(self) -> Tensor:
        return self.row_ptr[self.vertex_ptr].diff()[self.positions]

    def entries(self) -> Tensor:
        """[ΣN, d] the attributes of all vertices, graph after graph."""
        return self.x[self.vertex_rows()].double()

    def missing(self) -> Tensor:
        """[ΣN, d] True where an entry is a gap in the data, graph after graph; not where it is withheld."""
        rows = self.vertex_rows()
        unknown = self.x[rows].isnan()
        return unknown if self.withheld is None else unknown & ~self.withheld[rows]

    def vertex_rows(self) -> Tensor:
        """[ΣN] the stored row of every vertex of this dataset, graph after graph."""
        return _rows(self.vertex_ptr, self.positions)

    def vertex_keys(self) -> tuple[Tensor, Tensor]:
        """[ΣN] graph number, and vertex number inside the graph, of every vertex."""
        sizes = self.num_vertices_per_graph()
        graph = torch.repeat_interleave(torch.arange(len(self)), sizes)
        return graph, torch.arange(len(graph)) - torch.repeat_interleave(sizes.cumsum(0) - sizes, sizes)

    def _graph(self, stored: int) -> Data:
        start, end = int(self.vertex_ptr[stored]), int(self.vertex_ptr[stored + 1])
        rows = self.row_ptr[start : end + 1]
        edges = slice(int(rows[0]), int(rows[-1]))
        target = torch.repeat_interleave(torch.arange(end - start), rows.diff())
        given = _as_given(self.edge_order, edges)
        # Copies: what a user does to one graph must not reach the dataset.
        data = Data(x=self.x[start:end].clone(), edge_index=torch.stack([self.source[edges].long(), target])[:, given])
        if self.edge_type is not None:
            data.edge_type = self.edge_type[edges].long()[given]
        if self.y is not None:
            data.y = (self.y[start:end] if self.target_level == "vertex" else self.y[stored : stored + 1]).clone()
        return data

    def batch(self, graph_ids: Tensor) -> Batch:
        """The chosen graphs (numbers within this dataset) as one batch, copied by compiled code."""
        stored = self.positions[graph_ids]
        chosen, vertex_ptr, row_ptr = stored.numpy(), self.vertex_ptr.numpy(), self.row_ptr.numpy()
        own_ptr = torch.empty(len(chosen) + 1, dtype=torch.long)
        num_edges = measure(chosen, vertex_ptr, row_ptr, own_ptr.numpy())
        num_vertices = int(own_ptr[-1])
        source = torch.empty(num_edges, dtype=torch.int32)
        own_row_ptr = torch.empty(num_vertices + 1, dtype=torch.long)
        x = torch.empty(num_vertices, self.x.shape[1], dtype=torch.float64)
        stored_arrays = chosen, vertex_ptr, row_ptr, self.source.numpy(), self.x.numpy()
        max_in_degree = copy_graphs(*stored_arrays, source.numpy(), own_row_ptr.numpy(), x.numpy())
        edge_type = y = missing = None
        if self.edge_type is not None:
            edge_type = self.edge_type[_rows(self.row_ptr[self.vertex_ptr], stored)].long()
        if self.y is not None:
            y = self.y[_rows(self.vertex_ptr, stored)] if self.target_level == "vertex" else self.y[stored]
        if self.withheld is not None:
            missing = x.isnan() & ~self.withheld[_rows(self.vertex_ptr, stored)]
        return Batch(
            x=x,
            source=source,
            row_ptr=own_row_ptr,
            max_in_degree=max_in_degree,
            vertex_ptr=own_ptr,
            graph_ids=graph_ids,
            edge_type=edge_type,
            missing=missing,
            y=y,
        )

    def with_targets(self, y: Tensor, target_level: str) -> GraphDataset:
        """The same graphs with other targets: one row per graph of this dataset, or one row per vertex."""
        rows = self.vertex_rows() if target_level == "vertex" else self.positions
        if len(rows.unique()) < len(rows):
            # A graph that occurs twice may have two labels, so nothing can be stored by its position.
            raise ValueError("graphs that occur more than once cannot be given targets of their own")
        stored = len(self.x) if target_level == "vertex" else len(self.vertex_ptr) - 1
        table = torch.full((stored, *y.shape[1:]), torch.nan, dtype=torch.float64)
        table[rows] = y.double()
        return replace(self, y=table, target_level=target_level)

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
            parts["x"].update(batch.x.numpy().tobytes())
            parts["edges"].update(number[batch.source.long()].numpy().tobytes())
            parts["sizes"].update(batch.in_degree.numpy().tobytes())
            if batch.edge_type is not None:
                parts["types"].update(batch.edge_type.numpy().tobytes())
            if batch.y is not None:
                parts["y"].update(batch.y.double().contiguous().numpy().tobytes())
        if self.y is not None:
            parts["y"].update(f"{self.target_level} {list(self.y.shape[1:])}".encode())
        parts["sizes"].update(self.num_vertices_per_graph().numpy().tobytes())
        return "-".join(part.hexdigest() for part in parts.values())


def _rows(ptr: Tensor, chosen: Tensor) -> Tensor:
    """Positions of all rows of the chosen segments, one segment after the other."""
    sizes = ptr[chosen + 1] - ptr[chosen]
    start = torch.repeat_interleave(ptr[chosen] - (sizes.cumsum(0) - sizes), sizes)
    return start + torch.arange(len(start))


def _as_given(edge_order: Tensor | None, edges: slice) -> Tensor | slice:
    """What turns a graph's sorted edges back into the order in which they were given."""
    return slice(None) if edge_order is None else torch.argsort(edge_order[edges])
