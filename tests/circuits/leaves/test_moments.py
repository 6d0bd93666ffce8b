"""Means, variances, modes, quantiles and cumulative probabilities of all leaf families are scipy's."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from small_leaves import (
    FAMILIES,
    LEAVES,
    LEVELS,
    ORDERED,
    QUANTILES,
    Case,
    by_scipy,
    every_leaf,
    log_densities,
    over_cases,
    over_dtypes,
    support,
    univariate,
    values,
)

from gspn.attributes import Binary, Categorical
from gspn.errors import InputError

over_ordered = pytest.mark.parametrize("case", ORDERED, ids=lambda case: case.name)


@over_ordered
@over_dtypes
def test_mean_and_variance_are_scipys(case: Case, dtype: torch.dtype) -> None:
    family = case.build(dtype)
    natural = family.natural()
    # Float32 probabilities sum to 1 up to 1e-7 only, and scipy knows just one of the two.
    exact = 1e-12 if dtype == torch.float64 else 1e-6
    for ours, expected in (
        (family.mean(natural), by_scipy(family, lambda d: d.mean())),
        (family.variance(natural), by_scipy(family, lambda d: d.var())),
    ):
        assert ours.dtype == torch.float64
        np.testing.assert_allclose(ours.detach().numpy(), expected, rtol=exact)


@over_cases
@over_dtypes
def test_no_value_is_likelier_than_the_mode(case: Case, dtype: torch.dtype) -> None:
    family = case.build(dtype)
    mode = family.mode(family.natural()).detach().numpy()
    assert mode.shape == (LEVELS, LEAVES)
    assert mode.dtype == np.float64
    everything = support(case, family)
    for level, leaf, d in every_leaf(family):
        at_mode = log_densities(d, mode[level, leaf])
        assert case.continuous or mode[level, leaf] in everything
        # Two neighbours can be equally likely (a Poisson with a whole rate); their densities differ by rounding.
        assert log_densities(d, everything).max() <= at_mode + 1e-12


@over_ordered
@over_dtypes
@pytest.mark.parametrize("q", QUANTILES)
def test_quantile_is_the_smallest_value_that_reaches_q(case: Case, dtype: torch.dtype, q: float) -> None:
    family = case.build(dtype)
    ours = family.quantile(family.natural(), q).detach().numpy()
    assert ours.shape == (LEVELS, LEAVES)
    assert ours.dtype == np.float64
    for level, leaf, d in every_leaf(family):
        value = ours[level, leaf]
        if case.continuous:
            assert value == pytest.approx(d.ppf(q), rel=1e-12)
        else:
            # The cumulative probability summed up here, not asked of the function that the families may use themselves.
            cumulative = np.cumsum(np.exp(log_densities(d, np.arange(value + 1))))
            assert value == math.floor(value) >= 0
            # The family sums up other roundings of the same probabilities.
            rounding = 1e-12 if dtype == torch.float64 else 1e-7
            assert cumulative[-1] >= q - rounding
            assert value == 0 or cumulative[-2] < q + rounding


@pytest.mark.parametrize("case", [c for c in FAMILIES if c in ORDERED and not c.continuous], ids=lambda case: case.name)
def test_quantile_of_zero_is_the_least_value(case: Case) -> None:
    """Every value's cumulative probability is at least 0, and the least value of the attribute is 0."""
    family = case.build()
    np.testing.assert_array_equal(family.quantile(family.natural(), 0.0).detach().numpy(), 0)


@over_ordered
@over_dtypes
def test_cumulative_is_scipys(case: Case, dtype: torch.dtype) -> None:
    """Also below the least value and between the values of what is discrete."""
    family = case.build(dtype)
    x = np.concatenate([[-1e6, -0.5, 0.5, 1.5], values(case, family), [1e9]])
    with torch.no_grad():
        ours = family.cumulative(family.natural(), torch.from_numpy(x))
    assert ours.shape == (LEVELS, len(x), LEAVES)
    assert ours.dtype == torch.float64
    expected = by_scipy(family, lambda d: d.cdf(x)).transpose(0, 2, 1)
    # A Bernoulli's two float32 probabilities sum to 1 up to 1e-7 only, and scipy knows just one of them.
    exact = 1e-12 if dtype == torch.float64 else 2e-7
    np.testing.assert_allclose(ours.numpy(), expected, rtol=1e-9, atol=exact)


@over_ordered
def test_cumulative_of_no_values_and_of_missing_ones(case: Case) -> None:
    family = case.build()
    natural = family.natural()
    assert family.cumulative(natural, torch.empty(0)).shape == (LEVELS, 0, LEAVES)
    unknown = family.cumulative(natural, torch.tensor([0.0, math.nan]))
    assert not torch.isnan(unknown[:, 0]).any()
    if not isinstance(case.attribute, Binary):  # of two values, nobody asks how much lies below
        assert torch.isnan(unknown[:, 1]).all()


def test_what_has_no_order_has_no_mean() -> None:
    family = univariate(Categorical("element", ["C", "N"]), 1, 1)
    natural = family.natural()
    asked: list[tuple[Callable[[], object], str]] = [
        (lambda: family.mean(natural), "no mean"),
        (lambda: family.variance(natural), "no variance"),
        (lambda: family.quantile(natural, 0.5), "no quantile"),
        (lambda: family.cumulative(natural, torch.zeros(1)), "no cumulative probability"),
    ]
    for ask, named in asked:
        with pytest.raises(InputError, match=f"'element'.*{named}"):
            ask()
