"""Ids: what vertices and graphs are called in tables, and how rows are found by them.

Everything is looked up by value, without a Python loop over rows; every id that is missing, repeated or unknown is an
error with its row. What the rows stand for is in `tables`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gspn.columns import shorten
from gspn.convert.files import Table, import_pandas
from gspn.convert.values import Place, name_array
from gspn.errors import Advice, InputError

# As a computer writes them: 007 and +7 are text.
_WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,18}")


@dataclass(frozen=True, eq=False)
class Vertices:
    """The rows of a table of vertices by id and graph."""

    table: Table
    ids: NDArray[Any]
    """[N]"""
    graph: NDArray[np.int64]
    """[N] number of each row's graph"""
    graphs: NDArray[Any]
    """[G] what the graphs are called, in order of appearance"""
    code: NDArray[np.int64]
    """[N] number of each row's id among the distinct ones"""
    distinct: NDArray[Any]

    @classmethod
    def of(cls, table: Table, id: str | None, graph: str | None) -> Vertices:
        """`id` and `graph` name the columns; None for the index, and for all in one graph."""
        if id is None:
            ids = read_ids(table, table.frame.index.to_series(), "the id (index)")
        else:
            column = table.column(id, "id", Advice("id", "to take the table's index", None))
            ids = read_ids(table, column, f"the id (column {id!r})")
        group, graphs = np.zeros(len(ids), dtype=np.int64), np.zeros(1, dtype=np.int64)
        if graph is not None:
            named = read_ids(table, table.column(graph, "graph"), f"the graph (column {graph!r})")
            group, graphs = _factorize(named, table)
        code, distinct = _factorize(ids, table)
        vertices = cls(table, ids, group, graphs, code, distinct)
        repeat = find_first_repeat(vertices._key(group, code))
        if repeat is not None:
            row, earlier = repeat
            where = "" if graph is None else f" of graph {show(graphs[group[row]])}"
            raise InputError(f"{table.place(row)}: the id {show(ids[row])}{where} occurs already in row {earlier}")
        return vertices

    def find(self, ids: NDArray[Any], graph: NDArray[np.int64] | None, place: Place) -> NDArray[np.int64]:
        """The rows with these ids in these graphs (None: whichever); `place` tells who asked."""
        code = look_up(ids, self.distinct)
        unknown = np.flatnonzero(code < 0)
        for row in unknown[:1].tolist():
            there = alike(ids[row], self.distinct)
            often = "" if len(unknown) == 1 else f" (nor are those of {len(unknown) - 1:,} more rows)"
            raise InputError(f"{place(row)} {show(ids[row])} is no id of {self.table.name}{there}{often}")
        if graph is None:
            self._refuse_ambiguous(ids, code, place)
            row_of = np.empty(len(self.distinct), dtype=np.int64)
            row_of[self.code] = np.arange(len(self.code))
            return row_of[code]
        rows = look_up(self._key(graph, code), self._key(self.graph, self.code))
        for row in np.flatnonzero(rows < 0)[:1].tolist():
            elsewhere = self.graphs[self.graph[self.code == code[row]][0]]
            raise InputError(
                f"{place(row)} {show(ids[row])} is no vertex of graph {show(self.graphs[graph[row]])}, but one of "
                f"graph {show(elsewhere)}"
            )
        return rows

    def _key(self, graph: NDArray[np.int64], code: NDArray[np.int64]) -> NDArray[np.int64]:
        return graph * len(self.distinct) + code

    def _refuse_ambiguous(self, ids: NDArray[Any], code: NDArray[np.int64], place: Place) -> None:
        often = np.bincount(self.code, minlength=len(self.distinct))[code] > 1
        for row in np.flatnonzero(often)[:1].tolist():
            first, second = np.flatnonzero(self.code == code[row])[:2]
            names = [show(self.graphs[self.graph[vertex]]) for vertex in (first, second)]
            raise InputError(
                f"{place(row)} {show(ids[row])} is a vertex of graph {names[0]} (row {first} of {self.table.name}) and "
                f"of graph {names[1]} (row {second}); give the table of edges the column of graphs as well"
            )


def read_ids(table: Table, column: Any, what: str, like: NDArray[Any] | None = None) -> NDArray[Any]:
    """Ids as an array that compares by value: int64 if all are whole numbers, else Python objects.

    Text from a CSV file becomes numbers if all of it reads like them; with `like`, where it does and those are numbers.
    """
    missing = column.isna().to_numpy()
    if missing.any():
        raise InputError(f"{table.place(int(missing.argmax()))}: {what} is missing")
    if isinstance(column.dtype, np.dtype) and column.dtype.kind == "i":
        return np.asarray(column.to_numpy(dtype=np.int64))
    ids = name_array(column.tolist())
    if not table.is_text:
        return ids
    numbers = name_array(int(id) if _is_whole_number(id) else id for id in ids.tolist())
    return numbers if (numbers if like is None else like).dtype == np.int64 else ids


def look_up(ids: NDArray[Any], known: NDArray[Any]) -> NDArray[np.int64]:
    """Where each id is among the known ones, which differ; -1 where it is not."""
    pandas = import_pandas()
    kind = known.dtype if known.dtype == ids.dtype else np.dtype(object)
    index, sought = (pandas.Index(array.astype(kind), dtype=kind, tupleize_cols=False) for array in (known, ids))
    try:
        return np.asarray(index.get_indexer(sought), dtype=np.int64)
    except TypeError:  # something without a hash, which is no id of anything
        return np.array([_look_up_one(index, one) for one in sought], dtype=np.int64)


def find_first_repeat(keys: NDArray[Any]) -> tuple[int, int] | None:
    """The first row whose key was there before, and the row where it was."""
    again = import_pandas().Series(keys).duplicated().to_numpy()
    if not again.any():
        return None
    row = int(again.argmax())
    return row, int((keys == keys[row]).argmax())


def show(id: Any) -> str:
    """An id in a message; a numpy number as the plain one."""
    return shorten(id.item() if isinstance(id, np.generic) else id)


def alike(id: Any, known: NDArray[Any]) -> str:
    """The usual accident in words: 1 in one table and "1" in the other."""
    for other in known.tolist():
        if str(other) == str(id):
            return f" (there is {other!r}, of type {type(other).__name__}, not {type(id).__name__})"
    return ""


def _factorize(ids: NDArray[Any], table: Table) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """The number of each id among the distinct ones, in order of appearance, and those."""
    try:
        codes, distinct = import_pandas().factorize(ids)
    except TypeError:
        row = next(row for row, one in enumerate(ids) if not _is_hashable(one))
        raise InputError(f"{table.place(row)}: {show(ids[row])} cannot be an id") from None
    return codes.astype(np.int64), distinct


def _look_up_one(index: Any, one: Any) -> int:
    return int(index.get_indexer([one])[0]) if _is_hashable(one) else -1


def _is_whole_number(id: Any) -> bool:
    return isinstance(id, str) and bool(_WHOLE_NUMBER.fullmatch(id)) and -(2**63) <= int(id) < 2**63


def _is_hashable(one: Any) -> bool:
    try:
        hash(one)
    except TypeError:
        return False
    return True
