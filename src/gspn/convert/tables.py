"""Graphs from tables: one of vertices, one of edges, perhaps one of graphs' targets.

Here belongs which column means what: ids, attributes, targets; everything that is wrong with the tables is reported at
once, and before torch is imported, which takes seconds. Reading files is in `files`, tables of edges in `edge_tables`,
looking up ids in `ids`, identifying columns that are not named in `finding`, the way back to tables in `frames`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gspn.attributes import Attribute, Schema
from gspn.columns import enumerate_briefly
from gspn.convert.edge_tables import EdgeRows, Layout, by_name, find_graphs, free_columns, refuse_two_roles
from gspn.convert.edges import is_table, refuse_unclear
from gspn.convert.files import Table, import_pandas, read_table
from gspn.convert.finding import find_id, leave_out
from gspn.convert.ids import Vertices, find_first_repeat, show
from gspn.convert.values import encode_target, encode_vertices
from gspn.convert.writings import as_numbers
from gspn.errors import Advice, InputError, Problems

if TYPE_CHECKING:
    from gspn.graphs.dataset import GraphDataset

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class GraphTables:
    """Tables that have been found to be usable, and what was found out about their columns."""

    schema: Schema
    x: NDArray[np.float64]
    nodes: Table
    vertices: Vertices
    edges: EdgeRows
    layout: Layout
    """with the columns of ends as they were found"""
    id: str | None
    left_out: dict[str, str]
    """the columns that say nothing, with the reason"""
    y: NDArray[np.float64] | None
    target_level: str | None
    target: Attribute | Schema | None

    def tell_what_is_left_out(self) -> None:
        """Nothing is left out silently."""
        if self.left_out:
            told = ", ".join(f"{name!r} ({reason})" for name, reason in self.left_out.items())
            _log.warning("%s: left out are %s; keep= keeps them", self.nodes.name, told)

    def dataset(self) -> GraphDataset:
        """The graphs, packed."""
        from gspn.graphs.pack import assemble  # imports torch

        return assemble(
            self.schema,
            self.x,
            self.edges.source,
            self.edges.target,
            self.vertices.graph,
            len(self.vertices.graphs),
            edge_type=self.edges.edge_type,
            edge_types=self.edges.edge_types,
            y=self.y,
            target_level=self.target_level,
            target=self.target,
            names=self.vertices.ids,
            graph_names=None if self.layout.graph is None else self.vertices.graphs,
        )


def read_graph_tables(
    nodes: Any,
    edges: Any,
    schema: Schema | None,
    *,
    layout: Layout,
    id: str | None,
    y: str | Sequence[str] | None = None,
    targets: Any = None,
    target_attribute: Attribute | Schema | None = None,
    ignore: str | Sequence[str] = (),
    keep: str | Sequence[str] = (),
    overrides: Mapping[str, Attribute | str] | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    problems: Problems | None = None,
) -> GraphTables:
    """See `from_tables`; `problems` are told with those found here, and with some there may be no nodes (None)."""
    problems = Problems() if problems is None else problems
    ignored, kept = ((names,) if isinstance(names, str) else tuple(names) for names in (ignore, keep))
    asked = () if y is None else (y,) if isinstance(y, str) else tuple(y)
    _refuse_contradictions(layout, y, targets, target_attribute)
    graph = layout.graph
    roles = {"id": id, "graph": graph} | {f"y ({name})": name for name in asked}
    refuse_two_roles(roles)
    table, edge_table, vertices, lacking = None, None, None, list[InputError]()
    written: dict[str, Any] = {"delimiter": delimiter, "encoding": encoding}
    if nodes is not None:
        with problems.noted():
            typed = {**by_name(schema), **by_name(target_attribute, asked)}
            table = read_table(nodes, "nodes", [id, graph], typed, **written)
            if not len(table.frame):
                raise InputError(f"{table.name} has no rows, so there is no graph")
    if edges is not None:
        with problems.noted():
            edge_table = layout.table_of(edges, written)
    if table is not None:
        id, table = _with_ids(table, edges is not None, edge_table, id, layout)
        roles["id"] = id
        with problems.noted():
            vertices = Vertices.of(table, id, graph)
    if edge_table is not None:
        layout, edge_table = layout.found_in(edge_table, vertices)
        lacking = layout.lacking(edge_table)
        # A column under another name would otherwise be called useless.
        problems.found += lacking or layout.surplus(edge_table, ignored)
    x, left_out = None, dict[str, str]()
    if table is not None:
        columns = free_columns(table, roles, [name for name in ignored if name not in by_name(schema)])
        usable = as_numbers(columns, overrides or by_name(schema), table, problems)
        if schema is None:
            _note_unknown("keep", kept, problems, table)
            left_out = leave_out(usable, {*kept, *(overrides or {})})
        with problems.noted():
            _refuse_emptiness(table, columns, left_out)
            attributes = {name: column for name, column in usable.items() if name not in left_out}
            if attributes or not columns:
                schema, x = encode_vertices(attributes, schema, overrides, table.name, table.place)

    stored = layout.empty()
    if vertices is not None and not lacking:
        with problems.noted():
            if edge_table is None and edges is not None and not is_table(edges):
                edge_table = layout.read(edges, vertices)
            if edge_table is not None:
                stored = layout.edges(edge_table, vertices)

    values: NDArray[np.float64] | None = None
    kind, level, target_table = None, None, None
    if asked and table is not None:
        level = "vertex"
        with problems.noted():
            found = {name: table.column(name, "y") for name in asked}
            found = as_numbers(found, by_name(target_attribute, asked), table, problems)
            if len(found) == len(asked):
                values, kind = encode_target(found, target_attribute, isinstance(y, str), table.name, table.place)
    elif targets is not None and graph is not None:
        level = "graph"
        with problems.noted():
            target_table = _read_targets(targets, graph, target_attribute, written)
            if vertices is not None:
                values, kind = _graph_targets(target_table, vertices, graph, target_attribute, ignored)
    if not problems.found:
        _note_unknown("ignore", ignored, problems, table, edge_table, target_table)
    problems.tell()
    assert schema is not None
    assert x is not None
    assert table is not None
    assert vertices is not None
    return GraphTables(schema, x, table, vertices, stored, layout, id, left_out, values, level, kind)


def _with_ids(
    table: Table, has_edges: bool, edges: Table | None, id: str | None, layout: Layout
) -> tuple[str | None, Table]:
    """The column of ids, found where none is called so, and the table in which it can be read as ids."""
    frame = table.frame
    if id != "id" or id in frame.columns or id in frame.index.names:
        return id, table
    found = find_id(table, edges, layout.ends)
    if found is not None:
        _log.info("%s: the ids are those of column %r, which edges name", table.name, found)
        return found, table.with_text([found])
    if edges is not None and not layout.names_rows(edges, frame.index):
        return id, table
    if not has_edges and not frame.index.is_unique:  # nobody asks what the rows are called
        table = replace(table, frame=frame.reset_index(drop=True))
    return None, table


def _refuse_emptiness(table: Table, columns: Mapping[str, Any], left_out: Mapping[str, str]) -> None:
    if left_out and len(left_out) == len(columns):
        told = ", ".join(f"{name!r} ({reason})" for name, reason in left_out.items())
        raise InputError(
            f"{table.name}: no column says anything that could be learned: {told}",
            advice=[Advice("keep", "to keep it", [next(iter(left_out))])],
        )


def _read_targets(targets: Any, graph: str, target: Attribute | Schema | None, written: Mapping[str, Any]) -> Table:
    pandas = import_pandas()
    if isinstance(targets, pandas.Series):
        return Table(
            targets.rename("y" if targets.name is None else targets.name).to_frame().rename_axis(graph), "targets"
        )
    single = None if isinstance(target, Schema) else target
    return read_table(targets, "targets", [graph], by_name(target), others=single, **written)


def _graph_targets(
    table: Table, vertices: Vertices, graph: str, target: Attribute | Schema | None, ignored: Sequence[str]
) -> tuple[NDArray[np.float64], Attribute | Schema]:
    """y with one row per graph, NaN for graphs that have no row in the table."""
    columns = free_columns(table, {"graph": graph}, ignored)
    if not columns:
        raise InputError(f"{table.name} has no column besides {graph!r}, so there are no targets in it")
    group = find_graphs(table, graph, vertices)
    repeat = find_first_repeat(group)
    if repeat is not None:
        row, earlier = repeat
        name = show(vertices.graphs[group[row]])
        raise InputError(f"{table.place(row)}: graph {name} has targets already in row {earlier}")
    single = len(columns) == 1
    given, kind = encode_target(columns, target, single, table.name, table.place)
    y = np.full((len(vertices.graphs), *given.shape[1:]), np.nan)
    y[group] = given
    return y, kind


def _refuse_contradictions(
    layout: Layout, y: str | Sequence[str] | None, targets: Any, target_attribute: Attribute | Schema | None
) -> None:
    if y is not None and targets is not None:
        raise InputError("y names vertex targets and targets gives graph targets; a dataset has one of them")
    if targets is not None and layout.graph is None:
        raise InputError("targets has one row per graph, so graph must name the column that tells graphs apart")
    if target_attribute is not None and y is None and targets is None:
        raise InputError("target_attribute is given, but there are no targets: pass y or targets")
    if layout.edge_types is not None and layout.edge_type is None:
        raise InputError("edge_types is given, but no column: pass edge_type with its name")
    refuse_unclear(layout.directed)


def _note_unknown(argument: str, names: Sequence[str], problems: Problems, *tables: Table | None) -> None:
    known = {name for table in tables if table is not None for name in table.frame.columns}
    problems.found += [
        InputError(f"{argument} names {name!r}, but there is no such column; known: {enumerate_briefly(known)}")
        for name in names
        if name not in known
    ]


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
