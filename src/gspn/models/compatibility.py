"""Do these graphs fit this model: edge types it knows, values within reach of its numbers."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gspn.circuits.leaves import Leaves
from gspn.errors import InputError
from gspn.graphs.dataset import GraphDataset
from gspn.graphs.pack import name_vertex
from gspn.graphs.stored import StoredGraph
from gspn.hierarchy import Hierarchy
from gspn.hierarchy.ranges import check_supported

MAX_DEVIATIONS = 1e6
"""How far a continuous value may lie from its column's mean, in deviations: beyond, densities would overflow."""


def check_edge_types(dataset: GraphDataset, num_edge_types: int) -> None:
    """A model that tells edge types apart needs types, all of them below `num_edge_types`."""
    if num_edge_types == 1:
        return
    edges = dataset.num_edges_per_graph()
    if dataset.edge_type is None:
        if edges.any():
            graph = int(edges.nonzero()[0])
            raise InputError(f"graph {graph} has no edge_type, but the model tells {num_edge_types} edge types apart")
        return
    if len(dataset.edge_type) == 0 or int(dataset.edge_type.max()) < num_edge_types:
        return
    for graph, data in enumerate(dataset):
        beyond = (data.edge_type >= num_edge_types).nonzero()
        if len(beyond):
            edge = int(beyond[0])
            raise InputError(
                f"graph {graph}, edge {edge}: edge type {int(data.edge_type[edge])} is out of range, "
                f"the model has num_edge_types={num_edge_types}"
            )


def check_magnitudes(hierarchy: Hierarchy, dataset: GraphDataset) -> None:
    """Continuous values must lie within `MAX_DEVIATIONS` of the training data's mean."""
    entries = dataset.entries()

    def place(row: int) -> str:
        sizes = dataset.num_vertices_per_graph()
        return f"{name_vertex(row, torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]))}, "

    check_entries(hierarchy, entries, place)


def check_entries(hierarchy: Hierarchy, x: Tensor, place: Callable[[int], str]) -> None:
    """The same for rows x [n, d]; `place` begins the message with where a row stands."""
    for family, scope in zip(hierarchy.families, hierarchy.template.scopes, strict=True):
        check_values(family, x[:, list(scope)], lambda row, name: f"{place(row)}attribute '{name}'")


def check_values(family: Leaves, x: Tensor, place: Callable[[int, str], str], of: str = "data") -> None:
    """Values x [n, attributes] of a family; `place` begins the message with where a row's attribute stands."""
    distance = family.deviations(x)
    if distance is None or not bool((far := distance > MAX_DEVIATIONS).any()):
        return
    row, column = far.nonzero()[0].tolist()
    name = family.scope[column].name
    center, spread = family.units()[name].tolist()
    raise InputError(
        f"{place(row, name)}: {x[row, column].item():g} is more than {MAX_DEVIATIONS:g} deviations ({spread:g}) from "
        f"the mean of the training {of} ({center:g})"
    )


def check_stored(hierarchy: Hierarchy, graph: StoredGraph) -> None:
    """Do schema and edge types of a stored graph fit, and does the model; values are looked at while they are read."""
    check_supported(hierarchy)
    if graph.schema != hierarchy.schema:
        raise InputError(
            f"the graph's schema differs from the model's:\n{graph.schema}\nthe model's:\n{hierarchy.schema}"
        )
    number = hierarchy.num_edge_types
    if number == 1:
        return
    if graph.edge_type is None and graph.num_edges:
        raise InputError(f"the graph has no edge_type, but the model tells {number} edge types apart")
    largest, edge = graph.largest_type
    if largest >= number:
        raise InputError(f"edge {edge}: edge type {largest} is out of range, the model has num_edge_types={number}")
