"""Targets beside graphs: a dataset, or a selection of one, with labels of its own."""

from __future__ import annotations

import pytest
import torch
from small_graphs import EVERY_KIND, draw_graphs
from torch import Tensor

import gspn
from gspn.graphs import GraphDataset

SIZES = [len(data.x) for data in draw_graphs(6, seed=0)]


def dataset(level: str | None = None) -> GraphDataset:
    graphs = draw_graphs(6, seed=0)
    for i, data in enumerate(graphs):
        if level is not None:
            data.y = torch.full((len(data.x),), 10 * i) if level == "vertex" else torch.tensor([10 * i])
    return gspn.pack(graphs, EVERY_KIND)


def assert_only_targets_differ(found: GraphDataset, given: GraphDataset) -> None:
    for name in ("x", "source", "row_ptr", "vertex_ptr", "positions", "edge_order"):
        assert getattr(found, name) is getattr(given, name)


@pytest.mark.parametrize("before", [None, "graph", "vertex"])
@pytest.mark.parametrize("shape", [(6,), (6, 3)], ids=str)
def test_one_target_a_graph(before: str | None, shape: tuple[int, ...]) -> None:
    given = dataset(before)
    y = torch.arange(torch.Size(shape).numel()).reshape(shape).float()
    found = given.with_targets(y, "graph")
    assert_only_targets_differ(found, given)
    assert found.target_level == "graph"
    for i, data in enumerate(found):
        assert torch.equal(data.y, y[i : i + 1].double())
    order = torch.tensor([4, 0, 4, 1])
    assert torch.equal(found.batch(order).y, y[order].double())  # type: ignore[arg-type]
    assert given.target_level == before, "the dataset itself is as it was"


@pytest.mark.parametrize("before", [None, "graph", "vertex"])
def test_one_target_a_vertex(before: str | None) -> None:
    given = dataset(before)
    y = torch.arange(2.0 * sum(SIZES)).reshape(-1, 2)
    found = given.with_targets(y, "vertex")
    assert_only_targets_differ(found, given)
    assert found.target_level == "vertex"
    by_graph = y.double().split(SIZES)
    for data, own in zip(found, by_graph, strict=True):
        assert torch.equal(data.y, own)
    batch = found.batch(torch.tensor([5, 2]))
    assert isinstance(batch.y, Tensor)
    assert torch.equal(batch.y, torch.cat([by_graph[5], by_graph[2]]))


@pytest.mark.parametrize("level", ["graph", "vertex"])
def test_a_selection_has_targets_in_its_own_order(level: str) -> None:
    chosen = [5, 1, 3]
    view = dataset("graph")[chosen]
    rows = sum(SIZES[i] for i in chosen) if level == "vertex" else 3
    y = torch.arange(float(rows))[:, None]
    found = view.with_targets(y, level)
    assert torch.equal(torch.cat([data.y for data in found]), y.double())
    assert found.y is not None
    assert int(torch.isnan(found.y).sum()) == len(found.y) - rows, "graphs that were not chosen have no label"
    # A selection of the selection takes its labels along, wherever they are stored.
    again = found[torch.tensor([2, 0])]
    sizes = [SIZES[i] for i in chosen] if level == "vertex" else [1, 1, 1]
    parts = y.double().split(sizes)
    assert torch.equal(torch.cat([data.y for data in again]), torch.cat([parts[2], parts[0]]))
    assert torch.equal(torch.cat([batch.y for batch in found.chunks(10)]), y.double())  # type: ignore[misc]


def test_labels_stay_exact_and_missing_ones_missing() -> None:
    y = torch.tensor([0.1, torch.nan, 2.0**52 + 1, -1e300, 0.0, torch.nan], dtype=torch.float64)
    found = dataset().with_targets(y, "graph")
    torch.testing.assert_close(torch.cat([data.y for data in found]), y, rtol=0, atol=0, equal_nan=True)
    whole = dataset().with_targets(torch.arange(6), "graph")
    assert torch.equal(whole.batch(torch.arange(6)).y, torch.arange(6).double())  # type: ignore[arg-type]


@pytest.mark.parametrize("level", ["graph", "vertex"])
def test_graphs_that_occur_twice_cannot_have_two_labels(level: str) -> None:
    view = dataset()[[0, 1, 0]]
    rows = 2 * SIZES[0] + SIZES[1] if level == "vertex" else 3
    with pytest.raises(ValueError, match="more than once"):
        view.with_targets(torch.zeros(rows), level)


def test_targets_are_part_of_the_fingerprint() -> None:
    given = dataset()
    zeros, ones = (given.with_targets(torch.full((6, 1), value), "graph") for value in (0.0, 1.0))
    flat = given.with_targets(torch.zeros(6), "graph")
    by_vertex = given.with_targets(torch.zeros(sum(SIZES), 1), "vertex")
    assert len({one.digest() for one in (given, zeros, ones, flat, by_vertex)}) == 5
    # However they are stored.
    view = given[[3, 4]].with_targets(torch.tensor([1.0, 2.0]), "graph")
    copy = gspn.pack(draw_graphs(6, seed=0)[3:5], EVERY_KIND).with_targets(torch.tensor([1.0, 2.0]), "graph")
    assert view.digest() == copy.digest()
