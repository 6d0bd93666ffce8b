"""Searches in a batch against the obvious way: distances by powers of the adjacency matrix."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_graphs import EVERY_KIND, draw_graphs
from torch import Tensor

from gspn.graphs import Batch, pack
from gspn.graphs.walks import Neighbourhood

FAR = 10**6


def batch_of(seed: int) -> Batch:
    dataset = pack(draw_graphs(3, seed=seed, sizes=(1, 9)), EVERY_KIND)
    return dataset.batch(torch.arange(len(dataset)))


def distances(batch: Batch) -> Tensor:
    """[N, N] steps from row to column."""
    n = batch.num_vertices
    step = torch.zeros(n, n)
    step[batch.source.long(), batch.target.long()] = 1
    found, walk = torch.full((n, n), FAR), torch.eye(n)
    for length in range(n):
        found = torch.where((walk > 0) & (found == FAR), length, found)
        walk = (walk @ step).clamp_max(1)
    return found


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), steps=st.integers(0, 6))
def test_searches(seed: int, steps: int) -> None:
    batch = batch_of(seed)
    n, truth, whole = batch.num_vertices, distances(batch), Neighbourhood.of(batch)
    starts = torch.arange(n).flip(0)
    on_walks = (truth[starts] + truth[:, starts].T <= steps).flatten().nonzero().squeeze(1)
    walks = whole.closed_walks(starts, steps, None)
    assert walks is not None
    assert walks.tolist() == on_walks.tolist()
    found = whole.within_reach(starts, steps, None)
    assert found is not None
    near = truth[starts].flatten()
    assert found[0].tolist() == (near <= steps).nonzero().squeeze(1).tolist()
    assert found[1].tolist() == near[near <= steps].tolist()
    some = starts[:2]
    assert whole.ancestors(some, steps).tolist() == (truth[:, some] <= steps).any(1).tolist()
    owner, edge = whole.edges_into(starts)
    assert torch.equal(batch.target[edge].long(), starts[owner])
    assert sorted(edge.tolist()) == list(range(batch.num_edges))


@pytest.mark.parametrize("budget", [0, 1, 5, 20])
def test_a_budget_is_kept(budget: int) -> None:
    batch = batch_of(3)
    whole, everyone = Neighbourhood.of(batch), torch.arange(batch.num_vertices)
    for keys in (whole.closed_walks(everyone, 2, None), (whole.within_reach(everyone, 2, None) or (None,))[0]):
        assert keys is not None
        assert len(keys) > 20
    assert whole.closed_walks(everyone, 2, budget) is None
    assert whole.within_reach(everyone, 2, budget) is None
