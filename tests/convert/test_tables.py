"""From tables: schemas, ids, graphs, directions, repeats, edge types, targets."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pandas as pd
import pytest
from small_datasets import assert_same, edge_counts
from small_tables import EDGES, NODES, ONE, TWO, edges, names_of, targets_of

from gspn.attributes import Binary, Categorical, Continuous, Count, Schema
from gspn.convert.frames import from_tables, to_tables
from gspn.errors import InputError


def test_a_given_schema_selects_the_order_of_columns() -> None:
    schema = Schema([Count("n"), Continuous("a")])
    dataset = from_tables(NODES.assign(n=[1, 2, 3, 4], note="x"), None, schema, ignore="note")
    assert dataset.schema == schema
    assert dataset.x[:, 0].tolist() == [1, 2, 3, 4]


def test_a_schema_is_inferred_by_dtype_and_overridden() -> None:
    nodes = pd.DataFrame(
        {
            "id": ["p", "q", "r"],
            "text": pd.Series(["x", None, "y"], dtype="str"),
            "object": pd.Series(["x", None, "y"], dtype="object"),
            "category": pd.Categorical(["b", None, "b"], categories=["c", "b"]),
            "whole": pd.Series([3, None, 5], dtype="Int64"),
            "flag": pd.Series([True, None, False], dtype="boolean"),
            "real": [0.5, np.nan, 1.5],
            "arrow": pd.Series([0.5, None, 1.5], dtype="double[pyarrow]"),
        }
    )
    dataset = from_tables(nodes, overrides={"whole": "count", "real": Continuous("real", floor=0.5)})
    assert dataset.schema == Schema(
        [
            Categorical("text", ["x", "y"]),
            Categorical("object", ["x", "y"]),
            Categorical("category", ["c", "b"]),
            Count("whole"),
            Binary("flag"),
            Continuous("real", floor=0.5),
            Continuous("arrow"),
        ]
    )
    assert dataset.x[1].isnan().all()
    assert dataset.x[0].tolist() == [0, 0, 1, 3, 1, 0.5, 0.5]


@pytest.mark.parametrize(
    "ids",
    [
        ["p", "q", "r", "s"],
        [10, 20, 30, 40],
        ["1", 1, (1, 2), 2.5],
        pd.Series(["p", "q", "r", "s"], dtype="category"),
        pd.Series([7, 8, 9, 10], dtype="category"),
        pd.Series([1, 2, 3, 4], dtype="Int64"),
        pd.Series([1, 2, 3, 4], dtype="uint64"),
        pd.Series([1, 2, 3, 4], dtype="int64[pyarrow]"),
        pd.Series(["p", "q", "r", "s"], dtype="string[pyarrow]"),
        pd.date_range("2020-01-01", periods=4),
    ],
)
def test_ids_of_every_type(ids: Any) -> None:
    nodes = NODES.assign(id=pd.Series(ids))
    known = nodes["id"].tolist()
    dataset = from_tables(nodes, edges((known[2], known[0]), (known[1], known[3])), directed=True)
    assert dataset[0].edge_index.tolist() == [[2, 1], [0, 3]]
    assert names_of(dataset) == known


def test_numbers_of_other_types_are_the_same_ids() -> None:
    nodes = NODES.assign(id=[1, 2, 3, 4])
    for kind in ("float64", "Int64", "int8", "object"):
        table = edges((1, 2), (4, 3)).astype(kind)
        assert from_tables(nodes, table, directed=True)[0].edge_index.tolist() == [[0, 3], [1, 2]]


def test_large_ids_do_not_meet_as_floats() -> None:
    nodes = NODES.assign(id=[2**53, 2**53 + 1, 3, 4])
    with pytest.raises(InputError, match=r"edges, row 0: source 9007199254740994\.0 is no id of nodes"):
        from_tables(nodes, edges((float(2**53 + 2), 3.0)))
    assert from_tables(nodes, edges((2**53 + 1, 3)), directed=True)[0].edge_index.tolist() == [[1], [2]]


def test_ids_in_the_index() -> None:
    indexed = NODES.set_index("id")
    for dataset in (from_tables(indexed, EDGES), from_tables(indexed, EDGES, id=None)):
        assert names_of(dataset) == ["p", "q", "r", "s"]
    assert names_of(from_tables(NODES.drop(columns="id"), edges((0, 3)), id=None)) == [0, 1, 2, 3]
    both = TWO.set_index(["g", "id"])
    assert len(from_tables(both, EDGES.iloc[:1], graph="g")) == 2


def test_tables_are_left_as_they_were() -> None:
    nodes, edge_table = TWO.copy(), EDGES.copy()
    from_tables(nodes, edge_table.iloc[:1], graph="g")
    pd.testing.assert_frame_equal(nodes, TWO)
    pd.testing.assert_frame_equal(edge_table, EDGES)


def test_vertices_keep_the_order_of_rows_and_graphs_that_of_appearance() -> None:
    nodes = TWO.assign(g=["z", "b", "z", "b"])
    dataset = from_tables(nodes, edges(("s", "q"), ("p", "r")), graph="g", directed=True)
    assert dataset.graph_names is not None
    assert dataset.graph_names.tolist() == ["z", "b"]
    assert names_of(dataset) == ["p", "r", "q", "s"]
    assert [graph.edge_index.tolist() for graph in dataset] == [[[0], [1]], [[1], [0]]]


def test_ids_are_looked_up_within_the_graph() -> None:
    nodes = pd.DataFrame({"id": [1, 2, 2, 1], "g": ["x", "x", "y", "y"], "a": [0.5, 1.5, 2.5, 3.5]})
    dataset = from_tables(nodes, edges((1, 2), (1, 2), g=["y", "x"]), graph="g", directed=True)
    assert [graph.edge_index.tolist() for graph in dataset] == [[[0], [1]], [[1], [0]]]
    # Without the column, ids that no edge names may repeat.
    other = nodes.assign(id=[1, 2, 2, 3])
    assert edge_counts(from_tables(other, edges((3, 3)), graph="g")[1]) == {(1, 1): 1}


def test_directions() -> None:
    table = edges(("p", "q"), ("r", "r"), ("s", "p"), one_way=[False, False, True])
    assert edge_counts(from_tables(NODES, table, ignore=["one_way"])[0]) == dict.fromkeys(
        [(0, 1), (1, 0), (2, 2), (3, 0), (0, 3)], 1
    )
    assert edge_counts(from_tables(NODES, table, directed=True, ignore=["one_way"])[0]) == dict.fromkeys(
        [(0, 1), (2, 2), (3, 0)], 1
    )
    for flags in ([False, False, True], [0, 0, 1], pd.array([False, False, True], dtype="boolean")):
        mixed = from_tables(NODES, table.assign(one_way=flags), directed="one_way")
        assert edge_counts(mixed[0]) == dict.fromkeys([(0, 1), (1, 0), (2, 2), (3, 0)], 1)


def test_repeats_count_if_asked_for() -> None:
    table = edges(("p", "q"), ("q", "p"), ("p", "p"), ("p", "p"))
    assert edge_counts(from_tables(NODES, table, parallel=True)[0]) == {(0, 1): 2, (1, 0): 2, (0, 0): 2}
    assert edge_counts(from_tables(NODES, table[:2], directed=True)[0]) == {(0, 1): 1, (1, 0): 1}
    typed = edges(("p", "q"), ("q", "p"), kind=["friend", "colleague"])
    assert from_tables(NODES, typed, edge_type="kind")[0].num_edges == 4
    same_ids = pd.DataFrame({"id": [1, 2, 1, 2], "g": [0, 0, 1, 1], "a": [0.5, 1.5, 2.5, 3.5]})
    assert len(from_tables(same_ids, edges((1, 2), (1, 2), g=[0, 1]), graph="g").source) == 4


def test_an_undirected_edge_may_be_named_from_both_ends(caplog: pytest.LogCaptureFixture) -> None:
    table = edges(("p", "q"), ("r", "p"), ("q", "p"), ("r", "r"), ("p", "r"))
    once = edge_counts(from_tables(NODES, table)[0])
    assert once == edge_counts(from_tables(NODES, edges(("p", "q"), ("r", "p"), ("r", "r")))[0])
    assert "2 edges are named from both ends and count once" in caplog.text
    typed = edges(("p", "q"), ("q", "p"), ("q", "r"), ("r", "q"), kind=["a", "b", "a", "a"])
    assert from_tables(NODES, typed, edge_type="kind")[0].edge_type.tolist() == [0, 1, 0, 1, 0, 0]


def test_edge_types(caplog: pytest.LogCaptureFixture) -> None:
    table = edges(("p", "q"), ("q", "r"), ("r", "s"), bond=["single", "double", "single"])
    with caplog.at_level(logging.INFO, logger="gspn"):
        assert from_tables(NODES, table, edge_type="bond")[0].edge_type.tolist() == [1, 1, 0, 0, 1, 1]
    assert "edge types by code: 0 = 'double', 1 = 'single'" in caplog.text
    ordered = from_tables(NODES, table, edge_type="bond", edge_types=["single", "triple", "double"], directed=True)
    assert ordered[0].edge_type.tolist() == [0, 2, 0]
    declared = table.assign(bond=pd.Categorical(table["bond"], ["triple", "single", "double"]))
    assert from_tables(NODES, declared, edge_type="bond", directed=True)[0].edge_type.tolist() == [1, 2, 1]
    nodes, back = to_tables(ordered, edge_types=["single", "triple", "double"], directed=True, edge_type="bond")
    assert back["bond"].tolist() == ["single", "double", "single"]
    assert_same(
        from_tables(nodes.drop(columns="graph"), back.drop(columns="graph"), edge_type="bond", directed=True), ordered
    )


@pytest.mark.parametrize("table", [None, EDGES.iloc[:0], EDGES.iloc[:0].assign(kind=pd.Series(dtype=object))])
def test_no_edges(table: Any) -> None:
    kind = "kind" if table is not None and "kind" in table else None
    dataset = from_tables(TWO, table, graph="g", edge_type=kind)
    assert dataset.num_edges_per_graph().tolist() == [0, 0]
    assert (dataset.edge_type is None) == (kind is None)
    assert len(to_tables(dataset)[1]) == 0
    assert from_tables(NODES, None, edge_type="kind").edge_type is not None


def test_vertex_targets() -> None:
    nodes = NODES.assign(label=["b", None, "a", "b"], score=[0.5, np.nan, 2.0, 3.0])
    dataset = from_tables(nodes, None, y="label", ignore=["score"])
    assert dataset.target == Categorical("label", ["a", "b"])
    assert dataset.target_level == "vertex"
    np.testing.assert_equal(targets_of(dataset), [1, np.nan, 0, 1])
    assert dataset.schema == ONE
    named = Categorical("kind", ["b", "a"])
    assert targets_of(from_tables(nodes, None, ONE, y="label", target_attribute=named, ignore="score"))[0] == 0
    several = from_tables(nodes, None, y=["label", "score"])
    assert several.target == Schema([Categorical("label", ["a", "b"]), Continuous("score")])
    assert several[0].y.shape == (4, 2)
    assert from_tables(nodes, None, y=["score"], ignore="label")[0].y.shape == (4, 1)


def test_few_whole_numbers_are_amounts_of_vertices_and_classes_of_targets() -> None:
    nodes = NODES[["id"]].assign(floor=[3, 1, 2, 1], grade=[3, 1, 2, 1])
    dataset = from_tables(nodes, None, y="grade")
    assert dataset.schema == Schema([Continuous("floor")])
    assert dataset.target == Categorical("grade", [1, 2, 3])
    said = from_tables(nodes, None, y="grade", overrides={"floor": "categorical"})
    assert said.schema == Schema([Categorical("floor", [1, 2, 3])])


def test_vertex_targets_follow_their_rows() -> None:
    nodes = TWO.assign(g=["z", "b", "z", "b"], label=[0.5, 1.5, 2.5, 3.5])
    dataset = from_tables(nodes, None, graph="g", y="label")
    assert [graph.y.tolist() for graph in dataset] == [[0.5, 2.5], [1.5, 3.5]]


@pytest.mark.parametrize(
    "targets",
    [
        pd.Series([0.25, 0.5], index=["two", "one"], name="score"),
        pd.DataFrame({"score": [0.25, 0.5], "g": ["two", "one"]}),
        pd.DataFrame({"score": [0.25, 0.5]}, index=pd.Index(["two", "one"], name="g")),
    ],
)
def test_graph_targets(targets: Any) -> None:
    dataset = from_tables(TWO, None, graph="g", targets=targets)
    assert dataset.target == Continuous("score")
    assert dataset.target_level == "graph"
    assert targets_of(dataset) == [0.5, 0.25]
    np.testing.assert_equal(targets_of(from_tables(TWO, None, graph="g", targets=targets[:1])), [np.nan, 0.25])


def test_several_graph_targets() -> None:
    targets = pd.DataFrame({"g": ["one"], "label": ["x"], "score": [0.5], "note": ["?"]})
    dataset = from_tables(TWO, None, graph="g", targets=targets, ignore="note")
    assert dataset.target == Schema([Categorical("label", ["x"]), Continuous("score")])
    np.testing.assert_equal(targets_of(dataset), [[0, 0.5], [np.nan, np.nan]])
    unnamed = from_tables(TWO, None, graph="g", targets=pd.Series([0.5], index=["two"]))
    assert unnamed.target == Continuous("y")
