"""From `Data` objects to a packed, checked GraphDataset; and what people hand over as graphs, for type checkers.

Every check of a graph's form and values is made here, once, with the graph, vertex, attribute or edge in the message;
later code may rely on it.

Methods answer for one graph with one answer, for several with a list of them; `OneGraph` and `SeveralGraphs` are the
two that overloads tell apart. PyTorch Geometric ships no types, so to most type checkers a `Data` is anything at all,
also a list of graphs. One graph is therefore described by what it has and several do not.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch_geometric.data import Batch as PyGBatch
from torch_geometric.data import Data, HeteroData
from torch_geometric.data import Dataset as PyGDataset

from gspn.attributes import Schema
from gspn.errors import InputError
from gspn.graphs.assembly import arrange, first_outside, order_by_receiver
from gspn.graphs.dataset import GraphDataset


class OneGraph(Protocol):
    """A torch_geometric `Data`. Nothing else passes at run time; a PyG Batch is several graphs."""

    @property
    def x(self) -> Any: ...

    @property
    def edge_index(self) -> Any: ...

    def subgraph(self, subset: Any, /) -> Any: ...


SeveralGraphs: TypeAlias = Sequence[Data] | GraphDataset | PyGBatch | PyGDataset

Graphs: TypeAlias = OneGraph | SeveralGraphs


_log = logging.getLogger(__name__)

Numbers: TypeAlias = Tensor | NDArray[Any]


def is_single_graph(graphs: object) -> bool:
    """One `Data` is one graph; a PyG Batch is a sequence."""
    return isinstance(graphs, Data) and not isinstance(graphs, PyGBatch)


def pack(graphs: Graphs | Iterable[Data], schema: Schema) -> GraphDataset:
    """Graphs as a checked GraphDataset; a GraphDataset of the same schema is returned as it is."""
    if not isinstance(schema, Schema):
        raise InputError(f"schema must be a gspn.Schema, got {type(schema).__name__}")
    if isinstance(graphs, GraphDataset):
        if graphs.schema != schema:
            raise InputError(f"the dataset's schema differs from the asked one:\n{graphs.schema}\nasked:\n{schema}")
        if not len(graphs):
            raise InputError("the list of graphs is empty")
        return graphs
    listed = _listed(graphs)
    _tell_what_is_left(listed)
    xs = [_entries(graph, i, schema) for i, graph in enumerate(listed)]
    edges = [_edges(graph, i) for i, graph in enumerate(listed)]
    edge_type = _edge_types(listed, edges)
    vertex_ptr = torch.from_numpy(pointer([len(x) for x in xs]))
    y, target_level = _targets(listed, vertex_ptr)
    return packed(
        schema,
        torch.cat(xs),
        torch.cat(edges, dim=1),
        vertex_ptr,
        pointer([e.shape[1] for e in edges]),
        edge_type=edge_type,
        y=y,
        target_level=target_level,
    )


def packed(
    schema: Schema,
    x: Numbers,
    edge_index: Numbers,
    vertex_ptr: Numbers,
    edge_ptr: Numbers,
    *,
    edge_type: Numbers | None = None,
    y: Numbers | None = None,
    **others: Any,
) -> GraphDataset:
    """A checked GraphDataset from flat arrays: graph after graph, edges [2, ΣE] numbered inside their graphs.

    `vertex_ptr` and `edge_ptr` [G + 1] say which rows and edges belong to each graph; `others` are further fields of
    GraphDataset (target, names, …).
    """
    x, edge_index, vertex_ptr, edge_ptr = map(torch.as_tensor, (x, edge_index, vertex_ptr, edge_ptr))
    _check_values(x, vertex_ptr, schema)
    edge_index = edge_index.contiguous()
    _check_ranges(edge_index, vertex_ptr, edge_ptr)
    source, receiver = edge_index.numpy()
    row_ptr, order = torch.zeros(len(x) + 1, dtype=torch.long), torch.empty(len(source), dtype=torch.int32)
    in_order = order_by_receiver(receiver, vertex_ptr.numpy(), edge_ptr.numpy(), row_ptr.numpy(), order.numpy())

    def sorted_by_receiver(of_edges: Tensor, dtype: torch.dtype) -> Tensor:
        arranged = torch.empty(len(of_edges), dtype=dtype)
        arrange(of_edges.contiguous().numpy(), order.numpy(), edge_ptr.numpy(), arranged.numpy())
        return arranged

    return GraphDataset(
        schema=schema,
        x=x.contiguous(),
        source=sorted_by_receiver(edge_index[0], torch.int32),
        row_ptr=row_ptr,
        vertex_ptr=vertex_ptr,
        positions=torch.arange(len(vertex_ptr) - 1),
        edge_order=None if in_order else order,
        edge_type=None if edge_type is None else sorted_by_receiver(kinds := torch.as_tensor(edge_type), kinds.dtype),
        y=None if y is None else torch.as_tensor(y),
        **others,
    )


def assemble(
    schema: Schema,
    x: NDArray[Any],
    source: NDArray[Any],
    receiver: NDArray[Any],
    graph: NDArray[Any],
    num_graphs: int,
    *,
    edge_type: NDArray[Any] | None = None,
    y: NDArray[Any] | None = None,
    target_level: str | None = None,
    names: NDArray[Any] | None = None,
    **others: Any,
) -> GraphDataset:
    """A packed dataset from flat arrays in any order: vertices numbered by row, edges inside one graph each."""
    order = np.argsort(graph, kind="stable")
    vertex_ptr = pointer(np.bincount(graph, minlength=num_graphs))
    number = np.empty(len(graph), dtype=np.int64)
    number[order] = np.arange(len(graph))
    number -= vertex_ptr[graph]
    edge_graph = graph[source]
    edge_order = np.argsort(edge_graph, kind="stable")
    return packed(
        schema,
        x[order],
        np.stack([number[source], number[receiver]])[:, edge_order],
        vertex_ptr,
        pointer(np.bincount(edge_graph, minlength=num_graphs)),
        edge_type=None if edge_type is None else edge_type[edge_order],
        y=None if y is None else y[order] if target_level == "vertex" else np.array(y),
        target_level=target_level,
        vertex_names=None if names is None else names[order],
        **others,
    )


def pointer(sizes: ArrayLike) -> NDArray[np.int64]:
    """Where each of several consecutive stretches begins, and where the last one ends."""
    return np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))


def _listed(graphs: Any) -> list[Data]:
    if isinstance(graphs, HeteroData):
        raise InputError("heterogeneous graphs are not supported; `HeteroData.to_homogeneous()` gives a `Data`")
    listed: list[Data]
    if is_single_graph(graphs):
        listed = [graphs]
    elif isinstance(graphs, PyGBatch):
        listed = graphs.to_data_list()
    elif isinstance(graphs, Iterable) and not isinstance(graphs, str | bytes | dict | Tensor):
        listed = list(graphs)
    else:
        raise InputError(f"graphs must be a Data, a sequence of Data or a GraphDataset, got {type(graphs).__name__}")
    if not listed:
        raise InputError("the list of graphs is empty")
    for i, graph in enumerate(listed):
        if isinstance(graph, HeteroData):
            raise InputError(f"graph {i} is heterogeneous; `HeteroData.to_homogeneous()` gives a `Data`")
        if not isinstance(graph, Data):
            raise InputError(f"graph {i} must be a torch_geometric Data, got {type(graph).__name__}")
    return listed


def _tell_what_is_left(graphs: list[Data]) -> None:
    """Say once what the graphs carry that a model does not look at; edges, above all, have a type and nothing else."""
    left = sorted({str(key) for graph in graphs for key in graph.keys()} - {"x", "edge_index", "edge_type", "y"})  # noqa: SIM118
    if left:
        _log.warning("not used, and not kept: %s (of edges, only an integer edge_type is)", ", ".join(left))


def _entries(graph: Data, i: int, schema: Schema) -> Tensor:
    x = graph.x
    if not isinstance(x, Tensor):
        raise InputError(f"graph {i} has no tensor `x` of vertex attributes")
    if x.dim() != 2 or x.shape[1] != len(schema):
        wanted = f"{len(schema)} columns ({', '.join(schema.names)})"
        raise InputError(f"graph {i}: x has shape {tuple(x.shape)}, the schema asks for {wanted}")
    if x.is_complex():
        raise InputError(f"graph {i}: x has dtype {x.dtype}, a real one is needed")
    x = x.detach().cpu()
    # Integers up to 2⁵³ are exact in float64; half precision would round codes, so it is widened as well.
    return x if x.dtype in (torch.float32, torch.float64) else x.double()


def _edges(graph: Data, i: int) -> Tensor:
    edges = graph.edge_index
    if edges is None:
        return torch.empty(2, 0, dtype=torch.long)
    if not isinstance(edges, Tensor) or edges.dim() != 2 or edges.shape[0] != 2:
        found = tuple(edges.shape) if isinstance(edges, Tensor) else type(edges).__name__
        raise InputError(f"graph {i}: edge_index must have shape [2, E], got {found}")
    if edges.numel() and (edges.is_floating_point() or edges.is_complex() or edges.dtype == torch.bool):
        raise InputError(f"graph {i}: edge_index must hold integers, got {edges.dtype}")
    return edges.detach().cpu().long()


def _edge_types(graphs: list[Data], edges: list[Tensor]) -> Tensor | None:
    given = [graph.get("edge_type") for graph in graphs]
    if all(types is None for types in given):
        return None
    for i, (types, own_edges) in enumerate(zip(given, edges, strict=True)):
        if types is None and own_edges.shape[1]:
            raise InputError(f"graph {i} has no edge_type, but other graphs do; give it to all or to none")
        if types is None:
            continue
        if not isinstance(types, Tensor) or types.shape != own_edges.shape[1:]:
            found = tuple(types.shape) if isinstance(types, Tensor) else type(types).__name__
            raise InputError(f"graph {i}: edge_type must have shape [{own_edges.shape[1]}], got {found}")
        if types.numel() and (types.is_floating_point() or types.is_complex() or types.dtype == torch.bool):
            raise InputError(f"graph {i}: edge_type must hold integers, got {types.dtype}")
        if types.numel() and int(types.min()) < 0:
            where = int((types < 0).nonzero()[0])
            raise InputError(f"graph {i}, edge {where}: edge type {int(types[where])} is negative")
    return torch.cat([types.detach().cpu().long() for types in given if types is not None])


def _check_values(x: Tensor, vertex_ptr: Tensor, schema: Schema) -> None:
    fault = schema.find_fault(x.numpy())
    if fault is not None:
        row, column, reason = fault
        raise InputError(f"{name_vertex(row, vertex_ptr)}, attribute '{schema[column].name}': {reason}")


def name_vertex(row: int, vertex_ptr: Tensor) -> str:
    """ "graph g, vertex v" for a row of the flat array."""
    graph = int(torch.searchsorted(vertex_ptr, row, right=True)) - 1
    return f"graph {graph}, vertex {row - int(vertex_ptr[graph])}"


def _check_ranges(edge_index: Tensor, vertex_ptr: Tensor, edge_ptr: Tensor) -> None:
    source, receiver = edge_index.numpy()
    edge = first_outside(source, receiver, vertex_ptr.numpy(), edge_ptr.numpy())
    if edge >= 0:
        graph = int(torch.searchsorted(edge_ptr, edge, right=True)) - 1
        raise InputError(
            f"graph {graph}, edge {edge - int(edge_ptr[graph])}: edge index ({source[edge]}, {receiver[edge]}) is out "
            f"of range, the graph has {int(vertex_ptr[graph + 1] - vertex_ptr[graph])} vertices"
        )


def _targets(graphs: list[Data], vertex_ptr: Tensor) -> tuple[Tensor | None, str | None]:
    given = [graph.get("y") for graph in graphs]
    if all(y is None for y in given):
        return None, None
    for i, y in enumerate(given):
        if not isinstance(y, Tensor):
            raise InputError(f"graph {i}: y must be a tensor where other graphs have one (NaN for a missing target)")
        if y.is_floating_point() and bool(torch.isinf(y).any()):
            raise InputError(f"graph {i}: y is infinite; a missing target is NaN")
    ys = [y.detach().cpu().reshape(-1, *y.shape[1:]) for y in given]
    if len({tuple(y.shape[1:]) for y in ys}) > 1:
        raise InputError(f"y has different numbers of targets: {sorted({tuple(y.shape[1:]) for y in ys})}")
    rows = torch.tensor([len(y) for y in ys])
    if bool((rows == 1).all()):
        return torch.cat(ys), "graph"
    if bool((rows == vertex_ptr.diff()).all()):
        return torch.cat(ys), "vertex"
    neither = (rows != 1) & (rows != vertex_ptr.diff())
    wrong = int((neither if neither.any() else rows != vertex_ptr.diff()).nonzero()[0])
    raise InputError(
        f"y must have one row per graph or one row per vertex in all graphs; graph {wrong} has {int(rows[wrong])} rows "
        f"and {int(vertex_ptr.diff()[wrong])} vertices"
    )
