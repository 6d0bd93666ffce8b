"""The graph in numbers, against NetworkX and against graphs whose likeness is known."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
import torch

import gspn
from gspn.attributes import Categorical, Continuous, Schema
from gspn.reports.surroundings import describe

SCHEMA = Schema([Categorical("team", ("a", "b", "c")), Continuous("size")])


def random_graph(seed: int = 3) -> tuple[nx.Graph, gspn.GraphDataset]:
    graph = nx.gnm_random_graph(60, 70, seed=seed)
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.integers(3, size=60), rng.normal(size=60)])
    for vertex in graph:
        graph.nodes[vertex].update(team=int(x[vertex, 0]), size=float(x[vertex, 1]))
    pairs = np.array(list(graph.edges)).T
    edges = torch.from_numpy(np.concatenate([pairs, pairs[::-1]], axis=1))
    return graph, gspn.from_arrays(torch.from_numpy(x), edges, schema=SCHEMA)


def test_sizes_are_those_of_networkx() -> None:
    graph, dataset = random_graph()
    found = describe(dataset)
    parts = list(nx.connected_components(graph))
    assert (found.vertices, found.edges, found.directed) == (60, 70, False)
    assert (found.parts, found.largest) == (len(parts), max(map(len, parts)))
    assert found.alone == sum(degree == 0 for _, degree in graph.degree)
    assert found.degrees.tolist() == [degree for _, degree in graph.degree]


def test_likeness_is_assortativity() -> None:
    graph, dataset = random_graph()
    team, size = describe(dataset).likeness
    assert team.value == pytest.approx(nx.attribute_assortativity_coefficient(graph, "team"))
    assert size.value == pytest.approx(nx.numeric_assortativity_coefficient(graph, "size"))
    # Values are random, so this is chance; 2.5 deviations hold 99 % of such graphs, this one among them.
    assert team.words == size.words == "no more alike than any two"


def test_neighbours_that_are_alike_are_told() -> None:
    x = torch.tensor([[0.0, 1.0]] * 20 + [[1.0, 5.0]] * 20)
    ring = [[i, i + 1] for i in [*range(19), *range(20, 39)]]
    edges = torch.tensor([*ring, *([v, u] for u, v in ring)]).T
    for one in describe(gspn.from_arrays(x, edges, schema=SCHEMA)).likeness:
        assert one.value == pytest.approx(1.0)
        assert one.words == "much alike"


def test_what_is_not_known_counts_nowhere() -> None:
    x = torch.tensor([[0.0, math.nan], [0.0, 1.0], [1.0, math.nan]])
    found = describe(gspn.from_arrays(x, torch.tensor([[0, 1], [1, 2]]), schema=SCHEMA))
    assert found.directed
    assert found.edges == 2
    team, size = found.likeness
    assert team.pairs == 2
    assert math.isnan(size.value)
    assert "cannot be told" in size.words


def test_rows_alone_have_no_likeness() -> None:
    found = describe(gspn.from_arrays(torch.zeros(4, 2), schema=SCHEMA))
    assert (found.edges, found.parts, found.alone, found.likeness) == (0, 4, 4, ())
