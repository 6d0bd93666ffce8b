"""Weisfeiler-Lehman subtrees against colours made literally, by dictionaries and sorted lists."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from small_graphs import EVERY_KIND, draw_graphs
from torch_geometric.data import Data

from gspn import Categorical, Schema, pack
from gspn.baselines.subtrees import Subtrees

ELEMENT = Schema([Categorical("element", ["C", "N", "O"])])


def literal(graph: Data, rounds: int) -> Counter[Any]:
    """Nested tuples in place of hashes."""
    colours: list[Any] = [(0, tuple(-1.0 if np.isnan(x) else x for x in row)) for row in graph.x.tolist()]
    found = Counter(colours)
    types = graph.edge_type.tolist() if graph.get("edge_type") is not None else [0] * graph.num_edges
    for number in range(1, rounds + 1):
        heard: list[list[Any]] = [[] for _ in colours]
        for (source, target), kind in zip(graph.edge_index.T.tolist(), types, strict=True):
            heard[target].append((kind, colours[source]))
        colours = [(number, own, tuple(sorted(some, key=repr))) for own, some in zip(colours, heard, strict=True)]
        found += Counter(colours)
    return found


@pytest.mark.parametrize("edge_types", [0, 3])
def test_counts_are_those_of_literal_colours(edge_types: int) -> None:
    drawn = draw_graphs(12, seed=0, edge_types=edge_types, missing=0.2)
    graphs = [Data(x=g.x[:, 1:2], edge_index=g.edge_index, edge_type=g.get("edge_type")) for g in drawn]
    dataset = pack(graphs, ELEMENT)
    counts = Subtrees.of(ELEMENT, dataset.entries(), 3).count(dataset)
    rows = [literal(graph, 3) for graph in graphs]
    matrix = counts.matrix(counts.vocabulary()).toarray()
    # Similarities do not depend on what colours are called.
    expected = [[sum(one[c] * other[c] for c in one) for other in rows] for one in rows]
    np.testing.assert_array_equal(matrix @ matrix.T, expected)
    np.testing.assert_allclose(counts.lengths(), np.sqrt(np.diag(expected)))
    assert matrix.shape[1] == len({colour for row in rows for colour in row})


def test_the_same_whatever_order_and_company() -> None:
    drawn = draw_graphs(10, seed=1)
    dataset = pack(drawn, EVERY_KIND)
    subtrees = Subtrees.of(EVERY_KIND, dataset.entries(), 2)
    vocabulary = subtrees.count(dataset).vocabulary()
    order = torch.randperm(drawn[0].num_nodes, generator=torch.Generator().manual_seed(0))
    permuted = Data(x=drawn[0].x[order], edge_index=torch.argsort(order)[drawn[0].edge_index])
    alone = subtrees.count(pack([permuted], EVERY_KIND)).matrix(vocabulary).toarray()
    np.testing.assert_array_equal(alone[0], subtrees.count(dataset).matrix(vocabulary).toarray()[0])


def test_parts_of_numbers_come_from_training_entries() -> None:
    """Few values are told apart as they are, many in ten parts; what was never seen falls into the nearest part."""
    many = torch.arange(100.0, dtype=torch.float64)
    few = (many % 3) * 10
    from gspn import Continuous, Count

    schema = Schema([Continuous("many"), Count("few")])
    subtrees = Subtrees.of(schema, torch.stack([many, few], dim=1), 0)
    x = torch.tensor([[1.0, 0.0], [2.0, 0.0], [99.0, 0.0], [1e6, 0.0], [1.0, 10.0], [1.0, torch.nan]])
    batch = pack([Data(x=x, edge_index=torch.empty(2, 0, dtype=torch.long))], schema).batch(torch.tensor([0]))
    (colours,) = subtrees.colours(batch)
    assert colours[0] == colours[1]
    assert colours[2] == colours[3]
    assert len(set(colours.tolist())) == 4


def test_the_vocabulary_is_of_frequent_ones() -> None:
    dataset = pack(draw_graphs(30, seed=2), EVERY_KIND)
    counts = Subtrees.of(EVERY_KIND, dataset.entries(), 1).count(dataset)
    present = (counts.matrix(counts.vocabulary()).toarray() > 0).sum(0)
    least = counts.vocabulary(least=3)
    assert len(least) == (present >= 3).sum()
    assert ((counts.matrix(least).toarray() > 0).sum(0) >= 3).all()
    most = counts.vocabulary(most=4)
    assert sorted((counts.matrix(most).toarray() > 0).sum(0)) == sorted(present)[-4:]
