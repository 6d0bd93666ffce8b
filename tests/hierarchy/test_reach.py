"""Walks to other vertices: their probabilities are those of a linear system, and nobody reaches itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from oracle_cases import draw_edges

from gspn import Continuous, Schema
from gspn.graphs import Batch
from gspn.graphs.pack import packed
from gspn.hierarchy import reach
from gspn.hierarchy.reach import Reach


def batch_of(edges: list[tuple[int, int]], n: int) -> Batch:
    edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
    ends = torch.tensor([0, n]), torch.tensor([0, len(edges)])
    return packed(Schema([Continuous("a")]), torch.zeros(n, 1).double(), edge_index, *ends).batch(torch.arange(1))


def dense(found: Reach, n: int) -> np.ndarray:
    return found.sums(torch.eye(n)).numpy()


@pytest.mark.parametrize("kind", ["cyclic", "directed", "self-loops", "parallel", "components", "no edges"])
@pytest.mark.parametrize("stopping", [0.1, 0.3])
def test_probabilities_solve_the_linear_system(kind: str, stopping: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "_LEFT", 1e-12)
    n = 8
    edges = draw_edges(np.random.default_rng(3), kind, n)
    step = np.zeros((n, n))
    for u, v in edges:
        step[v, u] += u != v
    total = step.sum(1, keepdims=True)
    step = np.divide(step, total, out=np.zeros_like(step), where=total > 0)
    onward = (1 - stopping) * step
    expected = np.linalg.inv(np.eye(n) - onward) * (1 - onward.sum(1))[None, :]
    assert expected.sum(1) == pytest.approx(1.0)
    np.fill_diagonal(expected, 0.0)
    np.testing.assert_allclose(dense(Reach.of(batch_of(edges, n), stopping), n), expected, atol=1e-9)


def test_little_is_left_out_and_nobody_reaches_itself() -> None:
    rng = np.random.default_rng(0)
    n, number = 300, 1200
    edges = [(int(u), int(v)) for u, v in rng.integers(n, size=(number, 2))]
    found = dense(Reach.of(batch_of(edges, n), 0.1), n)
    assert (np.diag(found) == 0.0).all()
    some = np.isin(np.arange(n), [v for u, v in edges if u != v])
    assert (found.sum(1)[~some] == 0.0).all()
    # What is missing of 1: walks that stop at once or come back, and a share of every edge that may be left.
    assert (1 - found.sum(1)[some] < 0.15 + 3e-4 * (number + n)).all()


def test_graphs_of_a_batch_do_not_meet() -> None:
    edges = [(0, 1), (1, 0), (2, 3), (3, 2)]
    found = dense(Reach.of(batch_of(edges, 4), 0.3), 4)
    assert (found[:2, 2:] == 0.0).all()
    assert found[0, 1] > 0.4
