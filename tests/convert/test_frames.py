"""To tables: round trips, types of columns, tables of results, and every refusal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from small_datasets import SCHEMA, assert_same, datasets, undirected
from small_graphs import EVERY_KIND, draw_graphs
from small_tables import NODES, TWO, edges, read_back

from gspn.convert.frames import from_tables, graph_table, to_tables, vertex_table
from gspn.convert.networkx import from_networkx, to_networkx
from gspn.errors import InputError
from gspn.graphs.dataset import GraphDataset
from gspn.graphs.pack import pack


@given(datasets(), st.sampled_from([True, "one way"]))
def test_round_trip(dataset: GraphDataset, directed: bool | str) -> None:
    nodes, edge_table = to_tables(dataset, directed=directed)
    again = read_back(dataset, nodes, edge_table, graph_table(dataset), directed=directed)
    assert_same(again, dataset, in_order=directed is True)


@given(datasets())
def test_round_trip_of_undirected_graphs(dataset: GraphDataset) -> None:
    dataset = undirected(dataset)
    nodes, edge_table = to_tables(dataset)
    assert len(edge_table) < int(dataset.num_edges_per_graph().sum()) or bool(
        (edge_table.source == edge_table.target).all()
    )
    assert_same(read_back(dataset, nodes, edge_table, graph_table(dataset)), dataset)


def test_types_of_the_columns() -> None:
    x = torch.tensor([[0.5, 1, 2, 1, 3], [torch.nan] * 5], dtype=torch.float64)
    dataset = from_tables(pd.DataFrame(SCHEMA.decode(x)), None, SCHEMA, id=None)
    nodes, edge_table = to_tables(dataset)
    assert nodes.columns.tolist() == ["graph", "id", *SCHEMA.names]
    assert nodes.dtypes.astype(str).tolist() == [
        "int64",
        "int64",
        "float64",
        "category",
        "category",
        "boolean",
        "Int64",
    ]
    assert nodes["element"].cat.categories.tolist() == ["C", "N", "NA", "Cl"]
    assert nodes.iloc[0].tolist() == [0, 0, 0.5, "N", 0, True, 3]
    assert nodes.iloc[1, 2:].isna().all()
    assert edge_table.columns.tolist() == ["graph", "source", "target"]
    assert to_tables(dataset, graph=None)[0].columns.tolist() == ["id", *SCHEMA.names]
    assert to_tables(LABELLED, y="label")[0].columns.tolist() == ["graph", "id", "a", "label"]
    assert_same(from_tables(*to_tables(dataset, graph=None), SCHEMA), dataset)


ONE_WAY = from_tables(TWO, edges(("p", "q")), graph="g", directed=True)
CALLED_R = replace(ONE_WAY, vertex_names=np.array(["r", "q", "r", "r"], dtype=object))
LABELLED = from_tables(NODES.assign(b=1.5), None, y="b")
TYPED = from_tables(NODES, edges(("p", "q"), k=["x"]), edge_type="k")
TWO_GRAPHS = from_tables(TWO, None, graph="g")
OF_GRAPHS = from_tables(TWO, None, graph="g", targets=pd.Series(["x", "y"], index=["one", "two"], name="label"))


@pytest.mark.parametrize(
    ("call", "named"),
    [
        refused("graph 'one': the edge 'p' → 'q' has no opposite edge; pass directed=True", to_tables, ONE_WAY),
        refused("directed must be True, False or the name of a column, got 1", to_tables, ONE_WAY, directed=1),
        refused("graph=None .* there are 2 graphs", to_tables, ONE_WAY, graph=None, directed=True),
        refused("two columns would be called 'a'", to_tables, ONE_WAY, id="a", directed=True),
        refused("two columns of edges have the same name", to_tables, ONE_WAY, source="target", directed=True),
        refused("two graphs are called 'one'", to_tables, ONE_WAY[[0, 0]], directed=True),
        refused("two vertices of graph 'two' are called 'r'", to_tables, CALLED_R, directed=True),
        refused("edge_types names 0 types, but the dataset has codes up to 0", to_tables, TYPED, edge_types=[]),
        refused("y must name the 1 column of targets, got 3", to_tables, LABELLED, y=3),
        refused("two columns would be called 'a'", to_tables, LABELLED, y="a"),
        refused(r"'r': there are 4 vertices, .*\[3\]", vertex_table, TWO_GRAPHS, {"r": torch.zeros(3)}),
        refused(r"'r': there are 4 vertices, .*\[4, 1, 1\]", vertex_table, TWO_GRAPHS, {"r": torch.zeros(4, 1, 1)}),
        refused("'r': there are 2 graphs, but 1 arrays", vertex_table, TWO_GRAPHS, {"r": [torch.zeros(4)]}),
        refused(r"'r', graph 1: .*\[2\], got \[3\]", vertex_table, TWO_GRAPHS, {"r": [np.ones(2), np.ones(3)]}),
        refused(r"\[2, 2\], got \[2, 3\]", vertex_table, TWO_GRAPHS, {"r": [np.ones((2, 2)), np.ones((2, 3))]}),
        refused("two columns would be called 'id'", vertex_table, TWO_GRAPHS, {"id": torch.zeros(4)}),
        refused(r"'r': there are 2 graphs, .*\[3\]", graph_table, TWO_GRAPHS, {"r": [1, 2, 3]}),
        refused("two columns would be called 'graph'", graph_table, OF_GRAPHS, y="graph"),
    ],
)
def test_refusals(call: Callable[[], object], named: str) -> None:
    with pytest.raises(InputError, match=named):
        call()


def test_datasets_without_names_are_numbered() -> None:
    graphs = draw_graphs(3, seed=1)
    for i, graph in enumerate(graphs):
        graph.y = torch.tensor([i])
    dataset = pack(graphs, EVERY_KIND)
    nodes, edge_table = to_tables(dataset, directed=True)
    assert nodes["graph"].unique().tolist() == [0, 1, 2]
    assert nodes["id"][nodes["graph"] == 1].tolist() == list(range(graphs[1].num_nodes))
    assert graph_table(dataset)["y"].tolist() == [0, 1, 2]
    again = from_tables(nodes, edge_table, EVERY_KIND, graph="graph", directed=True, parallel=True)
    assert again.digest() == replace(dataset, y=None, target_level=None).digest()
    several = replace(dataset, y=torch.zeros(3, 2))
    assert graph_table(several).columns.tolist() == ["graph", "y0", "y1"]


def test_results_of_vertices() -> None:
    dataset = from_tables(TWO.assign(g=["z", "b", "z", "b"]), None, graph="g")
    table = vertex_table(
        dataset,
        {
            "log_likelihood": [torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])],
            "flat": torch.arange(4),
            "plain": [1, 2, 3, 4],
            "guess": np.array(["C", "N", "O", "C"]),
            "embedding": [np.zeros((2, 2)), np.ones((2, 2))],
        },
    )
    assert table.columns.tolist() == [
        *["graph", "id", "log_likelihood", "flat", "plain", "guess", "embedding_0", "embedding_1"]
    ]
    assert table["id"].tolist() == ["p", "r", "q", "s"]
    assert table["graph"].tolist() == ["z", "z", "b", "b"]
    assert table["log_likelihood"].tolist() == [1, 2, 3, 4]
    assert table["embedding_1"].tolist() == [0, 0, 1, 1]
    assert vertex_table(dataset[[1]], {"r": [torch.zeros(2)]})["id"].tolist() == ["q", "s"]
    # Names that repeat are no obstacle: nothing is read back.
    assert len(vertex_table(dataset[[1, 1]], {"r": torch.zeros(4)})) == 4


def test_results_of_graphs() -> None:
    table = graph_table(OF_GRAPHS, {"predicted": ["y", "y"], "p": torch.tensor([[0.25, 0.75], [0.5, 0.5]])}, y="truth")
    assert table.columns.tolist() == ["graph", "truth", "predicted", "p_0", "p_1"]
    assert table["truth"].tolist() == ["x", "y"]
    assert table["p_1"].tolist() == [0.75, 0.5]


def test_large_tables() -> None:
    """A loop over rows that asks a table for each would take minutes here."""
    rng = np.random.default_rng(0)
    n = 100_000
    ids = np.array([f"v{i}" for i in range(n)], dtype=object)
    nodes = pd.DataFrame(
        {"id": ids, "g": rng.permutation(n) // 100, "a": rng.normal(size=n), "b": rng.integers(2, size=n)}
    )
    by_graph = np.argsort(nodes["g"].to_numpy(), kind="stable").reshape(-1, 100)
    pairs = by_graph[:, rng.permutation(100)]
    table = pd.DataFrame({"source": ids[pairs[:, :-1].ravel()], "target": ids[pairs[:, 1:].ravel()]})
    dataset = from_tables(nodes, table, graph="g")
    nodes_again, edges_again = to_tables(dataset)
    assert len(dataset) == n // 100
    assert dataset.num_edges_per_graph().unique().tolist() == [198]
    assert len(nodes_again) == n
    assert len(edges_again) == len(table)


def test_names_of_edge_types_survive() -> None:
    """A bond that was "double" is "double" again, without being told."""
    nodes = pd.DataFrame({"id": ["a", "b", "c"], "size": [1.5, 2.5, 3.5]})
    bonds = pd.DataFrame({"source": ["a", "b"], "target": ["b", "c"], "bond": ["double", "single"]})
    dataset = from_tables(nodes, bonds, edge_type="bond")
    assert dataset.edge_types == ("double", "single")
    assert dataset[[0]].edge_types == dataset.edge_types
    _, written = to_tables(dataset, edge_type="bond")
    assert written["bond"].tolist() == ["double", "single"]
    (graph,) = to_networkx(dataset, edge_type="bond")
    assert {bond for _, _, bond in graph.edges(data="bond")} == {"double", "single"}
    assert from_networkx(graph, edge_type="bond").edge_types == dataset.edge_types
