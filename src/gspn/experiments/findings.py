"""What an experiment found, ready to be shown: tables, charts and pictures. Reports show them and compute nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Number:
    """A mean over `runs`, or over `folds` where these are named, with a deviation or an interval where there is one."""

    mean: float
    deviation: float | None = None
    runs: int = 1
    folds: tuple[int, ...] = ()
    interval: tuple[float, float] | None = None
    by_fold: tuple[float, ...] = ()
    """The means of the single folds"""
    written: tuple[str, str] | None = None
    """Mean and deviation as somebody else wrote them, with their digits."""


@dataclass(frozen=True)
class Row:
    """One model's line of a table: our numbers and the paper's by column; a column may lack either."""

    label: str
    ours: Mapping[str, Number]
    published: Mapping[str, Number]


@dataclass(frozen=True)
class ResultTable:
    """Models against datasets. `better` says which numbers win; None where nothing is compared."""

    title: str
    measure: str
    better: Literal["higher", "lower"] | None
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    digits: int = 2
    notes: tuple[str, ...] = ()
    beside: str = "as published in the paper"
    """What the published numbers are."""


@dataclass(frozen=True)
class Line:
    """One curve: y over x, with its spread on both sides where there is one."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    spread: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Chart:
    """Curves in one pair of axes."""

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Picture:
    """A drawing, as SVG text."""

    title: str
    svg: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Findings:
    """All that is to be shown of one experiment. `done` of `planned` training runs have been made."""

    title: str
    command: str
    done: int
    planned: int
    parts: tuple[ResultTable | Chart | Picture, ...]
    notes: tuple[str, ...] = ()
    made_with: Mapping[str, str] | None = None
    """Versions, commit and machine of the records."""
    left_out: tuple[str, ...] = ()
    """Columns and rows of the grid that were not planned here"""
