"""Compiled copying of chosen graphs into one batch: no Python work, and no index arrays, per graph or edge."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., Any])
Integers = NDArray[np.int64]


def compiled(function: Function) -> Function:
    """Compile with Numba, keeping the machine code on disk where there is a place for it."""
    options: dict[str, Any] = {"nogil": True, "boundscheck": False}
    try:
        return numba.njit(cache=True, **options)(function)  # type: ignore[no-any-return]
    except RuntimeError as error:  # no folder that could hold the cache
        logging.getLogger(__name__).info("%s is compiled anew in every process: %s", function.__name__, error)
        return numba.njit(**options)(function)  # type: ignore[no-any-return]


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
        first, last = row_ptr[start], row_ptr[end]
        for v in range(end - start):
            own_row_ptr[vertices + v + 1] = row_ptr[start + v + 1] - first + edges
            largest = max(largest, row_ptr[start + v + 1] - row_ptr[start + v])
            for c in range(x.shape[1]):
                own_x[vertices + v, c] = x[start + v, c]
        offset = np.int32(vertices)
        for e in range(last - first):
            own_source[edges + e] = source[first + e] + offset
        vertices += end - start
        edges += last - first
    return largest
