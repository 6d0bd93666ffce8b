"""Graphs from tables: one of vertices, one of edges, perhaps one of graphs' targets.

Here belongs which column means what: attributes, edges with their directions and repeats, targets. Reading files is in
`files`, looking up ids in `ids`, the way back to tables in `frames`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gspn.attributes import Attribute, Binary, Categorical, Schema
from gspn.columns import enumerate_briefly
from gspn.convert.arrays import assemble
from gspn.convert.edge_forms import edges_as_table
from gspn.convert.edges import both_directions, find_reciprocal, find_repeat, refuse_unclear
from gspn.convert.files import Table, import_pandas, numbers_where_asked, read_table
from gspn.convert.ids import Vertices, alike, find_first_repeat, look_up, read_ids, show
from gspn.convert.values import encode_edge_types, encode_target, encode_vertices, placed
from gspn.errors import Advice, InputError
from gspn.graphs.dataset import GraphDataset

_log = logging.getLogger(__name__)


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
    overrides: Mapping[str, Attribute | str] | None = None,
) -> GraphDataset:
    """Graphs from a table of vertices and a table of edges: DataFrames, or paths of CSV, TSV or Parquet files.

    Vertices. `id` names the column of ids (or the index that is called so; None: whatever the index holds). Ids may be
    numbers, text or both, and differ within a graph. All columns without another role are attributes: of the given
    schema, which must name just these, or of an inferred one that `overrides` changes by name. A missing cell is a
    missing entry. Columns named in `ignore` are left out of every table, those of the schema excepted.

    Graphs. `graph` names the column with the graph of each vertex (None: all are one graph). Graphs come in the order
    of their first rows, vertices in the order of their rows. Where edges have that column too, ids are looked up within
    the graph; otherwise an id that an edge names must be unique over all graphs.

    Edges. Also a [2, E] array or tensor of row numbers, a list of pairs of ids, a sparse matrix whose rows receive from
    their columns (scikit-learn's nearest neighbours, AnnData's `obsp`), libpysal's weights, or a NetworkX graph whose
    vertices are called by their ids. `source` and `target` name the columns with the ids. With `directed=False` a row
    is stored in both directions, a self-loop once; with `directed=True` it is one edge that sends source's message to
    target; a column of booleans, named by `directed`, tells row by row. Two undirected rows that name an edge from
    either end, as lists of nearest neighbours do, are one edge, and a warning says so. Other rows that repeat an edge
    (same ends, same type) are an error unless `parallel=True` says that duplicates are kept. The values of the column
    `edge_type` become codes in the order of `edge_types`, else of the column's categories, else sorted; the log shows
    the order.

    Targets. `y` names one or several columns of nodes as vertex targets. `targets` gives graph targets: a table with
    the column `graph` and one or several further columns, or a Series indexed by graph; a graph without a row has a
    missing target. `target_attribute` types them (a schema if there are several), otherwise the type is inferred.

    In a CSV file ids are text unless all ids of the vertices are whole numbers as a computer writes them. Rows in error
    messages are counted from 0, without the header.
    """
    ignored = (ignore,) if isinstance(ignore, str) else tuple(ignore)
    asked = () if y is None else (y,) if isinstance(y, str) else tuple(y)
    _refuse_contradictions(graph, edge_type, edge_types, directed, y, targets, target_attribute)

    typed = {**_by_name(schema), **_by_name(target_attribute, asked)}
    table = read_table(nodes, "nodes", [id, graph], typed)
    if not len(table.frame):
        raise InputError(f"{table.name} has no rows, so there is no graph")
    roles = {"id": id, "graph": graph} | {f"y ({name})": name for name in asked}
    columns = _free_columns(table, roles, [name for name in ignored if name not in _by_name(schema)])
    if table.is_text:
        columns = numbers_where_asked(columns, overrides or {})
    vertices = Vertices.of(table, id, graph)
    schema, x = encode_vertices(columns, schema, overrides, table.name, table.place)

    layout = _Layout(source, target, graph, edge_type, edge_types, directed, parallel)
    edge_table = None if edges is None else layout.read(edges, vertices, ignored)
    stored = layout.empty() if edge_table is None else layout.edges(edge_table, vertices)

    values: NDArray[np.float64] | None = None
    kind, level, target_table = None, None, None
    if asked:
        found = {name: table.column(name, "y") for name in asked}
        values, kind = encode_target(found, target_attribute, isinstance(y, str), table.name, table.place)
        level = "vertex"
    elif targets is not None and graph is not None:
        target_table = _read_targets(targets, graph, target_attribute)
        values, kind = _graph_targets(target_table, vertices, graph, target_attribute, ignored)
        level = "graph"
    _refuse_unknown(ignored, table, edge_table, target_table)
    return assemble(
        schema,
        x,
        stored.source,
        stored.target,
        vertices.graph,
        len(vertices.graphs),
        edge_type=stored.edge_type,
        edge_types=stored.edge_types,
        y=values,
        target_level=level,
        target=kind,
        names=vertices.ids,
        graph_names=None if graph is None else vertices.graphs,
    )


@dataclass(frozen=True, eq=False)
class _EdgeRows:
    """Stored edges, one a direction, between rows of nodes."""

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    edge_type: NDArray[np.int64] | None
    edge_types: tuple[Any, ...] | None


@dataclass(frozen=True)
class _Layout:
    """What the columns of a table of edges mean; the names are those of `from_tables`."""

    source: str
    target: str
    graph: str | None
    edge_type: str | None
    edge_types: Sequence[Any] | None
    directed: bool | str
    parallel: bool

    def empty(self) -> _EdgeRows:
        nothing = np.zeros(0, dtype=np.int64)
        names = None if self.edge_types is None else tuple(self.edge_types)
        return _EdgeRows(nothing, nothing, None if self.edge_type is None else nothing, names)

    def read(self, edges: Any, vertices: Vertices, ignored: Sequence[str]) -> Table:
        edges = edges_as_table(
            edges, vertices, source=self.source, target=self.target, graph=self.graph, directed=self.directed
        )
        flag = self.directed if isinstance(self.directed, str) else None
        kinds: dict[str, Attribute] = {} if flag is None else {flag: Binary(flag)}
        if self.edge_type is not None and self.edge_types is not None:
            kinds[self.edge_type] = Categorical(self.edge_type, self.edge_types)
        table = read_table(edges, "edges", [self.source, self.target, self.graph], kinds)
        roles = {"source": self.source, "target": self.target, "edge_type": self.edge_type, "directed": flag}
        unused = list(_free_columns(table, {**roles, "graph": self.graph}, ignored))
        for role, name in roles.items():
            if name is not None:
                table.column(name, role)  # a column under another name would otherwise be called useless
        if unused:
            raise InputError(
                f"{table.name}: column {unused[0]!r} has no use, since edges have a type and no other attributes",
                advice=[Advice("ignore", "to leave it out", [unused[0]])],
            )
        return table

    def edges(self, table: Table, vertices: Vertices) -> _EdgeRows:
        group = None
        if self.graph is not None and self.graph in table.frame.columns:
            group = _find_graphs(table, self.graph, vertices)
        source = self._ends(table, vertices, "source", self.source, group)
        target = self._ends(table, vertices, "target", self.target, group)
        self._refuse_crossing(table, vertices, source, target)
        directed, (codes, names) = self._directions(table), self._types(table)
        kept = (
            np.arange(len(table.frame)) if self.parallel else self._without_reciprocal(source, target, directed, codes)
        )
        source, target, row = both_directions(source[kept], target[kept], directed[kept])
        row = kept[row]
        edge_type = None if codes is None else codes[row]
        if not self.parallel:
            self._refuse_repeat(table, vertices, directed, source, target, row, edge_type)
        return _EdgeRows(source, target, edge_type, names)

    def _ends(
        self, table: Table, vertices: Vertices, role: str, name: str, group: NDArray[np.int64] | None
    ) -> NDArray[np.int64]:
        ids = read_ids(table, table.column(name, role), f"the {role} (column {name!r})", like=vertices.ids)
        return vertices.find(ids, group, lambda row: f"{table.place(row)}: {role}")

    def _refuse_crossing(
        self, table: Table, vertices: Vertices, source: NDArray[np.int64], target: NDArray[np.int64]
    ) -> None:
        for row in np.flatnonzero(vertices.graph[source] != vertices.graph[target])[:1].tolist():
            ends = [(vertices.ids[end[row]], vertices.graphs[vertices.graph[end[row]]]) for end in (source, target)]
            named = [f"{show(id)} of graph {show(graph)}" for id, graph in ends]
            raise InputError(f"{table.place(row)}: the edge joins {named[0]} and {named[1]}; it must stay in one graph")

    def _directions(self, table: Table) -> NDArray[np.bool_]:
        if not isinstance(self.directed, str):
            return np.full(len(table.frame), self.directed, dtype=np.bool_)
        try:
            flags = Binary(self.directed).encode(table.column(self.directed, "directed"))
        except InputError as error:
            raise placed(error, table.name, table.place) from None
        for row in np.flatnonzero(np.isnan(flags))[:1].tolist():
            raise InputError(f"{table.place(row)}: the direction (column {self.directed!r}) is missing")
        return np.asarray(flags == 1)

    def _types(self, table: Table) -> tuple[NDArray[np.int64] | None, tuple[Any, ...] | None]:
        if self.edge_type is None:
            return None, None
        column = table.column(self.edge_type, "edge_type")
        for row in np.flatnonzero(column.isna().to_numpy())[:1].tolist():
            raise InputError(f"{table.place(row)}: the edge type (column {self.edge_type!r}) is missing")
        codes, types = encode_edge_types(self.edge_type, column, self.edge_types, table.name, table.place)
        _log.info("edge types by code: %s", ", ".join(f"{code} = {value!r}" for code, value in enumerate(types)))
        return codes, types

    def _without_reciprocal(
        self,
        source: NDArray[np.int64],
        target: NDArray[np.int64],
        directed: NDArray[np.bool_],
        edge_type: NDArray[np.int64] | None,
    ) -> NDArray[np.int64]:
        """The rows that stay: of two that name an undirected edge from either end, as lists of neighbours do, one."""
        free = np.flatnonzero(~directed)
        again = free[find_reciprocal(source[free], target[free], None if edge_type is None else edge_type[free])]
        if len(again):
            _log.warning(
                "%s edges are named from both ends and count once, as edges are undirected unless said otherwise",
                f"{len(again):,}",
            )
        return np.delete(np.arange(len(source)), again)

    def _refuse_repeat(
        self,
        table: Table,
        vertices: Vertices,
        directed: NDArray[np.bool_],
        source: NDArray[np.int64],
        target: NDArray[np.int64],
        row: NDArray[np.int64],
        edge_type: NDArray[np.int64] | None,
    ) -> None:
        repeat = find_repeat(source, target, edge_type)
        if repeat is None:
            return
        again, first = (int(row[edge]) for edge in repeat)
        written = [
            [vertices.ids[end[np.searchsorted(row, place)]] for end in (source, target)] for place in (first, again)
        ]
        edge = ("→" if directed[first] else "–").join(map(show, written[0]))
        raise InputError(
            f"{table.place(again)} repeats the edge {edge} of row {first}",
            advice=[Advice("parallel", "to keep both", True)],
        )


def _read_targets(targets: Any, graph: str, target: Attribute | Schema | None) -> Table:
    pandas = import_pandas()
    if isinstance(targets, pandas.Series):
        return Table(
            targets.rename("y" if targets.name is None else targets.name).to_frame().rename_axis(graph), "targets"
        )
    single = None if isinstance(target, Schema) else target
    return read_table(targets, "targets", [graph], _by_name(target), others=single)


def _graph_targets(
    table: Table, vertices: Vertices, graph: str, target: Attribute | Schema | None, ignored: Sequence[str]
) -> tuple[NDArray[np.float64], Attribute | Schema]:
    """y with one row a graph, NaN for graphs that have no row in the table."""
    columns = _free_columns(table, {"graph": graph}, ignored)
    if not columns:
        raise InputError(f"{table.name} has no column besides {graph!r}, so there are no targets in it")
    group = _find_graphs(table, graph, vertices)
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


def _find_graphs(table: Table, graph: str, vertices: Vertices) -> NDArray[np.int64]:
    """The number of the graph that each row names."""
    what = f"the graph (column {graph!r})"
    names = read_ids(table, table.column(graph, "graph"), what, like=vertices.graphs)
    found = look_up(names, vertices.graphs)
    for row in np.flatnonzero(found < 0)[:1].tolist():
        there = alike(names[row], vertices.graphs)
        raise InputError(f"{table.place(row)}: graph {show(names[row])} has no vertex in {vertices.table.name}{there}")
    return found


def _free_columns(table: Table, roles: Mapping[str, str | None], ignored: Sequence[str]) -> dict[str, Any]:
    """The columns that have no role and are not ignored."""
    taken: dict[str, str] = {}
    for role, name in roles.items():
        if name is None:
            continue
        if name in taken:
            raise InputError(f"column {name!r} cannot be {taken[name]} and {role} at once")
        taken[name] = role
    return {name: table.frame[name] for name in table.frame.columns if name not in taken and name not in ignored}


def _by_name(kind: Attribute | Schema | None, asked: Sequence[str] = ()) -> dict[str, Attribute]:
    """Attributes by the columns that they type; a single one types the only column that is asked for."""
    if isinstance(kind, Schema):
        return {attribute.name: attribute for attribute in kind}
    return {asked[0]: kind} if isinstance(kind, Attribute) and len(asked) == 1 else {}


def _refuse_contradictions(
    graph: str | None,
    edge_type: str | None,
    edge_types: Sequence[Any] | None,
    directed: object,
    y: str | Sequence[str] | None,
    targets: Any,
    target_attribute: Attribute | Schema | None,
) -> None:
    if y is not None and targets is not None:
        raise InputError("y names vertex targets and targets gives graph targets; a dataset has one of them")
    if targets is not None and graph is None:
        raise InputError("targets has one row a graph, so graph must name the column that tells graphs apart")
    if target_attribute is not None and y is None and targets is None:
        raise InputError("target_attribute is given, but there are no targets: pass y or targets")
    if edge_types is not None and edge_type is None:
        raise InputError("edge_types is given, but no column: pass edge_type with its name")
    refuse_unclear(directed)


def _refuse_unknown(ignored: Sequence[str], *tables: Table | None) -> None:
    known = {name for table in tables if table is not None for name in table.frame.columns}
    for name in ignored:
        if name not in known:
            raise InputError(f"ignore names {name!r}, but there is no such column; known: {enumerate_briefly(known)}")
