"""Compiled copying of chosen graphs into one batch: no Python work, and no index arrays, per graph or edge."""

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
