"""Edges in every form that people have them in make the same graph, or are refused with a reason."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import coo_array, csr_matrix

import gspn
from gspn.errors import InputError

IDS = ["p", "q", "r", "s"]
NODES = pd.DataFrame({"id": IDS, "a": [0.5, np.nan, 2.5, 1.0]}, index=[7, 5, 3, 1])
PAIRS = [("p", "q"), ("r", "q"), ("s", "r")]
TABLE = pd.DataFrame(PAIRS, columns=["source", "target"])
SOURCE, TARGET = ([IDS.index(ends[side]) for ends in PAIRS] for side in (0, 1))
ONE_WAY = np.array([SOURCE, TARGET])


def matrix(weights: Any = 1.0, both: bool = True) -> csr_matrix:
    """A[i, j]: i receives from j."""
    found = np.zeros((4, 4))
    found[TARGET, SOURCE] = weights
    return csr_matrix(found + found.T if both else found)


class Weights:
    """As libpysal's, with rows in an order of their own."""

    def __init__(self, names: list[Any], order: list[int]) -> None:
        self.id_order = [names[row] for row in order]
        self.sparse = matrix()[order][:, order]


def edges_of(dataset: gspn.GraphDataset) -> list[tuple[int, int]]:
    return sorted(zip(*dataset[0].edge_index.tolist(), strict=True))


UNDIRECTED: dict[str, Callable[[], Any]] = {
    "pairs": lambda: PAIRS,
    "pairs, lists": lambda: [list(pair) for pair in PAIRS],
    "one way": lambda: ONE_WAY,
    "both ways": lambda: np.concatenate([ONE_WAY, ONE_WAY[::-1]], axis=1),
    "edge_index": lambda: torch.tensor(np.concatenate([ONE_WAY, ONE_WAY[::-1]], axis=1)),
    "matrix": matrix,
    "matrix, one way": lambda: matrix(both=False),
    "sparse array": lambda: coo_array(matrix()),
    "weights by id": lambda: Weights(IDS, [2, 0, 3, 1]),
    "weights by label": lambda: Weights([7, 5, 3, 1], [3, 1, 0, 2]),
    "weights by number": lambda: Weights([7, 5, 3, 1], [0, 1, 2, 3]),
    "NetworkX": lambda: nx.Graph(PAIRS),
    "NetworkX, directed": lambda: nx.DiGraph(PAIRS),
}


@pytest.mark.parametrize("form", UNDIRECTED)
def test_every_form_makes_the_same_graph(form: str, caplog: pytest.LogCaptureFixture) -> None:
    found = gspn.from_tables(NODES, UNDIRECTED[form]())
    wanted = gspn.from_tables(NODES, TABLE)
    assert edges_of(found) == edges_of(wanted)
    assert torch.equal(found.source, wanted.source)
    assert torch.equal(found.row_ptr, wanted.row_ptr)
    assert not caplog.records


@pytest.mark.parametrize(
    "edges",
    [ONE_WAY, torch.tensor(ONE_WAY), matrix(both=False), PAIRS, nx.DiGraph(PAIRS)],
    ids=["array", "tensor", "matrix", "pairs", "NetworkX"],
)
def test_directions_are_kept_where_rows_are_directed(edges: Any) -> None:
    assert edges_of(gspn.from_tables(NODES, edges, directed=True)) == sorted(zip(SOURCE, TARGET, strict=True))


@pytest.mark.parametrize("edges", [[], np.zeros((2, 0)), csr_matrix((4, 4)), nx.Graph()])
def test_no_edges_in_every_form(edges: Any) -> None:
    assert not len(gspn.from_tables(NODES, edges).source)


def test_other_names_and_several_graphs() -> None:
    nodes = pd.DataFrame({"key": [1, 2, 1, 2], "g": ["u", "u", "v", "v"], "a": [0.5, 1.5, 2.5, 3.5]})
    found = gspn.from_tables(nodes, np.array([[0, 3], [1, 2]]), id="key", graph="g", source="from", target="to")
    assert [edges_of(found[[number]]) for number in (0, 1)] == [[(0, 1), (1, 0)]] * 2
    with pytest.raises(InputError, match="an edge joins 2 and 1, which are of different graphs"):
        gspn.from_tables(nodes, np.array([[1], [2]]), id="key", graph="g")


def test_ids_may_be_the_index() -> None:
    nodes = pd.DataFrame({"a": [0.5, 1.5, 2.5]}, index=["x", "y", "z"])
    assert edges_of(gspn.from_tables(nodes, [("x", "z")], id=None)) == [(0, 2), (2, 0)]


def test_weights_are_left_out_with_a_warning_unless_they_say_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="gspn"):
        gspn.from_tables(NODES, matrix(3.0))
        shares = matrix().toarray()
        gspn.from_tables(NODES, csr_matrix(shares / shares.sum(1, keepdims=True)))
        assert not caplog.records
        gspn.from_tables(NODES, matrix([1.0, 2.0, 3.0]))
    assert "weights of the edges are left out" in caplog.text


def test_parallel_edges_are_an_error_unless_they_are_kept() -> None:
    twice = np.concatenate([ONE_WAY, ONE_WAY[:, :1]], axis=1)
    with pytest.raises(InputError, match="repeats the edge 'p'–'q'"):
        gspn.from_tables(NODES, twice)
    assert len(gspn.from_tables(NODES, twice, parallel=True).source) == 8


@pytest.mark.parametrize(
    ("edges", "reason"),
    [
        (np.zeros((3, 2), dtype=int), r"shape \[2, E\], sources above targets, got \[3, 2\]"),
        (np.array([[0.5], [1.0]]), "holds row numbers of the vertices, got float64"),
        (np.array([[0, 4], [1, 1]]), "edges, column 1: source 4 is no row of the 4 vertices"),
        (np.array([[0, 1], [1, -1]]), "edges, column 1: target -1 is no row of the 4 vertices"),
        (csr_matrix((3, 4)), r"a row for each of the 4 vertices, got shape \(3, 4\)"),
        ([("p", "q"), ("p",)], "edges, entry 1: expected a pair of ids"),
        (["pq"], "edges, entry 0: expected a pair of ids, got 'pq'"),
        ([("p", "z")], "target 'z' is no id of nodes"),
        (Weights(["p", "q", "r", "z"], [0, 1, 2, 3]), "edges name the vertex 'p'|edges name the vertex 'z'"),
        (7, "edges must be a DataFrame, a path, a .* got 7 of type int"),
    ],
)
def test_refusals(edges: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        gspn.from_tables(NODES, edges)


def test_a_column_of_directions_needs_a_table() -> None:
    with pytest.raises(InputError, match="directed='d' names a column, but edges are no table"):
        gspn.from_tables(NODES, PAIRS, directed="d")
