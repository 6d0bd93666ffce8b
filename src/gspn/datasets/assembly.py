"""What the readers end in: flat arrays as a checked, packed GraphDataset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray

from gspn.attributes import Attribute, Schema
from gspn.convert.values import pointer
from gspn.graphs.dataset import GraphDataset
from gspn.graphs.pack import packed
from gspn.graphs.splits import Fold


@dataclass(frozen=True)
class Target:
    """What is to be predicted of each graph, and its encoded values [G] or [G, T]."""

    kind: Attribute | Schema
    values: NDArray[Any]


def from_sizes(
    schema: Schema,
    x: NDArray[Any],
    edge_index: NDArray[Any],
    num_vertices: NDArray[Any],
    num_edges: NDArray[Any],
    target: Target,
    *,
    edge_type: NDArray[Any] | None = None,
    edge_types: tuple[Any, ...] | None = None,
    splits: tuple[Fold, ...] = (),
    graph_names: NDArray[Any] | None = None,
) -> GraphDataset:
    """x [ΣN, d], edge_index [2, ΣE] numbered inside each graph, and the sizes [G] of the graphs in order."""
    return packed(
        schema,
        torch.from_numpy(x),
        torch.from_numpy(edge_index),
        torch.from_numpy(pointer(num_vertices)),
        torch.from_numpy(pointer(num_edges)),
        edge_type=None if edge_type is None else torch.from_numpy(edge_type),
        edge_types=edge_types,
        y=torch.from_numpy(target.values),
        target=target.kind,
        target_level="graph",
        splits=splits,
        graph_names=graph_names,
    )
