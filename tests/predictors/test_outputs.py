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
    standard = outputs.standardise(y)
    np.testing.assert_allclose(np.nanmean(standard[:, 2]), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.nanstd(standard[:, 2]), 1.0)
    found = scale * np.random.default_rng(0).normal(size=(2, 3, 6))
    gradients = np.empty_like(found)
    losses = outputs.losses(found, standard, gradients, 0.5)
    for head in range(2):
        o, t = torch.tensor(found[head], requires_grad=True), torch.from_numpy(standard)
        expected = (
            F.cross_entropy(o[:, :3], t[:, 0].long(), reduction="sum")
            + F.binary_cross_entropy_with_logits(o[:2, 3], t[:2, 1], reduction="sum")
            + F.l1_loss(o[:2, 4], t[:2, 2], reduction="sum")
            + F.poisson_nll_loss(o[:, 5] + math.log(7 / 3), t[:, 3], reduction="sum")
        )
        expected.backward()
        assert losses[head] == pytest.approx(expected.item(), rel=1e-12)
        assert o.grad is not None
        np.testing.assert_allclose(gradients[head], 0.5 * o.grad.numpy(), rtol=1e-10, atol=1e-12)


def test_outputs_that_are_no_numbers_have_no_loss() -> None:
    """Else a diverged head would seem to be a good one."""
    for target in (KIND, Binary("toxic"), Continuous("energy"), Count("rings")):
        outputs = outputs_for(target, np.array([[1.0], [0.0]]))
        found = np.full((1, 2, int(outputs.ends[-1])), math.nan)
        assert np.isnan(outputs.losses(found, np.array([[1.0], [0.0]]), found, 1.0)).all()
