"""The symmetric mean and the product of messages: their suites, the oracle, exactness, and rounding at hubs."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from context_cases import CASES, Case, make_case, set_at_random
from numpy.typing import NDArray
from oracle_cases import draw_values
from torch_geometric.data import Data

import gspn
from gspn import GSPN, Categorical, Continuous, Schema
from gspn.errors import InputError
from gspn.hierarchy.aggregation import Messages
from gspn.hierarchy.product import MessageProduct
from gspn.hierarchy.roots import leave_one_out
from gspn.kernels import Received
from gspn.models.growing import grow, mixture_for
from gspn.testing import AggregationCase, AggregationSuite, oracle, oracle_model
from gspn.testing.oracle_aggregations import product, symmetric, symmetric_weights

TOLERANCE = 1e-8
"""As where contexts meet the oracle: solving with covariances costs some digits."""


def literal_product(module: torch.nn.Module) -> oracle.Mix:
    assert isinstance(module, MessageProduct)
    own = module.export()
    return product(own["prior"].numpy(), own["beta"].numpy())


class TestSymmetric(AggregationSuite):
    case = AggregationCase("symmetric", lambda module: symmetric, lambda module: symmetric_weights)


class TestProduct(AggregationSuite):
    case = AggregationCase("product", literal_product)


# Against the oracle, where leaves regress on neighbours, too.


def case_with(aggregation: str, seed: int) -> Case:
    """A case of `context_cases` with another aggregation."""
    case = make_case(seed)
    model = GSPN(**case.model.arguments() | {"aggregation": aggregation}).double()
    set_at_random(model, np.random.default_rng(3000 + seed))
    if aggregation == "symmetric":
        theirs = oracle_model(model, mix=symmetric, weigh=symmetric_weights)
    else:
        parameters = model.get_parameters()
        own = parameters["aggregation"]
        mix = product(own["prior"].numpy(), own["beta"].numpy(), parameters["prior"].numpy())
        theirs = oracle_model(model, mix=mix)
    return Case(case.axes, model, case.data, theirs, case.graph)


@pytest.mark.parametrize("seed", range(CASES))
@pytest.mark.parametrize("aggregation", ["symmetric", "product"])
def test_agrees(aggregation: str, seed: int) -> None:
    """Likelihoods, with private copies of the vertices in small pieces, posteriors of all levels, and answers."""
    case = case_with(aggregation, seed)
    n, model, graph = len(case.graph.x), case.model, case.graph

    def assert_close(ours: torch.Tensor, theirs: object) -> None:
        np.testing.assert_allclose(
            ours.detach(), np.asarray(theirs), rtol=TOLERANCE, atol=TOLERANCE, err_msg=str(case.axes)
        )

    assert_close(model.log_likelihood(case.data), [oracle.log_likelihood(case.theirs, graph, v) for v in range(n)])
    assert_close(model.posteriors(case.data), [oracle.posteriors(case.theirs, graph, v) for v in range(n)])
    alone = [oracle.leave_one_out(case.theirs, graph, v) for v in range(n)]
    pieces = leave_one_out(model.hierarchy, model.collate(case.data), torch.arange(n), budget=2)
    assert_close(torch.cat(list(pieces)), alone)
    assert_close(model.log_likelihood(case.data, leave_one_out=True, vertices=[n - 1]), alone[-1:])
    column = seed % len(model.schema)
    truth = draw_values(np.random.default_rng(seed), model.schema, n, 0.0)[:, column]
    found = model.conditional(case.data, model.schema.names[column]).log_prob(torch.from_numpy(truth))
    answers = [oracle.answer(case.theirs, graph, v, {column: truth[v]}, {(v, column)}) for v in range(n)]
    assert_close(found, answers)


# What the product computes exactly.

TWO = Schema([Categorical("a", ["x", "y", "z"]), Continuous("b")])


def random_product(levels: int = 2, beta: float = 0.0) -> GSPN:
    """Two edge types, three states."""
    model = GSPN(TWO, levels, 3, num_edge_types=2, aggregation="product").double()
    set_at_random(model, np.random.default_rng(levels))
    parameters = model.get_parameters()
    parameters["aggregation"]["beta"] = torch.full((levels - 1,), beta)
    return model.set_parameters(parameters)


@pytest.mark.parametrize("count", range(6))
def test_a_star_is_exact(count: int) -> None:
    """The probability of the root's entries given those of its neighbours, from a sum over all states of all of them.

    The root's state is drawn from b_1 and a neighbour's, given it, by Bayes' rule from π₀ and θ.
    """
    rng, model = np.random.default_rng(count), random_product()
    data = Data(
        x=torch.from_numpy(draw_values(rng, TWO, count + 1, 0.3)),
        edge_index=torch.tensor([list(range(1, count + 1)), [0] * count], dtype=torch.long),
        edge_type=torch.from_numpy(rng.integers(2, size=count)),
    )
    parameters = model.get_parameters()
    prior, theta = parameters["prior"][0].numpy(), parameters["transitions"][0, :, 0].numpy()
    root = parameters["aggregation"]["prior"][0, 0].numpy()
    below, above = (densities(parameters, data.x.numpy(), level) for level in (0, 1))
    reverse = [(prior[:, None] * own) / (prior @ own) for own in theta]  # [k, i]
    together = without = 0.0
    for i in range(3):
        for states in itertools.product(range(3), repeat=count):
            factors = [reverse[data.edge_type[u]][k, i] * below[u + 1, k] for u, k in enumerate(states)]
            term = root[i] * math.prod(map(float, factors))
            without += term
            together += term * above[0, i]
    expected = math.log(together) - math.log(without)
    assert float(model.log_likelihood(data)[0]) == pytest.approx(expected, abs=1e-12)


def densities(parameters: dict[str, Any], x: NDArray[np.float64], level: int) -> NDArray[np.float64]:
    """[N, C] of the known entries, from users' parameters."""
    leaves, found = parameters["leaves"], np.ones((len(x), 3))
    for v, (category, number) in enumerate(x):
        for k in range(3):
            if not math.isnan(category):
                found[v, k] *= float(leaves["a"]["probs"][level, k, int(category)])
            if not math.isnan(number):
                mean, std = (float(leaves["b"][name][level, k]) for name in ("mean", "std"))
                found[v, k] *= math.exp(-(((number - mean) / std) ** 2) / 2) / (std * math.sqrt(2 * math.pi))
    return found


def test_who_knows_nothing_changes_no_prior() -> None:
    """At β = 0: neighbours all of whose trees are missing, over three levels and cycles; otherwise numbers count."""
    gap = [torch.nan, torch.nan]
    x = torch.tensor([[0.0, 1.0], [1.0, 2.0], gap, gap], dtype=torch.float64)
    speaking, silent = [(0, 1, 0), (1, 0, 1)], [(2, 0, 0), (2, 3, 1), (3, 2, 0), (3, 1, 1), (3, 3, 1)]
    few, more = (
        Data(x=x, edge_index=torch.tensor(edges)[:, :2].T, edge_type=torch.tensor(edges)[:, 2])
        for edges in (speaking, speaking + silent)
    )
    exact, damped = random_product(levels=3), random_product(levels=3, beta=0.5)
    torch.testing.assert_close(exact.posteriors(few), exact.posteriors(more), rtol=0, atol=1e-14)
    assert float((damped.posteriors(few) - damped.posteriors(more))[:2].abs().max()) > 1e-3


# Rounding.


def received(module: MessageProduct, *given: torch.Tensor) -> Received:
    """What vertex 0 makes of the messages of all others, from posteriors, transitions and the prior of level 0."""
    posterior, transition, prior = given
    senders = torch.arange(1, len(posterior))
    data = Data(x=torch.zeros(len(posterior), 1), edge_index=torch.stack([senders, torch.zeros_like(senders)]))
    batch = gspn.pack(data, Schema([Continuous("a")])).batch(torch.tensor([0]))
    start = prior.expand(len(posterior), -1, -1)
    found: Received = module(
        Messages(posterior, None, 1, transition, batch, start, batch.target, batch.in_degree, prior)
    )
    return found


@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_a_hub_of_many_neighbours_in_single_precision(beta: float) -> None:
    """What 10⁵ messages say together, thousands of nats: 1e-4 of them and less is lost, and few hundredths of a nat.

    Transitions of single precision are off by up to 1e-7, for all messages alike; sums in it would lose 0.1 nats more.
    """
    generator = torch.Generator().manual_seed(0)
    posterior = torch.softmax(torch.randn(100_001, 1, 8, generator=generator), -1)
    transition = torch.softmax(torch.randn(1, 1, 8, 8, generator=generator), -1)
    prior = torch.softmax(torch.randn(1, 8, generator=generator), -1)
    found = {}
    for dtype in (torch.float32, torch.float64):
        module = MessageProduct(2, 1, 1, 8).to(dtype)
        module.assign({"prior": prior[None].double(), "beta": torch.tensor([beta])})
        log_prior = received(module, posterior.to(dtype), transition.to(dtype), prior.to(dtype)).log_prior
        assert log_prior is not None
        found[dtype] = log_prior[0, 0].detach().double()
    assert float(found[torch.float64].min()) < (-1000 if beta == 0 else -5)
    torch.testing.assert_close(found[torch.float32], found[torch.float64], rtol=0, atol=0.01)
    torch.testing.assert_close(found[torch.float32], found[torch.float64], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_has_underflowed_has_finite_gradients(dtype: torch.dtype) -> None:
    """Posteriors and transitions of exactly 0, a state that nothing leads to, and 10⁴ messages that agree on it."""
    raw = torch.zeros(10_001, 1, 3, dtype=dtype)
    raw[1:, 0, 1:] = -1e4
    raw_transition = torch.zeros(1, 1, 3, 3, dtype=dtype)
    raw_transition[..., 2] = -1e4
    raw_transition[0, 0, 0] = torch.tensor([0.0, -1e4, -1e4])
    leaves = [raw.requires_grad_(), raw_transition.requires_grad_()]
    module = MessageProduct(2, 1, 1, 3).to(dtype)
    found = received(module, leaves[0].softmax(-1), leaves[1].softmax(-1), torch.full((1, 3), 1 / 3, dtype=dtype))
    assert found.log_prior is not None
    assert bool(found.log_prior.isfinite().all())
    torch.testing.assert_close(found.prior.sum(-1), torch.ones(10_001, 1, dtype=dtype))
    for gradient in torch.autograd.grad(found.log_prior[0].sum(), [*leaves, *module.parameters()]):
        assert bool(gradient.isfinite().all())


# Parameters.


def test_parameters_are_told_set_and_saved(tmp_path: Path) -> None:
    model = random_product(levels=3, beta=1.0)
    own = model.get_parameters()["aggregation"]
    assert {name: tuple(value.shape) for name, value in own.items()} == {"prior": (2, 1, 3), "beta": (2,)}
    assert bool((own["beta"] == 1).all())
    model.save(tmp_path / "model")
    loaded = gspn.load(tmp_path / "model")
    assert isinstance(loaded, GSPN)
    again = loaded.get_parameters()["aggregation"]
    for name, value in own.items():
        torch.testing.assert_close(again[name], value, rtol=1e-14, atol=1e-14)
    parameters = model.get_parameters()
    for name, wrong in (("beta", torch.tensor([0.5, 1.1])), ("prior", own["prior"] * 0.9)):
        with pytest.raises(InputError, match=f"'{name}' of the aggregation"):
            model.set_parameters({**parameters, "aggregation": {**own, name: wrong}})


def test_learning_starts_at_what_edges_usually_make_of_the_prior() -> None:
    """b_l is the mean of θᵀ b_{l-1} over edge types, by their shares; so is that of levels that grow from a mixture."""
    rng = np.random.default_rng(0)
    data = Data(
        x=torch.from_numpy(draw_values(rng, TWO, 6, 0.0)),
        edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]]),
        edge_type=torch.tensor([0, 0, 0, 1]),
    )
    model = GSPN(TWO, 3, 2, num_edge_types=2, aggregation="product", epochs=0).fit(data, progress=False)
    assert_usual(model, torch.tensor([0.75, 0.25], dtype=torch.float64))
    grown = GSPN(TWO, 3, 2, num_edge_types=2, aggregation="product", epochs=1)
    mixture = mixture_for(grown, 1).fit(data, progress=False)
    assert_usual(grow(grown, mixture), torch.tensor([0.5, 0.5], dtype=torch.float64))


def assert_usual(model: GSPN, shares: torch.Tensor) -> None:
    parameters = model.get_parameters()
    below = parameters["prior"]
    for own, transition in zip(parameters["aggregation"]["prior"], parameters["transitions"], strict=True):
        expected = torch.einsum("t,tski,sk->si", shares, transition, below)
        torch.testing.assert_close(own, expected, rtol=1e-5, atol=1e-6)
        below = own
    assert bool((parameters["aggregation"]["beta"] == 0.5).all())
