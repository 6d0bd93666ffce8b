"""The loss itself, with torch's as the measure."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small_embeddings import KIND

from gspn import Binary, Continuous, Count, Schema
from gspn.predictors.outputs import outputs_for


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_losses_and_gradients_are_those_of_torch(scale: float) -> None:
    """Also of large outputs, which must not overflow, and of missing labels."""
    target = Schema([KIND, Binary("toxic"), Continuous("energy"), Count("rings")])
    y = np.array([[0.0, 1.0, 3.0, 2.0], [2.0, 0.0, -1.0, 0.0], [1.0, math.nan, math.nan, 5.0]])
    outputs = outputs_for(target, y)
    standard = torch.from_numpy(y.copy())
    standard[:, 2] = (standard[:, 2] - standard[:2, 2].mean()) / standard[:2, 2].std(correction=0)
    found = torch.from_numpy(scale * np.random.default_rng(0).normal(size=(2, 3, 6))).requires_grad_()
    losses = outputs.losses(found, torch.from_numpy(y))
    losses.sum().backward()
    assert found.grad is not None
    for head in range(2):
        o, t = found.detach()[head].clone().requires_grad_(), standard
        expected = (
            F.cross_entropy(o[:, :3], t[:, 0].long(), reduction="sum")
            + F.binary_cross_entropy_with_logits(o[:2, 3], t[:2, 1], reduction="sum")
            + F.l1_loss(o[:2, 4], t[:2, 2], reduction="sum")
            + F.poisson_nll_loss(o[:, 5] + math.log(7 / 3), t[:, 3], reduction="sum")
        )
        expected.backward()
        assert losses[head].item() == pytest.approx(expected.item(), rel=1e-12)
        torch.testing.assert_close(found.grad[head], o.grad, rtol=1e-10, atol=1e-12)


def test_a_missing_label_is_no_loss_however_large_the_output() -> None:
    """exp(1000) is infinite, and infinity times 0 would be no gradient."""
    outputs = outputs_for(Count("rings"), np.array([[1.0], [0.0]]))
    found = torch.tensor([[[1000.0], [0.0]]], dtype=torch.float64, requires_grad=True)
    outputs.losses(found, torch.tensor([[math.nan], [1.0]])).sum().backward()
    assert found.grad is not None
    assert found.grad[0, 0, 0] == 0
    assert found.grad[0, 1, 0].isfinite()


def test_outputs_that_are_non_finite_have_no_loss() -> None:
    """Else a diverged head would seem to be a good one."""
    for target in (KIND, Binary("toxic"), Continuous("energy"), Count("rings")):
        y = np.array([[1.0], [0.0]])
        outputs = outputs_for(target, y)
        found = torch.full((1, 2, int(outputs.ends[-1])), math.nan)
        assert outputs.losses(found, torch.from_numpy(y)).isnan().all()
