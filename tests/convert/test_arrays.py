"""Arrays in and out: shapes, order of vertices, and every refusal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from small_datasets import SCHEMA, assert_same, datasets
from small_graphs import EVERY_KIND, draw_graphs
from small_tables import ONE, graph_names_of, names_of, targets_of

from gspn.attributes import Binary, Categorical, Continuous, Count, Schema
from gspn.convert.arrays import from_arrays, to_arrays
from gspn.errors import InputError
from gspn.graphs.dataset import GraphDataset
from gspn.graphs.pack import pack

PLACE = Schema([Continuous("a, row 7: b")])
X = np.arange(4.0)[:, None]


@given(datasets())
def test_round_trip(dataset: GraphDataset) -> None:
    again = from_arrays(
        **to_arrays(dataset), schema=dataset.schema, target=dataset.target, target_level=dataset.target_level
    )
    assert_same(again, dataset, in_order=True)


@given(datasets())
def test_round_trip_of_a_selection(dataset: GraphDataset) -> None:
    chosen = dataset[torch.arange(len(dataset)).flip(0)]
    again = from_arrays(
        **to_arrays(chosen), schema=chosen.schema, target=chosen.target, target_level=chosen.target_level
    )
    for ours, theirs in zip(again, chosen, strict=True):
        torch.testing.assert_close(ours.x, theirs.x, equal_nan=True)
        assert torch.equal(ours.edge_index, theirs.edge_index)
    assert graph_names_of(again) == graph_names_of(dataset)[::-1]


def test_same_as_pack() -> None:
    graphs = draw_graphs(5, seed=3, edge_types=2)
    x = np.concatenate([graph.x.numpy() for graph in graphs])
    first = np.cumsum([0, *(len(graph.x) for graph in graphs)])
    edges = np.concatenate([graph.edge_index.numpy() + start for graph, start in zip(graphs, first, strict=False)], 1)
    dataset = from_arrays(
        x,
        edges,
        EVERY_KIND,
        graph=np.repeat(np.arange(5), np.diff(first)),
        edge_type=np.concatenate([graph.edge_type.numpy() for graph in graphs]),
    )
    assert_same(dataset, pack(graphs, EVERY_KIND), in_order=True)
    assert dataset.digest() == pack(graphs, EVERY_KIND).digest()


def test_an_empty_graph_survives() -> None:
    dataset = from_arrays(X, None, ONE, graph=[0, 0, 2, 2], num_graphs=4)
    assert dataset.num_vertices_per_graph().tolist() == [2, 0, 2, 0]
    assert from_arrays(**to_arrays(dataset), schema=ONE).num_vertices_per_graph().tolist() == [2, 0, 2, 0]


def test_scattered_vertices_and_edges_are_gathered() -> None:
    dataset = from_arrays(
        X,
        [[0, 2], [3, 1], [2, 0]],
        ONE,
        graph=[1, 0, 1, 0],
        edge_type=[5, 6, 7],
        y=[10, 11, 12, 13],
        names=["p", "q", "r", "s"],
        graph_names=["first", "second"],
        target_level="vertex",
    )
    first, second = dataset
    assert first.x.flatten().tolist() == [1, 3]
    assert second.x.flatten().tolist() == [0, 2]
    assert first.edge_index.tolist() == [[1], [0]]
    assert second.edge_index.tolist() == [[0, 1], [1, 0]]
    assert second.edge_type.tolist() == [5, 7]
    assert first.y.tolist() == [11, 13]
    assert names_of(dataset) == ["q", "s", "p", "r"]


@pytest.mark.parametrize("edges", [[[0, 1, 2], [1, 2, 3]], [[0, 1], [1, 2], [2, 3]]])
def test_edges_by_row_or_by_column(edges: Any) -> None:
    for given_edges in (edges, np.array(edges, dtype=np.int32), torch.tensor(edges)):
        assert from_arrays(X, given_edges, ONE)[0].edge_index.tolist() == [[0, 1, 2], [1, 2, 3]]


def test_two_by_two_is_sources_and_targets() -> None:
    assert from_arrays(X, [[0, 1], [2, 3]], ONE)[0].edge_index.tolist() == [[0, 1], [2, 3]]


@pytest.mark.parametrize("edges", [None, [], np.zeros((0, 2)), np.zeros((2, 0), dtype=np.int64)])
def test_no_edges(edges: Any) -> None:
    assert from_arrays(X, edges, ONE)[0].edge_index.shape == (2, 0)


def test_raw_columns_are_encoded_and_typed() -> None:
    columns = {"element": ["C", None, "N"], "charge": np.array([0.5, np.nan, 1.5])}
    dataset = from_arrays(columns, [[0], [1]])
    assert dataset.schema == Schema([Categorical("element", ["C", "N"]), Continuous("charge")])
    assert dataset.x.isnan().tolist() == [[False, False], [True, True], [False, False]]
    fields = np.array([("C", 0.5), ("N", 1.5)], dtype=[("element", "U1"), ("charge", float)])
    assert from_arrays(fields).schema == dataset.schema
    counted = from_arrays({"n": [1, 2]}, overrides={"n": "count"})
    assert counted.schema == Schema([Count("n")])


def test_encoded_numbers_are_codes() -> None:
    dataset = from_arrays(np.array([[0.0], [3.0]]))
    assert dataset.schema == Schema([Categorical("x0", range(4))])
    assert dataset.x.tolist() == [[0], [3]]
    assert from_arrays(np.array([[True], [False]])).x.dtype == torch.float64


@pytest.mark.parametrize(
    ("y", "level", "shape"),
    [
        (np.zeros(2), "graph", [2]),
        (np.zeros((2, 3)), "graph", [2, 3]),
        (np.zeros(4, dtype=np.uint16), "vertex", [4]),
        (np.zeros((4, 2), dtype=np.float16), "vertex", [4, 2]),
        (torch.zeros(2, dtype=torch.bool), "graph", [2]),
    ],
)
def test_the_level_of_targets(y: Any, level: str, shape: list[int]) -> None:
    dataset = from_arrays(X, None, ONE, graph=[0, 0, 1, 1], y=y)
    assert dataset.target_level == level
    assert list(np.shape(targets_of(dataset))) == shape
    assert dataset.target is None


def test_targets_that_are_no_numbers() -> None:
    dataset = from_arrays(X, None, ONE, graph=[0, 0, 1, 1], y=["b", "a"])
    assert dataset.target == Categorical("y", ["a", "b"])
    assert targets_of(dataset) == [1, 0]
    kinds = Schema([Categorical("p", ["x", "y"]), Binary("q")])
    several = from_arrays(
        X, None, ONE, graph=[0, 0, 1, 1], y=np.array([["x", True], [None, False]], object), target=kinds
    )
    assert np.isnan(targets_of(several)[1]).tolist() == [True, False]
    typed = from_arrays(X, None, ONE, y=[1], target=Categorical("y", ["no", "yes"]))
    assert typed.target == Categorical("y", ["no", "yes"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": X[:, 0]}, r"x must have shape \[N, 1 \(a\)\], got \[4\]"),
        ({"x": np.zeros((4, 2))}, r"x must have shape \[N, 1 \(a\)\], got \[4, 2\]"),
        ({"x": X[:, 0], "schema": None}, r"x must have shape \[N, d\], got \[4\]"),
        ({"x": np.array([["a"]])}, "x must hold encoded numbers, got type <U1; raw values come as a mapping"),
        ({"x": np.full((4, 1), np.inf)}, r"graph 0, vertex 0, attribute 'a': the value is infinite"),
        ({"x": {"b": [1.0]}}, "x: no column 'a', which the schema asks for; there are b"),
        ({"x": {"a": [1.0, "x"]}}, "vertex 1, attribute 'a': 'x' is not a number"),
        ({"x": {"a": [1.0, 2.0], "b": [1.0]}, "schema": None}, "x: column 'b' has 1 rows, but column 'a' has 2"),
        ({"schema": "a"}, "schema must be a gspn.Schema, got str"),
        ({"x": {"a": [1.0]}, "schema": "a"}, "schema must be a gspn.Schema, got str"),
        ({"overrides": {}}, "overrides change an inferred schema, but a schema is given"),
        ({"x": {"a": [1.0]}, "overrides": {}}, "overrides change an inferred schema, but a schema is given"),
        ({"edges": [[0, 1, 2]]}, r"edges must have shape \[2, E\] or \[E, 2\], got \[1, 3\]"),
        ({"edges": [0, 1]}, r"edges must have shape \[2, E\] or \[E, 2\], got \[2\]"),
        ({"edges": [[0.0], [1.0]]}, "edges must hold whole numbers, got type float64"),
        ({"edges": [[0, 1, 1], [1, 2, 4]]}, r"edge 2: edge index \(1, 4\) is out of range, there are 4 vertices"),
        ({"edges": [[0, -1], [1, 2]]}, r"edge 1: edge index \(-1, 2\) is out of range, there are 4 vertices"),
        ({"edges": [[0, 0], [1, 2]], "graph": [0, 0, 1, 1]}, "edge 1 .*vertex 0 of graph 0 and vertex 2 of graph 1"),
        ({"graph": [0, 0, 1]}, r"graph must have one number per vertex, shape \[4\], got \[3\]"),
        ({"graph": [0.0, 0, 1, 1]}, "graph must hold whole numbers, got type float64"),
        ({"graph": ["a", "a", "b", "b"]}, "graph must hold whole numbers, got type <U1"),
        ({"graph": [0, 0, -1, 1]}, "vertex 2: graph number -1 is negative"),
        ({"graph": [0, 0, 2, 2]}, "graph 1 has no vertex, .*up to 2; .*pass num_graphs"),
        ({"graph": [0, 0, 2, 2], "num_graphs": 2}, "num_graphs is 2, but graph numbers go up to 2"),
        ({"x": np.zeros((0, 1)), "graph": []}, "there are no vertices, so there is no graph"),
        ({"edges": [[0], [1]], "edge_type": [0, 1]}, r"edge_type must have shape \[1\], one code an edge, got \[2\]"),
        ({"edges": [[0], [1]], "edge_type": [0.5]}, "edge_type must hold whole numbers, got type float64"),
        ({"edges": [[0, 1], [1, 0]], "edge_type": [0, -2]}, "edge 1: edge type -2 is negative"),
        ({"y": [1, 2]}, r"y must have one row per graph \(1\) or one row per vertex \(4\), got shape \[2\]"),
        ({"y": 1.0}, r"y must have one row per graph \(1\) or one row per vertex \(4\), got shape \[\]"),
        ({"y": [1.0], "target_level": "vertex"}, r"y must have one row per graph \(1\) or one row per vertex \(4\)"),
        ({"y": [1.0], "target_level": "edge"}, "target_level must be 'graph' or 'vertex', got 'edge'"),
        ({"target": Binary("y")}, "a target is described, but there is no y"),
        ({"y": [0, 1, 2, 0], "target": Binary("t")}, "vertex 2, target 't': 2 is neither 0 nor 1"),
        ({"y": [[0.0]], "target": Binary("t")}, r"y has shape \[1, 1\], which does not fit Binary\(name='t'\)"),
        ({"y": ["a"], "target": Binary("t")}, "graph 0, attribute 't': 'a' is neither True nor False"),
        ({"y": ["a"], "target": "binary"}, "targets of y: the target must be an attribute or a schema, got 'binary'"),
        ({"y": np.array([["a", "b"]]), "target": Binary("t")}, r"2 targets \(y0, y1\), so a schema"),
        # a name like a place
        (
            {"x": {"a, row 7: b": [1.0, "x"]}, "schema": PLACE},
            "^vertex 1, attribute 'a, row 7: b': 'x'",
        ),
        ({"names": ["a"]}, "names must have one name a vertex, 4, got 1"),
        ({"graph_names": ["a", "b"]}, "graph_names must have one name a graph, 1, got 2"),
    ],
)
def test_refusals(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_arrays(**{"x": X, "edges": None, "schema": ONE, **arguments})


@pytest.mark.parametrize("as_given", [np.asarray, torch.from_numpy])
def test_later_changes_of_the_given_arrays_do_not_reach_the_dataset(as_given: Any) -> None:
    x, y = np.array([[0.5], [1.5]]), np.array([0.5, 1.5])
    dataset = from_arrays(as_given(x), graph=[0, 1], y=as_given(y), target_level="graph")
    x[:] = y[:] = 7
    assert (dataset.x.flatten().tolist(), targets_of(dataset)) == ([0.5, 1.5], [0.5, 1.5])


def test_schema_of_the_strategy_has_every_kind() -> None:
    assert {type(attribute) for attribute in SCHEMA} == {Continuous, Categorical, Binary, Count}
