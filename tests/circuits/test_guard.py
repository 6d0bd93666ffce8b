"""Guarded answers against their formula, written out for a mixture of three states, and against integrals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from small_circuits import CIRCUITS, compiled
from small_leaves import univariate
from torch import Tensor

from gspn.attributes import Binary, Categorical, Continuous, Count, Schema
from gspn.circuits import Evidence, leaves_for
from gspn.circuits.components import Components
from gspn.circuits.distributions import CategoricalDistribution, MixtureDistribution, mix
from gspn.circuits.given import Given, Joint, Roots, distribution, distributions, draw_many
from gspn.circuits.guard import SPREADS, Guarded, guarded
from gspn.circuits.leaves import Rows
from gspn.circuits.leaves.cauchy import CauchyLeaves
from gspn.circuits.templates import NaiveBayes
from gspn.errors import InputError

EPSILON = 0.01
SCHEMA = Schema([Continuous("x"), Continuous("y"), Categorical("c", ["a", "b", "d"]), Count("n"), Binary("b")])
UNITS = {"x": [1.0, 2.0], "y": [-10.0, 0.5]}
PRIOR = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
MEANS = {"x": np.array([0.0, 3.0, -2.0]), "y": np.array([-10.0, -9.0, -10.5])}
STDS = {"x": np.array([1.0, 0.3, 2.0]), "y": np.array([0.5, 0.1, 0.7])}
PROBS = np.array([[0.2, 0.3, 0.5], [0.8, 0.1, 0.1], [0.3, 0.6, 0.1]])
RATES = np.array([0.5, 3.0, 8.0])
TRUE = np.array([0.1, 0.7, 0.4])

NOTHING: Mapping[str, float] = {}
KNOWN: Mapping[str, float] = {"y": -9.7, "b": 1.0}
over_evidence = pytest.mark.parametrize("known", [NOTHING, KNOWN], ids=["nothing known", "two entries known"])


def given(known: Mapping[str, float]) -> Given:
    """Two rows with the same evidence and mixing weights of their own."""
    exported = {
        "x": {"mean": MEANS["x"], "std": STDS["x"]},
        "y": {"mean": MEANS["y"], "std": STDS["y"]},
        "c": {"probs": PROBS},
        "n": {"rate": RATES},
        "b": {"probs": TRUE},
    }
    families = []
    for attribute in SCHEMA:
        family = univariate(attribute, 1, 3).double()
        numbers = {key: torch.from_numpy(value)[None] for key, value in exported[attribute.name].items()}
        family.assign_units({attribute.name: UNITS[attribute.name]} if attribute.name in UNITS else {}, numbers, True)
        family.assign(numbers)
        families.append(family)
    x = torch.tensor([[known.get(name, math.nan) for name in SCHEMA.names]] * 2, dtype=torch.float64)
    prior = torch.from_numpy(PRIOR).log()[:, None]
    return Given.of(NaiveBayes(SCHEMA, 3), families, [f.natural() for f in families], prior, Evidence(x))


def answer(known: Mapping[str, float], epsilon: float = EPSILON) -> Roots:
    inner = given(known)
    units = {name: unit for family in inner.families for name, unit in family.units().items()}
    assert {name: unit.tolist() for name, unit in units.items()} == UNITS
    return guarded(inner, epsilon, units)


def plain(values: Mapping[str, Any]) -> Any:
    """[2, …] the model's joint density of some values (arrays of a common shape)."""
    total: Any = 0.0
    for i in range(3):
        term: Any = 1.0
        for name, value in values.items():
            if name in MEANS:
                term = term * scipy.stats.norm.pdf(value, MEANS[name][i], STDS[name][i])
            elif name == "c":
                term = term * PROBS[i][np.asarray(value, dtype=int)]
            elif name == "n":
                term = term * scipy.stats.poisson.pmf(value, RATES[i])
            else:
                term = term * np.where(np.asarray(value) == 1, TRUE[i], 1 - TRUE[i])
        total = total + np.multiply.outer(PRIOR[:, i], term)
    return total


def cauchy(name: str) -> Any:
    return scipy.stats.cauchy(UNITS[name][0], SPREADS * UNITS[name][1])


def formula(values: Mapping[str, Any], known: Mapping[str, float]) -> Any:
    """[2, …] the guarded density of values given what is known at first."""
    shape = np.broadcast_shapes(*(np.shape(value) for value in values.values()))
    evidence = plain(known) if known else np.ones(2)
    evidence = evidence.reshape(2, *[1] * len(shape))
    body = plain({**values, **known}) / evidence
    discrete = {name: value for name, value in values.items() if name not in MEANS}
    tail = plain({**discrete, **known}) / evidence if {**discrete, **known} else np.ones(2)
    tail = tail.reshape(2, *[1] * len(shape)) if np.ndim(tail) == 1 else tail
    for name, value in values.items():
        if name in MEANS:
            tail = tail * cauchy(name).pdf(value)
    return (1 - EPSILON) * body + EPSILON * tail


def left(known: Mapping[str, float]) -> list[str]:
    return [name for name in SCHEMA.names if name not in known]


def coded(values: Mapping[str, float]) -> dict[str, Tensor]:
    return {name: torch.tensor(value, dtype=torch.float64) for name, value in values.items()}


VALUES: list[dict[str, float]] = [
    {"x": 0.3, "y": -9.2, "c": 1.0, "n": 4.0, "b": 0.0},
    {"x": 900.0, "y": -9.2, "c": 0.0, "n": 1.0, "b": 1.0},
    {"x": -1e6, "y": 3e4, "c": 2.0, "n": 0.0, "b": 1.0},
]


@over_evidence
def test_joints_and_marginals_have_the_guarded_density(known: Mapping[str, float]) -> None:
    joint = Joint(answer(known), left(known))
    for values in VALUES:
        for size in range(1, len(joint.names) + 1):
            for names in itertools.combinations(joint.names, size):
                asked = {name: values[name] for name in names}
                expected = np.log(formula(asked, known))
                np.testing.assert_allclose(joint.log_prob(coded(asked)).numpy(), expected, rtol=1e-10, atol=1e-10)
                if size == 1:
                    single = joint.marginal(names[0])
                    found = single.log_prob(coded(asked)[names[0]]).numpy()
                    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


@over_evidence
def test_conditions_are_ratios_and_never_guarded_afresh(known: Mapping[str, float]) -> None:
    """In one step or in several, for each attribute and for all that are left."""
    names = left(known)
    joint = Joint(answer(known), names)
    for values in VALUES:
        for size in range(1, len(names)):
            for chosen in itertools.combinations(names, size):
                first = {name: values[name] for name in chosen}
                rest = [name for name in names if name not in chosen]
                conditioned = joint.condition(coded(first))
                stepwise = joint
                for name in chosen:
                    stepwise = stepwise.condition(coded({name: first[name]}))
                together = {name: values[name] for name in rest}
                expected = np.log(formula({**first, **together}, known) / formula(first, known))
                for found in (conditioned, stepwise):
                    np.testing.assert_allclose(found.log_prob(coded(together)).numpy(), expected, rtol=1e-9, atol=1e-9)
                for name in rest:
                    own = np.log(formula({**first, name: values[name]}, known) / formula(first, known))
                    code = torch.tensor(values[name], dtype=torch.float64)
                    for found in (conditioned, stepwise):
                        np.testing.assert_allclose(found.marginal(name).log_prob(code).numpy(), own, atol=1e-9)


def nodes(*cuts: float, parts: int = 1) -> tuple[Any, Any]:
    """Places and weights of Gauss–Legendre quadrature between the cuts, each interval in equal parts."""
    ends = np.concatenate([np.linspace(a, b, parts, endpoint=False) for a, b in itertools.pairwise(cuts)] + [cuts[-1:]])
    z, w = np.polynomial.legendre.leggauss(20)
    half = np.diff(ends)[:, None] / 2
    return (ends[:-1, None] + half * (1 + z)).ravel(), (half * w).ravel()


def whole_line() -> tuple[Any, Any]:
    """Fine up to 60, and in the logarithm of the distance up to 10¹⁷."""
    x, weights = nodes(-60.0, 60.0, parts=1200)
    t, of_t = nodes(math.log(60), math.log(60) + 36, parts=60)
    far, of_far = np.exp(t), np.exp(t) * of_t
    return np.concatenate([-far, x, far]), np.concatenate([of_far, weights, of_far])


@over_evidence
def test_marginals_are_integrals(known: Mapping[str, float]) -> None:
    """Of the joint, over a continuous attribute and over categories."""
    names = [name for name in left(known) if name in ("x", "c", "n")]
    places, weights = whole_line()
    roots = answer(known)
    joint = Joint(roots, names)
    for row in range(2):
        many = Joint(roots[torch.full((len(places),), row)], names)
        density = many.log_prob({"x": torch.from_numpy(places), "c": "b", "n": 2}).exp().numpy()
        assert weights @ density == pytest.approx(joint.log_prob({"c": "b", "n": 2})[row].exp().item(), abs=1e-12)
    total = torch.stack([joint.log_prob({"x": 7.0, "c": name, "n": 3}).exp() for name in "abd"]).sum(0)
    torch.testing.assert_close(total, joint.log_prob({"x": 7.0, "n": 3}).exp(), rtol=1e-12, atol=0)


def conditioned_answers(known: Mapping[str, float]) -> list[Roots]:
    """As asked for, and given a value that is likely, and given one that the guard alone can explain."""
    roots = answer(known)
    found = [roots]
    for y in (-9.5, 40.0):
        x = roots.evidence.x.clone()
        x[:, 1] = torch.where(torch.isnan(x[:, 1]), y, x[:, 1])
        x[:, 2] = 1.0
        found.append(roots.given(roots.evidence.having(x)))
    return found


@over_evidence
def test_quantiles_invert_cumulative_probabilities(known: Mapping[str, float]) -> None:
    for roots in conditioned_answers(known):
        mixture = distribution(roots, 0)
        assert isinstance(mixture, MixtureDistribution)
        weights = mixture.weights.numpy()
        for q in (1e-5, 1e-3, 0.05, 0.5, 0.95, 1 - 1e-4):
            place = mixture.quantile(q)
            np.testing.assert_allclose(mixture.cumulative(place).numpy(), q, rtol=1e-9)
            below = [scipy.stats.norm.cdf(place.numpy(), MEANS["x"][i], STDS["x"][i]) for i in range(3)]
            below.append(cauchy("x").cdf(place.numpy()))
            np.testing.assert_allclose((weights * np.stack(below, axis=1)).sum(1), q, rtol=1e-8)
        low, high = mixture.interval(0.9).T
        torch.testing.assert_close(mixture.cumulative(high) - mixture.cumulative(low), torch.full((2,), 0.9).double())


@over_evidence
def test_entropies_and_modes_include_the_guard(known: Mapping[str, float]) -> None:
    places, widths = whole_line()
    for roots in conditioned_answers(known):
        mixture = distribution(roots, 0)
        assert isinstance(mixture, MixtureDistribution)
        parts = [scipy.stats.norm.pdf(places, MEANS["x"][i], STDS["x"][i]) for i in range(3)]
        density = mixture.weights.numpy() @ np.stack([*parts, cauchy("x").pdf(places)])
        expected = -(density * np.log(density)) @ widths
        np.testing.assert_allclose(mixture.entropy.numpy(), expected, rtol=0, atol=1e-7)
        assert (mixture.log_prob(mixture.mode).numpy() >= np.log(density.max(1)) - 1e-12).all()


@over_evidence
def test_moments_are_those_without_a_guard(known: Mapping[str, float]) -> None:
    ours, theirs = answer(known), given(known)
    for column in (0, 3):
        one, other = distribution(ours, column), distribution(theirs, column)
        torch.testing.assert_close(one.mean, other.mean, rtol=1e-13, atol=0)
        torch.testing.assert_close(one.variance, other.variance, rtol=1e-13, atol=0)
    # Also where no weight is left for them.
    far = ours.given(ours.evidence.having(torch.where(torch.arange(5) == 1, 1e5, ours.evidence.x)))
    if not known:
        mean = distribution(far, 0).mean
        torch.testing.assert_close(mean, distribution(theirs.given(far.evidence), 0).mean, rtol=1e-12, atol=0)


@over_evidence
def test_what_is_discrete_is_the_models_own(known: Mapping[str, float]) -> None:
    """Until a continuous value becomes known inside the answer."""
    ours, theirs = answer(known), given(known)
    for (_, _, one), (_, _, other) in zip(
        distributions(ours, ~ours.evidence.known), distributions(theirs, ~theirs.evidence.known), strict=True
    ):
        if isinstance(one, CategoricalDistribution):
            assert isinstance(other, CategoricalDistribution)
            assert torch.equal(one.probs, other.probs)
    torch.testing.assert_close(distribution(ours, 3).entropy, distribution(theirs, 3).entropy, rtol=0, atol=0)


@over_evidence
def test_draws_come_from_the_guarded_joint(known: Mapping[str, float]) -> None:
    """Their positions among the conditional probabilities are uniform, one attribute after another."""
    count = 4000
    for epsilon in (EPSILON, 0.4):
        roots = answer(known, epsilon)
        wanted = ~roots.evidence.known
        drawn = draw_many(roots, wanted, count, torch.Generator().manual_seed(1))
        assert drawn.shape == (count, 2, 5)
        assert not torch.isnan(drawn).any()
        for name, value in known.items():
            assert bool((drawn[..., SCHEMA.names.index(name)] == value).all())
        x = drawn[:, 0, :]
        far = (x[:, 0] - 1.0).abs() > 40
        outside = epsilon * 2 * cauchy("x").sf(41.0)
        assert abs(float(far.double().mean()) - outside) < 4 * math.sqrt(outside / count) + 1e-3
        before = roots[torch.zeros(count, dtype=torch.long)]
        for column, name in enumerate(SCHEMA.names):
            if name in known:
                continue
            own = distribution(before, column)
            noise = torch.rand(count, generator=torch.Generator().manual_seed(column), dtype=torch.float64)
            if isinstance(own, CategoricalDistribution):
                codes = x[:, column].long()
                above = own.probs.cumsum(1).gather(1, codes[:, None]).squeeze(1)
                share = above - noise * own.probs.gather(1, codes[:, None]).squeeze(1)
            else:
                share = own.cumulative(x[:, column])
                share = share - (noise * own.log_prob(x[:, column]).exp() if name == "n" else 0.0)
            assert scipy.stats.kstest(share.numpy(), "uniform").pvalue > 1e-4, name
            filled = before.evidence.x.clone()
            filled[:, column] = x[:, column]
            before = before.given(before.evidence.having(filled))
        alone = distribution(roots, 0).sample(count, torch.Generator().manual_seed(2))
        repeated = distribution(roots[torch.zeros(count, dtype=torch.long)], 0)
        assert isinstance(repeated, MixtureDistribution)
        share = repeated.cumulative(alone[:, 0])
        assert scipy.stats.kstest(share.numpy(), "uniform").pvalue > 1e-4


def test_no_weight_is_no_guard() -> None:
    inner = given(NOTHING)
    assert guarded(inner, 0.0, UNITS) is inner
    assert guarded(inner, 0.0, {}) is inner
    discrete = Schema([Categorical("c", ["a", "b"]), Count("n")])
    families = [leaves_for(attribute, 1, 2) for attribute in discrete]
    prior = torch.log(torch.tensor([[[0.5, 0.5]]]))
    empty = Evidence(torch.full((1, 2), math.nan).double())
    roots = Given.of(NaiveBayes(discrete, 2), families, [f.natural() for f in families], prior, empty)
    assert guarded(roots, 0.1, {}) is roots


@pytest.mark.parametrize("epsilon", [-0.1, 1.0, math.nan, "much"])
def test_weights_that_are_none_are_refused(epsilon: Any) -> None:
    with pytest.raises(InputError, match="guard"):
        guarded(given(NOTHING), epsilon, UNITS)


def test_units_are_needed() -> None:
    with pytest.raises(InputError, match="'y'"):
        guarded(given(NOTHING), 0.1, {"x": [0.0, 1.0]})


@over_evidence
def test_the_probability_of_the_evidence_is_the_models_own(known: Mapping[str, float]) -> None:
    """What was known before is not guarded, what becomes known in the answer is; other evidence is a new question."""
    ours, theirs = answer(known), given(known)
    torch.testing.assert_close(ours.log_value(), theirs.log_value(), rtol=1e-14, atol=1e-14)
    more = ours.evidence.having(torch.where(torch.arange(5) == 0, 50.0, ours.evidence.x))
    gained = ours.given(more).log_value() - ours.log_value()
    torch.testing.assert_close(gained, ours.log_prob(more), rtol=1e-12, atol=1e-12)
    assert bool((ours.log_prob(more) > theirs.log_prob(more)).all())
    again = ours.having(more)
    torch.testing.assert_close(again.log_value(), theirs.having(more).log_value(), rtol=1e-14, atol=1e-14)
    assert torch.equal(ours.log_prob(ours.evidence), torch.zeros(2).double())


def test_rows_are_taken_apart() -> None:
    roots = answer(NOTHING)
    x = torch.tensor([[0.3, math.nan, math.nan, 2.0, math.nan], [800.0, -9.0, 1.0, math.nan, 1.0]]).double()
    conditioned = roots.given(roots.evidence.having(x))
    for row in range(2):
        one = conditioned[torch.tensor([row])]
        assert isinstance(one, Guarded)
        assert len(one) == 1
        torch.testing.assert_close(one.log_value(), conditioned.log_value()[row : row + 1])
        own = roots[row : row + 1]
        torch.testing.assert_close(one.log_value(), own.given(own.evidence.having(x[row : row + 1])).log_value())


@pytest.mark.parametrize("name", [name for name, (schema, _) in CIRCUITS.items() if "charge" in schema.names])
def test_general_circuits_are_guarded_alike(name: str) -> None:
    """Conditionals of the single answer are ratios of the joint one, whatever the circuit."""
    schema, template = CIRCUITS[name][0], compiled(name)
    torch.manual_seed(3)
    families = [
        leaves_for([schema[column] for column in scope], 1, count).double()
        for scope, count in zip(template.scopes, template.leaf_counts, strict=True)
    ]
    prior = torch.log_softmax(torch.randn(2, template.num_sum_units, 3, dtype=torch.float64), dim=-1)
    empty = Evidence(torch.full((2, len(schema)), math.nan, dtype=torch.float64))
    inner = Given.of(template, families, [family.natural() for family in families], prior, empty)
    roots = guarded(inner, 0.1, {"charge": [0.0, 1.0]})
    joint, theirs = Joint(roots, schema.names), Joint(inner, schema.names)
    values: dict[str, Any] = {"charge": 2.5, "element": "N", "aromatic": True, "hydrogens": 2, "degree": 1}
    discrete = {key: value for key, value in values.items() if key != "charge"}
    heavy = scipy.stats.cauchy(0, SPREADS).pdf(2.5)
    expected = 0.9 * theirs.log_prob(values).exp() + 0.1 * heavy * theirs.log_prob(discrete).exp()
    torch.testing.assert_close(joint.log_prob(values).exp(), expected, rtol=1e-10, atol=0)
    total = torch.zeros(2, dtype=torch.float64)
    left_out, so_far = dict(values), joint
    for key in schema.names:
        own = so_far.marginal(key)
        total += own.log_prob(left_out[key])
        del left_out[key]
        so_far = so_far.condition({key: values[key]}) if left_out else so_far
    torch.testing.assert_close(total, joint.log_prob(values), rtol=1e-9, atol=1e-9)


# The guard's own family


def cauchy_mixture(center: float, scale: float) -> tuple[MixtureDistribution, Any]:
    family = CauchyLeaves(Continuous("x"), center, scale)
    made = mix(Components([Rows(family, family.natural())]), torch.zeros(1, 1, dtype=torch.float64))
    assert isinstance(made, MixtureDistribution)
    return made, scipy.stats.cauchy(center, scale)


@pytest.mark.parametrize(("center", "scale"), [(0.0, 1.0), (-40.0, 12.5), (1e6, 1e-3)])
def test_cauchy_leaves_are_scipys(center: float, scale: float) -> None:
    ours, theirs = cauchy_mixture(center, scale)
    for z in (-1e200, -1e9, -3.0, -0.2, 0.0, 0.7, 50.0, 1e12):
        x = center + scale * z
        # scipy squares what is far away.
        if abs(z) < 1e100:
            assert ours.log_prob(x).item() == pytest.approx(theirs.logpdf(x), rel=1e-9)
        assert math.isfinite(ours.log_prob(x).item())
        assert ours.cumulative(x).item() == pytest.approx(theirs.cdf(x), rel=1e-9, abs=1e-13)
    for q in (1e-12, 1e-3, 0.25, 0.5, 0.6, 1 - 1e-6):
        assert (ours.quantile(q).item() - center) / scale == pytest.approx(theirs.dist.ppf(q), rel=1e-6, abs=1e-6)
    assert ours.entropy.item() == pytest.approx(float(theirs.entropy()), abs=1e-7)
    assert ours.mode.item() == pytest.approx(center, abs=1e-6 * scale)
    drawn = ours.sample(5000, torch.Generator().manual_seed(0))[:, 0]
    assert scipy.stats.kstest(drawn.numpy(), theirs.cdf).pvalue > 1e-4


def test_cauchy_leaves_have_no_moments_and_learn_nothing() -> None:
    family = CauchyLeaves(Continuous("x"), 0.0, 1.0)
    natural, column = family.natural(), torch.zeros(3, 1, dtype=torch.float64)
    refused: list[Any] = [
        lambda: family.mean(natural),
        lambda: family.variance(natural),
        lambda: family.start([column], torch.Generator()),
        lambda: family.estimate(Evidence(column), torch.ones(3, 1, dtype=torch.float64)),
        lambda: family.assign(natural),
    ]
    for ask in refused:
        with pytest.raises(InputError, match="'x'"):
            ask()
    assert not list(family.parameters())


def all_tensors(*found: Tensor) -> bool:
    return all(bool(torch.isfinite(one).all()) for one in found)


def test_no_rows_are_no_answers() -> None:
    roots = answer(NOTHING)[torch.zeros(0, dtype=torch.long)]
    mixture = distribution(roots, 0)
    assert isinstance(mixture, MixtureDistribution)
    assert len(mixture) == 0
    assert mixture.quantile(0.5).shape == mixture.mean.shape == mixture.mode.shape == (0,)
    assert roots.draw(torch.ones(0, 5, dtype=torch.bool)).shape == (0, 5)
    assert all_tensors(roots.log_value(), mixture.entropy)
