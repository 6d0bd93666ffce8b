"""Groups of vertices that do not hear each other, with breadth-first search by hand as the measure."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gspn import Continuous, Schema, pack
from gspn.graphs.batch import Batch
from gspn.graphs.walks import independent_groups

SCHEMA = Schema([Continuous("x")])


def batch_of(*graphs: tuple[int, list[tuple[int, int]]]) -> Batch:
    data = [
        Data(x=torch.zeros(n, 1), edge_index=torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T)
        for n, edges in graphs
    ]
    return pack(data, SCHEMA).batch(torch.arange(len(data)))


def reached(batch: Batch, start: int, steps: int) -> set[int]:
    found = {start}
    for _ in range(steps):
        found |= {int(v) for u, v in zip(batch.source.tolist(), batch.target.tolist(), strict=True) if u in found}
    return found


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("steps", [0, 1, 2, 4])
def test_no_two_of_a_group_hear_each_other(seed: int, steps: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, size=3)
    edges = [[(int(u), int(v)) for u, v in rng.integers(n, size=(int(1.5 * n), 2))] for n in sizes]
    batch = batch_of(*zip(sizes.tolist(), edges, strict=True))
    vertices = torch.from_numpy(np.flatnonzero(rng.random(batch.num_vertices) < 0.8))
    groups = independent_groups(batch, vertices, steps)
    assert sorted(torch.cat([*groups, vertices[:0]]).tolist()) == vertices.tolist()
    for group in groups:
        for u, v in itertools.permutations(group.tolist(), 2):
            assert v not in reached(batch, u, steps)


def test_how_many_groups() -> None:
    path = (6, [(i, i + 1) for i in range(5)] + [(i + 1, i) for i in range(5)])
    everyone = torch.arange(12)
    assert [len(independent_groups(batch_of(path, path), everyone, steps)) for steps in (0, 1, 2, 5)] == [1, 2, 3, 6]
    assert independent_groups(batch_of(path), torch.arange(0), 2) == []


def test_too_many_pairs_are_one_vertex_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gspn.graphs.walks._MOST_PAIRS", 3)
    path = (4, [(0, 1), (1, 2), (2, 3)])
    assert [group.tolist() for group in independent_groups(batch_of(path), torch.arange(4), 2)] == [[0], [1], [2], [3]]
