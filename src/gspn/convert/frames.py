"""Graphs from tables in one call, and datasets and results as pandas DataFrames: the way back.

How tables are read stands in `tables`, which must not wait for torch to refuse one. Entries and targets appear as
people's values in the type that suits their kind, vertices and graphs under their names. Writing files is left to
pandas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gspn.attributes import Attribute, Binary, Categorical, Count, Schema
from gspn.columns import shorten, tensor_to_array
from gspn.convert.arrays import to_arrays
from gspn.convert.edge_tables import Layout
from gspn.convert.edges import pair_up, refuse_unclear
from gspn.convert.files import import_pandas
from gspn.convert.foreign import DataFrame
from gspn.convert.ids import find_first_repeat, show
from gspn.convert.tables import read_graph_tables
from gspn.convert.values import target_columns
from gspn.errors import InputError
from gspn.graphs.dataset import GraphDataset


def from_tables(
    nodes: Any,
    edges: Any = None,
    schema: Schema | None = None,
    *,
    id: str | None = "id",
    graph: str | None = None,
    source: str = "source",
    target: str = "target",
    edge_type: str | None = None,
    edge_types: Sequence[Any] | None = None,
    directed: bool | str = False,
    parallel: bool = False,
    y: str | Sequence[str] | None = None,
    targets: Any = None,
    target_attribute: Attribute | Schema | None = None,
    ignore: str | Sequence[str] = (),
    keep: str | Sequence[str] = (),
    overrides: Mapping[str, Attribute | str] | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
) -> GraphDataset:
    """Graphs from a table of vertices and a table of edges: DataFrames, or paths of CSV, TSV, Parquet or Excel files.

    All columns of vertices without another role are attributes; a missing cell is a missing entry. Without a schema,
    columns that carry no information are left out with a warning: those that are empty, the same in every row, text
    that differs in nearly every row, row numbers. Dates, 87 %, 1,234.5 and 3,14 are numbers where all of a column is
    written so; dates are days since 1970.

    Ids may be numbers, text or both, and are unique within a graph. In a CSV file they are text unless all ids of the
    vertices are plain whole numbers. Where edges have the column `graph` too, ids are looked up within the graph;
    otherwise an id that an edge names must be unique over all graphs. Graphs come in the order of their first rows,
    vertices in the order of their rows.

    Two undirected rows that name an edge from either end, as lists of nearest neighbours do, are one edge, and a
    warning says so. Other rows that repeat an edge (same ends, same type) are an error unless `parallel=True`.

    Rows in error messages are counted from 0, without the header. One error lists everything that is wrong with the
    tables.

    nodes: the table of vertices.
    edges: the table of edges; or a [2, E] array or tensor of row numbers, a list of pairs of ids, a sparse matrix whose
        rows receive from their columns (scikit-learn's nearest neighbours), AnnData or one matrix of its `obsp`,
        libpysal's weights, or a NetworkX graph whose vertices are ids. Of places, which are the geometries of a
        GeoDataFrame or columns x and y, or lon and lat: "contiguity" joins those that touch, "nearest" each with its
        five nearest, "nearest:8" with eight. Weights are left out with a warning. Undirected edges are stored in one
        order, so that all forms of the same edges give the same model.
    schema: the attributes, exactly those of the table; None infers them.
    id: the column of ids, or the name of the index; None is the index. Where no column is called "id", it is the
        column that holds what the edges name, else the index.
    graph: the column with the graph of each vertex; None: all are one graph.
    source, target: the columns of edges with the ids. Where no columns are called so, they are those of usual names
        (from, to), the only two, or the two that hold ids.
    edge_type: the column of edges with their type.
    edge_types: its values in the order of codes; None takes the column's categories, or sorts; the log shows the order.
    directed: False stores a row in both directions, a self-loop once; True makes it one edge that sends source's
        message to target; the name of a column of booleans decides row by row.
    parallel: whether duplicate edges are kept.
    y: one or several columns of nodes that are vertex targets.
    targets: graph targets: a table with the column `graph` and further columns, or a Series indexed by graph; a graph
        without a row has a missing target.
    target_attribute: what the targets mean, an attribute or for several a schema; inferred if not given.
    ignore: columns to leave out of every table, those of the schema excepted.
    keep: columns to keep although they seem to carry no information; a kind in `overrides` keeps one, too.
    overrides: attributes or kinds by name, in an inferred schema.
    delimiter, encoding: of text files; detected if not given.
    """
    read = read_graph_tables(
        nodes,
        edges,
        schema,
        layout=Layout(source, target, graph, edge_type, edge_types, directed, parallel),
        id=id,
        y=y,
        targets=targets,
        target_attribute=target_attribute,
        ignore=ignore,
        keep=keep,
        overrides=overrides,
        delimiter=delimiter,
        encoding=encoding,
    )
    read.tell_what_is_left_out()
    return read.dataset()


def to_tables(
    dataset: GraphDataset,
    *,
    id: str = "id",
    graph: str | None = "graph",
    source: str = "source",
    target: str = "target",
    edge_type: str = "edge_type",
    edge_types: Sequence[Any] | None = None,
    directed: bool | str = False,
    y: str | Sequence[str] | None = None,
) -> tuple[DataFrame, DataFrame]:
    """The dataset as two DataFrames, nodes and edges; all arguments but the first are as in `from_tables`.

    Categories become a pandas categorical with all the schema's categories, binary values `boolean`, counts `Int64`,
    numbers `float64`; a missing entry is NA or NaN. Vertices without names are called by their number in the graph,
    graphs without names by their position. `graph=None` leaves the column out, if there is one graph.

    With `directed=False` opposite edges of a type are merged into one row, and one without a counterpart is an error;
    with `directed=True` every edge is a row; with the name of a column, that column tells them apart. Edge types have
    the names that `edge_types`, else the dataset, gives them, else their codes. Vertex targets are columns of nodes,
    called after the target or as `y` says; for graph targets see `graph_table`.

    Given the same arguments and the schema, `from_tables` makes the dataset again (with `parallel=True` if it has
    parallel edges). A graph without vertices has no row and is the one thing that is lost.
    """
    pandas = import_pandas()
    refuse_unclear(directed)
    arrays = to_arrays(dataset)
    if graph is None and len(dataset) != 1:
        raise InputError(f"graph=None leaves out the graph's column, but there are {len(dataset)} graphs")
    names, graphs = _names(dataset, arrays)
    _refuse_repeated_names(names, graphs, arrays["graph"])
    nodes = _named(graphs[arrays["graph"]], graph) | {id: names}
    values = {
        attribute.name: _typed(arrays["x"][:, column], attribute) for column, attribute in enumerate(dataset.schema)
    }
    if "y" in arrays and dataset.target_level == "vertex":
        targets = target_columns(arrays["y"], dataset.target, y)
        _refuse_clash(values, targets)
        values |= {name: _typed(*column) for name, column in targets.items()}
    _refuse_clash(nodes, values)
    rows, flags = _edge_rows(arrays, names, graphs, directed)
    ends = arrays["edges"][:, rows]
    edges = _named(graphs[arrays["graph"][ends[0]]], graph) | {source: names[ends[0]], target: names[ends[1]]}
    if "edge_type" in arrays:
        edges[edge_type] = _typed_edges(arrays["edge_type"][rows], dataset, edge_types)
    if isinstance(directed, str):
        edges[directed] = flags
    wanted = 2 + (graph is not None) + ("edge_type" in arrays) + isinstance(directed, str)
    if len(edges) != wanted:
        raise InputError("two columns of edges have the same name; choose others for graph, source, target, …")
    return pandas.DataFrame(nodes | values), pandas.DataFrame(edges)


def vertex_table(
    dataset: GraphDataset, results: Mapping[str, Any] | None = None, *, id: str = "id", graph: str = "graph"
) -> DataFrame:
    """A DataFrame with one row per vertex: graph, id, and a column for each of the results.

    A result is an array or tensor over all vertices of the dataset, or a list with one such for each graph, as the
    models return it. One with several columns, [N, k], becomes name_0, name_1, ….
    """
    arrays = to_arrays(dataset)
    names, graphs = _names(dataset, arrays)
    called = {graph: graphs[arrays["graph"]], id: names}
    sizes = dataset.num_vertices_per_graph().tolist()
    columns: dict[str, NDArray[Any]] = {}
    for name, result in (results or {}).items():
        columns |= _columns(name, _concatenated(name, result, sizes), len(names), "vertices")
    _refuse_clash(called, columns)
    frame: DataFrame = import_pandas().DataFrame(called | columns)
    return frame


def graph_table(
    dataset: GraphDataset,
    results: Mapping[str, Any] | None = None,
    *,
    graph: str = "graph",
    y: str | Sequence[str] | None = None,
) -> DataFrame:
    """A DataFrame with one row per graph: its name, its targets if the dataset has any, a column for each result.

    Without results it is what `from_tables` takes as `targets`.
    """
    arrays = to_arrays(dataset)
    _, graphs = _names(dataset, arrays)
    called: dict[str, Any] = {graph: graphs}
    if "y" in arrays and dataset.target_level == "graph":
        targets = target_columns(arrays["y"], dataset.target, y)
        _refuse_clash(called, targets)
        called |= {name: _typed(*column) for name, column in targets.items()}
    columns: dict[str, NDArray[Any]] = {}
    for name, result in (results or {}).items():
        columns |= _columns(name, _array(result), len(graphs), "graphs")
    _refuse_clash(called, columns)
    frame: DataFrame = import_pandas().DataFrame(called | columns)
    return frame


def _names(dataset: GraphDataset, arrays: Mapping[str, Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """What vertices and graphs are called; numbers where they have no names."""
    _, number = dataset.vertex_keys()
    return arrays.get("names", number.numpy()), arrays.get("graph_names", np.arange(len(dataset)))


def _named(values: NDArray[Any], name: str | None) -> dict[str, Any]:
    return {} if name is None else {name: values}


def _typed(column: NDArray[Any], attribute: Attribute | None) -> Any:
    """An encoded column as a pandas array of people's values."""
    if attribute is None:
        return column
    pandas = import_pandas()
    column = column.astype(np.float64)
    missing = np.isnan(column)
    filled = np.where(missing, 0, column)
    if isinstance(attribute, Categorical):
        return pandas.Categorical.from_codes(np.where(missing, -1, filled).astype(np.int64), list(attribute.categories))
    if isinstance(attribute, Binary):
        return pandas.arrays.BooleanArray(filled == 1, missing)
    if isinstance(attribute, Count):
        return pandas.arrays.IntegerArray(filled.astype(np.int64), missing)
    return column


def _typed_edges(codes: NDArray[Any], dataset: GraphDataset, edge_types: Sequence[Any] | None) -> Any:
    stored = dataset.edge_type
    # Over all stored graphs, so that every selection of them has the same categories.
    count = 0 if stored is None or not len(stored) else int(stored.max()) + 1
    called = dataset.edge_types if edge_types is None else edge_types
    types = list(range(count)) if called is None else list(called)
    if len(types) < count:
        raise InputError(f"edge_types names {len(types)} types, but the dataset has codes up to {count - 1}")
    return import_pandas().Categorical.from_codes(codes, types)


def _edge_rows(
    arrays: Mapping[str, Any], names: NDArray[Any], graphs: NDArray[Any], directed: bool | str
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The edges that are rows, and whether each is a directed one."""
    source, target = arrays["edges"]
    if directed is True:
        return np.arange(len(source)), np.ones(len(source), dtype=np.bool_)
    rows, alone = pair_up(source, target, arrays.get("edge_type"))
    if directed is False:
        for edge in rows[alone][:1].tolist():
            ends = f"{show(names[source[edge]])} → {show(names[target[edge]])}"
            raise InputError(
                f"graph {show(graphs[arrays['graph'][source[edge]]])}: the edge {ends} has no opposite edge; pass "
                "directed=True for one row a direction, or the name of a column that tells directed rows"
            )
    return rows, alone


def _refuse_repeated_names(names: NDArray[Any], graphs: NDArray[Any], group: NDArray[Any]) -> None:
    """Rows that cannot be told apart would be merged on the way back."""
    pandas = import_pandas()
    advice = "rename with dataclasses.replace(dataset, {}=…), None for numbers"
    repeat = find_first_repeat(graphs)
    if repeat is not None:
        raise InputError(f"two graphs are called {show(graphs[repeat[0]])}; {advice.format('graph_names')}")
    keys = group * (len(names) + 1) + pandas.factorize(names)[0]
    repeat = find_first_repeat(keys)
    if repeat is not None:
        name, where = show(names[repeat[0]]), show(graphs[group[repeat[0]]])
        raise InputError(f"two vertices of graph {where} are called {name}; {advice.format('vertex_names')}")


def _refuse_clash(columns: Mapping[str, Any], others: Mapping[str, Any]) -> None:
    for name in others:
        if name in columns:
            raise InputError(f"two columns would be called {name!r}; choose another name for one of them")


def _concatenated(name: str, result: Any, sizes: Sequence[int]) -> NDArray[Any]:
    """One array over all vertices, from one or from a list with one for each graph."""
    parts = [_array(part) for part in result] if isinstance(result, (list, tuple)) else []
    if not parts or not all(part.ndim for part in parts):
        return _array(result)
    if len(parts) != len(sizes):
        raise InputError(f"result {name!r}: there are {len(sizes)} graphs, but {len(parts)} arrays")
    for graph, (part, size) in enumerate(zip(parts, sizes, strict=True)):
        if len(part) != size or part.shape[1:] != parts[0].shape[1:]:
            expected = [size, *parts[0].shape[1:]]
            raise InputError(f"result {name!r}, graph {graph}: expected shape {expected}, got {list(part.shape)}")
    return np.concatenate(parts)


def _array(values: Any) -> NDArray[Any]:
    if hasattr(values, "detach"):
        return tensor_to_array(values)
    array = np.asarray(values)
    # Text of fixed width would cut what people add later, and has no gaps.
    return array.astype(object) if array.dtype.kind in "US" else array


def _columns(name: str, array: NDArray[Any], count: int, what: str) -> dict[str, NDArray[Any]]:
    if array.shape[:1] != (count,) or array.ndim > 2:
        raise InputError(f"result {shorten(name)}: there are {count} {what}, but it has shape {list(array.shape)}")
    if array.ndim == 1:
        return {name: array}
    return {f"{name}_{i}": array[:, i] for i in range(array.shape[1])}
