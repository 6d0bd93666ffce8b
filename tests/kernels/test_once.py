"""Second derivatives: the reference has them; the fast kernel says so instead of giving others."""

from __future__ import annotations

import copy

import pytest
import torch
from small_graphs import EVERY_KIND, draw_graphs
from small_models import random_model
from torch import Tensor

from gspn import GSPN, Binary, SupervisedGSPN
from gspn.errors import GSPNError

STEP = 1e-5
"""Of central differences: their error is about its square, and 1e-16 / STEP from rounding."""


def linear(values: Tensor) -> Tensor:
    return values.sum()


def bent(values: Tensor) -> Tensor:
    return values.square().sum()


LOSSES = {"linear": linear, "bent": bent}


def gradient(model: GSPN, loss: str, *, create_graph: bool = False) -> Tensor:
    """Of a loss of the log-likelihoods, or of the targets' log-probabilities, in all parameters, flat."""
    graphs = draw_graphs(3, seed=0)
    if isinstance(model, SupervisedGSPN):
        for number, graph in enumerate(graphs):
            graph.y = torch.tensor([number % 2])
        values = model(model.collate(graphs)).log_prob
    else:
        values = model(model.collate(graphs)).log_likelihood
    parameters = list(model.parameters())
    found = torch.autograd.grad(LOSSES[loss](values), parameters, create_graph=create_graph)
    return torch.cat([one.flatten() for one in found])


def make(kind: str) -> GSPN:
    if kind == "hierarchy":
        return random_model(EVERY_KIND)
    torch.manual_seed(0)
    return SupervisedGSPN(EVERY_KIND, Binary("y"), num_layers=2, num_states=3, num_graph_states=4).double()


@pytest.mark.parametrize("kind", ["hierarchy", "readout"])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_fast_kernel_names_the_way_out(kind: str, loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make(kind)
    monkeypatch.setenv("GSPN_KERNEL", "fast")
    first = gradient(model, loss, create_graph=True)
    assert torch.equal(first, gradient(model, loss))
    with pytest.raises(GSPNError, match=r"set GSPN_KERNEL=reference .* to differentiate twice"):
        torch.autograd.grad(bent(first), list(model.parameters()), allow_unused=True)


@pytest.mark.parametrize("kind", ["hierarchy", "readout"])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_reference_has_them(kind: str, loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compared with differences of the fast kernel's gradients along one direction."""
    model = make(kind)
    parameters = list(model.parameters())
    direction = [torch.randn(p.shape, dtype=p.dtype, generator=torch.Generator().manual_seed(1)) for p in parameters]

    def beside(step: float) -> Tensor:
        moved = copy.deepcopy(model)
        with torch.no_grad():
            for parameter, own in zip(moved.parameters(), direction, strict=True):
                parameter.add_(own, alpha=step)
        return gradient(moved, loss)

    monkeypatch.setenv("GSPN_KERNEL", "fast")
    expected = (beside(STEP) - beside(-STEP)) / (2 * STEP)
    monkeypatch.setenv("GSPN_KERNEL", "reference")
    along = gradient(model, loss, create_graph=True) @ torch.cat([one.flatten() for one in direction])
    found = torch.cat([one.flatten() for one in torch.autograd.grad(along, parameters)])
    assert expected.abs().max() > 0.1
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6 * float(expected.abs().max()))
