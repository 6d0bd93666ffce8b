"""Answers that are distributions, with scipy's distributions and brute force as the measure.

Mixtures and tables compute in float64, so 1e-12 relative is asked for wherever nothing is cancelled or searched for.
"""

from __future__ import annotations

import copy
import itertools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.integrate
import scipy.special
import scipy.stats
import torch
from numpy.typing import NDArray
from torch import Tensor

from gspn.attributes import Attribute, Binary, Categorical, Continuous, Count
from gspn.circuits.distributions import Distribution, Mixture, Table, mix
from gspn.circuits.leaves import GaussianLeaves, Leaves, leaves_for
from gspn.errors import InputError

NAN = math.nan
WEIGHTS = torch.tensor(
    [[0.5, 0.3, 0.2], [1 - 2e-9, 1e-9, 1e-9], [0.0, 0.0, 1.0], [1 / 3, 1 / 3, 1 / 3]], dtype=torch.float64
)
"""Of four mixtures of three leaves: an ordinary one, nearly one leaf, exactly one leaf, and all alike."""

SHARES = (1e-6, 0.05, 0.25, 0.5, 0.75, 0.95, 1 - 1e-6)
SIGNIFICANCE = 1e-4
"""Seeds are fixed, so a test of draws fails only if the code changes; then by chance once in ten thousand."""


@dataclass(frozen=True)
class Case:
    """Three leaves with parameters as people read them."""

    name: str
    attribute: Attribute
    exported: dict[str, list[float]]
    distributions: list[Any]
    center: float = 0.0
    spread: float = 1.0

    def leaves(self, dtype: torch.dtype = torch.float64) -> Leaves:
        family = leaves_for(self.attribute, 1, 3).to(dtype)
        if isinstance(family, GaussianLeaves):
            family.center, family.spread = self.center, self.spread
        given = {key: torch.tensor([value], dtype=torch.float64) for key, value in self.exported.items()}
        family.assign(family.check_exported(given, 1))
        return family

    def mixture(self, dtype: torch.dtype = torch.float64, weights: Tensor = WEIGHTS) -> Mixture:
        family = self.leaves(dtype)
        made = mix(family, family.natural(), weights.log())
        assert isinstance(made, Mixture)
        return made

    def mixed(self, ask: Callable[[Any], Any]) -> NDArray[np.float64]:
        """[4, …] the mean, with the mixtures' weights, of whatever is asked of each leaf."""
        return np.tensordot(WEIGHTS.numpy(), np.array([ask(d) for d in self.distributions]), axes=1)

    @property
    def counts(self) -> NDArray[np.float64]:
        """All whole numbers that carry probability."""
        return np.arange(1 + max(d.isf(1e-15) for d in self.distributions))


GAUSSIAN = Case(
    "gaussian",
    Continuous("x"),
    {"mean": [-3.0, 0.0, 40.0], "std": [1.0, 0.2, 7.0]},
    [scipy.stats.norm(-3, 1), scipy.stats.norm(0, 0.2), scipy.stats.norm(40, 7)],
    center=12.0,
    spread=20.0,
)
POISSON = Case(
    "poisson",
    Count("x"),
    {"rate": [0.3, 4.0, 60.0]},
    [scipy.stats.poisson(0.3), scipy.stats.poisson(4.0), scipy.stats.poisson(60.0)],
)
NEGATIVE_BINOMIAL = Case(
    "negative binomial",
    Count("x", "negative_binomial"),
    {"mean": [0.5, 3.0, 20.0], "dispersion": [0.1, 1.0, 0.3]},
    [scipy.stats.nbinom(1 / a, 1 / (1 + a * m)) for m, a in ((0.5, 0.1), (3.0, 1.0), (20.0, 0.3))],
)
CASES = [GAUSSIAN, POISSON, NEGATIVE_BINOMIAL]
COUNTS = [POISSON, NEGATIVE_BINOMIAL]
ELEMENT = Categorical("element", ["C", "N", "O"])
PROBS = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [0.25, 0.5, 0.25]])
OF_TRUE = np.array([0.1, 0.5, 0.9])

over_cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
over_counts = pytest.mark.parametrize("case", COUNTS, ids=lambda case: case.name)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def element_table() -> Table:
    family = leaves_for(ELEMENT, 1, 3).double()
    family.assign({"probs": torch.from_numpy(PROBS)[None]})
    made = mix(family, family.natural(), WEIGHTS.log())
    assert isinstance(made, Table)
    return made


def binary_table() -> Table:
    family = leaves_for(Binary("aromatic"), 1, 3).double()
    family.assign({"probs": torch.from_numpy(OF_TRUE)[None]})
    made = mix(family, family.natural(), WEIGHTS.log())
    assert isinstance(made, Table)
    return made


def every_distribution() -> list[Distribution]:
    return [*(case.mixture() for case in CASES), element_table(), binary_table()]


over_distributions = pytest.mark.parametrize("number", range(5), ids=[*(c.name for c in CASES), "element", "binary"])


# ---- Mixtures


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


# ---- Tables


def test_tables_are_mixed_probabilities() -> None:
    table = element_table()
    expected = WEIGHTS.numpy() @ PROBS
    np.testing.assert_allclose(table.probs.numpy(), expected, rtol=1e-12)
    assert table.categories == ("C", "N", "O")
    assert table.mode.tolist() == expected.argmax(1).tolist()
    np.testing.assert_allclose(table.entropy.numpy(), scipy.stats.entropy(expected, axis=1), rtol=1e-12)
    np.testing.assert_allclose(table.log_prob("O").numpy(), np.log(expected[:, 2]), rtol=1e-12)
    with pytest.raises(InputError, match=r"'element' is categorical: it has a mode but no mean"):
        _ = table.mean
    with pytest.raises(InputError, match="no mean"):
        _ = table.variance


def test_a_binary_table_has_moments() -> None:
    table = binary_table()
    of_true = WEIGHTS.numpy() @ OF_TRUE
    assert table.categories == (False, True)
    np.testing.assert_allclose(table.mean.numpy(), of_true, rtol=1e-12)
    np.testing.assert_allclose(table.variance.numpy(), scipy.stats.bernoulli(of_true).var(), rtol=1e-12)
    np.testing.assert_allclose(table.probs.sum(1).numpy(), 1, rtol=1e-15)
    np.testing.assert_allclose(table.log_prob(True).numpy(), np.log(of_true), rtol=1e-12)


def test_entropy_of_certainty_is_zero() -> None:
    certain = Table(ELEMENT, torch.tensor([[0.0, -math.inf, -math.inf]]))
    assert certain.entropy.item() == 0
    assert certain.log_prob("C").item() == 0
    assert certain.log_prob("N").item() == -math.inf


@pytest.mark.parametrize("make", [element_table, binary_table])
def test_draws_of_a_table(make: Callable[[], Table]) -> None:
    table, n = make(), 10_000
    draws = table.sample(n, generator())
    assert draws.shape == (n, 4)
    assert draws.dtype == torch.float64
    for row, probs in enumerate(table.probs.numpy()):
        observed = np.bincount(draws[:, row].numpy().astype(int), minlength=len(probs))
        assert scipy.stats.chisquare(observed, n * probs).pvalue > SIGNIFICANCE


# ---- What all have in common


@over_distributions
def test_draws_come_from_the_given_generator_alone(number: int) -> None:
    distribution = every_distribution()[number]
    before = torch.get_rng_state()
    first, again = distribution.sample(20, generator(3)), distribution.sample(20, generator(3))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, again)
    assert not torch.equal(first, distribution.sample(20, generator(4)))
    distribution.sample(1)
    assert not torch.equal(torch.get_rng_state(), before)


@over_distributions
def test_no_draws_and_no_rows(number: int) -> None:
    distribution = every_distribution()[number]
    assert distribution.sample(0).shape == (0, 4)
    none = distribution[:0]
    assert len(none) == 0
    assert none.sample(3).shape == (3, 0)
    assert none.sample(3).dtype == distribution.sample(3).dtype == torch.float64
    assert none.log_prob([]).shape == (0,)
    if isinstance(none, Mixture):
        assert none.mean.shape == none.variance.shape == none.quantile(0.5).shape == (0,)
        assert none.interval().shape == (0, 2)
        assert none.mode.shape == none.entropy.shape == (0,)
    else:
        assert none.probs.shape[0] == none.mode.shape[0] == none.entropy.shape[0] == 0
    for n in (-1, 2.5, "many", None):
        with pytest.raises(InputError, match="n must be a number of draws"):
            distribution.sample(n)  # type: ignore[arg-type]


@over_distributions
def test_choosing_rows(number: int) -> None:
    distribution = every_distribution()[number]
    all_rows = distribution.log_prob(torch.tensor(1.0))
    for rows in (slice(1, 3), slice(None, None, 2), torch.tensor([3, 0, 3]), torch.tensor([True, False, False, True])):
        chosen = distribution[rows]
        assert type(chosen) is type(distribution)
        assert torch.equal(chosen.log_prob(torch.tensor(1.0)), all_rows[rows])
    for row in (2, -1, np.int64(1)):
        assert len(distribution[int(row)]) == 1
        assert torch.equal(distribution[row].log_prob(torch.tensor(1.0)), all_rows[row].reshape(1))  # type: ignore[index]
    assert len(list(iter(distribution))) == 4
    with pytest.raises(IndexError):
        distribution[4]
    assert "4 distributions of " in repr(distribution)


@over_distributions
def test_values_as_people_have_them(number: int) -> None:
    """One value a row, or one for all rows; as they are called, or encoded in a tensor; missing ones have log P = 0."""
    distribution = every_distribution()[number]
    called: list[Any] = ["N", "C", None, "O"] if number == 3 else [True, False, None, True]
    called = called if number >= 3 else [1, 0, None, 2]
    codes = torch.tensor([1.0, 0.0, NAN, 2.0 if number != 4 else 1.0])
    expected = distribution.log_prob(codes)
    assert expected.dtype == torch.float64
    assert expected[2] == 0
    assert bool((expected[[0, 1, 3]] != 0).all())
    for values in (called, tuple(called), pd.Series(called), np.array(called, dtype=object), codes.double()):
        assert torch.equal(distribution.log_prob(values), expected)
    first = distribution.log_prob([called[0]] * 4)
    for value in (called[0], torch.tensor(1), torch.tensor(1.0).double(), np.array(called[0], dtype=object)[()]):
        assert torch.equal(distribution.log_prob(value), first)
    for missing in (None, NAN, pd.NA, torch.tensor(NAN), np.float64(NAN)):
        assert torch.equal(distribution.log_prob(missing), torch.zeros(4).double())


def test_cumulative_of_a_missing_value_is_missing() -> None:
    below = GAUSSIAN.mixture().cumulative([None, 0.0, NAN, 1.0])
    assert torch.isnan(below).tolist() == [True, False, True, False]


@over_distributions
def test_values_that_are_none(number: int) -> None:
    distribution = every_distribution()[number]
    name = distribution.attribute.name
    wrong: list[tuple[Any, str]] = [
        ([0.0] if number != 3 else ["C"], "there are 4 distributions, but 1 value"),
        (torch.zeros(3), "there are 4 distributions, but 3 values"),
        (torch.zeros(4, 1), "one-dimensional"),
        (torch.tensor([0.0, math.inf, 0.0, 0.0]), f"'{name}', row 1: the value is infinite"),
        ([["C"], ["C", "N"], ["C"], ["C"]], f"'{name}', row 0"),
        ("xenon", f"'{name}', row 0: 'xenon'"),
    ]
    if number:
        wrong += [(torch.tensor([0.0, 0.5, 0.0, 0.0]), f"'{name}', row 1"), (torch.tensor(-1), f"'{name}', row 0")]
    for values, message in wrong:
        with pytest.raises(InputError, match=message):
            distribution.log_prob(values)
        if isinstance(distribution, Mixture):
            with pytest.raises(InputError, match=message):
                distribution.cumulative(values)


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, NAN, "half", None, [0.5]])
def test_shares_that_are_none(share: Any) -> None:
    mixture = POISSON.mixture()
    with pytest.raises(InputError, match="q must be a number between 0 and 1"):
        mixture.quantile(share)
    with pytest.raises(InputError, match="level must be a number between 0 and 1"):
        mixture.interval(share)


@pytest.mark.parametrize("case", [GAUSSIAN, POISSON], ids=lambda case: case.name)
def test_float32_leaves_answer_in_float64(case: Case) -> None:
    """The leaves' own rounding, 6e-8 of a mean of 40 that is 7 wide, is all that differs; far values stay finite."""
    mixture, exact = case.mixture(torch.float32), case.mixture()
    asked: list[Callable[[Mixture], Tensor]] = [
        lambda m: m.mean,
        lambda m: m.variance,
        lambda m: m.log_prob(3.0),
        lambda m: m.cumulative(3.0),
    ]
    for ask in asked:
        assert ask(mixture).dtype == torch.float64
        np.testing.assert_allclose(ask(mixture).numpy(), ask(exact).numpy(), rtol=1e-4)
    if case is GAUSSIAN:
        assert torch.isfinite(mixture.log_prob(1e30)).all()


def test_an_answer_does_not_change_with_the_leaves() -> None:
    """A model that is trained anew changes its parameters and its units; what it said before stays said."""
    family = GAUSSIAN.leaves()
    assert isinstance(family, GaussianLeaves)
    mixture = mix(family, family.natural(), WEIGHTS.log())
    twin = copy.deepcopy(mixture)
    assert isinstance(mixture, Mixture)
    assert isinstance(twin, Mixture)
    family.center, family.spread = 1e6, 3.0
    with torch.no_grad():
        for p in family.parameters():
            p.add_(1.0)
    asked: list[Callable[[Mixture], Tensor]] = [
        lambda m: m.mean,
        lambda m: m.variance,
        lambda m: m.quantile(0.9),
        lambda m: m.log_prob(1.0),
        lambda m: m.sample(3, generator()),
    ]
    assert all(torch.equal(ask(mixture), ask(twin)) for ask in asked)


@over_distributions
def test_answers_carry_no_gradients(number: int) -> None:
    attribute = every_distribution()[number].attribute
    family, weights = leaves_for(attribute, 1, 3), torch.randn(4, 3, requires_grad=True)
    distribution = mix(family, family.natural(), torch.log_softmax(weights, 1))
    answers = [distribution.log_prob(torch.tensor(1.0)), distribution.sample(2)]
    answers += [distribution.mean, distribution.variance] if isinstance(distribution, Mixture) else [distribution.probs]
    assert not any(answer.requires_grad for answer in answers)
    assert not Table(ELEMENT, torch.log_softmax(weights, 1)).probs.requires_grad


def test_every_pair_of_rows_has_its_own_weights() -> None:
    """Rows with the same weights are the same distribution, others are not."""
    for distribution in every_distribution():
        values = distribution.log_prob(torch.tensor(1.0))
        assert all(a != b for a, b in itertools.combinations(values.tolist(), 2))


def test_a_probability_too_small_for_a_float_has_a_logarithm() -> None:
    family = leaves_for(Categorical("e", ["a", "b"]), 1, 2)
    natural = {"log_probs": torch.log_softmax(torch.tensor([[[2000.0, 0.0], [1500.0, 0.0]]]).double(), dim=-1)}
    found = mix(family, natural, torch.tensor([[0.5, 0.5]]).double().log()).log_prob("b")
    torch.testing.assert_close(found, torch.tensor([-1500 + math.log(0.5)], dtype=torch.float64), rtol=1e-12, atol=0)
