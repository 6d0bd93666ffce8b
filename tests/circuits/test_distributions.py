"""What all answers have in common, tables among them: rows, values, draws, precision."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.integrate
import scipy.special
import scipy.stats
import torch
from seeded import generator
from small_distributions import (
    CASES,
    ELEMENT,
    GAUSSIAN,
    OF_TRUE,
    POISSON,
    PROBS,
    SIGNIFICANCE,
    WEIGHTS,
    Case,
    binary_table,
    element_table,
)
from small_leaves import univariate
from torch import Tensor

from gspn.attributes import Categorical
from gspn.circuits import Rows
from gspn.circuits.components import Components
from gspn.circuits.distributions import CategoricalDistribution, Distribution, MixtureDistribution, mix
from gspn.circuits.leaves import GaussianLeaves
from gspn.errors import InputError

NAN = math.nan


def every_distribution() -> list[Distribution]:
    return [*(case.mixture() for case in CASES), element_table(), binary_table()]


OF_ELEMENT, OF_BOOLEAN = len(CASES), len(CASES) + 1
over_distributions = pytest.mark.parametrize(
    "number", range(len(CASES) + 2), ids=[*(c.name for c in CASES), "element", "binary"]
)

# Tables


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
    certain = CategoricalDistribution(ELEMENT, torch.tensor([[0.0, -math.inf, -math.inf]]))
    assert certain.entropy.item() == 0
    assert certain.log_prob("C").item() == 0
    assert certain.log_prob("N").item() == -math.inf


@pytest.mark.parametrize("make", [element_table, binary_table])
def test_draws_of_a_table(make: Callable[[], CategoricalDistribution]) -> None:
    table, n = make(), 10_000
    draws = table.sample(n, generator())
    assert draws.shape == (n, 4)
    assert draws.dtype == torch.float64
    for row, probs in enumerate(table.probs.numpy()):
        observed = np.bincount(draws[:, row].numpy().astype(int), minlength=len(probs))
        assert scipy.stats.chisquare(observed, n * probs).pvalue > SIGNIFICANCE


# What all have in common


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
    if isinstance(none, MixtureDistribution):
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
    """One value per row, or one for all rows; decoded, or encoded in a tensor; missing ones have log P = 0."""
    distribution = every_distribution()[number]
    called: list[Any] = ["N", "C", None, "O"] if number == OF_ELEMENT else [True, False, None, True]
    called = called if number >= OF_ELEMENT else [1, 0, None, 2]
    codes = torch.tensor([1.0, 0.0, NAN, 2.0 if number != OF_BOOLEAN else 1.0])
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
        ([0.0] if number != OF_ELEMENT else ["C"], "there are 4 distributions, but 1 value"),
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
        if isinstance(distribution, MixtureDistribution):
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
    asked: list[Callable[[MixtureDistribution], Tensor]] = [
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
    mixture = mix(Components([Rows(family, family.natural())]), WEIGHTS.log())
    twin = copy.deepcopy(mixture)
    assert isinstance(mixture, MixtureDistribution)
    assert isinstance(twin, MixtureDistribution)
    family.center, family.spread = 1e6, 3.0
    with torch.no_grad():
        for p in family.parameters():
            p.add_(1.0)
    asked: list[Callable[[MixtureDistribution], Tensor]] = [
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
    family, weights = univariate(attribute, 1, 3), torch.randn(4, 3, requires_grad=True)
    distribution = mix(Components([Rows(family, family.natural())]), torch.log_softmax(weights, 1))
    answers = [distribution.log_prob(torch.tensor(1.0)), distribution.sample(2)]
    answers += (
        [distribution.mean, distribution.variance]
        if isinstance(distribution, MixtureDistribution)
        else [distribution.probs]
    )
    assert not any(answer.requires_grad for answer in answers)
    assert not CategoricalDistribution(ELEMENT, torch.log_softmax(weights, 1)).probs.requires_grad


def test_every_pair_of_rows_has_its_own_weights() -> None:
    """Rows with the same weights are the same distribution, others are not."""
    for distribution in every_distribution():
        values = distribution.log_prob(torch.tensor(1.0))
        assert all(a != b for a, b in itertools.combinations(values.tolist(), 2))


def test_a_probability_too_small_for_a_float_has_a_logarithm() -> None:
    family = univariate(Categorical("e", ["a", "b"]), 1, 2)
    natural = {"log_probs": torch.log_softmax(torch.tensor([[[2000.0, 0.0], [1500.0, 0.0]]]).double(), dim=-1)}
    found = mix(Components([Rows(family, natural)]), torch.tensor([[0.5, 0.5]]).double().log()).log_prob("b")
    torch.testing.assert_close(found, torch.tensor([-1500 + math.log(0.5)], dtype=torch.float64), rtol=1e-12, atol=0)
