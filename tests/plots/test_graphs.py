"""Drawings of graphs: layout, arrows, the same places for two versions, limits."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from gspn.errors import InputError
from gspn.plots.graphs import draw_graph, draw_graphs, vertex_positions


def graph(vertices: int, edges: list[tuple[int, int]], both: bool = True) -> Data:
    index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
    return Data(num_nodes=vertices, edge_index=torch.cat([index, index.flip(0)], 1) if both else index)


RING = graph(6, [(v, (v + 1) % 6) for v in range(6)])


@given(st.integers(1, 12), st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=20), st.booleans())
@settings(max_examples=40)
def test_any_graph_can_be_drawn(vertices: int, edges: list[tuple[int, int]], both: bool) -> None:
    any_graph = graph(vertices, [(u % vertices, v % vertices) for u, v in edges], both)
    (found,) = drawn.panels(draw_graph(any_graph, np.arange(vertices), size=(300, 200)))
    places = np.array([v.place for v in found])
    assert len(found) == vertices
    assert np.isfinite(places).all()
    assert (places > 0).all()
    assert (places < [300, 200]).all()
    assert len({tuple(np.round(place, 1)) for place in places}) == vertices


def test_the_layout_is_the_same_every_time_and_shows_the_structure() -> None:
    positions = vertex_positions(RING)
    assert np.array_equal(positions, vertex_positions(RING))
    middle = np.linalg.norm(positions - positions.mean(0), axis=1)
    assert middle == pytest.approx(np.full(6, middle.mean()), rel=0.02)


def test_parts_stand_side_by_side() -> None:
    positions = vertex_positions(graph(9, [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)]))
    apart = np.linalg.norm(positions[:, None] - positions, axis=-1) + 9 * np.eye(9)
    assert apart.min() > 0.8


def test_two_versions_share_places_and_scale() -> None:
    cut = graph(6, [(v, v + 1) for v in range(5)])
    svg = draw_graphs([RING, cut], [np.arange(6), -np.arange(6)], titles=["before", "after"], label="nats")
    before, after = drawn.panels(svg)
    assert [v.place for v in before] == [v.place for v in after]
    assert before[0].colour == after[0].colour
    assert before[5].colour != after[5].colour
    assert [len(lines) for lines in drawn.edges(svg)] == [6, 5]
    assert drawn.legend(svg)[0] == "nats"


def test_one_way_edges_are_arrows_and_parallel_ones_are_drawn_once() -> None:
    one_way = graph(3, [(0, 1), (0, 1), (1, 2), (2, 1), (2, 2)], both=False)
    (lines,) = drawn.edges(draw_graph(one_way, [1, 2, 3]))
    assert len(lines) == 2 + 1 + 1  # the arrow has a shaft and a head


def test_given_positions_are_kept() -> None:
    (found,) = drawn.panels(draw_graph(graph(2, [(0, 1)]), [1, 2], positions=[[0, 0], [0, 5]], labels=["<a>", "b"]))
    assert found[0].place[0] == found[1].place[0]
    assert found[0].place[1] > found[1].place[1]
    assert found[0].text == "<a>"


@pytest.mark.parametrize(
    ("drawn_graph", "values", "settings", "reason"),
    [
        (graph(501, []), np.zeros(501), {}, "a drawing of 501 vertices and 0 edges cannot be read"),
        (graph(3, [(0, 1)] * 2501), [0, 0, 0], {}, "5,002 edges cannot be read"),
        (graph(0, []), [], {}, "without vertices"),
        (graph(2, [(0, 5)]), [0, 0], {}, "edge_index goes to vertex 5, but there are 2 vertices"),
        (RING, [0] * 5, {}, r"values\[0\] has 5 numbers for 6 vertices"),
        (RING, [0] * 6, {"labels": "ab"}, "there are 2 labels for 6 vertices"),
        (RING, [0] * 6, {"positions": np.zeros((5, 2))}, r"positions must be \[6, 2\], got \[5, 2\]"),
        ([RING], [0] * 6, {}, "a graph is a torch_geometric Data, got list"),
    ],
)
def test_bad_input_is_named(drawn_graph: Any, values: Any, settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        draw_graph(drawn_graph, values, **settings)


def test_versions_have_the_same_vertices() -> None:
    with pytest.raises(InputError, match="graph 1 has 2 vertices and the first one 6"):
        draw_graphs([RING, graph(2, [])], [np.zeros(6), np.zeros(2)])


def test_a_large_graph_is_laid_out() -> None:
    star = graph(150, [(0, v) for v in range(1, 150)])
    assert np.isfinite(vertex_positions(star)).all()
