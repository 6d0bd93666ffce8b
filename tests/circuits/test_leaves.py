"""One contract for all leaf families, with scipy's distributions as the measure.

Expected values are computed from what a family exports, that is, from its parameters after rounding to the model's
dtype: a test then sees the family's arithmetic and not the rounding of what it was given. In float64 densities of
moderate size are right to about 1e-13, so the 1e-9 that is asked for leaves room for unlucky cancellations. In float32
a value is rounded to 6e-8 before it is measured in deviations; the cases stay within a hundred deviations of sharp
states, which makes about 1e-5 relative.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call

from gspn.attributes import Attribute, Binary, Categorical, Continuous, Count
from gspn.circuits.leaves import GaussianLeaves, Leaves, Natural, leaves_for
from gspn.circuits.leaves.contract import at_level, with_level
from gspn.circuits.leaves.gaussian import MAX_INITIAL_VARIANCE
from gspn.circuits.leaves.negative_binomial import LEAST_DISPERSION
from gspn.circuits.leaves.poisson import LEAST_INITIAL_MEAN
from gspn.errors import InputError

LEVELS, LEAVES = 3, 2
DTYPES = (torch.float32, torch.float64)
QUANTILES = (1e-3, 0.05, 0.25, 0.5, 0.8, 0.95, 0.999)
SIGNIFICANCE = 1e-4
"""Seeds are fixed, so a test of samples fails only if the code changes; then by chance once in ten thousand."""

SHARP = 0.02
"""The floor of the Gaussian case of that name: low enough to matter, high enough for float32 to follow."""


@dataclass(frozen=True)
class Case:
    """A family with parameters as people read them, [levels][leaves]…, and the units of its attribute."""

    name: str
    attribute: Attribute
    exported: dict[str, Any] = field(repr=False)
    center: float = 0.0
    spread: float = 1.0

    def parameters(self) -> dict[str, Tensor]:
        return {key: torch.tensor(value, dtype=torch.float64) for key, value in self.exported.items()}

    def empty(self, dtype: torch.dtype = torch.float64, levels: int = LEVELS, leaves: int = LEAVES) -> Leaves:
        family = leaves_for(self.attribute, levels, leaves).to(dtype)
        if isinstance(family, GaussianLeaves):
            family.center, family.spread = self.center, self.spread
        return family

    def build(self, dtype: torch.dtype = torch.float64) -> Leaves:
        family = self.empty(dtype)
        family.assign(family.check_exported(self.parameters(), LEVELS))
        return family

    @property
    def continuous(self) -> bool:
        return isinstance(self.attribute, Continuous)


CASES = [
    Case("gaussian", Continuous("x"), {"mean": [[0, 1], [-2, 0.5], [3, 3]], "std": [[1, 0.5], [2, 1], [0.3, 5]]}),
    Case(
        "gaussian in units of the data",
        Continuous("x"),
        {"mean": [[-40, -37], [-41.3, -45], [-40, -39.9]], "std": [[2.5, 0.5], [1.1, 8], [2, 3.3]]},
        center=-40.0,
        spread=2.5,
    ),
    Case(
        "gaussian, sharp",
        Continuous("x", floor=SHARP),
        {"mean": [[101, 99], [100, 103], [98, 100]], "std": [[3 * SHARP, 4 * SHARP], [0.1, 0.2], [0.3, 3 * SHARP]]},
        center=100.0,
        spread=3.0,
    ),
    Case(
        "categorical",
        Categorical("c", ["a", "b", "c"]),
        {"probs": [[[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]], [[0.98, 0.01, 0.01], [0.1, 0.1, 0.8]], [[1 / 3] * 3] * 2]},
    ),
    Case(
        "categorical, two values",
        Categorical("c", [7, 9]),
        {"probs": [[[1e-4, 1 - 1e-4], [0.5, 0.5]], [[0.25, 0.75], [0.9, 0.1]], [[0.999, 0.001], [0.4, 0.6]]]},
    ),
    Case("categorical, one value", Categorical("c", ["only"]), {"probs": [[[1.0], [1.0]]] * LEVELS}),
    Case("bernoulli", Binary("b"), {"probs": [[0.3, 0.5], [1e-3, 0.9], [0.75, 0.02]]}),
    Case("poisson", Count("n"), {"rate": [[0.1, 1], [2.5, 7], [30, 4]]}),
    Case("poisson, large", Count("n"), {"rate": [[500, 1000.5], [120, 999], [1e-3, 800]]}),
    Case(
        "negative binomial",
        Count("n", "negative_binomial"),
        {"mean": [[0.1, 1], [2.5, 7], [30, 4]], "dispersion": [[1, 0.5], [0.1, 2], [0.3, 0.05]]},
    ),
    Case(
        "negative binomial, nearly Poisson",
        Count("n", "negative_binomial"),
        {"mean": [[5, 0.5], [100, 20], [3, 1]], "dispersion": [[1e-2, 5e-3], [2e-3, 1e-2], [1e-3, 3e-3]]},
    ),
]
ORDERED = [case for case in CASES if not isinstance(case.attribute, Categorical)]
FAMILIES = [
    next(case for case in CASES if case.name == name)
    for name in ("gaussian in units of the data", "categorical", "bernoulli", "poisson", "negative binomial")
]

over_cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
over_ordered = pytest.mark.parametrize("case", ORDERED, ids=lambda case: case.name)
over_families = pytest.mark.parametrize("case", FAMILIES, ids=lambda case: case.name)
over_dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def numbers(natural: Natural) -> dict[str, NDArray[np.float64]]:
    return {key: value.detach().double().numpy() for key, value in natural.items()}


def scipy_distribution(attribute: Attribute, exported: dict[str, NDArray[np.float64]], level: int, leaf: int) -> Any:
    own = {key: value[level, leaf] for key, value in exported.items()}
    if isinstance(attribute, Continuous):
        return scipy.stats.norm(own["mean"], own["std"])
    if isinstance(attribute, Categorical):
        return scipy.stats.rv_discrete(values=(np.arange(len(own["probs"])), own["probs"]))
    if isinstance(attribute, Binary):
        return scipy.stats.bernoulli(own["probs"])
    if attribute.distribution == "poisson":
        return scipy.stats.poisson(own["rate"])
    return scipy.stats.nbinom(1 / own["dispersion"], 1 / (1 + own["dispersion"] * own["mean"]))


def every_leaf(family: Leaves) -> Iterator[tuple[int, int, Any]]:
    """Level, leaf and scipy's form of that distribution."""
    exported = numbers(family.export(family.natural()))
    for level in range(family.num_levels):
        for leaf in range(family.num_leaves):
            yield level, leaf, scipy_distribution(family.attribute, exported, level, leaf)


def by_scipy(family: Leaves, ask: Callable[[Any], Any]) -> NDArray[np.float64]:
    """[levels, leaves, …] of whatever is asked of each distribution."""
    answers: list[list[Any]] = [[None] * family.num_leaves for _ in range(family.num_levels)]
    for level, leaf, distribution in every_leaf(family):
        answers[level][leaf] = ask(distribution)
    return np.array(answers, dtype=np.float64)


def log_densities(distribution: Any, x: NDArray[np.float64]) -> NDArray[np.float64]:
    discrete = isinstance(getattr(distribution, "dist", distribution), scipy.stats.rv_discrete)
    return np.asarray(distribution.logpmf(x) if discrete else distribution.logpdf(x), dtype=np.float64)


def support(case: Case, family: Leaves) -> NDArray[np.float64]:
    """Values that carry all the probability up to about 1e-12: a fine grid, or every value."""
    if isinstance(case.attribute, Categorical):
        return np.arange(len(case.attribute.categories), dtype=np.float64)
    low = by_scipy(family, lambda d: d.ppf(1e-13)).min()
    high = by_scipy(family, lambda d: d.isf(1e-13)).max()
    return np.linspace(low, high, 20_001) if case.continuous else np.arange(0.0, high + 1)


def values(case: Case, family: Leaves) -> NDArray[np.float64]:
    """A few dozen values from the middle and the tails of every leaf."""
    everything = support(case, family)
    tails = everything[:: max(1, len(everything) // 40)]
    if isinstance(case.attribute, Categorical):
        return tails
    return np.unique(np.concatenate([tails, by_scipy(family, lambda d: d.ppf(QUANTILES)).ravel()]))


def evaluate(family: Leaves, x: NDArray[np.float64]) -> NDArray[np.float64]:
    return family.log_density(family.natural(), torch.from_numpy(x)).detach().double().numpy()


class Density(nn.Module):
    """Log-densities as a function of the raw parameters, which `functional_call` can replace."""

    def __init__(self, family: Leaves) -> None:
        super().__init__()
        self.family = family

    def forward(self, x: Tensor) -> Tensor:
        return self.family.log_density(self.family.natural(), x)


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


@over_cases
@over_dtypes
def test_density_is_normalised(case: Case, dtype: torch.dtype) -> None:
    family = case.build(dtype)
    exact = 1e-9 if dtype == torch.float64 else 1e-5
    if case.continuous:
        # Trapezia over ±10 deviations: for a Gaussian they converge faster than any power of the step.
        for level, leaf, d in every_leaf(family):
            x = np.linspace(d.mean() - 10 * d.std(), d.mean() + 10 * d.std(), 201)
            total = np.trapezoid(np.exp(evaluate(family, x)[level, :, leaf]), x)
            assert total == pytest.approx(1, abs=exact)
    else:
        total = np.exp(evaluate(family, support(case, family))).sum(1)
        np.testing.assert_allclose(total, 1, rtol=0, atol=exact)


@over_families
def test_gradient_of_log_density(case: Case) -> None:
    """Against finite differences, with respect to the raw parameters, with a gap in the column."""
    module = Density(case.build())
    x = torch.from_numpy(values(case, module.family)[:12]).clone()
    x[len(x) // 2] = torch.nan
    names = [name for name, _ in module.named_parameters()]

    def log_density(*raw: Tensor) -> Tensor:
        result: Tensor = functional_call(module, dict(zip(names, raw, strict=True)), (x,))
        return result

    raw = tuple(p.detach().clone().requires_grad_() for p in module.parameters())
    assert torch.autograd.gradcheck(log_density, raw)


# Moments, modes, quantiles.


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
def test_cumulative_and_quantile_belong_together(case: Case) -> None:
    """The share below a quantile is at least q; what lies before it is less. Rounding of q itself aside."""
    family = case.build()
    natural = family.natural()
    for q in QUANTILES:
        reached = family.quantile(natural, q).detach().numpy()
        before = reached - (1e-6 * by_scipy(family, lambda d: d.std()) if case.continuous else 1.0)
        for level, leaf in np.ndindex(LEVELS, LEAVES):
            pair = torch.tensor([reached[level, leaf], before[level, leaf]])
            at, less = family.cumulative(natural, pair)[level, :, leaf].tolist()
            assert at >= q - 1e-12
            assert less < q


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
    family = leaves_for(Categorical("element", ["C", "N"]), 1, 1)
    natural = family.natural()
    with pytest.raises(InputError, match=r"'element'.*no mean"):
        family.mean(natural)
    with pytest.raises(InputError, match=r"'element'.*no variance"):
        family.variance(natural)
    with pytest.raises(InputError, match=r"'element'.*no quantile"):
        family.quantile(natural, 0.5)
    with pytest.raises(InputError, match=r"'element'.*no cumulative probability"):
        family.cumulative(natural, torch.zeros(1))


# Samples.


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


# The shortcut's combined level.

WEIGHTS = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)


def combined_by_hand(exported: dict[str, NDArray[np.float64]], weights: NDArray[np.float64]) -> dict[str, Any]:
    """What the design says: Σ w p, Σ w λ, Σ w m, Σ w α, and for Gaussians mean Σ w μ with variance Σ w² σ²."""

    def mix(value: NDArray[np.float64], w: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.tensordot(w, value, axes=1)[None]

    return {
        key: np.sqrt(mix(value**2, weights**2)) if key == "std" else mix(value, weights)
        for key, value in exported.items()
    }


@over_cases
@over_dtypes
def test_combine_is_the_rule_of_the_design(case: Case, dtype: torch.dtype) -> None:
    family = case.build(dtype)
    combined = family.combine(family.natural(), WEIGHTS.to(dtype))
    ours = numbers(family.export(combined))
    expected = combined_by_hand(numbers(family.export(family.natural())), WEIGHTS.numpy())
    assert set(ours) == set(expected) == set(family.exported)
    exact = 1e-12 if dtype == torch.float64 else 3e-6
    for key, value in expected.items():
        assert ours[key].shape == value.shape
        # Means of both signs may cancel.
        np.testing.assert_allclose(ours[key], value, rtol=exact, atol=exact * np.abs(value).max())


@over_cases
@over_dtypes
def test_combining_one_level_is_the_identity(case: Case, dtype: torch.dtype) -> None:
    family = case.build(dtype)
    natural = family.natural()
    for level in range(LEVELS):
        alone = at_level(natural, level)
        combined = family.combine(alone, torch.ones(1, dtype=dtype))
        for key, value in combined.items():
            torch.testing.assert_close(value, alone[key], rtol=2 * torch.finfo(dtype).eps, atol=0)


@over_families
def test_a_level_of_weight_zero_is_ignored(case: Case) -> None:
    """Learned weights are a softmax, which may underflow: values and gradients must stay finite."""
    family = case.build()
    natural = {key: value.detach().requires_grad_() for key, value in family.natural().items()}
    weights = torch.tensor([0.6, 0.4, 0.0], dtype=torch.float64, requires_grad=True)
    combined = family.combine(natural, weights)
    first_two = family.combine({key: value[:2] for key, value in natural.items()}, weights[:2])
    for key, value in combined.items():
        torch.testing.assert_close(value, first_two[key])
    torch.stack([value.sum() for value in combined.values()]).sum().backward()
    for leaf in (weights, *natural.values()):
        assert leaf.grad is not None
        assert torch.isfinite(leaf.grad).all()


@over_families
def test_a_combined_level_is_a_level_like_any_other(case: Case) -> None:
    family = case.build()
    natural = family.natural()
    combined = family.combine(natural, WEIGHTS)
    stacked = with_level(natural, combined)
    x = torch.from_numpy(values(case, family))
    below, above = family.log_density(natural, x), family.log_density(combined, x)
    torch.testing.assert_close(family.log_density(stacked, x), torch.cat([below, above]), rtol=1e-13, atol=1e-13)
    for level in (-1, LEVELS):
        alone = at_level(stacked, level)
        assert all(torch.equal(alone[key], combined[key]) for key in alone)
    with torch.no_grad():
        assert family.sample(stacked, 2, generator()).shape == (2, LEVELS + 1, LEAVES)


# Parameters in the users' units.


@over_cases
@over_dtypes
def test_what_is_assigned_is_exported(case: Case, dtype: torch.dtype) -> None:
    family = case.build(dtype)
    exported = family.export(family.natural())
    assert tuple(exported) == family.exported
    # Float32 keeps logarithms: an error of 6e-8 times their size, up to 10 here.
    exact = 1e-12 if dtype == torch.float64 else 2e-6
    for key, value in case.parameters().items():
        assert exported[key].dtype == torch.float64
        torch.testing.assert_close(exported[key].detach(), value, rtol=exact, atol=0)
    again = case.empty(dtype)
    again.assign(again.check_exported(exported, LEVELS))
    for key, value in again.export(again.natural()).items():
        torch.testing.assert_close(value, exported[key], rtol=exact, atol=0)


@over_families
def test_lists_and_arrays_are_assigned_as_well(case: Case) -> None:
    """In full precision: numbers written in Python are float64."""
    family = case.empty()
    lists: dict[str, Any] = case.exported
    arrays: dict[str, Any] = {key: np.array(value, dtype=np.float64) for key, value in lists.items()}
    for given in (arrays, lists):
        family.assign(family.check_exported(given, LEVELS))
        for key, value in family.export(family.natural()).items():
            np.testing.assert_allclose(value.detach().numpy(), arrays[key], rtol=1e-12)


@over_families
def test_wrong_names_and_shapes_are_refused(case: Case) -> None:
    family = case.empty()
    good = case.parameters()
    first = family.exported[0]
    name = f"'{case.attribute.name}'"
    with pytest.raises(InputError, match=f"{name}.*{first}"):
        family.check_exported({}, LEVELS)
    with pytest.raises(InputError, match=f"{name}.*surplus"):
        family.check_exported({**good, "surplus": good[first]}, LEVELS)
    renamed = {f"{key}s": value for key, value in good.items()}
    with pytest.raises(InputError, match=f"{name}.*{first}"):
        family.check_exported(renamed, LEVELS)
    for key, value in good.items():
        for wrong in (value[:-1], value[:, :1], value.unsqueeze(-1), value.flatten()):
            with pytest.raises(InputError, match=rf"{name}: '{key}' has shape .* instead of \[{LEVELS}, {LEAVES}"):
                family.check_exported({**good, key: wrong}, LEVELS)
    with pytest.raises(InputError, match=rf"{name}.*shape .* instead of \[{LEVELS + 1}, {LEAVES}"):
        family.check_exported(good, LEVELS + 1)


@over_families
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_parameters_that_are_not_finite_are_refused(case: Case, bad: float) -> None:
    family = case.empty()
    for key, value in case.parameters().items():
        value.view(-1)[-1] = bad
        with pytest.raises(InputError, match=f"'{case.attribute.name}': '{key}' must be finite"):
            family.check_exported({**case.parameters(), key: value}, LEVELS)


IMPOSSIBLE: list[tuple[str, str, list[Any]]] = [
    ("gaussian in units of the data", "std", [0.0, -1.0, 2.4e-3]),  # the floor is 1e-3 of 2.5
    ("gaussian, sharp", "std", [0.99 * 3 * SHARP]),
    ("categorical", "probs", [[-0.1, 0.6, 0.5], [0.2, 0.3, 0.49], [0.5, 0.5, 0.5], [0.0, 0.0, 0.0]]),
    ("bernoulli", "probs", [-1e-3, 1.001]),
    ("poisson", "rate", [-1e-9]),
    ("negative binomial", "mean", [-1e-9]),
    ("negative binomial", "dispersion", [-1.0, 0.0, 0.5 * LEAST_DISPERSION]),
]


@pytest.mark.parametrize(("name", "key", "wrongs"), IMPOSSIBLE, ids=[f"{name}: {key}" for name, key, _ in IMPOSSIBLE])
def test_impossible_parameters_are_refused_and_nothing_is_set(name: str, key: str, wrongs: list[Any]) -> None:
    case = next(case for case in CASES if case.name == name)
    family = case.build()
    before = {name: p.detach().clone() for name, p in family.named_parameters()}
    for wrong in wrongs:
        given = case.parameters()
        given[key][-1, -1] = torch.tensor(wrong, dtype=torch.float64)
        with pytest.raises(InputError, match=f"'{case.attribute.name}': '{key}' must be"):
            family.assign(family.check_exported(given, LEVELS))
        assert all(torch.equal(p, before[name]) for name, p in family.named_parameters())


BOUNDARY: list[tuple[str, dict[str, float | list[float]]]] = [
    ("gaussian in units of the data", {"std": 2.5e-3}),
    ("categorical", {"probs": [0.0, 1.0, 0.0]}),
    ("bernoulli", {"probs": 0.0}),
    ("bernoulli", {"probs": 1.0}),
    ("poisson", {"rate": 0.0}),
    ("negative binomial", {"mean": 0.0}),
    ("negative binomial", {"dispersion": LEAST_DISPERSION}),
    ("negative binomial", {"mean": 0.0, "dispersion": LEAST_DISPERSION}),
]


@over_dtypes
@pytest.mark.parametrize(("name", "extreme"), BOUNDARY, ids=lambda value: str(value))
def test_the_least_allowed_parameters_stay_finite(
    name: str, extreme: dict[str, float | list[float]], dtype: torch.dtype
) -> None:
    """Certain events and impossible ones: representable, nothing infinite, gradients neither."""
    case = next(case for case in CASES if case.name == name)
    family = case.empty(dtype)
    given = case.parameters()
    for key, least in extreme.items():
        given[key][:] = torch.tensor(least, dtype=torch.float64)
    family.assign(family.check_exported(given, LEVELS))
    natural = family.natural()
    for key, value in family.export(natural).items():
        torch.testing.assert_close(value.detach(), given[key], rtol=2e-6, atol=1e-30)
    x = torch.tensor([-40.0, -30.0] if case.continuous else [0.0, 1.0], dtype=torch.float64)
    log_density = family.log_density(natural, x)
    log_density.sum().backward()
    assert torch.isfinite(log_density).all()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in family.parameters())
    with torch.no_grad():
        draws = family.sample(natural, 5, generator())
        assert torch.isfinite(draws).all()
        assert torch.isfinite(family.mode(natural)).all()


# Starting points.


@over_families
@over_dtypes
def test_initialise_survives_any_groups(case: Case, dtype: torch.dtype) -> None:
    """No value, one value, always the same value, ordinary values; and every group empty."""
    ordinary = torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0], dtype=torch.float64)
    groups = [ordinary[:0], ordinary[1:2], ordinary[1:3], ordinary]
    family = case.empty(dtype, leaves=4)
    nothing = case.empty(dtype, leaves=4)
    before = torch.get_rng_state()
    family.initialise(groups, generator())
    nothing.initialise([ordinary[:0]] * 4, generator())
    assert torch.equal(torch.get_rng_state(), before)
    for started in (family, nothing):
        assert all(torch.isfinite(p).all() for p in started.parameters())
        log_density = started.log_density(started.natural(), ordinary)
        log_density.sum().backward()
        assert torch.isfinite(log_density).all()
        assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in started.parameters())
        # What starts must be able to leave: no gradient is lost in a saturated parameter.
        assert all(bool((p.grad != 0).any()) for p in started.parameters() if p.grad is not None)
    # States that start alike would stay alike.
    if not isinstance(case.attribute, Categorical):
        mean = nothing.mean(nothing.natural())
        assert len(mean[0].unique()) == 4
    else:
        assert len(nothing.export(nothing.natural())["probs"][0].unique(dim=0)) == 4


@over_families
def test_initialise_is_reproducible(case: Case) -> None:
    groups = [torch.tensor([0.0, 1.0, 1.0]).double(), torch.tensor([]).double()]
    first, again, other = (case.empty() for _ in range(3))
    for family, seed in ((first, 1), (again, 1), (other, 2)):
        family.initialise(groups, generator(seed))
    ours, same, different = (torch.cat([p.detach().flatten() for p in f.parameters()]) for f in (first, again, other))
    assert torch.equal(ours, same)
    assert not torch.equal(ours, different)


def test_gaussians_start_at_the_moments_of_their_groups() -> None:
    case = FAMILIES[0]
    groups = [torch.randn(50, generator=generator(m)).double() * (m + 1) + 10 * m - 40 for m in range(LEAVES)]
    family = case.empty()
    family.initialise(groups, generator())
    exported = family.export(family.natural())
    for m, group in enumerate(groups):
        np.testing.assert_allclose(exported["mean"][:, m].detach(), group.mean(), rtol=1e-12)
        np.testing.assert_allclose(exported["std"][:, m].detach(), group.std(correction=0), rtol=1e-9)


@over_dtypes
@pytest.mark.parametrize("floor", [1e-6, 1e-3, 0.3, 1.0])
def test_gaussians_start_between_the_floor_and_variance_10(floor: float, dtype: torch.dtype) -> None:
    """In standardised units; a group of one value sits above the floor, where the scale still learns."""
    family = leaves_for(Continuous("x", floor=floor), 1, 3).to(dtype)
    assert isinstance(family, GaussianLeaves)
    family.center, family.spread = 5.0, 0.1
    wild = torch.tensor([-1e6, 1e6]).double()
    family.initialise([wild, torch.tensor([5.0]).double(), torch.tensor([]).double()], generator())
    scale = family.natural()["scale"].detach().double()
    assert scale.square().max() <= MAX_INITIAL_VARIANCE * (1 + 1e-6)
    assert scale.min() > 1.5 * floor
    np.testing.assert_allclose(scale[0, 0], math.sqrt(MAX_INITIAL_VARIANCE), rtol=1e-6)


@pytest.mark.parametrize("case", [c for c in FAMILIES if isinstance(c.attribute, (Categorical, Binary))], ids=str)
def test_tables_start_at_the_frequencies_of_their_groups(case: Case) -> None:
    """Up to one pseudo-observation a value and the noise on the logits, whose mean over many levels vanishes."""
    size = 2 if isinstance(case.attribute, Binary) else 3
    groups = [torch.tensor([0.0] * 60 + [1.0] * 20).double(), torch.tensor([0.0] * 10 + [1.0] * 70).double()]
    levels = 4000
    family = case.empty(levels=levels)
    family.initialise(groups, generator())
    log_probs = family.natural()["log_probs"].detach()
    log_ratio = (log_probs[..., 1] - log_probs[..., 0]).numpy()
    # Overall frequencies with one more of each: 71 and 91 of 160 + size.
    extra = size * np.array([71, 91]) / (160 + size)
    expected = [math.log((20 + extra[1]) / (60 + extra[0])), math.log((70 + extra[1]) / (10 + extra[0]))]
    # Noise of deviation √2 on each ratio; five deviations of the mean over the levels.
    np.testing.assert_allclose(log_ratio.mean(0), expected, atol=5 * math.sqrt(2 / levels))
    np.testing.assert_allclose(log_ratio.std(0), math.sqrt(2), rtol=0.1)


def test_counts_start_at_the_means_of_their_groups() -> None:
    groups = [torch.tensor([0.0, 0.0, 0.0]).double(), torch.tensor([3.0, 4.0, 8.0]).double()]
    expected = np.array([LEAST_INITIAL_MEAN, 5.0])
    levels = 1000
    poisson = leaves_for(Count("n"), levels, 2).double()
    poisson.initialise(groups, generator())
    log_rate = poisson.mean(poisson.natural()).detach().log().numpy()
    # Noise of deviation 0.1 on every level's log-rate.
    np.testing.assert_allclose(log_rate.mean(0), np.log(expected), atol=5 * 0.1 / math.sqrt(levels))
    assert (log_rate.std(0) > 0).all()
    negative = leaves_for(Count("n", "negative_binomial"), 1, 2).double()
    negative.initialise(groups, generator())
    np.testing.assert_allclose(negative.mean(negative.natural()).detach().numpy()[0], expected, rtol=1e-12)


def test_negative_binomials_start_with_the_dispersion_of_their_groups() -> None:
    """Method of moments, within bounds from which the dispersion can still learn."""
    rng = np.random.default_rng(0)
    heavy = torch.from_numpy(rng.negative_binomial(2, 2 / (2 + 10), 200).astype(float))
    groups = [heavy, torch.full((5,), 4.0).double(), torch.tensor([0.0] * 99 + [1e4]).double()]
    family = leaves_for(Count("n", "negative_binomial"), 2, 3).double()
    family.initialise(groups, generator())
    dispersion = family.export(family.natural())["dispersion"].detach().numpy()
    moments = (heavy.var(correction=0) - heavy.mean()) / heavy.mean().square()
    np.testing.assert_allclose(dispersion, [[moments.item(), 0.05, 10.0]] * 2, rtol=1e-9)


def test_a_column_is_measured_in_its_own_units() -> None:
    family = leaves_for(Continuous("x"), 1, 1)
    assert isinstance(family, GaussianLeaves)
    column = torch.tensor([1.0, 3.0, 5.0, 7.0]).double()
    family.standardise(column)
    assert family.center == 4.0
    assert family.spread == pytest.approx(math.sqrt(5))
    torch.testing.assert_close(family.standardised(column).std(correction=0).item(), 1.0)
    for constant in (0.0, 0.1, -1e9 / 3, 1e-20):
        family.standardise(torch.full((7,), constant, dtype=torch.float64))
        assert family.center == pytest.approx(constant, rel=1e-12)
        assert family.spread == 1.0
    # Units are kept with the parameters, in full precision whatever the dtype.
    family.float().standardise(torch.tensor([1.7e9, 1.7e9 + 1 / 3], dtype=torch.float64))
    other = leaves_for(Continuous("x"), 1, 1)
    other.load_state_dict(family.state_dict())
    assert isinstance(other, GaussianLeaves)
    assert (other.center, other.spread) == (family.center, family.spread)


# Numbers at the edge of float32.


@pytest.mark.parametrize("column_dtype", DTYPES, ids=lambda dtype: f"column {dtype}")
@pytest.mark.parametrize("name", ["poisson", "negative binomial"])
def test_large_counts_in_float32(name: str, column_dtype: torch.dtype) -> None:
    """Terms of size 1e6 cancel almost completely; whoever computes them in float32 loses tenths of a nat."""
    case = next(case for case in CASES if case.name == name)
    family = leaves_for(case.attribute, 1, 2)
    given = {"rate": [[1e5, 9.9e4]], "mean": [[1e5, 9.9e4]], "dispersion": [[1e-3, 1e-5]]}
    family.assign(family.check_exported({key: torch.tensor(given[key]) for key in family.exported}, 1))
    exact = leaves_for(case.attribute, 1, 2).double()
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
    family = leaves_for(Count("n", "negative_binomial"), 1, 1).double()
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
    family = leaves_for(Continuous("x"), 1, 1).to(dtype)
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
    family = leaves_for(Continuous("when"), 2, 2)
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
