"""The labels of graphs or of their vertices, as given beside the graphs or as the graphs carry them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gspn.attributes import Attribute, FloatArray
from gspn.columns import tensor_to_array
from gspn.errors import InputError
from gspn.graphs import GraphDataset
from gspn.targets import Target, check_labels, encode_labels, target_schema


def labels_of_graphs(dataset: GraphDataset, y: Any, target: Target, target_level: str = "graph") -> FloatArray:
    """[rows, T] encoded labels, one row per graph (or vertex) of the dataset; `y` precedes the graphs' own."""
    rows = len(dataset) if target_level == "graph" else int(dataset.num_vertices_per_graph().sum())
    if y is not None:
        return encode_labels(target, _joined(y, target) if target_level == "vertex" else y, rows)
    if dataset.y is None:
        raise InputError(f"the graphs carry no y, and none was given; the target is {name_target(target)}")
    stored = dataset.vertex_rows() if dataset.target_level == "vertex" else dataset.positions
    one_each = bool((dataset.num_vertices_per_graph() == 1).all())  # then a vertex's label is its graph's
    if dataset.target_level != target_level and not one_each:
        raise InputError(f"the graphs carry one y per {dataset.target_level}, but one per {target_level} is needed")
    return check_labels(target, tensor_to_array(dataset.y[stored]))


def _joined(y: Any, target: Target) -> Any:
    """Labels of vertices given graph by graph, one after another; a flat column, or table of several, as it is."""
    if not isinstance(y, list | tuple) or not all(map(_is_list, y)):
        return y
    labels = [label for own in y for label in own]
    return labels if len(target_schema(target)) == 1 or all(map(_is_list, labels)) else y


def _is_list(own: Any) -> bool:
    """Lists, arrays and columns; of tensors, `encode_labels` knows more."""
    if hasattr(own, "detach") or isinstance(own, str):
        return False
    return isinstance(own, Sequence) or getattr(own, "ndim", 0) > 0


def name_target(target: Target) -> str:
    names = [target.name] if isinstance(target, Attribute) else list(target.names)
    return ", ".join(f"'{name}'" for name in names)
