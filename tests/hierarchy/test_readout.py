"""The readout against its definition written literally, and what must hold of it whatever the parameters.

Both sides of the comparison compute in float64. The numbers involved are sums of a few hundred rounded terms of size up
to about 100, so their rounding stays below 1e-12; 1e-9 leaves three digits for unlucky cancellations.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from oracle_cases import (
    GRAPHS,
    SHORTCUTS,
    TEMPLATES,
    draw_edges,
    draw_schema,
    draw_values,
    hand_made,
)
from small_distributions import as_table
from small_graphs import EVERY_KIND, draw_graphs
from small_models import template
from supervised_cases import (
    BINARY,
    CATEGORICAL,
    CONTINUOUS,
    COUNT,
    OVERDISPERSED,
    TARGETS,
    oracle_readout,
    random_supervised,
    targets_of,
)
from torch import Tensor
from torch.func import functional_call
from torch_geometric.data import Data

from gspn import Binary, Categorical, Continuous, Schema, SupervisedGSPN
from gspn.attributes import Attribute
from gspn.circuits import Unit, random_circuit
from gspn.hierarchy import Readout
from gspn.testing import oracle, oracle_model

CASES = 96
TOLERANCE = 1e-9

LEVELS_OF_TARGETS = ("graph", "vertex")
POOLINGS = ("sum", "mean")

over_poolings = pytest.mark.parametrize("pooling", POOLINGS)
over_heads = pytest.mark.parametrize("head", ["circuit", "linear"])


# ---- Agreement with the oracle


@dataclass
class Case:
    """One random model on two random graphs with labels, in the library's form and in the oracle's."""

    axes: dict[str, Any]
    model: SupervisedGSPN
    data: list[Data]
    y: list[NDArray[np.float64]]
    theirs: oracle.Model
    head: oracle.ReadoutParameters
    graphs: list[oracle.Graph]


def make_case(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    axes: dict[str, Any] = {
        "pooling": POOLINGS[seed % 2],
        "target level": LEVELS_OF_TARGETS[seed // 2 % 2],
        "target": list(TARGETS)[seed // 4 % len(TARGETS)],
        "template": TEMPLATES[int(rng.integers(3))],
        "levels": int(rng.integers(1, 5)),
        "graph": GRAPHS[int(rng.integers(len(GRAPHS)))],
        "vertices": int(rng.integers(1, 5)),
        "edge types": int(rng.integers(1, 4)),
        "missing attributes": float(rng.choice([0.0, 0.4, 1.0], p=[0.4, 0.4, 0.2])),
        "missing labels": float(rng.choice([0.0, 0.5])),
        "graph states": int(rng.choice([1, 2, 5], p=[0.1, 0.5, 0.4])),
    }
    axes["shortcut"] = SHORTCUTS[int(rng.integers(3))] if axes["levels"] > 1 else None
    schema, states = draw_schema(rng), int(rng.integers(2, 4))
    circuit: Unit | None = None
    if axes["template"] == "hand-made":
        circuit = hand_made(schema, states)
    elif axes["template"] == "random":
        circuit = random_circuit(schema, states, depth=2, repetitions=2, seed=seed)
    target = TARGETS[axes["target"]]
    model = random_supervised(
        schema,
        target,
        seed,
        num_layers=axes["levels"],
        num_states=states,
        num_graph_states=axes["graph states"],
        pooling=axes["pooling"],
        target_level=axes["target level"],
        template=circuit,
        shortcut=axes["shortcut"],
        num_edge_types=axes["edge types"],
    )
    data, graphs, labels = [], [], []
    for n in (axes["vertices"], 2):
        edges = draw_edges(rng, axes["graph"], n)
        types = rng.integers(axes["edge types"], size=len(edges))
        x = draw_values(rng, schema, n, axes["missing attributes"])
        edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
        data.append(Data(x=torch.from_numpy(x), edge_index=edge_index, edge_type=torch.from_numpy(types)))
        graphs.append(oracle.Graph(x, [(u, v, int(t)) for (u, v), t in zip(edges, types, strict=True)]))
        rows = n if axes["target level"] == "vertex" else 1
        labels.append(draw_values(rng, targets_of(target), rows, axes["missing labels"]))
    parameters = model.get_parameters()
    head = oracle_readout(model, parameters["readout"])
    return Case(axes, model, data, labels, oracle_model(model), head, graphs)


def expected_rows(case: Case, ask: Callable[[oracle.Graph, int | None, int], Any]) -> list[Any]:
    """The oracle's answer for every graph, or every vertex of every graph: graph, vertex, row of the labels."""
    if case.axes["target level"] == "graph":
        return [ask(graph, None, g) for g, graph in enumerate(case.graphs)]
    rows = itertools.count()
    return [ask(graph, v, next(rows)) for graph in case.graphs for v in range(len(graph.x))]


@pytest.mark.parametrize("seed", range(CASES))
def test_agrees_with_the_definition(seed: int) -> None:
    case = make_case(seed)
    y = np.concatenate(case.y)
    ours = case.model.log_prob(case.data, torch.from_numpy(y))
    found = torch.cat(ours) if isinstance(ours, list) else ours
    theirs = expected_rows(case, lambda g, v, row: oracle.readout(case.theirs, case.head, g, y[row], v))
    np.testing.assert_allclose(found.numpy(), theirs, rtol=TOLERANCE, atol=TOLERANCE, err_msg=str(case.axes))
    evaluation = case.model(case.model.collate(case.data))
    states = expected_rows(
        case,
        lambda g, v, _: oracle.graph_states(case.theirs, case.head, g, range(len(g.x)) if v is None else [v]),
    )
    np.testing.assert_allclose(
        evaluation.readout_log_prior.detach().exp().numpy(), states, rtol=0, atol=TOLERANCE, err_msg=str(case.axes)
    )
    assert evaluation.log_prob is None  # these graphs carry no labels


def test_cases_cover_every_axis() -> None:
    axes = [make_case(seed).axes for seed in range(CASES)]
    wanted = {
        "pooling": set(POOLINGS),
        "target level": set(LEVELS_OF_TARGETS),
        "target": set(TARGETS),
        "template": set(TEMPLATES),
        "levels": {1, 2, 3, 4},
        "graph": set(GRAPHS),
        "vertices": {1, 2, 3, 4},
        "edge types": {1, 2, 3},
        "missing attributes": {0.0, 0.4, 1.0},
        "missing labels": {0.0, 0.5},
        "graph states": {1, 2, 5},
        "shortcut": set(SHORTCUTS),
    }
    for name, values in wanted.items():
        assert {a[name] for a in axes} == values, name
    by_design = {(a["pooling"], a["target level"], a["target"]) for a in axes}
    assert len(by_design) == len(POOLINGS) * len(LEVELS_OF_TARGETS) * len(TARGETS)


def test_the_oracle_by_hand() -> None:
    """One level, one vertex, two states, two graph states: small enough for paper."""
    model = oracle.Model(
        circuit=("sum", 0, [("leaf", "a", 0), ("leaf", "a", 1)]),
        kinds={"a": "binary"},
        prior=np.array([[0.5, 0.5]]),
        transitions=np.zeros((0, 1, 1, 2, 2)),
        leaves={"a": {"probs": np.array([[0.9, 0.3]])}},
    )
    graph = oracle.Graph(np.array([[1.0]]), [])
    transitions = np.array([[[[0.6, 0.4], [0.2, 0.8]]]])
    leaves = {"y": {"probs": np.array([0.1, 0.7])}}
    # The posterior is (0.45, 0.15) / 0.6 = (3/4, 1/4), so the total is (0.5, 0.5).
    for pooling in POOLINGS:
        head = oracle.ReadoutParameters({"y": "binary"}, transitions, leaves, pooling)
        np.testing.assert_allclose(oracle.graph_states(model, head, graph, [0]), [0.5, 0.5], rtol=1e-15)
        assert np.exp(oracle.readout(model, head, graph, [1.0])) == pytest.approx(0.4)
        assert oracle.readout(model, head, graph, [np.nan]) == pytest.approx(0)
    skewed = oracle.ReadoutParameters({"y": "binary"}, np.array([[[[0.6, 0.4], [0.6, 0.4]]]]), leaves, "sum")
    weights = np.exp([0.6, 0.4]) / np.exp([0.6, 0.4]).sum()
    np.testing.assert_allclose(oracle.graph_states(model, skewed, graph, [0]), weights, rtol=1e-15)


@over_poolings
def test_linear_head_is_a_linear_map_of_the_graph_states(pooling: str) -> None:
    target = Schema([CATEGORICAL, BINARY])
    model = random_supervised(EVERY_KIND, target, 3, head="linear", pooling=pooling)
    graphs = draw_graphs(6, seed=3)
    weights = model(model.collate(graphs)).readout_log_prior.detach().exp().numpy()
    parameters = model.get_parameters()["readout"]
    logits = weights @ parameters["weight"].numpy().T + parameters["bias"].numpy()
    several, true = np.exp(logits[:, :3]), 1 / (1 + np.exp(-logits[:, 3]))
    found = model.predictive(graphs)
    assert isinstance(found, dict)
    expected = several / several.sum(1, keepdims=True)
    np.testing.assert_allclose(as_table(found["class"]).probs.numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(as_table(found["toxic"]).probs[:, 1].numpy(), true, rtol=1e-12)


def test_the_linear_heads_targets_are_independent_given_the_graph() -> None:
    model, graphs = random_supervised(EVERY_KIND, Schema([CATEGORICAL, BINARY]), head="linear"), draw_graphs(3, seed=0)
    y = torch.tensor([[0.0, 1.0], [1.0, torch.nan], [torch.nan, 0.0]])
    marginals = model.predictive(graphs)
    assert isinstance(marginals, dict)
    expected = as_table(marginals["class"]).log_prob(y[:, 0]) + as_table(marginals["toxic"]).log_prob(y[:, 1])
    torch.testing.assert_close(model.log_prob(graphs, y), expected, rtol=0, atol=1e-12)


# ---- Probabilities are probabilities


@over_heads
def test_one_class_is_certain(head: str) -> None:
    model = random_supervised(EVERY_KIND, Categorical("class", ["only"]), head=head)
    np.testing.assert_allclose(model.predict_proba(draw_graphs(3, seed=0)), np.ones((3, 1)), rtol=1e-15)


@over_poolings
@over_heads
def test_one_graph_state_knows_nothing_of_the_graph(pooling: str, head: str) -> None:
    model = random_supervised(EVERY_KIND, CATEGORICAL, head=head, pooling=pooling, num_graph_states=1)
    probabilities = model.predict_proba(draw_graphs(6, seed=0, sizes=(1, 30)))
    np.testing.assert_allclose(probabilities, np.tile(probabilities[:1], (6, 1)), rtol=0, atol=1e-15)


@over_poolings
def test_a_graph_without_vertices_has_uniform_graph_states(pooling: str) -> None:
    model = random_supervised(EVERY_KIND, CATEGORICAL, pooling=pooling)
    nothing = Data(x=torch.zeros(0, 5), edge_index=torch.zeros(2, 0, dtype=torch.long))
    among = [*draw_graphs(2, seed=0), nothing, *draw_graphs(1, seed=1)]
    leaves = model.get_parameters()["readout"]["leaves"]["class"]["probs"][0].numpy()
    for graphs, row in (([nothing], 0), (among, 2)):
        prior = model(model.collate(graphs)).readout_log_prior.detach()
        np.testing.assert_allclose(prior[row].exp().numpy(), 1 / 4, rtol=1e-14)
        np.testing.assert_allclose(model.predict_proba(graphs)[row], leaves.mean(0), rtol=1e-12)


def test_missing_attributes_are_marginalised() -> None:
    """Without any observed entry all posteriors are priors, which mix to the same graph states whatever the values."""
    graphs = draw_graphs(8, seed=2, missing=1.0, sizes=(5, 5))
    model = random_supervised(EVERY_KIND, CATEGORICAL, 1, pooling="mean", num_layers=1)
    parameters = model.get_parameters()
    weights = torch.einsum("sc,lscg->g", parameters["prior"], parameters["readout"]["transitions"])
    expected = weights @ parameters["readout"]["leaves"]["class"]["probs"][0]
    np.testing.assert_allclose(model.predict_proba(graphs), expected.expand(8, -1).numpy(), rtol=1e-12)
    # A column that is missing everywhere is as if the schema had never had it.
    graphs = draw_graphs(4, seed=2)
    for data in graphs:
        data.x[:, 1:] = torch.nan
    alone = random_supervised(Schema([EVERY_KIND[0]]), CATEGORICAL)
    wide = random_supervised(EVERY_KIND, CATEGORICAL)
    narrow, given = alone.get_parameters(), wide.get_parameters()
    given["leaves"]["charge"] = narrow["leaves"]["charge"]
    wide.set_parameters(narrow | {"leaves": given["leaves"], "units": narrow["units"]})
    only = [Data(x=data.x[:, :1], edge_index=data.edge_index) for data in graphs]
    np.testing.assert_allclose(wide.predict_proba(graphs), alone.predict_proba(only), rtol=1e-12)


def test_number_of_parameters_is_the_papers() -> None:
    schema = Schema([Categorical("element", list(range(37)))])
    model = SupervisedGSPN(
        schema, Categorical("y", [0, 1]), num_layers=10, num_states=20, num_graph_states=128, template=None
    )
    assert sum(p.numel() for p in model.parameters()) == 36_876
    assert 10 * 20 * 37 + 9 * 400 + 20 + 10 * 20 * 128 + 128 * 2 == 36_876


# ---- Gradients


@over_poolings
@over_heads
@pytest.mark.parametrize("level", LEVELS_OF_TARGETS)
def test_gradients_against_finite_differences(pooling: str, head: str, level: str) -> None:
    kinds: list[Attribute] = [CATEGORICAL, BINARY]
    kinds += [] if head == "linear" else [CONTINUOUS, COUNT, OVERDISPERSED]
    schema = Schema([Continuous("a"), Binary("b")])
    model = random_supervised(
        schema, Schema(kinds), 4, pooling=pooling, head=head, target_level=level, num_states=2, num_graph_states=3
    )
    rng = np.random.default_rng(0)
    graphs = []
    for n in (3, 1):
        edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]) if n == 3 else torch.zeros(2, 0, dtype=torch.long)
        y = torch.from_numpy(draw_values(rng, Schema(kinds), n if level == "vertex" else 1, 0.3))
        graphs.append(Data(x=torch.from_numpy(draw_values(rng, schema, n, 0.2)), edge_index=edges, y=y))
    batch = model.collate(graphs)
    names = [name for name, _ in model.named_parameters()]

    def log_prob(*raw: Tensor) -> Tensor:
        result: Tensor = functional_call(model, dict(zip(names, raw, strict=True)), (batch,)).log_prob
        return result

    raw = tuple(p.detach().clone().requires_grad_() for p in model.parameters())
    assert torch.autograd.gradcheck(log_prob, raw, fast_mode=True)


@over_poolings
@pytest.mark.parametrize("name", ["naive Bayes", "hand-made"])
def test_gradients_are_finite_in_hard_places(pooling: str, name: str) -> None:
    """Graphs of one vertex and of many, none at all, nothing observed, certain states, labels far off; float32."""
    circuit = template(name, EVERY_KIND, 3)
    model = random_supervised(EVERY_KIND, TARGETS["several"], 2, pooling=pooling, template=circuit).float()
    assert isinstance(model.readout, Readout)
    with torch.no_grad():
        model.readout.raw_transitions.mul_(300)  # rows that are 0 and 1
        model.hierarchy.raw_transitions.mul_(300)
    graphs = draw_graphs(3, seed=0) + draw_graphs(1, seed=1, sizes=(1, 1)) + draw_graphs(1, seed=2, missing=1.0)
    graphs += draw_graphs(1, seed=3, sizes=(2_000, 2_000))
    graphs.append(Data(x=torch.zeros(0, 5), edge_index=torch.zeros(2, 0, dtype=torch.long)))
    for i, data in enumerate(graphs):
        data.y = torch.tensor([[i % 2, -3e5, i % 3, 4_000, 90_000]], dtype=torch.float64)
    evaluation = model(model.collate(graphs))
    assert torch.isfinite(evaluation.log_prob).all()
    evaluation.log_prob.sum().backward()
    for name_of, p in model.named_parameters():
        assert p.grad is not None
        assert torch.isfinite(p.grad).all(), name_of


# ---- Invariances


def shuffled(data: Data, seed: int) -> Data:
    """The same graph, vertices and edges in another order."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(data.x), generator=generator)
    place = torch.argsort(order)
    edges = place[data.edge_index][:, torch.randperm(data.edge_index.shape[1], generator=generator)]
    return Data(x=data.x[order], edge_index=edges)


@over_poolings
def test_order_of_vertices_and_graphs_and_batches_do_not_matter(pooling: str) -> None:
    """Sums in another order differ by rounding alone: 1e-12 for some hundred terms of size 1 in float64."""
    target = TARGETS["several"]
    graphs = draw_graphs(9, seed=4, sizes=(1, 12)) + draw_graphs(1, seed=5, sizes=(1_500, 1_500))
    labels = torch.from_numpy(draw_values(np.random.default_rng(6), targets_of(target), 10, 0.3))
    model = random_supervised(EVERY_KIND, target, pooling=pooling)
    expected = model.log_prob(graphs, labels)
    torch.testing.assert_close(
        model.log_prob([shuffled(g, i) for i, g in enumerate(graphs)], labels), expected, rtol=0, atol=1e-10
    )
    order = torch.tensor([3, 9, 1, 0, 2, 8, 7, 6, 5, 4])
    torch.testing.assert_close(
        model.log_prob([graphs[i] for i in order], labels[order]), expected[order], rtol=0, atol=1e-10
    )
    one_by_one = [model.log_prob(data, labels[i : i + 1]) for i, data in enumerate(graphs)]
    torch.testing.assert_close(torch.cat(one_by_one), expected, rtol=0, atol=1e-10)


def test_order_of_vertices_moves_the_predictions_of_vertices() -> None:
    model = random_supervised(EVERY_KIND, CATEGORICAL, target_level="vertex")
    data = draw_graphs(1, seed=4, sizes=(12, 12))[0]
    order = torch.randperm(12, generator=torch.Generator().manual_seed(3))
    expected = model.predict_proba(data)[order]
    np.testing.assert_allclose(model.predict_proba(shuffled(data, 3)), expected, rtol=1e-10)


@over_poolings
def test_large_graphs_lose_no_digits_in_float32(pooling: str) -> None:
    """Posteriors are summed in float64; what remains is float32's rounding of the result.

    With sum pooling logits are of the size of vertices times levels, 6,000 here, where float32 has steps of 5e-4; the
    posteriors themselves are right to about 1e-6 relative. With mean pooling nothing is large.
    """
    model = random_supervised(EVERY_KIND, CATEGORICAL, 1, pooling=pooling)
    graphs = draw_graphs(1, seed=7, sizes=(2_000, 2_000))
    exact = model(model.collate(graphs)).readout_log_prior.detach()
    rough = model.float()(model.collate(graphs)).readout_log_prior.detach()
    assert rough.dtype == torch.float32
    torch.testing.assert_close(rough.double(), exact, rtol=1e-5, atol=1e-3 if pooling == "sum" else 1e-5)


def test_poolings_differ_in_what_they_know_of_the_size() -> None:
    """Copies of a graph side by side: their mean is that of one, their sum is not."""
    data = draw_graphs(1, seed=8)[0]
    n = len(data.x)
    twice = Data(x=data.x.repeat(2, 1), edge_index=torch.cat([data.edge_index, data.edge_index + n], dim=1))
    models = [random_supervised(EVERY_KIND, CATEGORICAL, 2, pooling=pooling) for pooling in POOLINGS]
    assert all(torch.equal(*pair) for pair in zip(*(m.parameters() for m in models), strict=True))
    by_sum, by_mean = (model.predict_proba([data, twice]) for model in models)
    np.testing.assert_allclose(by_mean[0], by_mean[1], rtol=1e-12)
    assert abs(by_sum[0] - by_sum[1]).max() > 1e-3
    assert abs(by_sum - by_mean).max() > 1e-3
