"""The oracle against numbers worked out by hand; nothing of the library belongs here."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from gspn.testing import oracle
from gspn.testing.oracle import Graph, Model

NAN = math.nan
THETA = np.array([[0.7, 0.3], [0.4, 0.6]])
OTHER_THETA = np.array([[0.1, 0.9], [0.8, 0.2]])


def naive_bayes(*names: str) -> oracle.Unit:
    """Two states, one leaf per attribute and state."""
    return ("sum", 0, [("product", [("leaf", name, m) for name in names]) for m in range(2)])


def two_levels(edges: list[tuple[int, int, int]], x: list[float]) -> tuple[Model, Graph]:
    """One binary attribute. Level 0: P(1 | state) = 0.9, 0.2; level 1: 0.5, 0.25."""
    model = Model(
        circuit=naive_bayes("a"),
        kinds={"a": "binary"},
        prior=np.array([[0.5, 0.5]]),
        transitions=np.array([[[THETA], [OTHER_THETA]]]),
        leaves={"a": {"probs": np.array([[0.9, 0.2], [0.5, 0.25]])}},
    )
    return model, Graph(np.array(x)[:, None], edges)


def triangle(num_levels: int = 4) -> tuple[Model, Graph]:
    """A categorical and a binary attribute, random parameters, both directions of every edge."""
    rng = np.random.default_rng(7)
    model = Model(
        circuit=naive_bayes("a", "b"),
        kinds={"a": "categorical", "b": "binary"},
        prior=rng.dirichlet(np.ones(2), size=1),
        transitions=rng.dirichlet(np.ones(2), size=(num_levels - 1, 1, 1, 2)),
        leaves={
            "a": {"probs": rng.dirichlet(np.ones(3), size=(num_levels, 2))},
            "b": {"probs": rng.uniform(0.05, 0.95, size=(num_levels, 2))},
        },
    )
    edges = [(u, v, 0) for u, v in itertools.permutations(range(3), 2)]
    return model, Graph(np.array([[0.0, 1.0], [2.0, 0.0], [1.0, 1.0]]), edges)


def put(graph: Graph, v: int, values: dict[int, float]) -> Graph:
    x = graph.x.copy()
    for column, value in values.items():
        x[v, column] = value
    return Graph(x, graph.edges)


@pytest.mark.parametrize("missing", [(), (0,), (1, 4), (0, 1, 2, 3, 4)])
def test_one_level_is_a_mixture_of_products(missing: tuple[int, ...]) -> None:
    model = Model(
        circuit=naive_bayes("a", "b", "c", "d", "e"),
        kinds={"a": "continuous", "b": "categorical", "c": "binary", "d": "count", "e": "negative_binomial"},
        prior=np.array([[0.3, 0.7]]),
        transitions=np.zeros((0, 1, 1, 2, 2)),
        leaves={
            "a": {"mean": np.array([[1.0, -2.0]]), "std": np.array([[0.5, 3.0]])},
            "b": {"probs": np.array([[[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]]])},
            "c": {"probs": np.array([[0.9, 0.4]])},
            "d": {"rate": np.array([[1.5, 6.0]])},
            "e": {"mean": np.array([[2.0, 7.0]]), "dispersion": np.array([[0.5, 2.0]])},
        },
    )
    x = np.array([0.25, 2.0, 0.0, 3.0, 4.0])
    # negative binomial: r = 1 / dispersion = 2, 1/2 and p = 1 / (1 + dispersion * mean) = 1/2, 1/15
    choose = math.gamma(4.5) / (math.gamma(0.5) * math.factorial(4))
    factors = np.array(
        [
            [NormalDist(1.0, 0.5).pdf(0.25), NormalDist(-2.0, 3.0).pdf(0.25)],
            [0.3, 0.1],
            [0.1, 0.6],
            [math.exp(-1.5) * 1.5**3 / 6, math.exp(-6.0) * 6.0**3 / 6],
            [5 * 0.5**2 * 0.5**4, choose * (1 / 15) ** 0.5 * (14 / 15) ** 4],
        ]
    )
    x[list(missing)] = NAN
    factors[list(missing)] = 1.0
    joint = np.array([0.3, 0.7]) * factors.prod(axis=0)
    result = oracle.root(model, Graph(x[None], []), 0)
    assert result.log_likelihood == pytest.approx(math.log(joint.sum()), rel=1e-12, abs=1e-14)
    assert result.posteriors[0] == pytest.approx(joint / joint.sum(), rel=1e-12)


def test_negative_binomial_becomes_poisson_as_the_dispersion_vanishes() -> None:
    leaf = {"mean": np.array([3.0]), "dispersion": np.array([1e-13])}
    poisson = math.log(3.0**5 / 120) - 3.0
    assert oracle.log_density("negative_binomial", leaf, 0, 5.0) == pytest.approx(poisson, abs=1e-11)


def test_one_edge_two_levels() -> None:
    model, graph = two_levels([(0, 1, 0)], [1.0, 1.0])
    result = oracle.root(model, graph, 1)
    # h = (9, 2) / 11 at vertex 0; theta^T h = (0.7 * 9 + 0.4 * 2, 0.3 * 9 + 0.6 * 2) / 11
    assert result.priors[0] == pytest.approx([7.1 / 11, 3.9 / 11])
    assert math.exp(result.log_likelihood) == pytest.approx((7.1 * 0.5 + 3.9 * 0.25) / 11)
    assert result.posteriors[0] == pytest.approx([3.55 / 4.525, 0.975 / 4.525])
    # as the root of its own tree of one level, vertex 1 hears nothing and has level 0's leaves
    assert oracle.posteriors(model, graph, 1)[:, 0] == pytest.approx(np.array([[9 / 11, 2 / 11], result.posteriors[0]]))


def test_a_chain_takes_each_levels_own_transition() -> None:
    model, graph = two_levels([(0, 1, 0), (1, 2, 0)], [1.0, NAN, NAN])
    leaves = {"a": {"probs": np.array([[0.9, 0.2], [0.5, 0.25], [0.6, 0.1]])}}
    model = replace(model, transitions=np.array([[[THETA]], [[OTHER_THETA]]]), leaves=leaves)
    # (7.1, 3.9) / 11 at vertex 1 as above, passed on unchanged
    expected = [(0.1 * 7.1 + 0.8 * 3.9) / 11, (0.9 * 7.1 + 0.2 * 3.9) / 11]
    assert oracle.root(model, graph, 2).priors[0] == pytest.approx(expected)


def test_without_incoming_edge_the_prior_is_the_learned_one_and_the_leaves_are_the_levels() -> None:
    model, graph = two_levels([(0, 1, 0)], [1.0, 1.0])
    result = oracle.root(model, graph, 0)
    assert result.priors[0] == pytest.approx([0.5, 0.5])
    assert math.exp(result.log_likelihood) == pytest.approx(0.5 * 0.5 + 0.5 * 0.25)


def test_parallel_edges_count_twice_and_each_type_has_its_transition() -> None:
    model, graph = two_levels([(0, 2, 0), (0, 2, 0), (1, 2, 1)], [1.0, 0.0, NAN])
    # vertex 0: h = (9, 2) / 11, type 0. Vertex 1: h = (0.1, 0.8) / 0.9 = (1, 8) / 9, type 1
    expected = (2 * np.array([7.1, 3.9]) / 11 + np.array([0.1 * 1 + 0.8 * 8, 0.9 * 1 + 0.2 * 8]) / 9) / 3
    result = oracle.root(model, graph, 2)
    assert result.priors[0] == pytest.approx(expected)
    assert result.posteriors[0] == pytest.approx(expected)  # nothing observed, nothing learned
    assert result.log_likelihood == pytest.approx(0.0, abs=1e-15)


def test_a_self_loop_is_an_echo_that_leave_one_out_silences() -> None:
    model, graph = two_levels([(0, 0, 0)], [1.0])
    assert math.exp(oracle.log_likelihood(model, graph, 0)) == pytest.approx((7.1 * 0.5 + 3.9 * 0.25) / 11)
    # hidden below, the posterior stays (0.5, 0.5): theta^T h = (0.55, 0.45)
    assert math.exp(oracle.leave_one_out(model, graph, 0)) == pytest.approx(0.55 * 0.5 + 0.45 * 0.25)


def circuit_model(circuit: oracle.Unit, theta: oracle.Array | None = None) -> Model:
    """Two binary attributes and two sum units; the same leaves at every level."""
    levels = 1 if theta is None else 2
    return Model(
        circuit=circuit,
        kinds={"a": "binary", "b": "binary"},
        prior=np.array([[0.4, 0.6], [0.25, 0.75]]),
        transitions=np.zeros((0, 1, 2, 2, 2)) if theta is None else theta[None, None],
        leaves={
            "a": {"probs": np.tile([0.8, 0.3], (levels, 1))},
            "b": {"probs": np.tile([0.9, 0.2, 0.5], (levels, 1))},
        },
    )


INNER = ("sum", 1, [("leaf", "b", 0), ("leaf", "b", 1)])
ONE_BRANCH = ("sum", 0, [("product", [("leaf", "a", 0), INNER]), ("product", [("leaf", "a", 1), ("leaf", "b", 2)])])
BOTH_BRANCHES = ("sum", 0, [("product", [("leaf", "a", 0), INNER]), ("product", [("leaf", "a", 1), INNER])])


def test_an_inner_sum_unit_that_is_not_reached_keeps_its_prior() -> None:
    result = oracle.root(circuit_model(ONE_BRANCH), Graph(np.array([[1.0, 1.0]]), []), 0)
    # inner: 0.25 * 0.9 + 0.75 * 0.2 = 0.375; branches 0.4 * 0.8 * 0.375 = 0.12 and 0.6 * 0.3 * 0.5 = 0.09
    assert math.exp(result.log_likelihood) == pytest.approx(0.21)
    reach = 0.12 / 0.21
    assert result.posteriors[0] == pytest.approx([reach, 1 - reach])
    assert result.posteriors[1] == pytest.approx(
        [reach * 0.225 / 0.375 + (1 - reach) * 0.25, reach * 0.15 / 0.375 + (1 - reach) * 0.75]
    )


def test_a_shared_inner_sum_unit_is_always_reached() -> None:
    result = oracle.root(circuit_model(BOTH_BRANCHES), Graph(np.array([[1.0, 1.0]]), []), 0)
    assert math.exp(result.log_likelihood) == pytest.approx((0.4 * 0.8 + 0.6 * 0.3) * 0.375)
    assert result.posteriors == pytest.approx(np.array([[0.64, 0.36], [0.6, 0.4]]))


def test_each_sum_unit_speaks_to_its_namesake() -> None:
    model = circuit_model(BOTH_BRANCHES, np.stack([THETA, OTHER_THETA]))
    result = oracle.root(model, Graph(np.array([[1.0, 1.0], [NAN, 1.0]]), [(0, 1, 0)]), 1)
    first = [0.7 * 0.64 + 0.4 * 0.36, 0.3 * 0.64 + 0.6 * 0.36]
    second = [0.1 * 0.6 + 0.8 * 0.4, 0.9 * 0.6 + 0.2 * 0.4]
    assert result.priors == pytest.approx(np.array([first, second]))
    assert math.exp(result.log_likelihood) == pytest.approx(second[0] * 0.9 + second[1] * 0.2)


def test_two_sum_units_below_one_product_are_chosen_independently() -> None:
    circuit = ("product", [("sum", 0, [("leaf", "a", 0), ("leaf", "a", 1)]), INNER])
    result = oracle.root(circuit_model(circuit), Graph(np.array([[1.0, 0.0]]), []), 0)
    assert math.exp(result.log_likelihood) == pytest.approx((0.4 * 0.8 + 0.6 * 0.3) * (0.25 * 0.1 + 0.75 * 0.8))
    assert result.posteriors == pytest.approx(np.array([[0.64, 0.36], [0.025 / 0.625, 0.6 / 0.625]]))


def test_the_shortcut_combines_the_leaves_below_the_root() -> None:
    names = ("a", "b", "c", "d", "e")
    kinds = dict(zip(names, ("continuous", "categorical", "binary", "count", "negative_binomial"), strict=True))
    leaves = {
        "a": {"mean": np.array([[1.0, 0.0], [5.0, 4.0]]), "std": np.array([[4.0, 8.0], [1.0, 2.0]])},
        "b": {"probs": np.array([[[0.2, 0.8], [0.6, 0.4]], [[0.4, 0.6], [1.0, 0.0]]])},
        "c": {"probs": np.array([[0.8, 0.0], [0.4, 1.0]])},
        "d": {"rate": np.array([[4.0, 8.0], [8.0, 4.0]])},
        "e": {"mean": np.array([[4.0, 2.0], [8.0, 2.0]]), "dispersion": np.array([[1.0, 2.0], [5.0, 2.0]])},
    }
    top: dict[str, dict[str, list[Any]]] = {  # weights 1/4 and 3/4 by hand
        "a": {"mean": [4.0, 3.0], "std": [math.sqrt(1 + 9 / 16), math.sqrt(4 + 36 / 16)]},
        "b": {"probs": [[0.35, 0.65], [0.9, 0.1]]},
        "c": {"probs": [0.5, 0.75]},
        "d": {"rate": [7.0, 5.0]},
        "e": {"mean": [7.0, 2.0], "dispersion": [4.0, 2.0]},
    }
    full = {n: {k: np.concatenate([rows, [top[n][k]]]) for k, rows in leaf.items()} for n, leaf in leaves.items()}
    prior, transitions = np.array([[0.3, 0.7]]), np.array([[[THETA]], [[OTHER_THETA]]])
    plain = Model(naive_bayes(*names), kinds, prior, transitions, full)
    combined = replace(plain, leaves=leaves, shortcut=np.array([0.25, 0.75]))
    x = np.array([[0.5, 0.0, 1.0, 3.0, 2.0], [-1.0, 0.0, NAN, 0.0, 5.0], [2.0, 1.0, 0.0, 1.0, 0.0]])
    graph = Graph(x, [(0, 1, 0), (1, 0, 0)])
    for v in range(3):  # vertex 2 has no incoming edge: the root's leaves are still the shortcut's
        assert oracle.log_likelihood(combined, graph, v) == pytest.approx(oracle.log_likelihood(plain, graph, v))
        assert oracle.posteriors(combined, graph, v) == pytest.approx(oracle.posteriors(plain, graph, v))


def test_posteriors_are_distributions() -> None:
    model, graph = triangle()
    for v in range(3):
        h = oracle.posteriors(model, graph, v)
        assert h.shape == (4, 1, 2)
        assert h.sum(axis=-1) == pytest.approx(np.ones((4, 1)))
        assert h[-1] == pytest.approx(oracle.root(model, graph, v).posteriors)


def test_leave_one_out_sums_to_one_and_the_pseudo_likelihood_does_not() -> None:
    model, graph = triangle()
    worlds = [put(graph, 1, {0: a, 1: b}) for a in range(3) for b in range(2)]
    assert sum(math.exp(oracle.leave_one_out(model, world, 1)) for world in worlds) == pytest.approx(1.0, abs=1e-12)
    assert abs(sum(math.exp(oracle.log_likelihood(model, world, 1)) for world in worlds) - 1.0) > 1e-4


def test_one_entry_sums_to_one_given_the_others() -> None:
    model, graph = triangle()
    terms = [oracle.entry(model, put(graph, 2, {0: a}), 2, 0) for a in range(3)]
    assert sum(map(math.exp, terms)) == pytest.approx(1.0, abs=1e-12)
    assert oracle.entry(model, put(graph, 2, {0: NAN}), 2, 0) == 0.0


def test_hidden_is_the_same_as_missing_except_as_a_target() -> None:
    model, graph = triangle()
    hidden = {(0, 0), (0, 1), (2, 1)}
    x = graph.x.copy()
    x[0], x[2, 1] = NAN, NAN
    for v in range(3):
        missing = oracle.root(model, Graph(x, graph.edges), v)
        result = oracle.root(model, graph, v, hidden)
        assert result.log_visible == missing.log_likelihood == missing.log_visible
        assert np.array_equal(result.posteriors, missing.posteriors)


def test_masked_predicts_only_hidden_observed_entries() -> None:
    model, graph = triangle()
    graph = put(graph, 1, {0: NAN})
    hidden = {(0, 0), (0, 1), (1, 0), (2, 1)}
    both = [oracle.masked(model, put(graph, 0, {0: a, 1: b}), hidden) for a in range(3) for b in range(2)]
    assert sum(math.exp(terms[0]) for terms in both) == pytest.approx(1.0, abs=1e-12)
    assert {terms[1] for terms in both} == {0.0}  # hidden, but missing: no target
    assert len({terms[2] for terms in both}) == 1  # vertex 0 is hidden from vertex 2
    assert both[0][2] < 0.0


def test_impossible_evidence_has_probability_zero_and_no_posterior() -> None:
    model, graph = two_levels([(0, 1, 0)], [1.0, 1.0])
    model = replace(model, leaves={"a": {"probs": np.array([[0.9, 0.2], [0.0, 0.0]])}})
    result = oracle.root(model, graph, 1)
    assert result.log_likelihood == -math.inf
    assert np.isnan(result.posteriors).all()
