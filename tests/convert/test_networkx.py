"""NetworkX in and out: the four classes of graphs, names, attributes, targets, and every refusal."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from refusals import refused
from small_datasets import assert_same, datasets, edge_counts, undirected
from small_graphs import EVERY_KIND, draw_graphs
from small_tables import ONE, names_of, targets_of

from gspn.attributes import Binary, Categorical, Continuous, Count, Schema
from gspn.convert.networkx import from_networkx, to_networkx
from gspn.errors import InputError, MissingExtraError
from gspn.graphs.dataset import GraphDataset
from gspn.graphs.pack import pack


def path(kind: Any = nx.Graph, **attributes: Any) -> Any:
    """p – q – r with the attribute a."""
    graph = kind(**attributes)
    graph.add_nodes_from([("p", {"a": 0.5}), ("q", {"a": 1.5}), ("r", {})])
    graph.add_edges_from([("p", "q"), ("q", "r")])
    return graph


def read_back(dataset: GraphDataset, graphs: Any) -> GraphDataset:
    arguments: dict[str, Any] = {"edge_type": None if dataset.edge_type is None else "edge_type"}
    if dataset.edge_type is not None:
        arguments["edge_types"] = range(4)
    if dataset.target is not None:
        arguments["target"] = dataset.target
        arguments["y"] = dataset.target.names if isinstance(dataset.target, Schema) else dataset.target.name
    return from_networkx(graphs, dataset.schema, **arguments)


def has_targets(dataset: GraphDataset) -> bool:
    """Where a target is missing in all graphs it cannot be told from one that does not exist."""
    return dataset.y is None or bool((~dataset.y.isnan()).reshape(len(dataset.y), -1).any(0).all())


@given(datasets().filter(has_targets))
def test_round_trip(dataset: GraphDataset) -> None:
    graphs = to_networkx(dataset)
    assert {type(graph) for graph in graphs} == {nx.MultiDiGraph}
    assert_same(read_back(dataset, graphs), dataset)


@given(datasets().filter(has_targets))
def test_round_trip_of_undirected_graphs(dataset: GraphDataset) -> None:
    dataset = undirected(dataset)
    graphs = to_networkx(dataset, undirected=True)
    assert {type(graph) for graph in graphs} == {nx.MultiGraph}
    assert_same(read_back(dataset, graphs), dataset)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (nx.Graph, {(0, 1): 1, (1, 0): 1, (1, 2): 1, (2, 1): 1, (2, 2): 1}),
        (nx.DiGraph, {(0, 1): 1, (1, 2): 1, (2, 2): 1}),
        (nx.MultiGraph, {(0, 1): 2, (1, 0): 2, (1, 2): 1, (2, 1): 1, (2, 2): 1}),
        (nx.MultiDiGraph, {(0, 1): 2, (1, 2): 1, (2, 2): 1}),
    ],
)
def test_the_four_classes(kind: Any, expected: dict[tuple[int, int], int]) -> None:
    graph = path(kind)
    graph.add_edge("p", "q")
    graph.add_edge("r", "r")
    assert edge_counts(from_networkx(graph)[0]) == expected


def test_directed_and_undirected_graphs_mixed() -> None:
    dataset = from_networkx(path(kind) for kind in (nx.Graph, nx.DiGraph, nx.MultiGraph))
    assert dataset.num_edges_per_graph().tolist() == [4, 2, 4]
    assert dataset.x.isnan().flatten().tolist() == [False, False, True] * 3


def test_names_of_any_kind() -> None:
    graph = nx.Graph()
    names = [(1, 2), "a", 3, frozenset({4}), 2.5]
    graph.add_nodes_from(names, a=0.5)
    dataset = from_networkx([graph, path()])
    assert names_of(dataset) == [*names, "p", "q", "r"]
    assert dataset.graph_names is None
    assert list(to_networkx(dataset)[0]) == names
    assert list(to_networkx(replace(dataset, vertex_names=None))[1]) == [0, 1, 2]
    grid = nx.grid_2d_graph(2, 2)
    nx.set_node_attributes(grid, 0.5, "a")
    assert list(to_networkx(from_networkx(grid, ONE))[0]) == list(grid)
    named = from_networkx([path(name="first"), path(name="second")])
    assert [graph.name for graph in to_networkx(named[[1, 0]])] == ["second", "first"]
    assert from_networkx([path(name="first"), path()]).graph_names is None


def test_attributes_are_people_s_values() -> None:
    graphs = draw_graphs(3, seed=2, edge_types=2)
    dataset = pack(graphs, EVERY_KIND)
    made = to_networkx(dataset, edge_types=["single", "double"], edge_type="bond")
    decoded = EVERY_KIND.decode(graphs[1].x)
    for vertex, data in made[1].nodes(data=True):
        assert data == {name: decoded[name][vertex] for name in EVERY_KIND.names if decoded[name][vertex] is not None}
    assert {data["bond"] for _, _, data in made[0].edges(data=True)} == {"single", "double"}
    again = from_networkx(made, EVERY_KIND, edge_type="bond", edge_types=["single", "double"])
    assert_same(replace(again, vertex_names=None), dataset)


def test_schemas() -> None:
    graph = path()
    graph.nodes["p"]["kind"] = "x"
    assert from_networkx(graph).schema == Schema([Continuous("a"), Categorical("kind", ["x"])])
    assert from_networkx(graph, ignore="kind").schema == ONE
    changed = Continuous("a", floor=0.5)
    assert from_networkx(graph, ignore=["kind"], overrides={"a": changed}).schema == Schema([changed])
    # An attribute of the schema that no vertex has is missing everywhere.
    more = Schema([Count("n"), Categorical("kind", ["x", "y"]), Continuous("a")])
    assert from_networkx(graph, more).x.isnan().all(0).tolist() == [True, False, False]


def test_edge_types(caplog: pytest.LogCaptureFixture) -> None:
    graph = path(nx.MultiDiGraph)
    nx.set_edge_attributes(graph, {("p", "q", 0): "single", ("q", "r", 0): "double"}, "bond")
    with caplog.at_level(logging.INFO, logger="gspn"):
        assert from_networkx(graph, edge_type="bond")[0].edge_type.tolist() == [1, 0]
    assert "edge types by code: 0 = 'double', 1 = 'single'" in caplog.text
    assert from_networkx(graph, edge_type="bond", edge_types=["single", "double"])[0].edge_type.tolist() == [0, 1]
    assert from_networkx(graph, ignore="bond").edge_type is None
    single = nx.Graph()
    single.add_node("p", a=0.5)
    assert from_networkx(single, edge_type="bond")[0].edge_type.tolist() == []


def test_targets() -> None:
    graphs = [path(label="b"), path(), path(label="a")]
    dataset = from_networkx(graphs, y="label")
    assert dataset.target == Categorical("label", ["a", "b"])
    assert dataset.target_level == "graph"
    np.testing.assert_equal(targets_of(dataset), [1, np.nan, 0])
    assert [graph.graph for graph in to_networkx(dataset)] == [{"label": "b"}, {}, {"label": "a"}]
    typed = from_networkx(graphs, y="label", target=Categorical("class", ["b", "a"]))
    assert [graph.graph.get("class") for graph in to_networkx(typed)] == ["b", None, "a"]
    assert [graph.graph.get("label") for graph in to_networkx(typed, y="label")] == ["b", None, "a"]
    several = from_networkx([path(u=1.5, v=True)], y=["u", "v"])
    assert several.target == Schema([Continuous("u"), Binary("v")])
    assert several[0].y.tolist() == [[1.5, 1]]


def test_targets_of_vertices() -> None:
    graph = path()
    graph.nodes["q"]["label"] = 2.5
    dataset = from_networkx(graph, y="label")
    assert dataset.target_level == "vertex"
    assert dataset.schema == ONE
    np.testing.assert_equal(dataset[0].y.tolist(), [np.nan, 2.5, np.nan])
    assert to_networkx(dataset)[0].nodes["q"] == {"a": 1.5, "label": 2.5}


def test_targets_without_a_type() -> None:
    graphs = draw_graphs(2, seed=0)
    for i, graph in enumerate(graphs):
        graph.y = torch.tensor([i])
    assert [graph.graph for graph in to_networkx(pack(graphs, EVERY_KIND))] == [{"y": 0}, {"y": 1}]
    for graph in graphs:
        graph.y = torch.tensor([[0.5, torch.nan]])
    assert to_networkx(pack(graphs, EVERY_KIND))[0].graph == {"y0": 0.5}


def test_graphs_without_vertices() -> None:
    dataset = from_networkx([nx.Graph(), path()])
    assert dataset.num_vertices_per_graph().tolist() == [0, 3]
    assert [len(graph) for graph in to_networkx(dataset)] == [0, 3]


def labelled(graph: Any, **attributes: Any) -> Any:
    graph.edges["p", "q"].update(attributes)
    return graph


def changed(**attributes: Any) -> Any:
    graph = path()
    graph.nodes["q"].update(attributes)
    return graph


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"graphs": []}, "the list of graphs is empty"),
        ({"graphs": "graph"}, "expected a NetworkX graph or a list of them, got 'graph'"),
        ({"graphs": [path(), {}]}, "graph 1 must be a NetworkX graph, got dict"),
        ({"graphs": nx.path_graph(2)}, "graphs: the source has no attributes, so there is no schema to infer"),
        ({"graphs": [path(), changed(a="x")], "schema": ONE}, "vertex 'q', attribute 'a': 'x' is not a number"),
        ({"graphs": changed(pos=[1, 2])}, r"graph 0, vertex 'q', attribute 'pos': \[1, 2\] is no single value"),
        ({"graphs": changed(b=1), "schema": ONE}, r"'b' is not in the schema \(a\); pass ignore=\['b'\]"),
        ({"schema": "a"}, "schema must be a gspn.Schema, got str"),
        ({"schema": ONE, "overrides": {}}, "overrides change an inferred schema, but a schema is given"),
        ({"graphs": labelled(path(), weight=1)}, r"'weight' has no use.*edge_type='weight'.*ignore=\['weight'\]"),
        (
            {"graphs": labelled(path(), bond="x"), "edge_type": "bond"},
            r"graph 0, edge \('q', 'r'\): the edge type 'bond' is missing",
        ),
        (
            {"graphs": [path(nx.DiGraph).subgraph("p"), labelled(path(), bond="x").subgraph("pq")]}
            | {"edge_type": "bond", "edge_types": ["y"]},
            r"graph 1, edge \('p', 'q'\), attribute 'bond': 'x' is none of the categories y",
        ),
        ({"edge_types": ["x"]}, "edge_types is given, but no attribute: pass edge_type with its name"),
        ({"target": Binary("t")}, "a target is described, but there are no targets: pass y"),
        ({"y": "label"}, "y: neither a graph nor a vertex has the attribute 'label'"),
        ({"graphs": [path(label=1), changed(label=2)], "y": "label"}, "graphs have the attribute 'label' and vertices"),
        (
            {"graphs": [path(t=1), path(t="x")], "y": "t", "target": Binary("t")},
            "graph 1, attribute 't': 'x' is neither True nor False",
        ),
        ({"graphs": changed(t="x"), "y": "t", "target": Count("t")}, "graph 0, vertex 'q', attribute 't': 'x'"),
    ],
)
def test_refusals(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_networkx(**{"graphs": path(), **arguments})


MIXED = from_networkx([path(), path(nx.DiGraph)])
TYPED = from_networkx(labelled(path().subgraph("pq").copy(), bond="x"), edge_type="bond")


@pytest.mark.parametrize(
    ("call", "named"),
    [
        refused("graph 1: the edge 'p' → 'q' has no opposite edge of its type", to_networkx, MIXED, undirected=True),
        refused(
            "two vertices of graph 1 are called 'p'",
            to_networkx,
            replace(MIXED, vertex_names=np.array(list("pqrppr"), dtype=object)),
        ),
        refused("edge_types names 0 types, but the dataset has codes up to 0", to_networkx, TYPED, edge_types=[]),
        refused("the target 'a' .*pass y", to_networkx, from_networkx(changed(b=1), y="b"), y="a"),
        refused("the target 'name'", to_networkx, from_networkx(path(name="first", b=1), y="b"), y="name"),
    ],
)
def test_refusals_of_the_way_back(call: Callable[[], object], named: str) -> None:
    with pytest.raises(InputError, match=named):
        call()


def test_without_networkx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MissingExtraError, match="networkx, which comes with torch, is not installed"):
        from_networkx([])
