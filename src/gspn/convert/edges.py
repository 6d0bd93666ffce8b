"""Edges as rows: one row for both directions or one a direction, and rows that repeat each other.

Only arrays of vertex numbers here; where the rows come from, and what a message calls them, is the caller's business.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gspn.errors import InputError


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
