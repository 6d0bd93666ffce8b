"""Mixtures of leaves as answers: densities, moments, modes, quantiles, intervals and draws."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats
import torch
from numpy.typing import NDArray
from seeded import generator
from small_distributions import CASES, COUNTS, GAUSSIAN, SIGNIFICANCE, WEIGHTS, Case

from gspn.attributes import Continuous, Count

SHARES = (1e-6, 0.05, 0.25, 0.5, 0.75, 0.95, 1 - 1e-6)

over_cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
over_counts = pytest.mark.parametrize("case", COUNTS, ids=lambda case: case.name)


@over_cases
def test_log_prob_and_cumulative_are_scipys(case: Case) -> None:
    mixture = case.mixture()
    assert len(mixture) == 4
    for value in (0.0, 1.0, 5.0, 38.0):
        density = case.mixed(operator.methodcaller("pdf" if case is GAUSSIAN else "pmf", value))
        np.testing.assert_allclose(mixture.log_prob(value).exp().numpy(), density, rtol=1e-9, atol=1e-300)
        below = case.mixed(operator.methodcaller("cdf", value))
        np.testing.assert_allclose(mixture.cumulative(value).numpy(), below, rtol=1e-9)


@over_cases
def test_mean_and_variance_by_brute_force(case: Case) -> None:
    """Summed over all counts; integrated on a grid that resolves the sharpest leaf and reaches ten deviations."""
    mixture = case.mixture()
    if case is GAUSSIAN:
        x = np.linspace(-35, 115, 30_001)
        density = case.mixed(lambda d: d.pdf(x)) * (x[1] - x[0])
    else:
        x = case.counts
        density = case.mixed(lambda d: d.pmf(x))
    mean = density @ x
    np.testing.assert_allclose(mixture.mean.numpy(), mean, rtol=1e-8, atol=1e-9)
    variance = (density * (x - mean[:, None]) ** 2).sum(1)
    np.testing.assert_allclose(mixture.variance.numpy(), variance, rtol=1e-8)


@over_cases
def test_mode_and_entropy_by_brute_force(case: Case) -> None:
    """On grids that resolve the sharpest leaf (0.2) fifty times; for smooth densities that is exact to rounding."""
    mixture = case.mixture()
    if case is GAUSSIAN:
        x = np.linspace(-80, 170, 62_501)
        density, step = case.mixed(lambda d: d.pdf(x)), x[1] - x[0]
    else:
        x, step = case.counts, 1.0
        density = case.mixed(lambda d: d.pmf(x))
    # A grid may miss the top, the climb must not; two counts may be equally likely.
    assert (mixture.log_prob(mixture.mode).numpy() >= np.log(density.max(1)) - 1e-9).all()
    entropy = -step * scipy.special.xlogy(density, density).sum(1)
    np.testing.assert_allclose(mixture.entropy.numpy(), entropy, rtol=0, atol=1e-8)


def test_modes_and_entropies_of_hard_mixtures() -> None:
    """Leaves a thousand times sharper than others, inside or far away from them; two that make one mode between them.

    Entropies from scipy's adaptive quadrature, cut where something happens.
    """
    sharp = Case("sharp", Continuous("x"), {"mean": [0.0, 0.4, 3.0], "std": [1.0, 1e-3, 0.5]}, [])
    weights = torch.from_numpy(np.array([[0.9, 0.1, 0.0], [0.5, 1e-4, 0.4999], [0.6, 0.0, 0.4], [0.0, 0.5, 0.5]]))
    mixture = sharp.mixture(weights=weights)
    for row in range(4):
        w = weights[row].numpy()

        def density(x: float, w: NDArray[np.float64] = w) -> float:
            return float(w @ scipy.stats.norm.pdf(x, [0.0, 0.4, 3.0], [1.0, 1e-3, 0.5]))

        def integrand(x: float, density: Callable[[float], float] = density) -> float:
            return -float(scipy.special.xlogy(density(x), density(x)))

        cuts = [-10, -3, 0, 0.39, 0.397, 0.4, 0.403, 0.41, 1, 2, 3, 4, 6, 12]
        parts = [scipy.integrate.quad(integrand, a, b, epsabs=1e-11, limit=200)[0] for a, b in itertools.pairwise(cuts)]
        assert mixture.entropy[row].item() == pytest.approx(sum(parts), abs=1e-7)
        grid = np.concatenate([np.linspace(-2, 5, 7_001), np.linspace(0.395, 0.405, 2_001)])
        assert mixture.log_prob(mixture.mode)[row].item() >= math.log(max(density(x) for x in grid)) - 1e-12
    between = Case("between", Continuous("x"), {"mean": [-0.8, 0.8, 0.0], "std": [1.0, 1.0, 1.0]}, [])
    middle = between.mixture(weights=torch.tensor([[0.5, 0.5, 0.0]]).double())
    assert middle.mode.item() == pytest.approx(0, abs=1e-6)
    far = Case("far", Continuous("x"), {"mean": [1e9, 1e9 + 1, 1e9 + 9], "std": [0.5] * 3}, [], center=1e9)
    near = Case("near", Continuous("x"), {"mean": [0.0, 1.0, 9.0], "std": [0.5] * 3}, [])
    np.testing.assert_allclose(far.mixture().mode.numpy() - 1e9, near.mixture().mode.numpy(), atol=1e-6)
    np.testing.assert_allclose(far.mixture().entropy.numpy(), near.mixture().entropy.numpy(), atol=1e-8)


def test_variance_does_not_cancel() -> None:
    """A column such as a time stamp: far from 0, and sharp."""
    far = Case("far", Continuous("x"), {"mean": [1e9, 1e9 + 1, 1e9 + 2], "std": [0.5] * 3}, [], center=1e9)
    variance = far.mixture(weights=WEIGHTS[3:]).variance.item()
    assert variance == pytest.approx(0.25 + 2 / 3, rel=1e-9)


@over_cases
@pytest.mark.parametrize("q", SHARES)
def test_quantile_is_the_smallest_value_that_reaches_q(case: Case, q: float) -> None:
    quantiles = case.mixture().quantile(q).numpy()
    if case is GAUSSIAN:
        below = (WEIGHTS.numpy() * np.stack([d.cdf(quantiles) for d in case.distributions], axis=1)).sum(1)
        np.testing.assert_allclose(below, q, rtol=1e-9)
        return
    cumulative = np.cumsum(case.mixed(lambda d: d.pmf(case.counts)), axis=1)
    for row, value in enumerate(quantiles):
        assert value == math.floor(value) >= 0
        assert cumulative[row, int(value)] >= q - 1e-12
        assert value == 0 or cumulative[row, int(value) - 1] < q + 1e-12


@over_counts
def test_quantile_of_a_share_that_is_exactly_reached(case: Case) -> None:
    """The share of at most k is reached at k, and one rounding more is reached one later."""
    alone = torch.eye(3).double()
    mixture = case.mixture(weights=alone)
    for row, distribution in enumerate(case.distributions):
        for k in distribution.ppf([0.2, 0.5, 0.9]):
            share = mixture.cumulative(float(k))[row].item()
            assert mixture.quantile(share)[row].item() == k
            assert mixture.quantile(np.nextafter(share, 1))[row].item() == k + 1


def test_quantiles_of_large_and_of_no_counts() -> None:
    large = Case("large", Count("x"), {"rate": [1e6, 2e6, 3e6]}, [])
    median = large.mixture(weights=torch.tensor([[0.2, 0.6, 0.2]]).double()).quantile(0.5).item()
    assert abs(median - 2e6) < 5 * math.sqrt(2e6)
    nothing = Case("nothing", Count("x"), {"rate": [0.0, 0.0, 0.0]}, [])
    assert nothing.mixture().quantile(0.999).tolist() == [0.0] * 4


@over_cases
@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_interval_holds_at_least_what_it_says(case: Case, level: float) -> None:
    mixture = case.mixture()
    interval = mixture.interval(level)
    assert interval.shape == (4, 2)
    assert torch.equal(interval[:, 0], mixture.quantile((1 - level) / 2))
    assert torch.equal(interval[:, 1], mixture.quantile((1 + level) / 2))
    low, high = interval.numpy().T
    if case is not GAUSSIAN:
        low = low - 1  # the lower end belongs to the interval
    held = [
        w @ [d.cdf(b) - d.cdf(a) for d in case.distributions]
        for w, a, b in zip(WEIGHTS.numpy(), low, high, strict=True)
    ]
    assert min(held) >= level - 1e-9
    if case is GAUSSIAN:
        np.testing.assert_allclose(held, level, rtol=1e-9)


@over_cases
def test_draws_of_a_mixture(case: Case) -> None:
    n = 4_000
    draws = case.mixture().sample(n, generator()).numpy()
    assert draws.shape == (n, 4)
    for row, weights in enumerate(WEIGHTS.numpy()):

        def cumulative(x: Any, weights: NDArray[np.float64] = weights) -> Any:
            return np.tensordot(weights, np.array([d.cdf(x) for d in case.distributions]), axes=1)

        if case is GAUSSIAN:
            assert scipy.stats.kstest(draws[:, row], cumulative).pvalue > SIGNIFICANCE
        else:
            # By Massart's inequality the largest deviation exceeds this once in ten thousand, whatever is discrete.
            every = np.arange(draws[:, row].max() + 1)
            found = np.array([(draws[:, row] <= x).mean() for x in every])
            bound = math.sqrt(math.log(2 / SIGNIFICANCE) / (2 * n))
            assert abs(found - cumulative(every)).max() < bound
    assert abs(np.corrcoef(draws[:, 0], draws[:, 3])[0, 1]) < 4 / math.sqrt(n), "rows are independent"
    assert abs(np.corrcoef(draws[:-1, 0], draws[1:, 0])[0, 1]) < 4 / math.sqrt(n), "draws are independent"
