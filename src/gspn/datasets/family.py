"""What a family of datasets (one format, one reader) tells the registry about itself, and what its reader ends in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from gspn.attributes import Attribute, Schema
from gspn.convert.values import pointer
from gspn.datasets.raw_files import RawFile
from gspn.errors import InputError
from gspn.graphs.dataset import GraphDataset
from gspn.graphs.pack import packed
from gspn.graphs.splits import Fold


@dataclass(frozen=True)
class RawSource:
    """One thing to read: the first of some alternatives that can be had."""

    alternatives: tuple[RawFile, ...]
    required: bool = True
    """without it, is there no dataset, or just one without (say) published folds?"""
    members: tuple[str, ...] = ()
    """if the alternative found is a folder, the files of it that are read"""


Sources = Mapping[str, RawSource]
Found = Mapping[str, Path | None]


@dataclass(frozen=True)
class Family:
    """One format: its names, what it reads, and how."""

    version: int
    """goes up whenever the same raw file would be read differently; what was prepared before is then prepared anew"""
    options: Callable[..., dict[str, Any]]
    """checks the options, which are its keyword arguments, and gives all of them as plain values"""
    sources: Callable[[str], Sources]
    read: Callable[[str, Found, dict[str, Any], bool], GraphDataset]
    """from a name, the files found, the options and whether to show progress"""


def check_limit(limit: Any) -> int | None:
    """The option `limit`: how many graphs to read, from the first on."""
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InputError(f"limit must be a positive number of graphs, or None for all, got {limit!r}")
    return limit


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
