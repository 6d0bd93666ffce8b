"""The oracle's leaves over several attributes and with slopes: densities of scipy's, integrals and sums over values."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from regressing_models import CATEGORIES, TANGLED, WIDTHS, draw_covariances, draw_regression, draw_values, line, typed
from regressing_models import whole as all_of
from scipy.special import expit, logit, softmax
from scipy.stats import bernoulli, cauchy, multivariate_normal, nbinom, poisson

from gspn.testing import oracle, oracle_leaves
from gspn.testing.oracle import Array, Graph, Model, NodeContext

THREE = {"a": "continuous", "b": "continuous", "c": "continuous"}
PAIR = {"a": "continuous", "c": "categorical", "b": "continuous"}
NAN = math.nan

STEP = 0.5
PLACES = [float(x) for x in np.arange(-17.0, 17.5, STEP)]
"""Trapezoids are exact to exp(−2π² σ²/step²): to 5e-11 for the smallest variance that is drawn, 0.3"""


def draw_heard(seed: int, width: int) -> NodeContext:
    rng = np.random.default_rng(seed)
    return NodeContext(rng.normal(size=width), 0.5 * draw_covariances(rng, (), width), True)


@pytest.mark.parametrize("gaps", [gaps for n in range(4) for gaps in itertools.combinations(range(3), n)])
def test_gaps_of_a_joint_gaussian_are_marginalised(gaps: tuple[int, ...]) -> None:
    model = draw_regression(0, THREE, [("a", "b", "c")], levels=1, states=3)
    x = np.array([0.4, -1.3, 2.2])
    known = [i for i in range(3) if i not in gaps]
    x[list(gaps)] = NAN
    leaf = model.leaves["a", "b", "c"]
    joint = model.prior[0].copy()
    if known:
        for i in range(3):
            covariance = leaf["covariance"][0, i][np.ix_(known, known)]
            joint[i] *= multivariate_normal(leaf["mean"][0, i][known], covariance).pdf(x[known])
    result = oracle.root(model, Graph(x[None], []), 0)
    assert result.log_likelihood == pytest.approx(math.log(joint.sum()), rel=1e-12, abs=1e-12)
    assert result.posteriors[0] == pytest.approx(joint / joint.sum(), rel=1e-10)


@pytest.mark.parametrize("unknown", [(0,), (2,), (0, 1), (1, 2), (0, 1, 2)])
def test_what_a_gaussian_tells_by_its_precision(unknown: tuple[int, ...]) -> None:
    """ξ and its covariance from blocks of the inverse of Σ + B κV Bᵀ, in units."""
    rng = np.random.default_rng(1)
    leaf = {"mean": rng.normal(size=3), "covariance": draw_covariances(rng, (), 3), "slope": rng.normal(size=(3, 4))}
    context, units = draw_heard(2, 4), [(1.0, 2.0), (0.0, 0.5), (-3.0, 4.0)]
    x = np.array([0.4, -1.3, 2.2])
    values = [None if i in unknown else float(value) for i, value in enumerate(x)]
    found = oracle_leaves.told(["continuous"] * 3, leaf, values, units, context)
    precision = np.linalg.inv(leaf["covariance"] + leaf["slope"] @ context.covariance @ leaf["slope"].T)
    mean, missing = leaf["mean"] + leaf["slope"] @ context.mean, list(unknown)
    known = [i for i in range(3) if i not in unknown]
    left = np.linalg.inv(precision[np.ix_(missing, missing)])
    x[missing] = mean[missing] - left @ precision[np.ix_(missing, known)] @ (x - mean)[known]
    expected = [[(value - center) / spread] for value, (center, spread) in zip(x, units, strict=True)]
    np.testing.assert_allclose(found.mean, expected, rtol=1e-10, atol=1e-12)
    covariance = np.zeros((3, 3))
    covariance[np.ix_(missing, missing)] = left
    spreads = np.array([2.0, 0.5, 4.0])
    assert found.covariance is not None
    np.testing.assert_allclose(found.covariance, covariance / np.outer(spreads, spreads), rtol=1e-10, atol=1e-12)


def test_slopes_of_discrete_leaves() -> None:
    """Added to logits and log-rates; how uncertain the context is does not matter."""
    rng, context = np.random.default_rng(3), draw_heard(4, 4)
    slope = 0.4 * rng.normal(size=(CATEGORIES, 4))
    by = slope @ context.mean
    probs = rng.dirichlet(np.ones(CATEGORIES))
    moved = softmax(np.log(probs) + by)
    for code in range(CATEGORIES):
        found = oracle_leaves.log_leaf(["categorical"], {"probs": probs, "slope": slope}, [code], context)
        assert found == pytest.approx(math.log(moved[code]), rel=1e-12)
    told = oracle_leaves.told(["categorical"], {"probs": probs, "slope": slope}, [None], [(0.0, 1.0)], context)
    assert told.mean[0] == pytest.approx(moved)
    one = slope[:1]
    binary = bernoulli(expit(logit(0.3) + by[0]))
    for x in (0.0, 1.0):
        found = oracle_leaves.log_leaf(["binary"], {"probs": 0.3, "slope": one}, [x], context)
        assert found == pytest.approx(binary.logpmf(x), rel=1e-12)
    rate = poisson(2.5 * math.exp(by[0]))
    size, mean = 1 / 0.4, 2.5 * math.exp(by[0])
    dispersed = nbinom(size, size / (size + mean))
    n = np.arange(3000)
    cases = [
        ("count", {"rate": 2.5, "slope": one}, rate),
        ("negative_binomial", {"mean": 2.5, "dispersion": 0.4, "slope": one}, dispersed),
    ]
    for kind, leaf, law in cases:
        for x in (0.0, 3.0, 11.0):
            assert oracle_leaves.log_leaf([kind], leaf, [x], context) == pytest.approx(law.logpmf(x), rel=1e-11)
        told = oracle_leaves.told([kind], leaf, [None], [(0.0, 1.0)], context)
        expected = law.pmf(n) @ np.log1p(n)
        assert told.mean == [[pytest.approx(expected, rel=1e-11)]]
        assert told.covariance == pytest.approx(np.array([[law.pmf(n) @ (np.log1p(n) - expected) ** 2]]), rel=1e-10)
        known = oracle_leaves.told([kind], leaf, [3.0], [(0.0, 1.0)], context)
        assert known.mean == [[math.log(4)]]
        assert not np.any(known.covariance)


# ---- What a vertex tells is what its distribution expects

CIRCUIT = (
    "sum",
    0,
    [
        ("product", [("leaf", ("a", "b"), 0), ("leaf", "c", 0)]),
        (
            "product",
            [
                ("leaf", "a", 0),
                ("sum", 1, [("product", [("leaf", "b", m), ("leaf", "c", m + 1)]) for m in range(2)]),
            ],
        ),
    ],
)


def models() -> dict[str, Model]:
    scopes: list[oracle.Scope] = [("a", "b"), "a", "b", "c"]
    return {
        "naive Bayes": draw_regression(4, PAIR, [("a", "b"), "c"], states=3, variance=0.7),
        "apart": draw_regression(4, PAIR, states=2, variance=0.7),
        "circuit": draw_regression(5, PAIR, scopes, circuit=CIRCUIT, leaves=3, variance=0.7),
    }


@pytest.mark.parametrize(
    ("name", "unknown"),
    [("naive Bayes", "abc"), *itertools.product(models(), ["a", "c", "ac"]), ("apart", "ab"), ("circuit", "ab")],
)
def test_told_is_expected_under_the_density(name: str, unknown: str) -> None:
    """Mean and covariance of what would be told, by integrals and sums over all that the unknown entries may be."""
    model, context = models()[name], draw_heard(6, 5)
    known = {"a": 1.0, "b": -0.5, "c": 2.0}
    entries: dict[str, oracle.Entry] = {
        n: (None, "missing") if n in unknown else (x, "observed") for n, x in known.items()
    }
    spans = []
    for attribute, x in known.items():
        if attribute not in unknown:
            spans.append([(x, 1.0)])
        elif attribute == "c":
            spans.append([(float(code), 1.0) for code in range(CATEGORIES)])
        else:
            spans.append([(x, STEP) for x in PLACES])
    priors = model.prior
    told, mass = [], []
    for (a, da), (b, db), (c, dc) in itertools.product(*spans):
        row: dict[str, oracle.Entry] = {"a": (a, "observed"), "c": (c, "observed"), "b": (b, "observed")}
        mass.append(da * db * dc * math.exp(oracle.explain(model, 1, priors, row, context)[0]))
        told.append([(a - 0.7) / 2.0, *(float(c == code) for code in range(CATEGORIES)), (b - 0.7) / 2.0])
    weights, rows = np.array(mass) / sum(mass), np.array(told)
    mean, covariance = oracle.expect(model, 1, priors, entries, context)
    expected = weights @ rows
    np.testing.assert_allclose(mean, expected, rtol=0, atol=1e-9)
    off = rows - expected
    spread = (weights[:, None] * off).T @ off
    if name == "circuit":  # attribute by attribute
        same = np.array([0, 1, 1, 1, 2])
        spread = np.where(same[:, None] == same, spread, 0.0)
    assert covariance is not None
    np.testing.assert_allclose(covariance, spread, rtol=0, atol=1e-9)


# ---- Answers


@pytest.mark.parametrize("variance", [0.0, 1.0])
@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("levels", [2, 3])
def test_answers_are_normalised(levels: int, hops: int, variance: float) -> None:
    """On a tangled graph, everything of a vertex hidden everywhere: alone, with a category, and two at once."""
    cases: list[tuple[dict[str, str], list[oracle.Scope]]] = [({"a": "continuous"}, ["a"]), (PAIR, [("a", "b"), "c"])]
    for kinds, scopes in cases:
        model = draw_regression(7, kinds, scopes, levels=levels, hops=hops, variance=variance)
        graph = Graph(draw_values(7, kinds, 5, missing=0.3), typed(TANGLED))
        answer = oracle.answers(model, graph, 1, all_of(1, kinds))
        assert STEP * math.fsum(math.exp(answer({0: x})) for x in PLACES) == pytest.approx(1.0, abs=1e-9)
        if len(kinds) == 1:
            continue
        both = math.fsum(math.exp(answer({0: x, 2: y})) for x, y in itertools.product(PLACES, PLACES))
        assert STEP**2 * both == pytest.approx(1.0, abs=1e-9)
        # Within one answer marginals are sums.
        parts = math.fsum(math.exp(answer({0: 0.3, 1: float(code)})) for code in range(CATEGORIES))
        assert parts == pytest.approx(math.exp(answer({0: 0.3})), rel=1e-12)


def test_the_guard() -> None:
    model = draw_regression(8, PAIR, [("a", "b"), "c"], variance=0.5)
    graph = Graph(draw_values(8, PAIR, 5), typed(TANGLED))
    hidden = all_of(2, PAIR)
    plain, guarded = (oracle.answers(model, graph, 2, hidden, guard=weight) for weight in (0.0, 0.01))
    far = cauchy(0.7, 10.0).pdf
    for a, b in ((0.5, 1.0), (300.0, -50.0)):
        expected = 0.99 * math.exp(plain({0: a, 2: b, 1: 1.0})) + 0.01 * far(a) * far(b) * math.exp(plain({1: 1.0}))
        assert guarded({0: a, 2: b, 1: 1.0}) == pytest.approx(math.log(expected), rel=1e-12)
    assert guarded({1: 2.0}) == plain({1: 2.0})
    points, steps = line(0.0, 1.0, 2001, 30.0)
    assert math.fsum(step * math.exp(guarded({0: x})) for x, step in zip(points, steps, strict=True)) == pytest.approx(
        1.0, abs=1e-8
    )
    assert oracle.answer(model, graph, 2, {0: 9.0}, hidden, guard=0.01) == guarded({0: 9.0})


def test_one_attribute_may_have_a_deviation_or_a_covariance() -> None:
    model = draw_regression(9, {"a": "continuous", "c": "binary"}, variance=1.0, hops=2)
    own = model.leaves["a"]
    deviation: dict[str, Array] = {
        "mean": own["mean"][..., 0],
        "std": np.sqrt(own["covariance"][..., 0, 0]),
        "slope": own["slope"],
    }
    other = replace(model, leaves={"a": deviation, "c": model.leaves["c"]})
    graph = Graph(draw_values(9, model.kinds, 5, missing=0.3), typed(TANGLED))
    for v in range(5):
        assert oracle.leave_one_out(other, graph, v) == pytest.approx(oracle.leave_one_out(model, graph, v))


def test_widths_are_those_of_what_is_told() -> None:
    kinds = {kind: kind for kind in WIDTHS}
    model = draw_regression(10, kinds)
    told, _ = oracle.expect(model, 0, model.prior, dict.fromkeys(kinds, (None, "missing")))
    assert len(told) == sum(WIDTHS.values())
