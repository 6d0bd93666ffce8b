"""Compiled loops over packed graphs: edges sorted by receiving vertex, and chosen graphs copied into one batch.

No Python work, and no index arrays, per graph or edge; sorting takes little memory. Edges lie graph after graph,
numbered inside their graphs; `vertex_ptr` and `edge_ptr` [G + 1] say which are whose.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gspn.compiling import compiled

Integers = NDArray[np.int64]


@compiled
def measure(chosen: Integers, vertex_ptr: Integers, row_ptr: Integers, own_ptr: Integers) -> int:
    """Fill the batch's own vertex pointer [len(chosen) + 1]; gives its number of edges."""
    edges = 0
    own_ptr[0] = 0
    for i in range(len(chosen)):
        start, end = vertex_ptr[chosen[i]], vertex_ptr[chosen[i] + 1]
        own_ptr[i + 1] = own_ptr[i] + end - start
        edges += row_ptr[end] - row_ptr[start]
    return edges


@compiled
def copy_graphs(
    chosen: Integers,
    vertex_ptr: Integers,
    row_ptr: Integers,
    source: NDArray[np.int32],
    x: NDArray[Any],
    own_source: NDArray[np.int32],
    own_row_ptr: Integers,
    own_x: NDArray[np.float64],
) -> int:
    """Copy entries, row pointers and senders, vertices numbered through; gives the largest in-degree."""
    vertices, edges, largest = 0, 0, 0
    own_row_ptr[0] = 0
    for i in range(len(chosen)):
        start, end = vertex_ptr[chosen[i]], vertex_ptr[chosen[i] + 1]
        size = end - start
        # Slices first, plain loops over them after: only so the compiler knows the bounds and uses vector instructions.
        old_rows, new_rows = row_ptr[start : end + 1], own_row_ptr[vertices + 1 : vertices + size + 1]
        shift = edges - old_rows[0]
        for v in range(size):
            new_rows[v] = old_rows[v + 1] + shift
            largest = max(largest, old_rows[v + 1] - old_rows[v])
        old_x, new_x = x[start:end].ravel(), own_x[vertices : vertices + size].ravel()
        for k in range(len(old_x)):
            new_x[k] = old_x[k]
        old_source = source[old_rows[0] : old_rows[size]]
        new_source = own_source[edges : edges + len(old_source)]
        offset = np.int32(vertices)
        for e in range(len(old_source)):
            new_source[e] = old_source[e] + offset
        vertices += size
        edges += len(old_source)
    return largest


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
