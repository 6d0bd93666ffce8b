"""Tables of edges: which column means what, directions, types and repeats, and what else two tables say of each other.

Edges in other forms than tables are brought into this one by `edges`; tables of vertices are read in `tables`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gspn.attributes import Attribute, Binary, Categorical, Schema
from gspn.columns import enumerate_briefly
from gspn.convert.edges import both_directions, edges_as_table, find_reciprocal, find_repeat, is_table
from gspn.convert.files import Table, read_table
from gspn.convert.finding import find_ends, holds
from gspn.convert.ids import Vertices, alike, look_up, read_ids, show
from gspn.convert.places import geometries
from gspn.convert.values import encode_edge_types, placed
from gspn.errors import Advice, InputError, Problems

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class EdgeRows:
    """Stored edges, one a direction, between rows of nodes."""

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    edge_type: NDArray[np.int64] | None
    edge_types: tuple[Any, ...] | None


@dataclass(frozen=True)
class Layout:
    """What the columns of a table of edges mean; the names are those of `from_tables`."""

    source: str
    target: str
    graph: str | None
    edge_type: str | None
    edge_types: Sequence[Any] | None
    directed: bool | str
    parallel: bool

    def empty(self) -> EdgeRows:
        nothing = np.zeros(0, dtype=np.int64)
        names = None if self.edge_types is None else tuple(self.edge_types)
        return EdgeRows(nothing, nothing, None if self.edge_type is None else nothing, names)

    @property
    def ends(self) -> tuple[str, str]:
        return self.source, self.target

    def table_of(self, edges: Any, written: Mapping[str, Any]) -> Table | None:
        """The table of edges; None of edges in another form, which can only be read once the vertices are known."""
        if not is_table(edges):
            return None
        kinds: dict[str, Attribute] = {}
        if isinstance(self.directed, str):
            kinds[self.directed] = Binary(self.directed)
        if self.edge_type is not None and self.edge_types is not None:
            kinds[self.edge_type] = Categorical(self.edge_type, self.edge_types)
        return read_table(edges, "edges", [*self.ends, self.graph], kinds, **written)

    def read(self, edges: Any, vertices: Vertices) -> Table:
        """Edges in another form as a table."""
        frame = edges_as_table(
            edges, vertices, source=self.source, target=self.target, graph=self.graph, directed=self.directed
        )
        return Table(frame, "edges")

    def found_in(self, table: Table, vertices: Vertices | None) -> tuple[Layout, Table]:
        """With the columns that hold the ends, where none are called so, and the table in which they are ids."""
        refuse_two_roles(self._roles())
        found = find_ends(table, None if vertices is None else vertices.ids.tolist(), self.ends)
        if found is None or found == self.ends:
            return self, table
        _log.info("%s: edges lead from %r to %r", table.name, *found)
        return replace(self, source=found[0], target=found[1]), table.with_text(found)

    def names_rows(self, table: Table, index: Any) -> bool:
        """Whether all ends are labels of rows."""
        ends = find_ends(table, index.tolist(), self.ends)
        return ends is not None and all(holds(index, table.frame[name]) for name in ends)

    def lacking(self, table: Table) -> list[InputError]:
        """The columns that should be there and are not."""
        problems = Problems()
        for role, name in self._roles().items():
            if name is not None:
                with problems.noted():
                    table.column(name, role)
        return problems.found

    def surplus(self, table: Table, ignored: Sequence[str]) -> list[InputError]:
        """The columns that have no use."""
        unused = list(free_columns(table, {**self._roles(), "graph": self.graph}, ignored))
        if not unused:
            return []
        named = f"column {unused[0]!r} has" if len(unused) == 1 else f"columns {enumerate_briefly(unused)} have"
        advice = [Advice("ignore", f"to leave {'it' if len(unused) == 1 else 'them'} out", unused)]
        return [
            InputError(f"{table.name}: {named} no use, since edges have a type and no other attributes", advice=advice)
        ]

    def _roles(self) -> dict[str, str | None]:
        flag = self.directed if isinstance(self.directed, str) else None
        return {"source": self.source, "target": self.target, "edge_type": self.edge_type, "directed": flag}

    def edges(self, table: Table, vertices: Vertices) -> EdgeRows:
        group = None
        if self.graph is not None and self.graph in table.frame.columns:
            group = find_graphs(table, self.graph, vertices)
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
        if self.directed is False:
            # Sums depend on their order in the last digit; in this one, any form of the same edges gives the same.
            order = np.lexsort([*([] if edge_type is None else [edge_type]), source, target])
            source, target, edge_type = source[order], target[order], None if edge_type is None else edge_type[order]
        return EdgeRows(source, target, edge_type, names)

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


def find_graphs(table: Table, graph: str, vertices: Vertices) -> NDArray[np.int64]:
    """The number of the graph that each row names."""
    what = f"the graph (column {graph!r})"
    names = read_ids(table, table.column(graph, "graph"), what, like=vertices.graphs)
    found = look_up(names, vertices.graphs)
    for row in np.flatnonzero(found < 0)[:1].tolist():
        there = alike(names[row], vertices.graphs)
        raise InputError(f"{table.place(row)}: graph {show(names[row])} has no vertex in {vertices.table.name}{there}")
    return found


def free_columns(table: Table, roles: Mapping[str, str | None], ignored: Sequence[str]) -> dict[str, Any]:
    """The columns that have no role and are not ignored; geometries say where something is, and nothing else."""
    taken = {*roles.values(), *ignored, *geometries(table.frame)}
    return {name: table.frame[name] for name in table.frame.columns if name not in taken}


def refuse_two_roles(roles: Mapping[str, str | None]) -> None:
    """One column cannot be two things."""
    taken: dict[str, str] = {}
    for role, name in roles.items():
        if name is None:
            continue
        if name in taken:
            raise InputError(f"column {name!r} cannot be {taken[name]} and {role} at once")
        taken[name] = role


def by_name(kind: Attribute | Schema | None, asked: Sequence[str] = ()) -> dict[str, Attribute]:
    """Attributes by the columns that they type; a single one types the only column that is asked for."""
    if isinstance(kind, Schema):
        return {attribute.name: attribute for attribute in kind}
    return {asked[0]: kind} if isinstance(kind, Attribute) and len(asked) == 1 else {}
