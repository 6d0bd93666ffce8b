"""The oracle where leaves regress on neighbours, against sums written out by hand and by brute force."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from regressing_models import RING, TANGLED, draw_regression, draw_values, having, typed, whole
from scipy.stats import norm

from gspn.testing import oracle
from gspn.testing.oracle import Array, Graph, Model, NodeContext

ONE = {"a": "continuous"}
MIXED = {"a": "continuous", "c": "categorical", "b": "continuous", "d": "binary", "e": "count"}
SCOPES: list[oracle.Scope] = [("a", "b"), "c", "d", "e"]
NAN = math.nan


def heard(model: Model, graph: Graph, v: int, hidden: oracle.Hidden = frozenset()) -> NodeContext:
    tree = oracle.infer(model, graph, oracle.grow(graph, v, model.num_levels - 1, hops=model.hops), hidden)
    assert isinstance(tree.context, NodeContext)
    return tree.context


def test_two_vertices_and_one_edge_by_hand() -> None:
    """Two states, the sender missing or observed; the receiver's density is a mixture of two normal ones."""
    model = draw_regression(0, ONE, variance=0.5)
    mean, variance, slope = (model.leaves["a"][key].squeeze() for key in ("mean", "covariance", "slope"))
    (center, spread), usual = model.units["a"], float(model.regression.mean[0, 0])  # type: ignore[union-attr]
    for x in (NAN, 2.5):
        graph = Graph(np.array([[x], [1.4]]), [(0, 1, 0)])
        if math.isnan(x):
            h = model.prior[0]
            told = (mean[0] - center) / spread
            uncertain = h @ variance[0] / spread**2 + h @ (told - h @ told) ** 2
            told = h @ told
        else:
            h = model.prior[0] * norm.pdf(x, mean[0], np.sqrt(variance[0]))
            h, told, uncertain = h / h.sum(), (x - center) / spread, 0.0
        place = mean[1] + slope[1] * (told - usual)
        width = np.sqrt(variance[1] + 0.5 * slope[1] ** 2 * uncertain)
        expected = (h @ model.transitions[0, 0, 0]) @ norm.pdf(1.4, place, width)
        assert oracle.log_likelihood(model, graph, 1) == pytest.approx(math.log(expected), abs=1e-13)


def test_two_hops_on_a_triangle_by_hand() -> None:
    """0 hears 1 twice and 2; 1 hears 0, 2 and itself; 2 hears 0 alone."""
    model = draw_regression(1, ONE, hops=2)
    e = np.array([1.0, 10.0, 100.0])
    center, spread = model.units["a"]
    graph = Graph((center + spread * e)[:, None], typed([(1, 0), (1, 0), (2, 0), (0, 1), (2, 1), (1, 1), (0, 2)]))
    usual = model.regression.mean[0]  # type: ignore[union-attr]
    # Through 1, twice: 2 and 1 itself, not 0. Through 2: nobody but 0.
    assert heard(model, graph, 0).mean + usual == pytest.approx([(2 * 10 + 100) / 3, (100 + 10) / 2])
    # Through 0: 2, not 1. Through 2: 0. Through itself, which is no way around its own: 0 and 2.
    expected = (100 + 1 + (1 + 100) / 2) / 3
    assert heard(model, graph, 1).mean + usual == pytest.approx([(1 + 100 + 10) / 3, expected])
    # Through 0: 1, twice.
    assert heard(model, graph, 2).mean + usual == pytest.approx([1, 10])
    # On one edge there and back nobody else is heard: what is usual takes the place.
    pair = Graph(graph.x, typed([(0, 1), (1, 0)]))
    assert heard(model, pair, 0).mean + usual == pytest.approx([10, usual[1]])


def draw_edges(seed: int, n: int) -> list[tuple[int, int, int]]:
    """With repetitions and self-loops; the last vertex receives nothing."""
    rng = np.random.default_rng(seed)
    return typed([(int(u), int(v)) for u, v in zip(rng.integers(n, size=9), rng.integers(n - 1, size=9), strict=True)])


@pytest.mark.parametrize("seed", range(20))
def test_sums_over_edges_by_brute_force(seed: int) -> None:
    """m, m² and V from the matrix of edges' numbers and from what every vertex tells at level 0."""
    n = 5
    model = draw_regression(seed, MIXED, SCOPES, hops=2, variance=0.5)
    graph = Graph(draw_values(seed, MIXED, n, missing=0.5), draw_edges(seed, n))
    number = np.zeros((n, n), dtype=int)
    for u, v, _ in graph.edges:
        number[u, v] += 1
    told, uncertain = [], []
    for v in range(n):
        e, covariance = oracle.expect(model, 0, model.prior, oracle.visible(model, graph, v))
        assert covariance is not None
        told.append(np.array(e))
        uncertain.append(covariance)
    assert model.regression is not None
    usual, stored, width = model.regression.mean[0], model.regression.covariance[0], len(told[0])
    incoming = number.sum(0)
    for v in range(n):
        found = heard(model, graph, v)
        if not incoming[v]:
            assert not found.present
            np.testing.assert_array_equal(found.mean, 0.0)
            np.testing.assert_allclose(found.covariance, 0.5 * stored, rtol=0, atol=0)
            continue
        near = sum(number[u, v] * told[u] for u in range(n)) / incoming[v]
        far, ways = np.zeros(width), 0
        for u in range(n):
            if number[u, v] and incoming[u] > number[v, u]:
                others = sum((number[w, u] * told[w] for w in range(n) if w != v), start=np.zeros(width))
                far += number[u, v] * others / (incoming[u] - number[v, u])
                ways += number[u, v]
        far = far / ways if ways else usual[width:]
        np.testing.assert_allclose(found.mean, np.concatenate([near, far]) - usual, rtol=1e-12, atol=1e-12)
        expected = sum((number[u, v] / incoming[v]) ** 2 * uncertain[u] for u in range(n))
        np.testing.assert_allclose(found.covariance[:width, :width], 0.5 * expected, rtol=1e-12, atol=1e-12)
        assert not found.covariance[width:].any()
        assert not found.covariance[:, width:].any()


def test_messages_that_do_not_weigh_alike_weigh_so_in_contexts() -> None:
    """Weights of the aggregation enter m, and V by their squares; m² has its own."""
    model = draw_regression(2, ONE, hops=2, variance=1.0)
    graph = Graph(np.array([[NAN], [NAN], [1.0]]), typed([(0, 2), (1, 2), (1, 2), (0, 1), (2, 0)]))
    plain = heard(model, graph, 2)
    weighed = heard(replace(model, weigh=lambda messages: [0.5, 0.2, 0.3]), graph, 2)
    e, uncertain = oracle.expect(model, 0, model.prior, {"a": (None, "missing")})
    assert uncertain is not None
    usual = model.regression.mean[0]  # type: ignore[union-attr]
    np.testing.assert_allclose(weighed.mean[0], e[0] - usual[0], rtol=1e-12)  # all tell the same
    assert weighed.covariance[0, 0] == pytest.approx(0.5 * uncertain[0, 0])
    assert plain.covariance[0, 0] == pytest.approx((1 + 4) / 9 * uncertain[0, 0])
    assert weighed.mean[1] == plain.mean[1]


@pytest.mark.parametrize("levels", [2, 3])
@pytest.mark.parametrize("hops", [1, 2])
def test_the_own_entries_have_no_influence_where_they_are_hidden(hops: int, levels: int) -> None:
    """On a tangled graph with cycles and self-loops, also through two hops; where they are not hidden, they have."""
    kinds = {"a": "continuous", "c": "categorical"}
    model = draw_regression(3, kinds, levels=levels, hops=hops, variance=0.5)
    graph = Graph(draw_values(3, kinds, 5, missing=0.2), typed(TANGLED))
    for v in (0, 2):
        other = having(graph, v, [40.0, 1.0])
        one, another = (oracle.answers(model, g, v, whole(v, kinds)) for g in (graph, other))
        for values in ({0: 0.3, 1: 2.0}, {0: -4.0}, {1: 0.0}):
            assert one(values) == another(values)
        assert not np.allclose(heard(model, graph, v).mean, heard(model, other, v).mean)


@pytest.mark.parametrize("hops", [1, 2])
def test_two_levels_without_self_loops_have_no_echo(hops: int) -> None:
    kinds = {"a": "continuous", "c": "categorical"}
    graph = Graph(draw_values(4, kinds, 5, missing=0.2), typed([(u, v) for u, v in TANGLED if u != v]))
    for levels in (2, 3):
        model = draw_regression(4, kinds, levels=levels, hops=hops, variance=1.0)
        pseudo = [oracle.log_likelihood(model, graph, v) for v in range(4)]
        alone = [oracle.leave_one_out(model, graph, v) for v in range(4)]
        assert np.allclose(pseudo, alone, rtol=0, atol=1e-12) == (levels == 2)


def test_without_slopes_it_is_the_old_model() -> None:
    """Wherever somebody is heard; contexts may be as uncertain as they like."""
    model = draw_regression(5, MIXED, SCOPES, levels=3, edge_types=2, variance=1.0)
    flat = {scope: {**leaf, "slope": np.zeros_like(leaf["slope"])} for scope, leaf in model.leaves.items()}
    flattened = replace(model, leaves=flat)
    graph = Graph(draw_values(5, MIXED, 4, missing=0.3), typed(RING, 2))
    for v in range(4):
        for ask in (oracle.log_likelihood, oracle.leave_one_out):
            assert ask(flattened, graph, v) == pytest.approx(ask(replace(flattened, regression=None), graph, v))
            assert ask(flattened, graph, v) != pytest.approx(ask(model, graph, v), abs=1e-3)


# ---- Vertices that nobody speaks to


def test_a_vertex_without_incoming_edges_by_hand() -> None:
    """Answered by level 0; what it sends at level 1 has that level's leaves, what is usual, and θᵀ π₀."""
    model = draw_regression(6, ONE, levels=3, edge_types=2, variance=0.5)
    graph = Graph(np.array([[0.6], [NAN]]), [(0, 1, 1)])
    mean, variance, slope = (model.leaves["a"][key].squeeze() for key in ("mean", "covariance", "slope"))
    prior, thetas, regression = model.prior[0], model.transitions[:, :, 0], model.regression
    assert regression is not None
    result = oracle.root(model, graph, 0)
    joint = prior * norm.pdf(0.6, mean[0], np.sqrt(variance[0]))
    assert result.log_likelihood == pytest.approx(math.log(joint.sum()))
    assert result.priors[0] == pytest.approx(prior)
    sent, b = [joint / joint.sum()], prior
    for level in (1, 2):
        b = sum(share * theta.T @ b for share, theta in zip(regression.edge_shares, thetas[level - 1], strict=True))
        width = np.sqrt(variance[level] + 0.5 * slope[level] ** 2 * regression.covariance[level - 1, 0, 0])
        own = b * norm.pdf(0.6, mean[level], width)
        sent.append(own / own.sum())
    np.testing.assert_allclose(oracle.posteriors(model, graph, 0)[:, 0], sent, rtol=1e-12)
    assert result.posteriors[0] == pytest.approx(sent[2])
    # Its receiver hears what is sent at level 1, along an edge of the second type.
    assert oracle.root(model, graph, 1).priors[0] == pytest.approx(thetas[1, 1].T @ sent[1])


def test_hiding_does_not_make_a_vertex_alone() -> None:
    model = draw_regression(7, ONE, variance=0.5)
    graph = Graph(np.array([[0.6], [1.0]]), [(0, 1, 0)])
    assert heard(model, graph, 1, {(0, 0), (1, 0)}).present


@pytest.mark.parametrize("hops", [1, 2])
def test_states_may_be_called_what_they_like(hops: int) -> None:
    """States of a level in another order change no answer, with vertices that nobody speaks to among the senders."""
    model = draw_regression(8, MIXED, SCOPES, levels=3, states=3, edge_types=2, hops=hops, variance=1.0)
    orders = [np.array(order) for order in ([1, 2, 0], [2, 0, 1], [0, 2, 1])]
    leaves: dict[oracle.Scope, dict[str, Array]] = {
        scope: {key: np.stack([rows[level][order] for level, order in enumerate(orders)]) for key, rows in leaf.items()}
        for scope, leaf in model.leaves.items()
    }
    transitions = np.stack(
        [model.transitions[i][:, :, orders[i]][..., orders[i + 1]] for i in range(model.num_levels - 1)]
    )
    renamed = replace(model, prior=model.prior[:, orders[0]], transitions=transitions, leaves=leaves)
    graph = Graph(draw_values(8, MIXED, 4, missing=0.3), typed([(0, 1), (1, 2), (2, 1), (3, 2), (3, 1)], 2))
    for v in range(4):
        assert oracle.leave_one_out(renamed, graph, v) == pytest.approx(oracle.leave_one_out(model, graph, v))
