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
