"""What-if queries against Algorithm 1, against each other, and what they refuse.

Everything here is in float64 unless a test says otherwise; sums of a few rounded terms of size up to about 100 agree to
1e-9 with room to spare (see `hierarchy/test_against_oracle.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from oracle_cases import CASES, Case, draw_values, kind_of, make_case
from small_graphs import EVERY_KIND, draw_graph, draw_graphs
from small_models import random_model
from torch_geometric.data import Batch, Data

from gspn import GSPN, Binary, Categorical, Continuous, Count, GSPNError, Schema, SupervisedGSPN
from gspn.convert.molecules import from_smiles
from gspn.errors import InputError, NotFittedError
from gspn.queries.what_if import what_if_all
from gspn.testing import oracle

TOLERANCE = 1e-9
Edge = tuple[int, int, int]

ELEMENT = Schema([Categorical("element", ["C", "N", "O"]), Continuous("charge")])


def scores(case: Case, graph: oracle.Graph, scored: np.ndarray[Any, Any], leave_one_out: bool) -> list[float]:
    """For every vertex log P(scored entries | its tree), the tree grown and climbed by the oracle."""
    found = []
    for v in range(len(graph.x)):
        hidden = {(v, column) for column in range(graph.x.shape[1])} if leave_one_out else set()
        tree = oracle.infer(case.theirs, graph, oracle.grow(graph, v, case.theirs.num_levels - 1), hidden)
        entries = oracle.visible(case.theirs, oracle.Graph(scored, []), v)
        found.append(oracle.explain(case.theirs, tree.level, tree.priors, entries)[0])
    return found


def compared(case: Case, after: oracle.Graph, leave_one_out: bool) -> tuple[list[float], list[float]]:
    """Before and after, over entries observed on both sides, by the oracle."""
    gone = np.isnan(case.graph.x) | np.isnan(after.x)
    sides = (np.where(gone, np.nan, graph.x) for graph in (case.graph, after))
    before, later = (
        scores(case, graph, side, leave_one_out) for graph, side in zip((case.graph, after), sides, strict=True)
    )
    return before, later


def draw_changes(rng: np.random.Generator, case: Case) -> tuple[dict[int, dict[str, Any]], np.ndarray[Any, Any]]:
    """Some entries set to other values or to unknown, and x after it."""
    x, schema = case.graph.x.copy(), case.model.schema
    new = draw_values(rng, schema, len(x), 0.3)
    changes: dict[int, dict[str, Any]] = {}
    for v, column in np.argwhere(rng.random(x.shape) < 0.3).tolist():
        x[v, column] = new[v, column]
        changes.setdefault(v, {})[schema[column].name] = schema[column].decode(new[[v], column])[0]
    return changes, x


def draw_edges(rng: np.random.Generator, case: Case) -> tuple[list[Edge], list[Edge], list[Edge]]:
    """Edges to remove, edges to add, and what is there after it."""
    edges, n = list(case.graph.edges), len(case.graph.x)
    removed = [edges.pop(int(rng.integers(len(edges)))) for _ in range(int(rng.integers(3))) if edges]
    types = case.axes["edge types"]
    added = [
        (int(rng.integers(n)), int(rng.integers(n)), int(rng.integers(types))) for _ in range(int(rng.integers(3)))
    ]
    return removed, added, edges + added


@pytest.mark.parametrize("leave_one_out", [False, True])
@pytest.mark.parametrize("seed", range(0, CASES, 6))
def test_agrees_with_the_oracle(seed: int, leave_one_out: bool) -> None:
    case, rng = make_case(seed, "ignorable"), np.random.default_rng(seed)
    changes, x = draw_changes(rng, case)
    removed, added, edges = draw_edges(rng, case)
    found = case.model.what_if(
        case.data, changes, add_edges=added, remove_edges=removed, leave_one_out=leave_one_out, directed=True
    )
    before, after = compared(case, oracle.Graph(x, edges), leave_one_out)
    np.testing.assert_allclose(found.before.numpy(), before, rtol=TOLERANCE, atol=TOLERANCE, err_msg=str(case.axes))
    np.testing.assert_allclose(found.after.numpy(), after, rtol=TOLERANCE, atol=TOLERANCE, err_msg=str(case.axes))
    assert found.total.item() == pytest.approx(sum(after) - sum(before), rel=TOLERANCE, abs=1e-8)


@pytest.mark.parametrize("leave_one_out", [False, True])
@pytest.mark.parametrize("seed", range(1, CASES, 10))
def test_every_replacement_agrees_with_the_oracle(seed: int, leave_one_out: bool) -> None:
    case, rng = make_case(seed, "ignorable"), np.random.default_rng(seed)
    column = int(rng.integers(len(case.model.schema)))
    attribute = case.model.schema[column]
    values = None
    if isinstance(attribute, Continuous | Count):
        values = [1, 4, None]
    codes = [0.0, 1.0, 2.0] if kind_of(attribute) == "categorical" else [0.0, 1.0]
    codes = codes if values is None else [1.0, 4.0, np.nan]
    expected = np.zeros((len(case.graph.x), len(codes)))
    for v in range(len(case.graph.x)):
        for k, code in enumerate(codes):
            x = case.graph.x.copy()
            x[v, column] = code
            before, after = compared(case, oracle.Graph(x, case.graph.edges), leave_one_out)
            expected[v, k] = sum(after) - sum(before)
    found = case.model.what_if_all(case.data, attribute.name, leave_one_out=leave_one_out, values=values)
    np.testing.assert_allclose(found.numpy(), expected, rtol=TOLERANCE, atol=1e-8, err_msg=str(case.axes))


@pytest.mark.parametrize("leave_one_out", [False, True])
@pytest.mark.parametrize("levels", [1, 2, 4])
@pytest.mark.parametrize("attribute", ["element", "aromatic"])
def test_all_at_once_equals_one_by_one(attribute: str, levels: int, leave_one_out: bool) -> None:
    model = random_model(EVERY_KIND, levels, num_layers=levels, num_edge_types=2)
    graph = draw_graph(np.random.default_rng(levels), 16, missing=0.2, edge_types=2)
    values = ["C", "N", "O"] if attribute == "element" else [False, True]
    found = model.what_if_all(graph, attribute, leave_one_out=leave_one_out)
    one_by_one = [
        [model.what_if(graph, {v: {attribute: value}}, leave_one_out=leave_one_out).total for value in values]
        for v in range(16)
    ]
    torch.testing.assert_close(found, torch.tensor(one_by_one, dtype=torch.float64), rtol=1e-10, atol=1e-10)
    column = EVERY_KIND.index(attribute)
    for v, code in enumerate(graph.x[:, column].tolist()):
        assert np.isnan(code) or found[v, int(code)] == 0  # what is there already changes nothing, to the bit
    assert found.abs().max() > 0.1


@pytest.mark.parametrize("leave_one_out", [False, True])
def test_chunks_vertices_and_sequences_change_nothing(leave_one_out: bool) -> None:
    model = random_model(EVERY_KIND, num_layers=3)
    graphs = draw_graphs(3, seed=5)
    every = [model.what_if_all(graph, "element", leave_one_out=leave_one_out) for graph in graphs]
    for one, alone in zip(model.what_if_all(graphs, "element", leave_one_out=leave_one_out), every, strict=True):
        torch.testing.assert_close(one, alone, rtol=1e-12, atol=1e-12)
    some = model.what_if_all(graphs[0], "element", vertices=[2, 0, 2], leave_one_out=leave_one_out)
    torch.testing.assert_close(some, every[0][[2, 0, 2]], rtol=1e-12, atol=1e-12)
    assert model.what_if_all(graphs[0], "element", vertices=[], leave_one_out=leave_one_out).shape == (0, 3)
    batch, codes = model.collate(graphs), torch.arange(3, dtype=torch.float64)
    vertices = torch.arange(batch.num_vertices)
    for budget in (1, 7, 40):
        cut = what_if_all(model.hierarchy, batch, 1, codes, vertices, leave_one_out, budget)
        torch.testing.assert_close(cut, torch.cat(every), rtol=1e-12, atol=1e-12)


def test_values_of_a_discrete_attribute_may_be_chosen_and_unknown() -> None:
    model, graph = random_model(EVERY_KIND), draw_graphs(1, seed=2)[0]
    every = model.what_if_all(graph, "element")
    some = model.what_if_all(graph, "element", values=["O", None])
    torch.testing.assert_close(some[:, 0], every[:, 2], rtol=1e-12, atol=1e-12)
    unknown = [model.what_if(graph, {v: {"element": None}}).total for v in range(len(graph.x))]
    torch.testing.assert_close(some[:, 1], torch.stack(unknown), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("leave_one_out", [False, True])
def test_without_changes_it_is_the_likelihood(leave_one_out: bool) -> None:
    model, graph = random_model(EVERY_KIND), draw_graphs(1, seed=3)[0]
    found = model.what_if(graph, {}, leave_one_out=leave_one_out)
    torch.testing.assert_close(found.before, model.log_likelihood(graph, leave_one_out=leave_one_out))
    assert torch.equal(found.before, found.after)
    assert found.total == 0
    assert torch.equal(found.relative, torch.zeros(len(graph.x), dtype=torch.float64))


@pytest.mark.parametrize("leave_one_out", [False, True])
def test_after_is_the_likelihood_of_the_changed_graph(leave_one_out: bool) -> None:
    """Where nothing becomes known or unknown, the two sides are plain likelihoods; here in float32."""
    graph = draw_graph(np.random.default_rng(1), 8, missing=0.0)
    model = random_model(EVERY_KIND, num_layers=4).float()
    changed = graph.clone()
    changed.x[3, 1], changed.x[5, 0], changed.x[5, 2] = 2, 0.25, 1
    found = model.what_if(
        graph, {3: {"element": "O"}, 5: {"charge": 0.25, "aromatic": True}}, leave_one_out=leave_one_out
    )
    # float32 has 7 digits; likelihoods are sums of about ten terms.
    for side, one in ((found.before, graph), (found.after, changed)):
        torch.testing.assert_close(side, model.log_likelihood(one, leave_one_out=leave_one_out), rtol=1e-5, atol=1e-5)
    assert found.change.dtype == torch.float32
    torch.testing.assert_close(found.change, found.after - found.before)
    torch.testing.assert_close(found.relative, found.change / found.before.abs())
    torch.testing.assert_close(found.total, found.change.sum())


def path(n: int) -> Data:
    """0 → 1 → … → n-1"""
    x = torch.tensor([[v % 3, 0.1 * v] for v in range(n)], dtype=torch.float64)
    return Data(x=x, edge_index=torch.stack([torch.arange(n - 1), torch.arange(1, n)]))


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_only_vertices_that_hear_a_change_change(levels: int) -> None:
    model = random_model(ELEMENT, num_layers=levels)
    found = model.what_if(path(9), {2: {"element": "C"}})
    assert found.change.nonzero().squeeze(1).tolist() == list(range(2, 2 + levels))
    # An edge is heard by the vertex that receives along it, and from there one step less far than a value.
    found = model.what_if(path(9), remove_edges=[(2, 3)])
    assert found.change.nonzero().squeeze(1).tolist() == list(range(3, 2 + levels))
    found = model.what_if(path(9), add_edges=[(0, 5)])
    assert found.change.nonzero().squeeze(1).tolist() == list(range(5, 4 + levels))


def test_an_entry_known_on_one_side_is_not_scored_where_it_stands() -> None:
    """Left out of its own tree, the vertex is judged by the same entries given the same evidence: nothing changes."""
    model, graph = random_model(EVERY_KIND), draw_graph(np.random.default_rng(4), 8, missing=0.0)
    gap = graph.clone()
    gap.x[3, 0] = torch.nan
    for one, value in ((graph, None), (gap, 1.5)):
        found = model.what_if(one, {3: {"charge": value}}, leave_one_out=True)
        assert found.change[3].abs() < 1e-12
        assert found.change.abs().sum() > 1e-3
    lost, won = model.what_if(graph, {3: {"charge": None}}), model.what_if(gap, {3: {"charge": graph.x[3, 0].item()}})
    torch.testing.assert_close(lost.change, -won.change, rtol=1e-10, atol=1e-10)


def test_a_vertex_without_common_entries_has_no_likelihood() -> None:
    model, graph = random_model(ELEMENT), path(4)
    found = model.what_if(graph, {1: {"element": None, "charge": None}})
    assert [side[1].item() for side in (found.before, found.after, found.relative)] == [0, 0, 0]


# ---- Edges


def ring(n: int, **others: Any) -> Data:
    here, there = torch.arange(n), torch.arange(1, n + 1) % n
    x = torch.tensor([[v % 3, 0.1 * v] for v in range(n)], dtype=torch.float64)
    return Data(x=x, edge_index=torch.stack([torch.cat([here, there]), torch.cat([there, here])]), **others)


def likelihood(model: GSPN, graph: Data, edges: list[tuple[int, ...]]) -> torch.Tensor:
    rows = torch.tensor(edges)
    changed = Data(x=graph.x, edge_index=rows[:, :2].T)
    if rows.shape[1] == 3:
        changed.edge_type = rows[:, 2]
    found: torch.Tensor = model.log_likelihood(changed, leave_one_out=True)
    return found


def listed(graph: Data) -> list[tuple[int, ...]]:
    rows = [*graph.edge_index, *([graph.edge_type] if "edge_type" in graph else [])]
    return [tuple(edge) for edge in torch.stack(rows, dim=1).tolist()]


def test_an_undirected_graph_stays_undirected() -> None:
    model, graph = random_model(ELEMENT), ring(6)
    edges = listed(graph)
    without = [edge for edge in edges if edge not in [(1, 2), (2, 1)]]
    expected = likelihood(model, graph, without)
    for removed in ([(1, 2)], [(2, 1)], [(1, 2), (2, 1)], torch.tensor([[1, 2]]), np.array([[2, 1]])):
        torch.testing.assert_close(model.what_if(graph, remove_edges=removed).after, expected)
    expected = likelihood(model, graph, [*edges, (0, 3), (3, 0), (4, 4)])
    for added in ([(0, 3), (4, 4)], [(0, 3), (3, 0), (4, 4)]):
        torch.testing.assert_close(model.what_if(graph, add_edges=added).after, expected)
    expected = likelihood(model, graph, [*edges, (0, 3), (3, 0), (0, 3), (3, 0)])
    torch.testing.assert_close(model.what_if(graph, add_edges=[(0, 3), (0, 3)]).after, expected)


def test_edges_as_listed() -> None:
    model, graph = random_model(ELEMENT), ring(6)
    edges = listed(graph)
    one_way = [edge for edge in edges if edge != (1, 2)]
    found = model.what_if(graph, remove_edges=[(1, 2)], directed=True)
    torch.testing.assert_close(found.after, likelihood(model, graph, one_way))
    # A graph with one single edge is no undirected one; unless it is said.
    lone = Data(x=graph.x, edge_index=torch.tensor([[0], [1]]))
    found = model.what_if(lone, add_edges=[(2, 3)])
    torch.testing.assert_close(found.after, likelihood(model, graph, [(0, 1), (2, 3)]))
    found = model.what_if(lone, add_edges=[(2, 3)], directed=False)
    torch.testing.assert_close(found.after, likelihood(model, graph, [(0, 1), (2, 3), (3, 2)]))


def test_of_parallel_edges_one_is_removed() -> None:
    model, graph = random_model(ELEMENT), ring(5)
    graph.edge_index = torch.cat([graph.edge_index, torch.tensor([[0, 1], [1, 0]])], dim=1)
    edges = listed(graph)
    found = model.what_if(graph, remove_edges=[(0, 1)])
    torch.testing.assert_close(found.after, likelihood(model, graph, edges[:-2]))
    both = [edge for edge in edges if edge not in [(0, 1), (1, 0)]]
    torch.testing.assert_close(
        model.what_if(graph, remove_edges=[(0, 1), (0, 1)]).after, likelihood(model, graph, both)
    )


def test_edge_types() -> None:
    model = random_model(ELEMENT, num_edge_types=3)
    graph = ring(5, edge_type=torch.tensor([0, 1, 2, 0, 1] * 2))
    edges = listed(graph)
    without = [edge for edge in edges if set(edge[:2]) != {1, 2}]
    expected = likelihood(model, graph, [*without, (1, 2, 2), (2, 1, 2)])
    for removed in ((1, 2), (1, 2, 1), (2, 1, None)):
        found = model.what_if(graph, remove_edges=[removed], add_edges=[(1, 2, 2)])
        torch.testing.assert_close(found.after, expected)
    # Types that differ by direction make a directed graph.
    graph.edge_type[1] = 0
    found = model.what_if(graph, add_edges=[(0, 3, 2)])
    torch.testing.assert_close(found.after, likelihood(model, graph, [*listed(graph), (0, 3, 2)]))
    # A model that does not tell types apart needs none.
    blind = random_model(ELEMENT)
    one, other = (blind.what_if(graph, add_edges=[edge], directed=True).after for edge in ((0, 3), (0, 3, 7)))
    assert torch.equal(one, other)


def test_a_graph_without_edges_can_be_given_some() -> None:
    model = random_model(ELEMENT, num_edge_types=2)
    graph = Data(x=ring(4).x)
    found = model.what_if(graph, add_edges=[(0, 1, 1)])
    torch.testing.assert_close(found.after, likelihood(model, graph, [(0, 1, 1), (1, 0, 1)]))


# ---- Manners


def test_the_graph_stays_as_it_is_and_the_answer_cannot_be_changed() -> None:
    model, graph = random_model(EVERY_KIND), draw_graphs(1, seed=7)[0]
    before = graph.clone()
    found = model.what_if(
        graph, {0: {"element": "N"}}, add_edges=[(0, 2)], remove_edges=[tuple(graph.edge_index[:, 0])]
    )
    assert torch.equal(graph.x.nan_to_num(-1), before.x.nan_to_num(-1))
    assert torch.equal(graph.edge_index, before.edge_index)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.before = found.after  # type: ignore[misc]


def test_an_answer_prints_what_changes_most() -> None:
    model = random_model(ELEMENT, num_layers=12)
    found = model.what_if(path(30), {5: {"element": "C"}, 20: {"charge": None}})
    first, header, *rows, more, still = str(found).splitlines()
    assert first.startswith("log-likelihood ")
    assert f"change {found.total.item():+.4f} nats" in first
    assert header.split() == ["vertex", "before", "after", "change", "relative"]
    largest = found.change.abs().argsort(descending=True)[:10].tolist()
    assert [int(row.split()[0]) for row in rows] == largest
    changed = int((found.change != 0).sum())
    assert more.split()[0] == str(changed - 10)
    assert still.split()[0] == str(30 - changed)
    first, still = str(model.what_if(path(3))).splitlines()
    assert "change +0.0000 nats" in first
    assert still.split() == ["3", "do", "not", "change"]


def test_a_model_with_targets_can_be_asked() -> None:
    graphs = draw_graphs(6, seed=1)
    for number, graph in enumerate(graphs):
        graph.y = torch.tensor([number % 2])
    model = SupervisedGSPN(EVERY_KIND, Binary("y"), num_layers=2, num_states=3, num_graph_states=2, epochs=1)
    model.fit(graphs, progress=False)
    found = model.what_if(graphs[0], {0: {"element": "O"}})
    torch.testing.assert_close(found.total, model.what_if_all(graphs[0], "element")[0, 2])


Refused = Callable[[GSPN, Data], object]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda m, g: m.what_if(g, {9: {"element": "C"}}), "vertex 9 does not exist: the graph has 6"),
        (lambda m, g: m.what_if(g, {-1: {"element": "C"}}), "changes: vertex -1 does not exist"),
        (lambda m, g: m.what_if(g, {"a": {"element": "C"}}), "changes: 'a' is not the number of a vertex"),
        (lambda m, g: m.what_if(g, {True: {"element": "C"}}), "changes: True is not the number of a vertex"),
        (lambda m, g: m.what_if(g, {1.0: {"element": "C"}}), "changes: 1.0 is not the number of a vertex"),
        (lambda m, g: m.what_if(g, {1: "O"}), "changes, vertex 1: values must be given by attribute, got 'O'"),
        (lambda m, g: m.what_if(g, ["O"]), "changes must map vertices to values by attribute"),
        (lambda m, g: m.what_if(g, {1: {"mass": 1.0}}), "no attribute 'mass' in the schema; known: element, charge"),
        (lambda m, g: m.what_if(g, {1: {"element": "Xe"}}), "vertex 1, .*'element': 'Xe' .*C, N, O"),
        (lambda m, g: m.what_if(g, {1: {"charge": float("inf")}}), "vertex 1, attribute 'charge': .*infinite"),
        (lambda m, g: m.what_if(g, {1: {"charge": 1e9}}), "vertex 1, attribute 'charge': 1e\\+09 is more than"),
        (lambda m, g: m.what_if(g, remove_edges=[(0, 3)]), "the edge 0 → 3 cannot be removed: the graph has no such"),
        (lambda m, g: m.what_if(g, remove_edges=[(0, 1)] * 2), "the edge 0 → 1 cannot be removed: the graph has it 1"),
        (lambda m, g: m.what_if(g, remove_edges=(0, 1)), r"remove_edges: .*\(source, target"),
        (lambda m, g: m.what_if(g, add_edges=[(0, 1, 2, 3)]), "add_edges: an edge is \\(source, target\\) or"),
        (lambda m, g: m.what_if(g, add_edges=3), "add_edges must be a list of edges \\(source, target\\), got 3"),
        (lambda m, g: m.what_if(g, add_edges=[(0, 6)]), "add_edges: vertex 6 does not exist: the graph has 6 vertices"),
        (lambda m, g: m.what_if(g, add_edges=[(0, 3, 1)]), "add_edges, edge 0 → 3: the graph's edges have no types"),
        (lambda m, g: m.what_if(g, directed="no"), "directed must be True, False or None, got 'no'"),
        (lambda m, g: m.what_if([g], {}), "what_if compares two versions of one graph, a Data; got list"),
        (lambda m, g: m.what_if(Batch.from_data_list([g]), {}), "what_if compares two versions of one graph"),
        (lambda m, g: m.what_if_all(g, "mass"), "no attribute 'mass' in the schema"),
        (lambda m, g: m.what_if_all(g, "charge"), "attribute 'charge' is continuous: pass values="),
        (lambda m, g: m.what_if_all(g, "charge", values=[0, 1e9]), "attribute 'charge': 1e\\+09 is more than 1e\\+06"),
        (lambda m, g: m.what_if_all(g, "element", values=["C", "Xe"]), "attribute 'element', row 1: 'Xe' is none of"),
        (lambda m, g: m.what_if_all(g, "element", vertices=[7]), "vertex 7 does not exist"),
        (lambda m, g: m.what_if_all([g], "element", vertices=[0]), "vertices can be chosen in one graph only"),
    ],
)
def test_refusals(ask: Refused, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ask(random_model(ELEMENT), ring(6))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"add_edges": [(0, 3)]}, "the model tells 2 edge types apart, so the edge 0 → 3 needs one, (0, 3, type)"),
        ({"add_edges": [(0, 3, 2)]}, "add_edges, edge 0 → 3: 2 is no edge type"),
        ({"add_edges": [(0, 3, "single")]}, "'single' is no edge type; a type is a number from 0 on"),
        ({"remove_edges": [(0, 1, 1)]}, "the edge 0 → 1 of type 1 cannot be removed: the graph has no such edge"),
        ({"remove_edges": [(1, 2)]}, "there are edges 1 → 2 of the types 0, 1; say which one is meant, (1, 2, type)"),
    ],
)
def test_refusals_of_edge_types(arguments: dict[str, Any], message: str) -> None:
    graph = ring(4, edge_type=torch.zeros(8, dtype=torch.long))
    graph.edge_index = torch.cat([graph.edge_index, torch.tensor([[1, 2], [2, 1]])], dim=1)
    graph.edge_type = torch.cat([graph.edge_type, torch.ones(2, dtype=torch.long)])
    with pytest.raises(GSPNError) as error:
        random_model(ELEMENT, num_edge_types=2).what_if(graph, **arguments)
    assert message in str(error.value)


def test_an_unfitted_model_refuses() -> None:
    model = GSPN(ELEMENT)
    with pytest.raises(NotFittedError):
        model.what_if(ring(3), {})
    with pytest.raises(NotFittedError):
        model.what_if_all(ring(3), "element")


@pytest.mark.parametrize("leave_one_out", [False, True])
def test_a_changed_molecule_is_the_real_one_where_it_can_be(leave_one_out: bool) -> None:
    """The total is the difference of two molecules that were read apart: nothing of the old atom is left."""
    molecules = from_smiles(["Clc1ccc(CNC(C)=O)cc1", "Oc1ccc(CNC(C)=O)cc1"], processes=1, progress=False)
    model = random_model(molecules.schema, num_layers=3, num_edge_types=5).double()
    likely = [model.log_likelihood(molecules[[i]], leave_one_out=leave_one_out)[0].sum() for i in (0, 1)]
    found = model.what_if(molecules[0], {0: {"element": "O"}}, leave_one_out=leave_one_out)
    assert found.total.item() == pytest.approx((likely[1] - likely[0]).item(), abs=1e-3)  # charges differ by 1e-6
    assert found.problem is None
    assert found.derived[0]["hydrogens"] == 1
    literal = model.what_if(molecules[0], {0: {"element": "O"}}, leave_one_out=leave_one_out, derived=False)
    assert not literal.derived
    said = {0: {"element": "O", **found.derived[0]}, **{v: own for v, own in found.derived.items() if v}}
    by_hand = model.what_if(molecules[0], said, leave_one_out=leave_one_out, derived=False)
    assert torch.equal(by_hand.after, found.after)
    forbidden = model.what_if(molecules[0], {1: {"element": "O"}}, leave_one_out=leave_one_out)
    assert forbidden.problem is not None
    assert "became unknown: " in repr(forbidden)
    assert "follow from the changes" in repr(found)


@pytest.mark.parametrize("leave_one_out", [False, True])
def test_steps_add_up_also_where_entries_become_known(leave_one_out: bool) -> None:
    """Unknown to C, and C to O, is unknown to O; so is any way back."""
    model, graph = random_model(ELEMENT, num_layers=3), path(7)
    graph.x[2, 0] = torch.nan

    def step(graph: Data, value: str | None) -> tuple[float, Data]:
        after = Data(x=graph.x.clone(), edge_index=graph.edge_index)
        after.x[2, 0] = torch.nan if value is None else float("CNO".index(value))
        found = model.what_if(graph, {2: {"element": value}}, leave_one_out=leave_one_out)
        return found.whole.item(), after

    first, carbon = step(graph, "C")
    second, oxygen = step(carbon, "O")
    direct, _ = step(graph, "O")
    back, _ = step(oxygen, None)
    assert first + second == pytest.approx(direct, abs=TOLERANCE)
    assert direct + back == pytest.approx(0.0, abs=TOLERANCE)


def test_what_becomes_known_is_as_likely_as_its_conditional_says() -> None:
    model, graph = random_model(ELEMENT, num_layers=3), path(7)
    graph.x[2, 0] = torch.nan
    given: Any = model.conditional(graph, "element", [2])
    for k, value in enumerate("CNO"):
        found = model.what_if(graph, {2: {"element": value}}, leave_one_out=True)
        assert found.told is not None
        assert found.told[2].item() == pytest.approx(given.probs[0, k].log().item(), abs=TOLERANCE)
        assert found.told[[0, 1, 3, 4, 5, 6]].abs().sum() == 0
        assert found.whole.item() == pytest.approx(found.total.item() + found.told[2].item(), abs=TOLERANCE)
