"""A model saved by an early version must load for ever and say the same.

The files under `tests/golden` are never rewritten; a new format adds a folder and keeps the old ones. The expected
numbers were computed in float32, so 1e-4 allows for another order of summation but for nothing else.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

import gspn

GOLDEN = Path(__file__).parents[1] / "golden"


def golden_graph() -> Data:
    nan = float("nan")
    x = torch.tensor([[0.0, 1.5, 1.0, 3.0, 7.0], [2.0, nan, 0.0, 0.0, nan], [1.0, -2.0, nan, 12.0, 40.0], [nan] * 5])
    edges = torch.tensor([[0, 1, 1, 2, 2, 0, 3], [1, 0, 2, 1, 0, 2, 3]])
    return Data(x=x, edge_index=edges, edge_type=torch.tensor([0, 0, 1, 1, 0, 1, 0]))


@pytest.mark.parametrize("folder", sorted(GOLDEN.iterdir()), ids=lambda folder: folder.name)
def test_loads_and_says_the_same(folder: Path) -> None:
    model = gspn.load(folder)
    expected = json.loads((folder / "expected.json").read_text())
    graph = golden_graph()
    torch.testing.assert_close(
        model.log_likelihood(graph), torch.tensor(expected["log_likelihood"]), rtol=1e-4, atol=1e-4
    )
    torch.testing.assert_close(
        model.log_likelihood(graph, leave_one_out=True), torch.tensor(expected["leave_one_out"]), rtol=1e-4, atol=1e-4
    )
    torch.testing.assert_close(
        model.posteriors(graph).sum(0), torch.tensor(expected["posteriors"]), rtol=1e-4, atol=1e-4
    )
    assert model.history_ == expected["history"]
