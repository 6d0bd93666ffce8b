"""Edges of many graphs sorted by receiving vertex: counted and placed in compiled loops that take little memory.

Edges lie graph after graph, numbered inside their graphs; `vertex_ptr` and `edge_ptr` [G + 1] say which are whose.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gspn.compiling import compiled
from gspn.graphs.assembly import Integers


@compiled
def first_outside(source: Any, receiver: Any, vertex_ptr: Integers, edge_ptr: Integers) -> int:
    """The first edge with an end that its graph does not have; -1 if there is none."""
    for g in range(len(vertex_ptr) - 1):
        size = vertex_ptr[g + 1] - vertex_ptr[g]
        for e in range(edge_ptr[g], edge_ptr[g + 1]):
            if source[e] < 0 or source[e] >= size or receiver[e] < 0 or receiver[e] >= size:
                return e
    return -1


@compiled
def order_by_receiver(
    receiver: Any, vertex_ptr: Integers, edge_ptr: Integers, row_ptr: Integers, order: NDArray[np.int32]
) -> bool:
    """Fill `row_ptr` [ΣN + 1], zeros before, and `order` [ΣE]: which of its graph's edges comes at each place, stably.

    Gives whether they were in order already.
    """
    for g in range(len(vertex_ptr) - 1):
        first = vertex_ptr[g] + 1
        for e in range(edge_ptr[g], edge_ptr[g + 1]):
            row_ptr[first + receiver[e]] += 1
    for v in range(1, len(row_ptr)):
        row_ptr[v] += row_ptr[v - 1]
    place, sorted_already = row_ptr[:-1].copy(), True
    for g in range(len(vertex_ptr) - 1):
        first, start = vertex_ptr[g], edge_ptr[g]
        for e in range(start, edge_ptr[g + 1]):
            at = place[first + receiver[e]]
            place[first + receiver[e]] = at + 1
            order[at] = e - start
            sorted_already &= at == e
    return sorted_already


@compiled
def arrange(values: Any, order: NDArray[np.int32], edge_ptr: Integers, arranged: Any) -> None:
    """What every edge has, in that order."""
    for g in range(len(edge_ptr) - 1):
        start = edge_ptr[g]
        for e in range(start, edge_ptr[g + 1]):
            arranged[e] = values[start + order[e]]
