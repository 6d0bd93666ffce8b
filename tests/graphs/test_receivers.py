"""Edges sorted by receiving vertex: numpy's stable sort is the measure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gspn.graphs.assembly import arrange, first_outside, order_by_receiver


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("seed", range(20))
def test_sorted_stably_graph_by_graph(seed: int, dtype: type) -> None:
    """Graphs without vertices or edges, parallel edges and vertices that receive nothing among them."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 6, size=rng.integers(1, 8))
    edges = np.where(sizes > 0, rng.integers(0, 20, size=len(sizes)), 0)
    vertex_ptr, edge_ptr = (np.concatenate([[0], np.cumsum(counts)]) for counts in (sizes, edges))
    graph = np.repeat(np.arange(len(sizes)), edges)
    source: NDArray[Any] = rng.integers(0, np.maximum(sizes, 1)[graph]).astype(dtype)
    receiver: NDArray[Any] = rng.integers(0, np.maximum(sizes, 1)[graph]).astype(dtype)
    if seed % 4 == 0:
        receiver = receiver[np.lexsort((receiver, graph))]
    flat = receiver + vertex_ptr[graph]
    expected = np.argsort(flat, kind="stable")
    row_ptr, order = np.zeros(sizes.sum() + 1, np.int64), np.empty(len(source), np.int32)
    in_order = order_by_receiver(receiver, vertex_ptr, edge_ptr, row_ptr, order)
    np.testing.assert_array_equal(order + edge_ptr[graph], expected)
    np.testing.assert_array_equal(row_ptr, np.searchsorted(flat[expected], np.arange(len(row_ptr))))
    assert in_order == (expected == np.arange(len(expected))).all()
    assert in_order or seed % 4
    arranged = np.empty_like(source)
    arrange(source, order, edge_ptr, arranged)
    np.testing.assert_array_equal(arranged, source[expected])
    assert first_outside(source, receiver, vertex_ptr, edge_ptr) == -1
    for ends in (source, receiver):
        for wrong in (-1, 6):
            if len(ends):
                at = int(rng.integers(len(ends)))
                before, ends[at] = ends[at], wrong
                assert first_outside(source, receiver, vertex_ptr, edge_ptr) == at
                ends[at] = before
