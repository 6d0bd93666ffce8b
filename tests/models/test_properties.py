"""What must not change an answer: the order of vertices, edges, graphs and columns, company in a batch, forms of input.

Tolerances, where none is argued: both sides are sums of a few hundred float64 terms of size up to about 100, whose
rounding stays below 1e-12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_graphs import EVERY_KIND, draw_graph, draw_graphs
from small_models import TEMPLATES, random_model, template
from torch import Tensor
from torch_geometric.data import Batch as PyGBatch
from torch_geometric.data import Data

import gspn
from gspn import GSPN, Binary, Categorical, Continuous, Count, Schema
from gspn.circuits import Evidence, random_circuit
from gspn.circuits.numerics import log_weight
from gspn.circuits.templates import inputs_of
from gspn.hierarchy import Evaluation, Hierarchy

ROUNDING = 1e-12

seeds = st.integers(0, 2**32 - 1)
templates = st.sampled_from(TEMPLATES)


def draw_model(name: str, seed: int, **arguments: Any) -> GSPN:
    return random_model(EVERY_KIND, seed, template=template(name, EVERY_KIND, 3, seed), **arguments)


def assert_close(one: Tensor, other: Tensor, tolerance: float = ROUNDING) -> None:
    torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


def assert_all_close(ours: list[Tensor], theirs: list[Tensor]) -> None:
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other)


def answers(model: GSPN, graphs: Any) -> Iterator[Any]:
    """Every public answer."""
    yield model.log_likelihood(graphs)
    yield model.log_likelihood(graphs, leave_one_out=True)
    yield model.posteriors(graphs)
    yield model.embed(graphs)
    yield model.transform(graphs)


# ---- Order and company


@settings(max_examples=20)
@given(seed=seeds, name=templates)
def test_vertex_and_edge_order(seed: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    data = draw_graph(rng, int(rng.integers(1, 9)), missing=0.3, edge_types=2)
    model = draw_model(name, seed, num_edge_types=2)
    order, edges = torch.from_numpy(rng.permutation(data.num_nodes)), torch.from_numpy(rng.permutation(data.num_edges))
    place = order.argsort()
    moved = Data(x=data.x[order], edge_index=place[data.edge_index[:, edges]], edge_type=data.edge_type[edges])
    for before, after in zip(answers(model, data), answers(model, moved), strict=True):
        assert_close(after, before[order])


@settings(max_examples=20)
@given(seed=seeds, name=templates)
def test_graph_order_and_company(seed: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    graphs = [draw_graph(rng, int(rng.integers(1, 7)), missing=0.3) for _ in range(4)]
    model = draw_model(name, seed)
    alone = [list(answers(model, data)) for data in graphs]
    chosen = rng.integers(len(graphs), size=6).tolist()
    together = answers(model, [graphs[g] for g in chosen])
    for number, answer in enumerate(together):
        assert_all_close(answer, [alone[g][number] for g in chosen])


@pytest.mark.parametrize("numbers_at_once", [1, 100, 300, 10**9])
def test_chunks(monkeypatch: pytest.MonkeyPatch, numbers_at_once: int) -> None:
    graphs, model = draw_graphs(12, seed=1, missing=0.2), draw_model("random", 1)
    expected = list(answers(model, graphs))
    passes = 0
    forward = Hierarchy.forward

    def counted(hierarchy: Hierarchy, batch: Any) -> Evaluation:
        nonlocal passes
        passes += 1
        return forward(hierarchy, batch)

    monkeypatch.setattr(Hierarchy, "forward", counted)
    monkeypatch.setattr("gspn.queries.contract._NUMBERS_AT_ONCE", numbers_at_once)
    for ours, theirs in zip(answers(model, graphs), expected, strict=True):
        assert_all_close(ours, theirs)
    if numbers_at_once == 1:
        assert passes == 5 * len(graphs)
    elif numbers_at_once == 10**9:
        assert passes == 5
    else:
        assert 5 < passes <= 5 * len(graphs)


@settings(max_examples=15)
@given(seed=seeds, name=templates)
def test_column_order(seed: int, name: str) -> None:
    order = np.random.default_rng(seed).permutation(len(EVERY_KIND)).tolist()
    other_schema = Schema([EVERY_KIND[i] for i in order])
    circuit = template(name, EVERY_KIND, 3, seed)
    model = random_model(EVERY_KIND, seed, template=circuit)
    other = random_model(other_schema, seed + 1, template=circuit).set_parameters(model.get_parameters())
    data = draw_graphs(1, seed, missing=0.3)[0]
    moved = Data(x=data.x[:, order], edge_index=data.edge_index)
    for ours, theirs in zip(answers(model, data), answers(other, moved), strict=True):
        assert_close(ours, theirs)


# ---- One graph or many


def sequences() -> list[Any]:
    return [
        pytest.param(list, id="list"),
        pytest.param(tuple, id="tuple"),
        pytest.param(lambda graphs: gspn.pack(graphs, EVERY_KIND), id="GraphDataset"),
        pytest.param(PyGBatch.from_data_list, id="PyG Batch"),
        pytest.param(lambda graphs: (data for data in graphs), id="generator"),
    ]


@pytest.mark.parametrize("wrap", sequences())
def test_a_sequence_gives_a_list(wrap: Callable[[list[Data]], Any]) -> None:
    model, graphs = draw_model("naive Bayes", 2), draw_graphs(4, seed=2)
    for number in range(5):
        asks: list[Callable[[Any], Any]] = [
            model.log_likelihood,
            lambda given: model.log_likelihood(given, leave_one_out=True),
            model.posteriors,
            model.embed,
            model.transform,
        ]
        ask = asks[number]
        together = ask(wrap(graphs))
        assert isinstance(together, list)
        assert_all_close(together, [ask(data) for data in graphs])


@pytest.mark.parametrize("wrap", sequences())
def test_a_sequence_of_one_graph_is_still_a_sequence(wrap: Callable[[list[Data]], Any]) -> None:
    model, graphs = draw_model("naive Bayes", 2), draw_graphs(1, seed=2)
    result = model.log_likelihood(wrap(graphs))
    assert isinstance(result, list)
    assert_all_close(result, [model.log_likelihood(graphs[0])])


@pytest.mark.parametrize("wrap", sequences())
def test_every_sequence_trains_to_the_same_model(wrap: Callable[[list[Data]], Any]) -> None:
    graphs = draw_graphs(6, seed=3)
    ours = GSPN(EVERY_KIND, num_layers=2, num_states=2, epochs=2).fit(
        wrap(graphs), validation=wrap(graphs[:2]), progress=False
    )
    theirs = GSPN(EVERY_KIND, num_layers=2, num_states=2, epochs=2).fit(graphs, validation=graphs[:2], progress=False)
    for name, value in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], value), name


def test_shapes() -> None:
    model, data = draw_model("random", 4), draw_graphs(1, seed=4)[0]
    n, L, S, C = data.num_nodes, 3, model.hierarchy.template.num_sum_units, 3
    assert S > 1
    posteriors = model.posteriors(data)
    assert posteriors.shape == (n, L, S, C)
    assert torch.equal(model.embed(data), posteriors.reshape(n, L * S * C))
    assert torch.equal(model.transform(data), model.embed(data))
    assert model.log_likelihood(data).shape == (n,)


@pytest.mark.parametrize("leave_one_out", [False, True])
@pytest.mark.parametrize("name", TEMPLATES)
def test_some_vertices(name: str, leave_one_out: bool) -> None:
    model, data = draw_model(name, 5), draw_graphs(1, seed=5, sizes=(7, 7))[0]
    every = model.log_likelihood(data, leave_one_out=leave_one_out)
    for asked in ([3], [6, 0, 2], [1, 1, 4], [], list(range(7))):
        forms: list[Any] = [asked, torch.tensor(asked, dtype=torch.long), np.array(asked, dtype=np.int64)]
        for vertices in forms:
            some = model.log_likelihood(data, leave_one_out=leave_one_out, vertices=vertices)
            assert_close(some, every[asked])


def test_targets_are_carried() -> None:
    model, graphs = draw_model("naive Bayes", 6), draw_graphs(3, seed=6)
    for g, data in enumerate(graphs):
        data.y = torch.tensor([g])
    batch = model.collate(graphs)
    assert batch.y is not None
    assert batch.y.tolist() == [0, 1, 2]
    for g, data in enumerate(graphs):
        data.y = torch.tensor([[g, 10.0 + g]])
    batch = model.collate(gspn.pack(graphs, EVERY_KIND)[[2, 0]])
    assert batch.y is not None
    assert batch.y.tolist() == [[2.0, 12.0], [0.0, 10.0]]
    for g, data in enumerate(graphs):
        data.y = 100 * g + torch.arange(data.num_nodes)
    batch = model.collate(gspn.pack(graphs, EVERY_KIND)[[1, 2]])
    assert batch.y is not None
    assert batch.y.tolist() == torch.cat([graphs[1].y, graphs[2].y]).tolist()
    assert model.collate(draw_graphs(2, seed=6)).y is None


# ---- Edges


COLOURS = Schema([Categorical("colour", ["red", "green", "blue"])])


def coloured(codes: list[float], edges: list[tuple[int, int]], **fields: Any) -> Data:
    index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
    return Data(x=torch.tensor(codes, dtype=torch.float64)[:, None], edge_index=index, **fields)


def test_direction_matters() -> None:
    model = random_model(COLOURS, 7, num_layers=2)
    forth, back = (model.log_likelihood(coloured([0, 1], [edge])) for edge in [(0, 1), (1, 0)])
    apart = model.log_likelihood(coloured([0, 1], []))
    assert abs(float(forth[1] - apart[1])) > 1e-3
    assert abs(float(back[0] - apart[0])) > 1e-3
    # Who hears nobody is as if alone.
    assert forth[0] == apart[0]
    assert back[1] == apart[1]


def test_parallel_edges_count() -> None:
    """With two levels and one sum unit, P(x_v) is linear in the prior, which is the mean over the edges."""
    model = random_model(COLOURS, 8, num_layers=2)

    def probability(edges: list[tuple[int, int]]) -> Tensor:
        p: Tensor = model.log_likelihood(coloured([0, 1, 2], edges), vertices=[2]).exp()
        return p

    first, second = probability([(0, 2)]), probability([(1, 2)])
    assert abs(float(first - second)) > 1e-3
    assert_close(probability([(0, 2), (1, 2)]), (first + second) / 2)
    assert_close(probability([(0, 2), (1, 2), (0, 2)]), (2 * first + second) / 3)
    assert_close(probability([(0, 2), (0, 2)]), first)


def test_edge_types_matter_where_the_model_tells_them_apart() -> None:
    edges = [(0, 1), (0, 1)]
    for number, matters in ((1, False), (2, True)):
        model = random_model(COLOURS, 9, num_layers=2, num_edge_types=number)
        one, other, both = (
            model.log_likelihood(coloured([0, 1], edges, edge_type=torch.tensor(types)), vertices=[1]).exp()
            for types in ([0, 0], [1, 1], [1, 0])
        )
        assert (abs(float(one - other)) > 1e-3) == matters
        assert_close(both, (one + other) / 2)


def test_a_vertex_without_incoming_edges_has_the_learned_prior_and_its_own_levels_leaves() -> None:
    model = random_model(COLOURS, 10, num_layers=3)
    parameters = model.get_parameters()
    prior, probs = parameters["prior"][0], parameters["leaves"]["colour"]["probs"]  # [C], [L, C, K]
    joint = prior[None, :, None] * probs  # [L, C, K]
    data = coloured([0, 1, 2, 2], [(0, 1), (1, 2), (2, 1), (0, 2)])
    for v, code in ((0, 0), (3, 2)):
        assert_close(model.log_likelihood(data)[v], joint[-1, :, code].sum().log())
        expected = joint[:, :, code] / joint[:, :, code].sum(1, keepdim=True)
        assert_close(model.posteriors(data)[v, :, 0], expected)
        alone = coloured([code], [])
        assert_close(model.log_likelihood(alone)[0], model.log_likelihood(data)[v])


def test_graphs_without_edges_or_vertices() -> None:
    model = draw_model("random", 11)
    data = draw_graphs(1, seed=11)[0]
    none, empty = Data(x=data.x), Data(x=data.x, edge_index=torch.empty(2, 0, dtype=torch.long))
    assert none.edge_index is None
    nothing = Data(x=torch.empty(0, 5), edge_index=torch.empty(2, 0, dtype=torch.long))
    single = Data(x=data.x[:1])
    for first, second, third in zip(answers(model, none), answers(model, empty), answers(model, single), strict=True):
        assert torch.equal(first, second)
        assert_close(third[0], first[0])
    for alone, listed in zip(answers(model, nothing), answers(model, [nothing, data, nothing]), strict=True):
        assert len(alone) == len(listed[0]) == len(listed[2]) == 0
        assert alone.shape[1:] == listed[1].shape[1:] == listed[0].shape[1:]
        assert len(listed[1]) == data.num_nodes
    assert_all_close(model.log_likelihood([nothing, data]), [model.log_likelihood(nothing), model.log_likelihood(data)])
    assert model.log_likelihood(nothing, vertices=[], leave_one_out=True).shape == (0,)
    GSPN(EVERY_KIND, num_layers=2, num_states=2, epochs=1).fit([nothing, data], validation=nothing, progress=False)


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8]
)
def test_dtypes_of_x(dtype: torch.dtype) -> None:
    """Small whole numbers are exact in all of them."""
    schema = Schema([Categorical("colour", ["red", "green", "blue"]), Count("hydrogens"), Continuous("mass")])
    x = torch.tensor([[0, 3, 12], [2, 0, 7], [1, 1, 1]])
    edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    model = random_model(schema, 12)
    expected = model.log_likelihood(Data(x=x.double(), edge_index=edges))
    assert torch.equal(model.log_likelihood(Data(x=x.to(dtype), edge_index=edges)), expected)
    assert torch.equal(model.log_likelihood(Data(x=x.to(dtype), edge_index=edges.int())), expected)
    mixed = [Data(x=x.to(dtype), edge_index=edges), Data(x=x.double(), edge_index=edges)]
    assert_all_close(model.log_likelihood(mixed), [expected, expected])


def test_booleans_as_x() -> None:
    schema = Schema([Binary("aromatic"), Binary("ring")])
    model, x = random_model(schema, 13), torch.tensor([[True, False], [False, False]])
    assert torch.equal(model.log_likelihood(Data(x=x)), model.log_likelihood(Data(x=x.double())))


def test_asking_changes_neither_graph_nor_model() -> None:
    model, data = draw_model("hand-made", 14), draw_graphs(1, seed=14)[0]
    copy = data.clone()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for result in answers(model, data):
        assert not result.requires_grad
        result.fill_(7.0)  # what was given away is not the model's
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    torch.testing.assert_close(data.x, copy.x, equal_nan=True, rtol=0, atol=0)
    assert torch.equal(data.edge_index, copy.edge_index)


# ---- Probabilities


@settings(max_examples=20)
@given(seed=seeds, name=templates, levels=st.integers(1, 5), types=st.integers(1, 3))
def test_every_prior_and_posterior_sums_to_one(seed: int, name: str, levels: int, types: int) -> None:
    circuit = template(name, EVERY_KIND, 3, seed)
    model = random_model(EVERY_KIND, seed, template=circuit, num_layers=levels, num_edge_types=types)
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):  # some ten roundings a sum
        hierarchy = model.to(dtype).hierarchy
        batch = model.collate(draw_graphs(3, seed, missing=0.3, edge_types=types))
        evaluation = model(batch)
        evidence = Evidence(batch.visible)
        climb = hierarchy.climb(evidence, batch, hierarchy.prior(), hierarchy.transitions())
        priors, posteriors = [], list[Tensor]()
        for level, inputs in enumerate(inputs_of(climb.template, climb.families, climb.naturals, evidence)):
            priors.append(climb.aggregate(level, posteriors[-1] if level else None, None).prior)
            posteriors.append(climb.template.posterior(inputs, log_weight(priors[-1])))
        assert len(priors) == len(posteriors) == levels
        assert_close(torch.stack(posteriors, 1), evaluation.posteriors, tolerance)
        assert_close(priors[-1], evaluation.root_prior, tolerance)
        for probabilities in (torch.stack(priors, 1), evaluation.posteriors):
            assert probabilities.shape == (batch.num_vertices, levels, hierarchy.template.num_sum_units, 3)
            assert (probabilities >= 0).all()
            total = probabilities.sum(-1)
            assert_close(total, torch.ones_like(total), tolerance)
        transitions = hierarchy.transitions().sum(-1)
        assert_close(transitions, torch.ones_like(transitions), tolerance)


@pytest.mark.parametrize(("depth", "repetitions"), [(1, 1), (1, 3), (2, 1), (3, 2)])
def test_posteriors_of_larger_circuits_sum_to_one(depth: int, repetitions: int) -> None:
    circuit = random_circuit(EVERY_KIND, 4, depth=depth, repetitions=repetitions, seed=depth)
    model = random_model(EVERY_KIND, 15, template=circuit, num_states=4)
    for posteriors in model.posteriors(draw_graphs(3, seed=15, missing=0.4)):
        assert_close(posteriors.sum(-1), torch.ones_like(posteriors[..., 0]))
