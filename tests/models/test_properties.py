"""What must not change an answer: the order of vertices, edges, graphs and columns, company in a batch, forms of input.

Tolerances, where none is argued: both sides are sums of a few hundred float64 terms of size up to about 100, whose
rounding stays below 1e-12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
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
from gspn.graphs import Batch
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


def asks(model: GSPN) -> list[Callable[[Any], Any]]:
    """Every public question."""
    leaving_out = partial(model.log_likelihood, leave_one_out=True)
    return [model.log_likelihood, leaving_out, model.posteriors, model.embed, model.transform]


def answers(model: GSPN, graphs: Any) -> Iterator[Any]:
    return (ask(graphs) for ask in asks(model))


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
    model, four = draw_model("naive Bayes", 2), draw_graphs(4, seed=2)
    for ask in asks(model):
        for graphs in (four, four[:1]):
            together = ask(wrap(graphs))
            assert isinstance(together, list)
            assert_all_close(together, [ask(data) for data in graphs])


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


def carried(batch: Batch) -> list[Any]:
    assert batch.y is not None
    return list(batch.y.tolist())


def test_targets_are_carried() -> None:
    model, graphs = draw_model("naive Bayes", 6), draw_graphs(3, seed=6)
    for g, data in enumerate(graphs):
        data.y = torch.tensor([g])
    assert carried(model.collate(graphs)) == [0, 1, 2]
    for g, data in enumerate(graphs):
        data.y = torch.tensor([[g, 10.0 + g]])
    assert carried(model.collate(gspn.pack(graphs, EVERY_KIND)[[2, 0]])) == [[2.0, 12.0], [0.0, 10.0]]
    for g, data in enumerate(graphs):
        data.y = 100 * g + torch.arange(data.num_nodes)
    assert (
        carried(model.collate(gspn.pack(graphs, EVERY_KIND)[[1, 2]])) == torch.cat([graphs[1].y, graphs[2].y]).tolist()
    )
    assert model.collate(draw_graphs(2, seed=6)).y is None


# ---- What a graph may be


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
    for result in (*answers(model, data), model.log_likelihood(data, vertices=[0])):
        assert not result.requires_grad
        result.fill_(7.0)  # what was given away is not the model's
    assert all(p.grad is None and p.requires_grad for p in model.parameters())
    assert model(model.collate(data)).log_likelihood.requires_grad
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    torch.testing.assert_close(data.x, copy.x, equal_nan=True, rtol=0, atol=0)
    assert torch.equal(data.edge_index, copy.edge_index)
