"""Small packed datasets of every kind for property tests of conversions, and what it means that nothing was lost."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torch_geometric.data import Data

from gspn.attributes import Attribute, Binary, Categorical, Continuous, Count, Schema
from gspn.convert.values import name_array
from gspn.graphs.dataset import GraphDataset
from gspn.graphs.pack import packed

SCHEMA = Schema(
    [
        Continuous("charge", floor=0.01),
        Categorical("element", ["C", "N", "NA", "Cl"]),
        Categorical("ring size", [6, 5, 0]),
        Binary("aromatic"),
        Count("hydrogens", distribution="negative_binomial"),
    ]
)
TARGETS: tuple[Attribute | Schema, ...] = (
    Continuous("energy"),
    Categorical("class", ["b", "a"]),
    Binary("toxic"),
    Count("rings"),
    Schema([Binary("toxic"), Continuous("energy")]),
)
_VALUES: dict[type, st.SearchStrategy[float]] = {
    Continuous: st.floats(-1e6, 1e6) | st.integers(-3, 3).map(float),
    Binary: st.sampled_from([0.0, 1.0]),
    Count: st.integers(0, 2**53 - 1).map(float),
}
NAMES = st.one_of(
    st.integers(-5, 20), st.text(min_size=1, max_size=3), st.tuples(st.integers(0, 2), st.text(max_size=1))
)


def _rows(draw: st.DrawFn, attributes: Schema, count: int) -> np.ndarray[Any, Any]:
    x = np.full((count, len(attributes)), np.nan)
    for column, attribute in enumerate(attributes):
        if isinstance(attribute, Categorical):
            values = st.integers(0, len(attribute.categories) - 1).map(float)
        else:
            values = _VALUES[type(attribute)]
        x[:, column] = draw(st.lists(values | st.just(np.nan), min_size=count, max_size=count))
    return x


@st.composite
def datasets(draw: st.DrawFn, names: st.SearchStrategy[Any] = NAMES, max_graphs: int = 3) -> GraphDataset:
    """Graphs with parallel edges, loops and opposite pairs; types, targets and names as it happens."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=max_graphs))
    edges, edge_sizes = [], []
    for size in sizes:
        vertex = st.integers(0, size - 1)
        one_way = draw(st.lists(st.tuples(vertex, vertex), max_size=6))
        both = draw(st.lists(st.tuples(vertex, vertex), max_size=4))
        own = draw(st.permutations(one_way + both + [(v, u) for u, v in both if u != v]))
        edges += own
        edge_sizes.append(len(own))
    level = draw(st.sampled_from([None, "graph", "vertex"]))
    y, target = None, None
    if level is not None:
        target = draw(st.sampled_from(TARGETS))
        kinds = target if isinstance(target, Schema) else Schema([target])
        values = _rows(draw, kinds, sum(sizes) if level == "vertex" else len(sizes))
        y = torch.from_numpy(values if isinstance(target, Schema) else values[:, 0])
    called = [draw(st.lists(names, min_size=size, max_size=size, unique=True)) for size in sizes]
    titles = draw(st.lists(names, min_size=len(sizes), max_size=len(sizes), unique=True))
    types = draw(st.none() | st.lists(st.sampled_from([0, 2, 3]), min_size=len(edges), max_size=len(edges)))
    return packed(
        SCHEMA,
        torch.from_numpy(_rows(draw, SCHEMA, sum(sizes))),
        torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T.contiguous(),
        torch.tensor([0, *sizes]).cumsum(0),
        torch.tensor([0, *edge_sizes]).cumsum(0),
        edge_type=None if types is None else torch.tensor(types, dtype=torch.long),
        y=y,
        target=target,
        target_level=level,
        vertex_names=name_array(name for own in called for name in own),
        graph_names=name_array(titles),
    )


def undirected(dataset: GraphDataset) -> GraphDataset:
    """The dataset with every edge both ways; loops stay."""
    edges, sizes, types = [], [], []
    for graph in dataset:
        straight = graph.edge_index[:, graph.edge_index[0] != graph.edge_index[1]]
        edges.append(torch.cat([graph.edge_index, straight.flip(0)], dim=1))
        sizes.append(edges[-1].shape[1])
        if dataset.edge_type is not None:
            types.append(torch.cat([graph.edge_type, graph.edge_type[graph.edge_index[0] != graph.edge_index[1]]]))
    return packed(
        dataset.schema,
        dataset.x,
        torch.cat(edges, dim=1),
        dataset.vertex_ptr,
        torch.tensor([0, *sizes]).cumsum(0),
        edge_type=None if dataset.edge_type is None else torch.cat(types),
        **{name: getattr(dataset, name) for name in ("y", "target", "target_level", "vertex_names", "graph_names")},
    )


def edge_counts(graph: Data) -> Counter[tuple[int, ...]]:
    """The edges of a graph with their types and multiplicities."""
    rows = [graph.edge_index[0], graph.edge_index[1]]
    if "edge_type" in graph:
        rows.append(graph.edge_type)
    return Counter(map(tuple, torch.stack(rows).T.tolist()))


def assert_same(found: GraphDataset, expected: GraphDataset, *, in_order: bool = False) -> None:
    """Same vertices, values, edges (as multisets, or in order), targets and names."""
    assert found.schema == expected.schema
    assert len(found) == len(expected)
    assert found.target_level == expected.target_level
    assert found.target == expected.target
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.x, theirs.x, rtol=0, atol=0, equal_nan=True)
        assert edge_counts(ours) == edge_counts(theirs)
        if in_order:
            assert torch.equal(ours.edge_index, theirs.edge_index)
        assert ("y" in ours) == ("y" in theirs)
        if "y" in theirs:
            torch.testing.assert_close(ours.y, theirs.y, rtol=0, atol=0, equal_nan=True, check_dtype=False)
    assert (found.edge_type is None) == (expected.edge_type is None)
    for names in ("vertex_names", "graph_names"):
        ours, theirs = getattr(found, names), getattr(expected, names)
        assert (ours is None) == (theirs is None)
        if theirs is not None:
            assert list(map(repr, ours.tolist())) == list(map(repr, theirs.tolist()))
