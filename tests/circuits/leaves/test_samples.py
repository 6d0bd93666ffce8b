"""Samples of all leaf families follow their distributions and come from the given generator alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special
import scipy.stats
import torch
from numpy.typing import NDArray
from small_leaves import LEAVES, LEVELS, Case, every_leaf, generator, over_cases, over_dtypes, over_families, univariate

from gspn.attributes import Continuous
from gspn.circuits.leaves import Rows
from gspn.circuits.leaves.univariate import sample_rows

SIGNIFICANCE = 1e-4
"""Seeds are fixed, so a test of samples fails only if the code changes; then by chance once in ten thousand."""


@over_cases
@over_dtypes
def test_samples_follow_the_distribution(case: Case, dtype: torch.dtype) -> None:
    family = case.build(dtype)
    n = 10_000
    with torch.no_grad():
        draws = family.sample(family.natural(), n, generator(1)).numpy()
    assert draws.shape == (n, LEVELS, LEAVES)
    assert draws.dtype == np.float64
    for level, leaf, d in every_leaf(family):
        own = draws[:, level, leaf]
        p = scipy.stats.kstest(own, d.cdf).pvalue if case.continuous else chi_square(own, d)
        assert p > SIGNIFICANCE


def chi_square(draws: NDArray[np.float64], distribution: Any) -> float:
    """p-value of the counts, rare values pooled with their neighbours until ten draws are expected of each cell."""
    assert (draws == np.floor(draws)).all()
    assert draws.min() >= 0
    every = np.arange(draws.max() + 1)
    expected = len(draws) * distribution.pmf(every)
    observed = np.bincount(draws.astype(int), minlength=len(every))
    cells: list[tuple[float, float]] = [(0.0, 0.0)]
    for o, e in zip(observed, expected, strict=True):
        cells[-1] = (cells[-1][0] + o, cells[-1][1] + e)
        if cells[-1][1] >= 10:
            cells.append((0.0, 0.0))
    rest = len(draws) - sum(e for _, e in cells)  # what lies beyond the largest draw
    last = cells.pop()
    cells = cells or [(0.0, 0.0)]
    cells[-1] = (cells[-1][0] + last[0], cells[-1][1] + last[1] + rest)
    if len(cells) == 1:
        return 1.0  # nearly always the same value; its frequency carries no information
    return float(scipy.stats.chisquare(*np.array(cells).T).pvalue)


def test_chi_square_can_fail() -> None:
    """The measure itself: draws of another rate are found out, draws of the right one are not."""
    rng = np.random.default_rng(0)
    assert chi_square(rng.poisson(3.0, 10_000).astype(float), scipy.stats.poisson(3.0)) > SIGNIFICANCE
    assert chi_square(rng.poisson(3.2, 10_000).astype(float), scipy.stats.poisson(3.0)) < SIGNIFICANCE


@over_families
def test_samples_come_from_the_given_generator_alone(case: Case) -> None:
    family = case.build()
    natural = family.natural()
    with torch.no_grad():
        before = torch.get_rng_state()
        first, again = family.sample(natural, 50, generator(3)), family.sample(natural, 50, generator(3))
        other = family.sample(natural, 50, generator(4))
        assert torch.equal(torch.get_rng_state(), before)
        assert torch.equal(first, again)
        assert not torch.equal(first, other)
        # Without a generator the global one is used, as everywhere in torch.
        family.sample(natural, 1)
        assert not torch.equal(torch.get_rng_state(), before)


@over_families
def test_leaves_and_draws_are_independent(case: Case) -> None:
    """One random number used for several leaves or rows would correlate them."""
    family = case.empty()
    parameters = {
        key: value[:1, :1].expand(LEVELS, LEAVES, *value.shape[2:]) for key, value in case.parameters().items()
    }
    family.assign(family.check_exported(parameters, LEVELS))
    n = 10_000
    with torch.no_grad():
        draws = family.sample(family.natural(), n, generator(5)).reshape(n, -1)
    this_and_the_next = torch.cat([draws[1:], draws[:-1]], dim=1)
    # Correlations of independent columns have deviation 1/√n = 0.01; five of those do not happen by chance.
    assert torch.corrcoef(this_and_the_next.T).fill_diagonal_(0).abs().max() < 0.05


def test_rows_that_share_a_parameter_have_draws_of_their_own() -> None:
    """The first parameter is the same for all rows, the other is each row's."""
    family = univariate(Continuous("x"), 1, 1)
    natural = {"scale": torch.full((1, 1), 1e-6), "mean": torch.arange(5.0)[:, None]}
    drawn = sample_rows(Rows(family, natural), 5, generator())
    torch.testing.assert_close(drawn, torch.arange(5.0, dtype=torch.float64)[:, None], rtol=0, atol=1e-3)
