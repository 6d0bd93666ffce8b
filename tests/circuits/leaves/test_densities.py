"""Log-densities of all leaf families are scipy's, and stay numbers at the edge of float32."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch
from numpy.typing import NDArray
from seeded import generator
from small_leaves import (
    CASES,
    DTYPES,
    LEAVES,
    LEVELS,
    Case,
    by_scipy,
    log_densities,
    over_cases,
    over_dtypes,
    over_families,
    univariate,
    values,
)

from gspn.attributes import Continuous, Count
from gspn.circuits.leaves import GaussianLeaves, UnivariateLeaves
from gspn.circuits.leaves.negative_binomial import LEAST_DISPERSION


def evaluate(family: UnivariateLeaves, x: NDArray[np.float64]) -> NDArray[np.float64]:
    return family.log_density(family.natural(), torch.from_numpy(x)).detach().double().numpy()


# Densities.


@over_cases
@over_dtypes
def test_log_density_is_scipys(case: Case, dtype: torch.dtype) -> None:
    family = case.build(dtype)
    x = values(case, family)
    ours = family.log_density(family.natural(), torch.from_numpy(x))
    assert ours.shape == (LEVELS, len(x), LEAVES)
    assert ours.dtype == dtype
    expected = by_scipy(family, lambda d: log_densities(d, x)).transpose(0, 2, 1)
    tolerance = 1e-9 if dtype == torch.float64 else 3e-5
    np.testing.assert_allclose(ours.detach().double().numpy(), expected, rtol=tolerance, atol=tolerance)


@over_cases
@over_dtypes
def test_missing_is_exactly_zero_and_does_not_touch_the_gradient(case: Case, dtype: torch.dtype) -> None:
    """NaN marginalises: the same sums and the same gradients as without that row, and nothing infinite on the way."""
    family = case.build(dtype)
    x = torch.from_numpy(values(case, family))
    family.log_density(family.natural(), x).sum().backward()
    without = {name: p.grad.clone() for name, p in family.named_parameters() if p.grad is not None}
    family.zero_grad()
    gaps = torch.full((3,), torch.nan, dtype=torch.float64)
    ours = family.log_density(family.natural(), torch.cat([gaps, x, gaps]))
    ours.sum().backward()
    missing = torch.cat([ours[:, :3], ours[:, -3:]], dim=1)
    assert torch.equal(missing, torch.zeros_like(missing))
    for name, p in family.named_parameters():
        assert p.grad is not None
        assert torch.isfinite(p.grad).all()
        torch.testing.assert_close(p.grad, without[name])


@over_families
@over_dtypes
def test_a_column_without_any_value(case: Case, dtype: torch.dtype) -> None:
    family = case.build(dtype)
    ours = family.log_density(family.natural(), torch.full((4,), torch.nan, dtype=torch.float64))
    ours.sum().backward()
    assert torch.equal(ours, torch.zeros(LEVELS, 4, LEAVES, dtype=dtype))
    assert all(p.grad is not None and torch.equal(p.grad, torch.zeros_like(p)) for p in family.parameters())
    assert family.log_density(family.natural(), torch.empty(0, dtype=torch.float64)).shape == (LEVELS, 0, LEAVES)


# Numbers at the edge of float32.


@pytest.mark.parametrize("column_dtype", DTYPES, ids=lambda dtype: f"column {dtype}")
@pytest.mark.parametrize("name", ["poisson", "negative binomial"])
def test_large_counts_in_float32(name: str, column_dtype: torch.dtype) -> None:
    """Terms of size 1e6 cancel almost completely; whoever computes them in float32 loses tenths of a nat."""
    case = next(case for case in CASES if case.name == name)
    family = univariate(case.attribute, 1, 2)
    given = {"rate": [[1e5, 9.9e4]], "mean": [[1e5, 9.9e4]], "dispersion": [[1e-3, 1e-5]]}
    family.assign(family.check_exported({key: torch.tensor(given[key]) for key in family.exported}, 1))
    exact = univariate(case.attribute, 1, 2).double()
    exact.load_state_dict(family.state_dict())  # the rounded parameters
    x = torch.tensor([9.8e4, 9.95e4, 100_000, 100_001, 1.003e5, 1.01e5], dtype=torch.float64)
    ours = family.log_density(family.natural(), x.to(column_dtype))
    expected = exact.log_density(exact.natural(), x)
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours.double(), expected, rtol=1e-6, atol=1e-3)
    by_scipy_too = by_scipy(exact, lambda d: d.logpmf(x.numpy())).transpose(0, 2, 1)
    np.testing.assert_allclose(expected.detach().numpy(), by_scipy_too, rtol=1e-7, atol=1e-7)


def test_negative_binomial_at_its_least_dispersion() -> None:
    """log Γ(10⁶ + x) − log Γ(10⁶) is a difference of numbers of size 10⁷: 1e-9 each, so 1e-8 and no better."""
    family = univariate(Count("n", "negative_binomial"), 1, 1).double()
    least = torch.tensor([[LEAST_DISPERSION]], dtype=torch.float64)
    family.assign(family.check_exported({"mean": torch.tensor([[3.0]]), "dispersion": least}, 1))
    x = np.arange(40.0)
    ours = evaluate(family, x)[0, :, 0]
    # The Poisson limit: log p differs by about α((x − m)² − x)/2, below 1e-3 here.
    np.testing.assert_allclose(ours, scipy.stats.poisson(3.0).logpmf(x), atol=1e-3)
    r = 1 / family.export(family.natural())["dispersion"].item()
    rising = np.cumsum(np.concatenate([[0.0], np.log1p(x[:-1] / r)]))  # log of r(r+1)…(r+x−1)/rˣ, without Γ
    exact = rising + x * math.log(3.0) - (r + x) * math.log1p(3.0 / r) - scipy.special.gammaln(x + 1)
    np.testing.assert_allclose(ours, exact, atol=1e-8)


@over_dtypes
@pytest.mark.parametrize("std", [1e-3, 1.0, 1e3])
def test_gaussian_far_values_are_finite(std: float, dtype: torch.dtype) -> None:
    """A million deviations of the data away, even for a state at the floor: finite, and so are the gradients."""
    family = univariate(Continuous("x"), 1, 1).to(dtype)
    assert isinstance(family, GaussianLeaves)
    family.center, family.spread = 12.0, 0.5
    scale = torch.tensor([[0.5 * std]], dtype=torch.float64)
    family.assign(family.check_exported({"mean": torch.tensor([[12.0]]), "std": scale}, 1))
    x = torch.tensor([-1e6, 1e6]).double() * family.spread + family.center
    ours = family.log_density(family.natural(), x)
    ours.sum().backward()
    expected = by_scipy(family, lambda d: d.logpdf(x.numpy())).transpose(0, 2, 1)
    np.testing.assert_allclose(ours.detach().double().numpy(), expected, rtol=1e-5)
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in family.parameters())


def test_time_stamps_in_a_float32_model() -> None:
    """Seconds since 1970 are rounded to 128 s in float32: only standardising before rounding keeps them apart."""
    seconds = 1.7e9 + 1e3 * torch.randn(400, generator=generator()).double()
    family = univariate(Continuous("when"), 2, 2)
    assert isinstance(family, GaussianLeaves)
    family.standardise(seconds)
    late = seconds > seconds.median()
    family.initialise([seconds[~late], seconds[late]], generator())
    ours = family.log_density(family.natural(), seconds)
    assert ours.dtype == torch.float32
    expected = by_scipy(family, lambda d: d.logpdf(seconds.numpy())).transpose(0, 2, 1)
    # Standardised values up to 3 are rounded by 2e-7, divided by scales of 0.6 and multiplied by up to 7 deviations.
    np.testing.assert_allclose(ours.detach().double().numpy(), expected, rtol=0, atol=1e-5)
    mean = family.mean(family.natural()).detach()
    np.testing.assert_allclose(mean[0], [seconds[~late].mean(), seconds[late].mean()], rtol=0, atol=1e-3)
