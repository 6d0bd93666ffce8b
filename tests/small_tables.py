"""Small tables of vertices and edges for tests of the ways in and out of tables."""

from __future__ import annotations

from typing import Any

import pandas as pd

from gspn.attributes import Continuous, Schema
from gspn.convert.frames import from_tables
from gspn.graphs.dataset import GraphDataset

ONE = Schema([Continuous("a")])
NODES = pd.DataFrame({"id": ["p", "q", "r", "s"], "a": [0.5, 1.5, 2.5, 3.5]})
EDGES = pd.DataFrame({"source": ["p", "q"], "target": ["q", "r"]})
TWO = NODES.assign(g=["one", "one", "two", "two"])


def edges(*pairs: tuple[Any, Any], **columns: Any) -> Any:
    """A table of edges."""
    return pd.DataFrame({"source": [u for u, _ in pairs], "target": [v for _, v in pairs], **columns})


def names_of(dataset: GraphDataset) -> list[Any]:
    assert dataset.vertex_names is not None
    return list(dataset.vertex_names.tolist())


def graph_names_of(dataset: GraphDataset) -> list[Any]:
    assert dataset.graph_names is not None
    return list(dataset.graph_names.tolist())


def targets_of(dataset: GraphDataset) -> list[Any]:
    assert dataset.y is not None
    return list(dataset.y.tolist())


def values_of(dataset: GraphDataset, graph: int = 0) -> dict[str, list[Any]]:
    """The entries of a graph in people's words."""
    return dataset.schema.decode(dataset[graph].x.numpy())


def read_back(dataset: GraphDataset, nodes: Any, edge_table: Any, targets: Any, **others: Any) -> GraphDataset:
    """`from_tables` with all that `to_tables` cannot put into tables."""
    typed: dict[str, Any] = {"target_attribute": dataset.target}
    if dataset.target_level == "graph":
        typed["targets"] = targets
    elif dataset.target is not None:
        typed["y"] = dataset.target.names if isinstance(dataset.target, Schema) else dataset.target.name
    if dataset.edge_type is not None:
        typed["edge_type"] = "edge_type"
    return from_tables(nodes, edge_table, dataset.schema, graph="graph", parallel=True, **typed, **others)
