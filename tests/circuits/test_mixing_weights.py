"""Weights that make held-out observations most likely: known optima, and what few or strange observations may do."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from gspn.circuits.mixing_weights import weights_maximising
from gspn.errors import InputError


def objective(scores: Tensor, weights: Tensor, pull: float) -> Tensor:
    """[…] of weights […, M]."""
    likelihood = torch.logsumexp(scores + weights[..., None, :].log(), dim=-1)
    return likelihood.sum(-1) + pull * weights.log().sum(-1)


def drawn(rows: int, components: int, seed: int) -> Tensor:
    return 2 * torch.randn(rows, components, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(("first", "second", "pull"), [(30, 70, 1.0), (30, 70, 10.0), (1, 0, 0.5), (0, 0, 1.0)])
def test_observations_that_one_component_alone_explains_are_counted(first: int, second: int, pull: float) -> None:
    """With log-densities of −∞ for the other, the optimum is that of a Dirichlet posterior's mode."""
    scores = torch.full((first + second, 2), -torch.inf)
    scores[:first, 0], scores[first:, 1] = -3.0, 5.0
    found = weights_maximising(scores, pull)
    expected = torch.tensor([first + pull, second + pull], dtype=torch.float64) / (first + second + 2 * pull)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)


def test_an_optimum_that_a_quadratic_equation_gives() -> None:
    """Densities (1, r) in half of the rows and (1, 1/s) in the others, so that the slope at w is a fraction in w."""
    ratios = torch.tensor([3.0, 0.2], dtype=torch.float64)
    scores = torch.stack([torch.zeros(1_000_000, dtype=torch.float64), ratios.repeat(500_000).log()], dim=1)
    # Without a pull: Σ_k (r_k − 1) / (1 + w (r_k − 1)) = 0, so w = −(a + b) / (2 a b) with a = r_1 − 1, b = r_2 − 1.
    a, b = (ratios - 1).tolist()
    found = weights_maximising(scores, 1e-6)
    assert found[1].item() == pytest.approx(-(a + b) / (2 * a * b), rel=1e-9)


@pytest.mark.parametrize("components", [1, 2, 5])
@pytest.mark.parametrize("rows", [0, 3, 2_000])
@pytest.mark.parametrize("pull", [1e-3, 1.0])
def test_no_other_weights_are_better(components: int, rows: int, pull: float) -> None:
    scores = drawn(rows, components, seed=rows + components)
    found = weights_maximising(scores, pull)
    assert found.sum().item() == pytest.approx(1, abs=1e-14)
    assert (found > 0).all()
    # Concave: at the maximum under Σ w = 1 the slope is the same for all components.
    shares = torch.exp(scores - torch.logsumexp(scores + found.log(), dim=1, keepdim=True))
    slope = shares.sum(0) + pull / found
    torch.testing.assert_close(slope, torch.full_like(slope, rows + components * pull), rtol=1e-7, atol=1e-7)
    others = torch.rand(200, components, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 1e-3
    others = others / others.sum(1, keepdim=True)
    assert (objective(scores, others, pull) <= objective(scores, found, pull) + 1e-9).all()


def test_nearly_equal_components_are_weighed_nearly_equally() -> None:
    one = drawn(10_000, 1, seed=0)
    torch.testing.assert_close(weights_maximising(one.expand(-1, 3)), torch.full((3,), 1 / 3, dtype=torch.float64))
    found = weights_maximising(torch.cat([one, one + 1e-6 * drawn(10_000, 1, seed=1)], dim=1))
    assert (found - 0.5).abs().max() < 1e-2  # of a slope of about 1e-4 and a curvature of the pull alone


def test_one_observation_counts_once_however_large_its_score() -> None:
    scores = torch.zeros(50, 2, dtype=torch.float64)
    scores[:, 1] = -1.0  # the first component is better everywhere …
    scores[0] = torch.tensor([0.0, 1e4])  # … but for an exact repeat, on which the second has a needle
    found = weights_maximising(scores)
    scores[0, 1] = 30.0
    torch.testing.assert_close(found, weights_maximising(scores), rtol=1e-9, atol=0)
    assert found[1] < 0.15


def test_few_observations_change_little_and_none_nothing() -> None:
    one = torch.tensor([[0.0, 5.0]])
    assert weights_maximising(torch.zeros(0, 4)).tolist() == [0.25] * 4
    assert 0.5 < weights_maximising(one)[1] < 2 / 3
    assert weights_maximising(one, pull=100.0)[1] < 0.51


def test_the_order_of_components_does_not_matter() -> None:
    scores, order = drawn(300, 4, seed=2), torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(
        weights_maximising(scores[:, order]), weights_maximising(scores)[order], rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize(
    ("scores", "pull", "message"),
    [
        (torch.zeros(3), 1.0, r"\[observations, components\].*got \[3\]"),
        (torch.zeros(3, 0), 1.0, r"got \[3, 0\]"),
        ([[0.0]], 1.0, "got list"),
        (torch.tensor([[0.0, 0.0], [0.0, math.nan]]), 1.0, "row 1, component 1: nan is no log-density"),
        (torch.tensor([[math.inf, 0.0]]), 1.0, "row 0, component 0: inf"),
        (torch.tensor([[0.0, 0.0], [-math.inf, -math.inf]]), 1.0, "row 1: no component"),
        (torch.zeros(3, 2), 0.0, "pull must be a number above 0, got 0"),
        (torch.zeros(3, 2), math.nan, "pull"),
    ],
)
def test_refusals(scores: Tensor, pull: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        weights_maximising(scores, pull)
