"""Edges as people have them, made into the table of edges that `tables` reads; and rows that repeat each other.

Known are edge lists, PyG's `edge_index`, sparse matrices (of scikit-learn's nearest neighbours), what carries one
(libpysal's weights as `.sparse`, AnnData in its `obsp`), NetworkX graphs, and words for neighbours in space (`places`).
A row stands for both directions or for one. Which columns a table of edges has, and which edges are merged or refused,
stays with `edge_tables`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gspn.columns import enumerate_briefly, shorten, tensor_to_array
from gspn.convert.files import Table, import_pandas
from gspn.convert.ids import Vertices, show
from gspn.convert.places import Nearby
from gspn.errors import InputError

_log = logging.getLogger(__name__)
_FORMS = (
    "a DataFrame, a path, a [2, E] array of row numbers, a list of pairs of ids, a sparse [N, N] matrix, AnnData, "
    "libpysal's weights, a NetworkX graph, or of places 'contiguity' or 'nearest'"
)
_PAIRWISE = ("connectivities", "spatial_connectivities")
"""What scanpy and squidpy call the graph in an AnnData's `obsp`."""


def refuse_unclear(directed: object) -> None:
    """`directed` says it of all rows, or names the column that says it row by row."""
    if not isinstance(directed, (bool, str)):
        raise InputError(f"directed must be True, False or the name of a column, got {directed!r}")


def both_directions(
    source: NDArray[Any], target: NDArray[Any], directed: NDArray[np.bool_]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]:
    """Sources and targets of the edges that the rows stand for, and the row of each.

    An undirected row stands for two edges, one each way; a self-loop is one edge either way.
    """
    times = 1 + (~directed & (source != target))
    row = np.repeat(np.arange(len(source)), times)
    back = np.zeros(len(row), dtype=np.bool_)
    back[1:] = row[1:] == row[:-1]
    return np.where(back, target[row], source[row]), np.where(back, source[row], target[row]), row


def find_repeat(source: NDArray[Any], target: NDArray[Any], edge_type: NDArray[Any] | None) -> tuple[int, int] | None:
    """The first edge that was there before (same source, target and type), and that one; None if all differ."""
    order, new = _sorted_groups(source, target, edge_type)
    again = np.flatnonzero(~new)
    if not len(again):
        return None
    place = again[order[again].argmin()]
    return int(order[place]), int(order[place - 1])


def find_reciprocal(source: NDArray[Any], target: NDArray[Any], edge_type: NDArray[Any] | None) -> NDArray[np.int64]:
    """The rows, in order, that name an earlier row's ends the other way round, and are the only one to do so."""
    low, high, back = np.minimum(source, target), np.maximum(source, target), source > target
    order, new = _sorted_groups(low, high, edge_type)
    first = np.flatnonzero(new)
    size = np.diff(np.append(first, len(order)))
    pairs = first[size == 2]
    earlier, later = order[pairs], order[pairs + 1]
    return np.sort(later[back[earlier] != back[later]])


def pair_up(
    source: NDArray[Any], target: NDArray[Any], edge_type: NDArray[Any] | None
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The edges that stay when every edge is merged with one opposite edge of its type, in order.

    With each of them: whether it found no opposite edge. Of parallel edges the first one way is paired with the first
    the other way, and so on; a self-loop stays and needs no partner.
    """
    low, high, back = np.minimum(source, target), np.maximum(source, target), source > target
    order, new = _sorted_groups(low, high, edge_type, back)
    place = np.arange(len(order))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = place - np.maximum.accumulate(np.where(new, place, 0))
    order, new = _sorted_groups(low, high, edge_type, rank)
    size = np.diff(np.append(np.flatnonzero(new), len(order)))
    first = order[new]
    alone = (size == 1) & (low[first] != high[first])
    in_order = np.argsort(first)
    return first[in_order], alone[in_order]


def _sorted_groups(*columns: NDArray[Any] | None) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """A stable order that puts equal rows side by side, and whether each in that order differs from the one before."""
    present = [column for column in columns if column is not None]
    order = np.lexsort(present)
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = np.any([column[order[1:]] != column[order[:-1]] for column in present], axis=0)
    return order, new


def edges_as_table(
    edges: Any, vertices: Vertices, *, source: str, target: str, graph: str | None, directed: bool | str
) -> Any:
    """A DataFrame with the columns `source` and `target` (and `graph` if vertices have one); tables stay as they are.

    Row numbers are those of the table of vertices. A matrix has a row for each vertex that receives and a column for
    each that sends: A[i, j] says that j is a neighbour of i. Of an edge that an undirected form holds both ways one row
    is left.
    """
    if is_table(edges):
        return edges
    if isinstance(directed, str):
        raise InputError(f"directed={directed!r} names a column, but edges are no table: got {shorten(edges)}")
    near = Nearby.named(edges)
    if near is not None:
        rows = near.rows(vertices.table, vertices.graph)
        return _from_rows(*rows, vertices, source, target, graph, directed)
    if hasattr(edges, "nodes") and hasattr(edges, "edges") and callable(edges.nodes):
        ends = _pairs([(edge[0], edge[1]) for edge in edges.edges()])
        return _table(ends[:, 0], ends[:, 1], vertices, source, target, None)
    matrix = edges if _is_sparse(edges) else getattr(edges, "sparse", None)
    if hasattr(edges, "obsp"):
        matrix = _pairwise(edges.obsp)
    if matrix is not None and _is_sparse(matrix):
        return _from_rows(*_of_matrix(edges, matrix, vertices), vertices, source, target, graph, directed)
    array = tensor_to_array(edges) if hasattr(edges, "detach") else edges
    if isinstance(array, np.ndarray):
        return _from_rows(*_of_index(array, len(vertices.ids)), vertices, source, target, graph, directed)
    if isinstance(edges, Iterable):
        ends = _pairs(list(edges))
        return _table(ends[:, 0], ends[:, 1], vertices, source, target, None)
    raise InputError(f"edges must be {_FORMS}, got {shorten(edges)} of type {type(edges).__name__}")


def is_table(edges: Any) -> bool:
    """Whether edges are a table, or the path of one."""
    if Nearby.named(edges) is not None:
        return False
    return isinstance(edges, Table | str) or hasattr(edges, "__fspath__") or hasattr(edges, "columns")


def _pairwise(matrices: Any) -> Any:
    """The graph among the pairwise matrices of an AnnData."""
    named = [name for name in _PAIRWISE if name in matrices] or list(matrices)
    if len(named) != 1:
        raise InputError(f"obsp holds the matrices {enumerate_briefly(named)}; pass one of them, as data.obsp['…']")
    return matrices[named[0]]


def _is_sparse(edges: Any) -> bool:
    return hasattr(edges, "tocoo") and hasattr(edges, "nnz")


def _pairs(edges: list[Any]) -> NDArray[Any]:
    """[E, 2] ids, of any type."""
    ends = np.empty((len(edges), 2), dtype=object)
    for row, edge in enumerate(edges):
        if isinstance(edge, str) or not hasattr(edge, "__len__") or len(edge) != 2:
            raise InputError(f"edges, entry {row}: expected a pair of ids, got {shorten(edge)}")
        ends[row] = list(edge)
    return ends


def _of_index(array: NDArray[Any], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows that send and rows that receive."""
    if array.ndim != 2 or array.shape[0] != 2:
        raise InputError(f"an array of edges has shape [2, E], sources above targets, got {list(array.shape)}")
    if array.size and array.dtype.kind not in "iu":
        raise InputError(f"an array of edges holds row numbers of the vertices, got {array.dtype}")
    source, target = array.astype(np.int64)
    for role, ends in (("source", source), ("target", target)):
        for edge in np.flatnonzero((ends < 0) | (ends >= count))[:1].tolist():
            raise InputError(f"edges, column {edge}: {role} {ends[edge]} is no row of the {count} vertices")
    return source, target


def _of_matrix(edges: Any, matrix: Any, vertices: Vertices) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    count = len(vertices.ids)
    if tuple(matrix.shape) != (count, count):
        raise InputError(f"a matrix of edges has a row for each of the {count} vertices, got shape {matrix.shape}")
    entries = matrix.tocoo()
    there = entries.data != 0
    weights = entries.data[there]
    target, source = entries.row[there].astype(np.int64), entries.col[there].astype(np.int64)
    rows = np.bincount(target, minlength=count)
    # 1 / (number of neighbours) is what a mean over neighbours does anyway.
    if len(weights) and not (np.allclose(weights, weights[0]) or np.allclose(weights, 1 / rows[target])):
        _log.warning("the weights of the edges are left out: an edge is there or not")
    order = getattr(edges, "id_order", getattr(edges, "unique_ids", None))
    if order is None:
        return source, target
    # Weights of places name their rows; a table in another order is found by these.
    place = _rows_of(list(order), vertices)
    source, target = place[source], place[target]
    in_order = np.lexsort([source, target])  # as if the rows had been in the table's order
    return source[in_order], target[in_order]


def _rows_of(order: list[Any], vertices: Vertices) -> NDArray[np.int64]:
    """Rows by what weights call them: the vertices' ids, or else the rows' labels or numbers."""
    known = {id: row for row, id in enumerate(vertices.ids.tolist())}
    if not all(name in known for name in order):
        known = {label: row for row, label in enumerate(vertices.table.frame.index.tolist())}
    for name in order:
        if name not in known:
            raise InputError(f"edges name the vertex {show(name)}, which is no id of {vertices.table.name}")
    return np.array([known[name] for name in order], dtype=np.int64)


def _from_rows(
    source: NDArray[np.int64],
    target: NDArray[np.int64],
    vertices: Vertices,
    source_name: str,
    target_name: str,
    graph: str | None,
    directed: bool | str,
) -> Any:
    crossing = np.flatnonzero(vertices.graph[source] != vertices.graph[target])
    for edge in crossing[:1].tolist():
        ends = f"{show(vertices.ids[source[edge]])} and {show(vertices.ids[target[edge]])}"
        raise InputError(f"an edge joins {ends}, which are of different graphs; it must stay in one")
    if not directed:
        kept, alone = pair_up(source, target, None)
        if alone.any() and not alone.all():
            _log.info("%s of %s edges are named from one end only, and apply both ways", f"{alone.sum():,}", len(kept))
        source, target = source[kept], target[kept]
    groups = None if graph is None else (graph, vertices.graphs[vertices.graph[source]])
    return _table(vertices.ids[source], vertices.ids[target], vertices, source_name, target_name, groups)


def _table(
    source: NDArray[Any],
    target: NDArray[Any],
    vertices: Vertices,
    source_name: str,
    target_name: str,
    groups: tuple[str, NDArray[Any]] | None,
) -> Any:
    columns = {source_name: source, target_name: target} | ({} if groups is None else {groups[0]: groups[1]})
    frame = import_pandas().DataFrame(columns)
    if not len(frame):  # without a row a column has no type to compare ids by
        frame = frame.astype(dict.fromkeys((source_name, target_name), vertices.ids.dtype))
    return frame
