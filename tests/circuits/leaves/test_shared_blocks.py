"""Densities under a shared covariance: as in plain torch, with all gradients, and as exact far away."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from gspn.circuits.leaves.blocks import Patterns, log_density, solve_plainly
from gspn.circuits.leaves.shared_blocks import shared_log_density

STACKS, ROWS, LEAVES, COLUMNS = 2, 60, 5, 4


def given(far: float = 0.0) -> tuple[Tensor, Tensor, Tensor, Patterns]:
    """Rows with gaps, one of them unknown altogether, means and covariances."""
    generator = torch.Generator().manual_seed(0)
    x = far + torch.randn(ROWS, COLUMNS, generator=generator, dtype=torch.float64)
    x[torch.rand(x.shape, generator=generator) < 0.4] = torch.nan
    x[7] = torch.nan
    mean = far + torch.randn(STACKS, LEAVES, COLUMNS, generator=generator, dtype=torch.float64)
    mixed = torch.randn(STACKS, COLUMNS, COLUMNS, generator=generator, dtype=torch.float64)
    return x.nan_to_num(0.0), mean, mixed @ mixed.mT + 0.1 * torch.eye(COLUMNS).double(), Patterns.of(x)


def gradients(value: Tensor, of: list[Tensor]) -> list[Tensor]:
    weights = torch.randn(value.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return list(torch.autograd.grad((weights * value).sum(), of))


@pytest.mark.parametrize("shared", [True, False], ids=["whitened once", "leaf by leaf"])
def test_values_and_gradients_are_those_of_plain_torch(shared: bool) -> None:
    x, mean, covariance, patterns = given()
    leaves = [value.requires_grad_() for value in (x, mean, covariance)]
    one = covariance[:, None, None]
    plain = solve_plainly(x, mean[:, None], one, patterns).log_density
    if shared:
        found = shared_log_density(x, mean, covariance, patterns)
    else:
        found = log_density(x, mean[:, None], one, patterns)
    torch.testing.assert_close(found, plain, rtol=1e-12, atol=1e-12)
    for own, expected in zip(gradients(found, leaves), gradients(plain, leaves), strict=True):
        torch.testing.assert_close(own, expected, rtol=1e-10, atol=1e-10)


def test_rows_and_means_that_are_far_away_together_lose_little() -> None:
    """A million deviations from zero cost six of sixteen digits of the differences, no more."""
    near, far = given(), given(far=2.0**20)
    torch.testing.assert_close(shared_log_density(*far), shared_log_density(*near), rtol=1e-7, atol=1e-7)


def test_unknown_entries_are_not_read() -> None:
    x, mean, covariance, patterns = given()
    other = torch.where(patterns.known[patterns.of_row], x, 1e9)
    assert torch.equal(
        shared_log_density(other, mean, covariance, patterns), shared_log_density(x, mean, covariance, patterns)
    )
