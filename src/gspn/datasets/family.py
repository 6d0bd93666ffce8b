"""What a family of datasets (one format, one reader) tells the registry about itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from gspn.attributes import Attribute, Schema
from gspn.datasets.raw_files import RawFile
from gspn.errors import InputError
from gspn.graphs.dataset import GraphDataset


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
