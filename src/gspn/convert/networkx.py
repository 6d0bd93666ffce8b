"""Graphs from and to NetworkX.

Here belong the four classes of NetworkX graphs, their attributes of vertices, edges and graphs, and names of any
hashable kind. How attributes are typed and encoded is in `values`, what undirected edges become in `edges`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from gspn.attributes import Attribute, Schema
from gspn.columns import is_missing, shorten
from gspn.convert.arrays import to_arrays
from gspn.convert.edges import both_directions, pair_up
from gspn.convert.foreign import MultiDiGraph, MultiGraph
from gspn.convert.values import encode_edge_types, encode_target, encode_vertices, name_array, target_columns
from gspn.errors import InputError, MissingExtraError
from gspn.graphs.dataset import GraphDataset
from gspn.graphs.pack import assemble, pointer

_log = logging.getLogger(__name__)


def from_networkx(
    graphs: Any,
    schema: Schema | None = None,
    *,
    edge_type: str | None = None,
    edge_types: Sequence[Any] | None = None,
    y: str | Sequence[str] | None = None,
    target: Attribute | Schema | None = None,
    ignore: str | Sequence[str] = (),
    overrides: Mapping[str, Attribute | str] | None = None,
) -> GraphDataset:
    """One NetworkX graph or several, directed and undirected ones mixed as they come.

    An edge of an undirected graph is stored in both directions, a self-loop once; parallel edges of multigraphs are
    kept. A vertex without an attribute has a missing entry. Vertices keep their names, and so do graphs if all have the
    attribute "name".

    graphs: a NetworkX graph, or several.
    schema: the attributes of vertices, which must include all that occur; None infers them.
    edge_type: the edges' attribute with their type.
    edge_types: its values in the order of codes; None sorts them, and the log shows the order.
    y: targets, by name: attributes of the graphs, or else of the vertices; absent ones are missing.
    target: what y means, an attribute or for several targets a schema; inferred if not given.
    ignore: attributes of vertices and edges to leave out; other attributes of edges than their type must be named.
    overrides: attributes or kinds by name, in an inferred schema.
    """
    listed = _listed(graphs)
    ignored = {ignore} if isinstance(ignore, str) else set(ignore)
    asked = () if y is None else (y,) if isinstance(y, str) else tuple(y)
    if target is not None and y is None:
        raise InputError("a target is described, but there are no targets: pass y")
    if edge_types is not None and edge_type is None:
        raise InputError("edge_types is given, but no attribute: pass edge_type with its name")
    names = [name for graph in listed for name in graph]
    group = np.repeat(np.arange(len(listed)), [len(graph) for graph in listed])

    def place(row: int) -> str:
        return f"graph {group[row]}, vertex {shorten(names[row])}"

    level, values, kind = _targets(listed, asked, target, isinstance(y, str), place)
    left_out = ignored.union(asked) if level == "vertex" else ignored
    columns = _columns([data for graph in listed for _, data in graph.nodes(data=True)], schema, left_out)
    schema, x = encode_vertices(columns, schema, overrides, "graphs", place)
    source, receiver, codes, types = _edges(listed, edge_type, edge_types, ignored)
    titles = [graph.graph.get("name") for graph in listed]
    return assemble(
        schema,
        x,
        source,
        receiver,
        group,
        len(listed),
        edge_type=codes,
        edge_types=types,
        y=values,
        target_level=level,
        target=kind,
        names=name_array(names),
        graph_names=None if any(title is None for title in titles) else name_array(titles),
    )


@overload
def to_networkx(
    dataset: GraphDataset,
    *,
    undirected: Literal[False] = False,
    edge_type: str = "edge_type",
    edge_types: Sequence[Any] | None = None,
    y: str | Sequence[str] | None = None,
) -> list[MultiDiGraph]: ...
@overload
def to_networkx(
    dataset: GraphDataset,
    *,
    undirected: Literal[True],
    edge_type: str = "edge_type",
    edge_types: Sequence[Any] | None = None,
    y: str | Sequence[str] | None = None,
) -> list[MultiGraph]: ...
@overload
def to_networkx(
    dataset: GraphDataset,
    *,
    undirected: bool,
    edge_type: str = "edge_type",
    edge_types: Sequence[Any] | None = None,
    y: str | Sequence[str] | None = None,
) -> list[MultiDiGraph] | list[MultiGraph]: ...
def to_networkx(
    dataset: GraphDataset,
    *,
    undirected: bool = False,
    edge_type: str = "edge_type",
    edge_types: Sequence[Any] | None = None,
    y: str | Sequence[str] | None = None,
) -> list[MultiDiGraph] | list[MultiGraph]:
    """One `networkx.MultiDiGraph` for each graph, whatever its edges, so that parallel edges and directions are kept.

    With `undirected=True` they are `networkx.MultiGraph`s in which opposite edges of a type are one edge; an edge
    without a counterpart is an error. Attributes are people's values and absent where missing; edge types are codes, or
    the names that `edge_types` gives them; targets are attributes of the graphs or vertices, called after the target or
    as `y` says. Vertices without names are called by their number; a graph's name is its attribute "name".
    """
    networkx = _import_networkx()
    arrays = to_arrays(dataset)
    first = pointer(dataset.num_vertices_per_graph().numpy())
    names = arrays.get("names", dataset.vertex_keys()[1].numpy()).tolist()
    ends, types = _written_edges(arrays, names, undirected, dataset.edge_types if edge_types is None else edge_types)
    of_graphs, of_vertices = _written_values(dataset, arrays, y)
    edges_until = np.searchsorted(arrays["graph"][ends[0]], np.arange(len(dataset) + 1))
    made: list[Any] = []
    for position in range(len(dataset)):
        graph = networkx.MultiGraph() if undirected else networkx.MultiDiGraph()
        graph.graph.update(_present(of_graphs, position))
        for vertex in range(first[position], first[position + 1]):
            if names[vertex] in graph:
                raise InputError(
                    f"two vertices of graph {position} are called {shorten(names[vertex])}; rename with "
                    "dataclasses.replace(dataset, vertex_names=…), None for numbers"
                )
            graph.add_nodes_from([(names[vertex], _present(of_vertices, vertex))])
        own = slice(edges_until[position], edges_until[position + 1])
        data = [{}] * int(own.stop - own.start) if types is None else [{edge_type: value} for value in types[own]]
        pairs = zip(ends[0, own].tolist(), ends[1, own].tolist(), data, strict=True)
        graph.add_edges_from((names[u], names[v], attributes) for u, v, attributes in pairs)
        made.append(graph)
    return made


def _import_networkx() -> Any:
    try:
        import networkx
    except ImportError as error:
        raise MissingExtraError("networkx, which comes with torch, is not installed: pip install networkx") from error
    return networkx


def _listed(graphs: Any) -> list[Any]:
    networkx = _import_networkx()
    if isinstance(graphs, networkx.Graph):  # the three other classes are derived from this one
        return [graphs]
    if not isinstance(graphs, Iterable) or isinstance(graphs, (str, bytes, Mapping)):
        raise InputError(f"expected a NetworkX graph or a list of them, got {shorten(graphs)}")
    listed = list(graphs)
    if not listed:
        raise InputError("the list of graphs is empty")
    for position, graph in enumerate(listed):
        if not isinstance(graph, networkx.Graph):
            raise InputError(f"graph {position} must be a NetworkX graph, got {type(graph).__name__}")
    return listed


def _columns(vertices: list[Any], schema: Schema | None, left_out: set[str]) -> dict[str, list[Any]]:
    """Attributes as columns, None where a vertex has none; attributes of the schema are there in any case."""
    names = dict.fromkeys(schema.names if isinstance(schema, Schema) else ())
    names |= dict.fromkeys(name for data in vertices for name in data if name not in left_out)
    return {name: [data.get(name) for data in vertices] for name in names}


def _targets(
    graphs: list[Any], asked: Sequence[str], target: Attribute | Schema | None, single: bool, place: Any
) -> tuple[str | None, NDArray[np.float64] | None, Attribute | Schema | None]:
    if not asked:
        return None, None, None
    holders = {
        "graph": [graph.graph for graph in graphs],
        "vertex": [data for graph in graphs for _, data in graph.nodes(data=True)],
    }
    found = {level: {name for data in holders[level] for name in asked if name in data} for level in holders}
    for name in asked:
        if name not in found["graph"] | found["vertex"]:
            raise InputError(f"y: neither a graph nor a vertex has the attribute {name!r}")
    if found["graph"] and found["vertex"]:
        raise InputError(
            f"y: graphs have the attribute {min(found['graph'])!r} and vertices {min(found['vertex'])!r}, but targets "
            "are of one level; rename or remove one of them"
        )
    level = "graph" if found["graph"] else "vertex"
    columns = {name: [data.get(name) for data in holders[level]] for name in asked}
    y, kind = encode_target(columns, target, single, "graphs", "graph {}".format if level == "graph" else place)
    return level, y, kind


def _edges(
    graphs: list[Any], edge_type: str | None, edge_types: Sequence[Any] | None, ignored: set[str]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None, tuple[Any, ...] | None]:
    ends: list[tuple[int, int]] = []
    values: list[Any] = []
    known = {edge_type} | ignored
    directed: list[bool] = []
    offset = 0
    for position, graph in enumerate(graphs):
        number = {name: offset + i for i, name in enumerate(graph)}
        for u, v, data in graph.edges(data=True):
            if not known.issuperset(data):
                name = next(name for name in data if name not in known)
                raise InputError(
                    f"graph {position}, edge {shorten((u, v))}: attribute {name!r} has no use, since edges have a type "
                    f"and no other attributes; pass edge_type={name!r} if it is that, or ignore=[{name!r}]"
                )
            if edge_type is not None:
                if is_missing(data.get(edge_type)):
                    raise InputError(
                        f"graph {position}, edge {shorten((u, v))}: the edge type {edge_type!r} is missing"
                    )
                values.append(data[edge_type])
            ends.append((number[u], number[v]))
        directed += [graph.is_directed()] * (len(ends) - len(directed))
        offset += len(graph)
    pairs = np.array(ends, dtype=np.int64).reshape(-1, 2)
    source, receiver, row = both_directions(pairs[:, 0], pairs[:, 1], np.array(directed, dtype=np.bool_))
    if edge_type is None:
        return source, receiver, None, None

    def place(edge: int) -> str:
        every = ((position, ends) for position, graph in enumerate(graphs) for ends in graph.edges())
        position, ends = next(islice(every, edge, None))
        return f"graph {position}, edge {shorten(ends)}"

    codes, types = encode_edge_types(edge_type, values, edge_types, "graphs", place)
    _log.info("edge types by code: %s", ", ".join(f"{code} = {value!r}" for code, value in enumerate(types)))
    return source, receiver, codes[row], types


def _written_edges(
    arrays: Mapping[str, Any], names: Sequence[Any], undirected: bool, edge_types: Sequence[Any] | None
) -> tuple[NDArray[Any], list[Any] | None]:
    """Ends [2, E] and types of the edges that are written."""
    ends: NDArray[Any] = arrays["edges"]
    codes: NDArray[Any] | None = arrays.get("edge_type")
    if undirected:
        rows, alone = pair_up(ends[0], ends[1], codes)
        for u, v in ends[:, rows[alone][:1]].T.tolist():
            raise InputError(
                f"graph {arrays['graph'][u]}: the edge {shorten(names[u])} → {shorten(names[v])} has no opposite "
                "edge of its type, so the graph is not undirected"
            )
        ends, codes = ends[:, rows], None if codes is None else codes[rows]
    if codes is None or edge_types is None:
        return ends, None if codes is None else codes.tolist()
    if len(codes) and codes.max() >= len(edge_types):
        raise InputError(f"edge_types names {len(edge_types)} types, but the dataset has codes up to {codes.max()}")
    return ends, [edge_types[code] for code in codes.tolist()]


def _written_values(
    dataset: GraphDataset, arrays: Mapping[str, Any], y: str | Sequence[str] | None
) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Attributes of graphs and of vertices, targets and names among them."""
    of_vertices: dict[str, list[Any]] = dataset.schema.decode(arrays["x"])
    of_graphs = {"name": arrays["graph_names"].tolist()} if "graph_names" in arrays else {}
    if "y" in arrays:
        own = of_vertices if dataset.target_level == "vertex" else of_graphs
        for name, (column, attribute) in target_columns(arrays["y"], dataset.target, y).items():
            if name in own:
                raise InputError(f"the target {name!r} is called like another attribute; pass y with another name")
            own[name] = _decoded(column, attribute)
    return of_graphs, of_vertices


def _decoded(column: NDArray[Any], attribute: Attribute | None) -> list[Any]:
    if attribute is not None:
        return attribute.decode(column)
    return [None if value != value else value for value in column.tolist()]


def _present(columns: Mapping[str, list[Any]], row: int) -> dict[str, Any]:
    return {name: values[row] for name, values in columns.items() if values[row] is not None}
