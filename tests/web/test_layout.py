"""Places of vertices: the same every time, neighbours near each other, nobody on top of another."""

from __future__ import annotations

import numpy as np
import pytest

from gspn.web.layout import spread


@pytest.mark.parametrize("size", [1, 2, 7, 60])
def test_a_ring_and_some_alone(size: int) -> None:
    around = np.arange(size)
    pairs = np.stack([around, (around + 1) % size])
    places = spread(size + 3, pairs)
    assert places.shape == (size + 3, 2)
    assert np.isfinite(places).all()
    apart = np.linalg.norm(places[:, None] - places[None], axis=2) + np.eye(size + 3) * 9
    assert apart.min() > 0.1
    np.testing.assert_array_equal(places, spread(size + 3, pairs))


def test_neighbours_are_near() -> None:
    pairs = np.array([[u, u + 1] for u in range(29)]).T
    places = spread(30, pairs)
    near = np.linalg.norm(places[pairs[0]] - places[pairs[1]], axis=1)
    everyone = np.linalg.norm(places[:, None] - places[None], axis=2)
    np.testing.assert_allclose(near, 1, atol=0.2)
    assert near.max() < np.median(everyone)
    assert np.ptp(places[:, 0]) >= np.ptp(places[:, 1])


def test_no_edges_and_a_large_graph() -> None:
    assert np.isfinite(spread(5, np.zeros((2, 0), dtype=np.int64))).all()
    hub = np.stack([np.zeros(999, dtype=np.int64), np.arange(1, 1_000)])
    assert np.isfinite(spread(1_000, hub)).all()
