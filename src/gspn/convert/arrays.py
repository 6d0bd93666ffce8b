"""Graphs from and to plain numpy arrays.

Here belong vertices and edges as flat arrays, numbered through all graphs: what other ways
out begin with. Values and edge indices are checked by `graphs.pack`; tables and NetworkX have their own modules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray

from gspn.attributes import Attribute, Schema
from gspn.columns import shorten, tensor_to_array
from gspn.convert.values import encode_target, encode_vertices, name_array
from gspn.errors import InputError
from gspn.graphs.dataset import GraphDataset
from gspn.graphs.pack import assemble, pointer


def from_arrays(
    x: Any,
    edges: Any = None,
    schema: Schema | None = None,
    *,
    graph: Any = None,
    num_graphs: int | None = None,
    edge_type: Any = None,
    y: Any = None,
    target: Attribute | Schema | None = None,
    target_level: str | None = None,
    names: Any = None,
    graph_names: Any = None,
    overrides: Mapping[str, Attribute | str] | None = None,
) -> GraphDataset:
    """Graphs from arrays (or tensors) over all vertices and edges.

    x: numbers [N, d] as the schema encodes them (categories as codes, NaN = missing), or raw values as a mapping of
        attribute names to columns, a DataFrame or an array with fields. Without a schema one is inferred.
    edges: [2, E] or [E, 2] (2 by 2 is read as [2, E]), vertices numbered through all graphs. Every edge is one edge
        from source to target, as in an `edge_index`: an undirected one is given both ways.
    graph: [N] the graph's number, 0 … G-1, of every vertex; without it there is one graph. The vertices of a graph need
        not stand together; they keep their order. A number without a vertex is refused, unless `num_graphs` says that
        there are so many graphs.
    edge_type: [E] codes 0, 1, ….
    y: [G] or [G, T] graph targets, [N] or [N, T] vertex targets; where both would fit, `target_level` decides and
        "graph" is assumed. Numbers are taken as encoded, other values are encoded by `target` (inferred if not given).
    names, graph_names: names of vertices [N] and graphs [G].
    """
    place = "vertex {}".format
    if isinstance(x, Mapping) or hasattr(x, "columns") or getattr(getattr(x, "dtype", None), "names", None):
        columns = {name: x[name] for name in (x if isinstance(x, Mapping) else getattr(x, "columns", x.dtype.names))}
        schema, encoded = encode_vertices(columns, schema, overrides, "x", place)
    else:
        schema, encoded = _read_entries(x, schema, overrides)
    size = len(encoded)
    group, num_graphs = _read_graphs(graph, size, num_graphs)
    source, receiver = _read_edges(edges, size)
    crossing = np.flatnonzero(group[source] != group[receiver])
    if len(crossing):
        edge = crossing[0]
        raise InputError(
            f"edge {edge} joins vertex {source[edge]} of graph {group[source[edge]]} and vertex {receiver[edge]} of "
            f"graph {group[receiver[edge]]}; an edge stays inside one graph"
        )
    targets, target, target_level = _read_targets(y, target, target_level, size, num_graphs)
    return assemble(
        schema,
        encoded,
        source,
        receiver,
        group,
        num_graphs,
        edge_type=_read_edge_types(edge_type, len(source)),
        y=targets,
        target=target,
        target_level=target_level,
        names=_read_names(names, "names", size, "vertex"),
        graph_names=_read_names(graph_names, "graph_names", num_graphs, "graph"),
    )


class Arrays(TypedDict):
    """A dataset as `to_arrays` gives it."""

    x: NDArray[Any]
    edges: NDArray[Any]
    graph: NDArray[Any]
    num_graphs: int
    edge_type: NotRequired[NDArray[Any]]
    y: NotRequired[NDArray[Any]]
    names: NotRequired[NDArray[Any]]
    graph_names: NotRequired[NDArray[Any]]


def to_arrays(dataset: GraphDataset) -> Arrays:
    """The dataset as numpy arrays, under the names that `from_arrays` gives them.

    There are x [N, d], edges [2, E] with vertices numbered through all graphs, graph [N] and the number num_graphs,
    and where the dataset has them edge_type, y, names, graph_names. `from_arrays(**to_arrays(dataset),
    schema=dataset.schema, target=dataset.target, target_level=dataset.target_level)` gives the dataset back.
    """
    vertices = dataset.vertex_rows().numpy()
    graph, number = (keys.numpy() for keys in dataset.vertex_keys())
    row_ptr = dataset.row_ptr.numpy()
    in_degree = np.diff(row_ptr)[vertices]
    receiver = np.repeat(np.arange(len(vertices)), in_degree)
    edge_rows = np.arange(len(receiver)) + (row_ptr[vertices] - pointer(in_degree)[:-1])[receiver]
    ends = np.stack([dataset.source.numpy()[edge_rows] + (receiver - number[receiver]), receiver])
    given: NDArray[Any] = np.arange(len(edge_rows))
    if dataset.edge_order is not None:
        num_edges = dataset.num_edges_per_graph().numpy()
        given = np.argsort(dataset.edge_order.numpy()[edge_rows] + np.repeat(pointer(num_edges)[:-1], num_edges))
    arrays: Arrays = {
        "x": dataset.x.numpy()[vertices],
        "edges": ends[:, given],
        "graph": graph,
        "num_graphs": len(dataset),
    }
    if dataset.edge_type is not None:
        arrays["edge_type"] = dataset.edge_type.numpy()[edge_rows][given]
    if dataset.y is not None:
        of_vertices = dataset.target_level == "vertex"
        arrays["y"] = dataset.y.numpy()[vertices if of_vertices else dataset.positions.numpy()]
    if dataset.vertex_names is not None:
        arrays["names"] = dataset.vertex_names[vertices]
    if dataset.graph_names is not None:
        arrays["graph_names"] = dataset.graph_names[dataset.positions.numpy()]
    return arrays


def _read_entries(
    x: Any, schema: Schema | None, overrides: Mapping[str, Attribute | str] | None
) -> tuple[Schema, NDArray[Any]]:
    if schema is not None and overrides is not None:
        raise InputError("overrides change an inferred schema, but a schema is given; pass one of them")
    if schema is not None and not isinstance(schema, Schema):
        raise InputError(f"schema must be a gspn.Schema, got {type(schema).__name__}")
    array = tensor_to_array(x) if hasattr(x, "detach") else np.asarray(x)
    if array.dtype.kind not in "biuf":
        raise InputError(
            f"x must hold encoded numbers, got type {array.dtype}; raw values come as a mapping of names to columns"
        )
    if array.ndim != 2 or (schema is not None and array.shape[1] != len(schema)):
        wanted = "d" if schema is None else f"{len(schema)} ({', '.join(schema.names)})"
        raise InputError(f"x must have shape [N, {wanted}], got {list(array.shape)}")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    # A tensor's integers are taken for codes, and so are these: x holds what a model reads.
    return schema or Schema.infer(torch.tensor(array), overrides), array


def _read_graphs(graph: Any, size: int, num_graphs: int | None) -> tuple[NDArray[np.int64], int]:
    if graph is None:
        group = np.zeros(size, dtype=np.int64)
        found = 1
    else:
        array = _numbers(graph, "graph", "iu")
        if array.shape != (size,):
            raise InputError(f"graph must have one number per vertex, shape [{size}], got {list(array.shape)}")
        group = array.astype(np.int64)
        if size and group.min() < 0:
            raise InputError(f"vertex {int(group.argmin())}: graph number {int(group.min())} is negative")
        found = int(group.max()) + 1 if size else 0
    if num_graphs is None:
        num_graphs = found
        unused = np.flatnonzero(np.bincount(group, minlength=found) == 0)
        if graph is not None and len(unused):
            raise InputError(
                f"graph {unused[0]} has no vertex, but numbers go up to {found - 1}; number graphs 0, 1, …, or pass "
                "num_graphs if some are empty"
            )
    if found > num_graphs:
        raise InputError(f"num_graphs is {num_graphs}, but graph numbers go up to {found - 1}")
    if num_graphs == 0:
        raise InputError("there are no vertices, so there is no graph")
    return group, num_graphs


def _read_edges(edges: Any, size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    array = np.zeros((2, 0)) if edges is None else _numbers(edges, "edges", "iu")
    if array.ndim == 2 and array.shape[0] != 2:
        array = array.T
    if array.size == 0:
        array = np.zeros((2, 0))
    if array.ndim != 2 or array.shape[0] != 2:
        raise InputError(f"edges must have shape [2, E] or [E, 2], got {list(np.shape(edges))}")
    array = array.astype(np.int64)
    outside = np.flatnonzero(((array < 0) | (array >= size)).any(axis=0))
    if len(outside):
        source, receiver = array[:, outside[0]].tolist()
        raise InputError(
            f"edge {outside[0]}: edge index ({source}, {receiver}) is out of range, there are {size} vertices"
        )
    return array[0], array[1]


def _read_edge_types(edge_type: Any, num_edges: int) -> NDArray[np.int64] | None:
    if edge_type is None:
        return None
    array = _numbers(edge_type, "edge_type", "iu")
    if array.shape != (num_edges,):
        raise InputError(f"edge_type must have shape [{num_edges}], one code an edge, got {list(array.shape)}")
    codes = array.astype(np.int64)
    if num_edges and codes.min() < 0:
        raise InputError(f"edge {int(codes.argmin())}: edge type {int(codes.min())} is negative")
    return codes


def _read_targets(
    y: Any, target: Attribute | Schema | None, level: str | None, size: int, num_graphs: int
) -> tuple[NDArray[Any] | None, Attribute | Schema | None, str | None]:
    if level not in (None, "graph", "vertex"):
        raise InputError(f"target_level must be 'graph' or 'vertex', got {level!r}")
    if y is None:
        if target is not None or level is not None:
            raise InputError("a target is described, but there is no y")
        return None, None, None
    array = tensor_to_array(y) if hasattr(y, "detach") else np.asarray(y)
    fits = {"graph": num_graphs, "vertex": size}
    if level is None:
        level = next((level for level, rows in fits.items() if array.shape[:1] == (rows,)), None)
    if level is None or array.ndim not in (1, 2) or len(array) != fits[level]:
        raise InputError(
            f"y must have one row per graph ({num_graphs}) or one row per vertex ({size}), "
            f"got shape {list(array.shape)}"
        )
    if array.dtype.kind not in "biuf":
        columns = {"y": array} if array.ndim == 1 else {f"y{i}": column for i, column in enumerate(array.T)}
        if isinstance(target, Schema) and len(target) == len(columns):
            columns = dict(zip(target.names, columns.values(), strict=True))
        array, target = encode_target(columns, target, array.ndim == 1, "y", (level + " {}").format)
    elif target is not None:
        _check_targets(array, target, level)
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64 if array.dtype.kind == "f" else np.int64)
    return array, target, level


def _check_targets(y: NDArray[Any], target: Attribute | Schema, level: str) -> None:
    attributes = tuple(target) if isinstance(target, Schema) else (target,)
    columns = [y] if y.ndim == 1 else list(y.T)
    if len(columns) != len(attributes) or (y.ndim == 2) != isinstance(target, Schema):
        raise InputError(f"y has shape {list(y.shape)}, which does not fit {shorten(target)}")
    for attribute, column in zip(attributes, columns, strict=True):
        if (fault := attribute.find_fault(column)) is not None:
            raise InputError(f"{level} {fault[0]}, target {attribute.name!r}: {fault[1]}")


def _read_names(names: Any, what: str, count: int, of: str) -> NDArray[Any] | None:
    if names is None:
        return None
    listed = names.tolist() if hasattr(names, "tolist") else list(names)
    if len(listed) != count:
        raise InputError(f"{what} must have one name a {of}, {count}, got {len(listed)}")
    return name_array(listed)


def _numbers(values: Any, what: str, kinds: str = "biuf") -> NDArray[Any]:
    """An array or tensor of numbers whose type is of one of the kinds; an empty one may be of any."""
    array = tensor_to_array(values) if hasattr(values, "detach") else np.asarray(values)
    if array.size and array.dtype.kind not in kinds:
        wanted = "whole numbers" if "f" not in kinds else "numbers"
        raise InputError(f"{what} must hold {wanted}, got type {array.dtype}")
    return array
