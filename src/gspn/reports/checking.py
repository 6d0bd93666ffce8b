"""Hide and check: observed entries are hidden, everything learns again without them, and everybody fills them in.

A winner is named for every column, whoever it is, and whether its lead is more than chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from tqdm import tqdm

from gspn.graphs import GraphDataset
from gspn.graphs.missing import with_missing
from gspn.models.gspn import GSPN
from gspn.models.stack import Stack
from gspn.reports.certainty import Answers, ask, chance_range
from gspn.reports.hiding import hidden_entries
from gspn.reports.rivals import MEAN, rivals

OURS = "gspn"
_CLEAR = 2.0
"""Standard errors of a mean difference."""
FEW = 20
"""Hidden entries of a column below which its winner is hardly more than chance."""

Learn = Callable[[GraphDataset], GSPN | Stack]
"""The whole procedure, choosing included, on a dataset with hidden entries."""


@dataclass(frozen=True, eq=False)
class ColumnCheck:
    """What came of the hidden entries of one column."""

    answers: Answers
    errors: Mapping[str, float]
    """By method: the root mean squared error of numbers, the share of wrong categories"""
    best: str
    second: str
    clear: bool
    """Whether the best is ahead of the second by more than chance would have it"""
    scale: float
    """Deviation of the observed values; of categories NaN"""
    usual_width: float
    """Of the range that holds 90 % of the observed values; of categories NaN"""

    @property
    def name(self) -> str:
        return self.answers.attribute.name

    @property
    def kind(self) -> str:
        return self.answers.attribute.kind

    @property
    def hidden(self) -> int:
        return len(self.answers.truth)

    @property
    def covered(self) -> float:
        return float(self.answers.inside().double().mean())

    def chance(self, error: float = 0.05) -> tuple[float, float]:
        """Within which `covered` is honest. Sets of values, and intervals of counts, may hold more than promised."""
        low, high = chance_range(self.hidden, error=error)
        return low, 1.0 if self.kind != "continuous" else high

    @property
    def width(self) -> float:
        """Mean width of intervals, as a share of the column's own range; of categories the mean number of values."""
        own = self.answers
        if not own.is_number:
            return float(own.needed.mean())
        return float((own.high - own.low).mean()) / self.usual_width if self.usual_width > 0 else math.nan

    def relative(self, method: str) -> float:
        """The error as a share of that of the mean or most common value."""
        usual = self.errors[MEAN]
        return self.errors[method] / usual if usual > 0 else math.nan


@dataclass(frozen=True, eq=False)
class Check:
    """All columns, and who took part."""

    columns: tuple[ColumnCheck, ...]
    methods: Mapping[str, str]
    """Explained; gspn first, then from the simplest on"""
    left_out: Mapping[str, str]
    """Methods that were not asked, and why"""
    entries: int
    learned_again: bool
    """Whether the model has never seen the hidden entries"""

    def overall(self) -> dict[str, float]:
        """By method the mean over columns of its error, relative to that of the mean or most common value."""
        told = [column for column in self.columns if column.errors[MEAN] > 0]
        return {
            name: sum(column.relative(name) for column in told) / len(told) if told else math.nan
            for name in self.methods
        }

    def dishonest(self) -> list[ColumnCheck]:
        """Columns whose intervals are off by more than chance, given that there are so many columns."""
        error = 0.05 / max(len(self.columns), 1)
        return [one for one in self.columns if not one.chance(error)[0] <= one.covered <= one.chance(error)[1]]

    def wins(self, method: str) -> list[ColumnCheck]:
        return [column for column in self.columns if column.best == method]

    def rows(self) -> list[dict[str, object]]:
        """One row a column, for tables and machines."""
        return [
            {
                "column": column.name,
                "kind": column.kind,
                "hidden": column.hidden,
                "best": column.best,
                "clear": column.clear,
                **{f"error of {name}": column.errors[name] for name in self.methods},
                "inside 90 %": column.covered,
            }
            for column in self.columns
        ]


def check(
    dataset: GraphDataset,
    model: GSPN | Stack,
    learn: Learn | None = None,
    *,
    seed: int = 0,
    share: float | None = None,
    progress: bool = True,
) -> Check:
    """Hide entries and compare; without `learn` the model itself is asked, whatever it has seen."""
    truth = dataset.entries()
    hidden = hidden_entries(dataset, seed, share)
    seen = with_missing(dataset, hidden)
    asked = model if learn is None else learn(seen)
    others, left_out = rivals(seen, hidden, seed)
    filled: dict[str, Tensor] = {}
    with tqdm(total=len(others) + 1, desc="check", disable=None if progress else True, leave=False) as bar:
        for rival in others:
            bar.set_description(f"check {rival.name}")
            filled[rival.name] = _in_place(rival.fill(), hidden, truth)
            bar.update()
        bar.set_description(f"check {OURS}")
        answers = ask(asked, seen, truth, hidden)
        bar.update()
    columns = tuple(_columns(dataset, seen, answers, filled))
    methods = {OURS: "the mean or most probable value that gspn gives, from the rest of the row and the neighbours"}
    methods |= {rival.name: rival.explained for rival in others}
    return Check(columns, methods, left_out, int(hidden.sum()), learn is not None)


def _in_place(rows: Tensor, hidden: Tensor, truth: Tensor) -> Tensor:
    """[N, d] the filled rows, which are those with hidden entries, among all."""
    whole = truth.clone()
    whole[hidden.any(1)] = rows
    return whole


def _columns(
    dataset: GraphDataset, seen: GraphDataset, answers: list[Answers], filled: Mapping[str, Tensor]
) -> Iterator[ColumnCheck]:
    left = seen.entries()
    for own in answers:
        column = dataset.schema.index(own.attribute.name)
        losses = {name: _losses(own, x[own.rows, column]) for name, x in filled.items()}
        losses[OURS] = _losses(own, own.best)
        best, second = _two_best(losses)
        known = left[:, column][~left[:, column].isnan()]
        quantiles = known.quantile(torch.tensor([0.05, 0.95], dtype=known.dtype)).tolist() if own.is_number else [0, 0]
        yield ColumnCheck(
            own,
            {name: float(loss.mean().sqrt() if own.is_number else loss.mean()) for name, loss in losses.items()},
            best,
            second,
            _is_clear(losses[second] - losses[best]),
            float(known.std(correction=0)) if own.is_number else math.nan,
            quantiles[1] - quantiles[0] if own.is_number else math.nan,
        )


def _losses(own: Answers, filled: Tensor) -> Tensor:
    """[H] squared errors of numbers, 1 for every wrong category."""
    return (filled - own.truth).square() if own.is_number else (filled != own.truth).double()


def _two_best(losses: Mapping[str, Tensor]) -> tuple[str, str]:
    """Of those that err alike the one that stands first is taken for better: it is simpler."""
    ordered = sorted(losses, key=lambda name: float(losses[name].mean()))
    return ordered[0], ordered[1]


def _is_clear(lead: Tensor) -> bool:
    if len(lead) < FEW:
        return False
    error = float(lead.std()) / math.sqrt(len(lead))
    return float(lead.mean()) > _CLEAR * error
