"""Training on one larger graph: all of it in one step, through the fast kernel with two threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from gspn import GSPN, Categorical, Continuous, Schema
from gspn.kernels.compiled.fast import fast

VERTICES, DEGREE = 20_000, 5
SCHEMA = Schema([Categorical("label", ["a", "b", "c"]), Continuous("value")])


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def large_graph() -> Data:
    """Vertices of two kinds, which show in the attributes; most edges run within a kind."""
    rng = np.random.default_rng(0)
    kind = np.arange(VERTICES) % 2
    source = rng.integers(VERTICES, size=VERTICES * DEGREE)
    target = (source + 2 * rng.integers(VERTICES // 2, size=len(source)) + (rng.random(len(source)) < 0.1)) % VERTICES
    x = np.stack([np.where(rng.random(VERTICES) < 0.7, kind, 2), rng.normal(np.where(kind, 2.0, -2.0), 1.0)], axis=1)
    x[rng.random(x.shape) < 0.1] = np.nan
    return Data(x=torch.from_numpy(x), edge_index=torch.from_numpy(np.stack([source, target])))


def gradients(model: GSPN, data: Data) -> dict[str, Tensor]:
    model.zero_grad()
    model(model.collate(data)).log_likelihood.mean().backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None}


def test_fit_on_one_graph_and_its_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    data = large_graph()
    calls: list[int] = []

    def counted(*given: Any) -> object:
        calls.append(torch.get_num_threads())
        return fast(*given)

    monkeypatch.setattr("gspn.kernels.compiled.fast.fast", counted)
    monkeypatch.setenv("GSPN_KERNEL", "fast")
    model = GSPN(SCHEMA, num_layers=4, num_states=5, epochs=4, lr=0.1).double().fit(data, progress=False)
    losses = [record["train"] for record in model.history_]
    assert losses == sorted(losses, reverse=True), "one step per epoch over all vertices goes downhill"
    assert set(calls) == {2}
    ours = gradients(model, data)
    monkeypatch.setenv("GSPN_KERNEL", "reference")
    theirs = gradients(model, data)
    assert set(ours) == set(theirs) == {name for name, _ in model.named_parameters()}
    for name, gradient in theirs.items():
        # The contract of both kernels in float64, relative to the tensor's largest magnitude.
        scale = gradient.abs().max().item()
        torch.testing.assert_close(ours[name], gradient, rtol=0, atol=1e-10 * scale, msg=name)
