"""Folds over the graphs of a dataset: drawn (hold-out, k-fold, stratified) or read from the published JSON form.

A fold is three disjoint sets of graph numbers. Which fold is used for what is an experiment's business.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gspn.errors import DAMAGE, InputError
from gspn.random_streams import keyed_generator


@dataclass(frozen=True, eq=False)
class Fold:
    """Graphs to train on, to select and stop on, and to assess on."""

    train: Tensor
    validation: Tensor
    test: Tensor

    def __repr__(self) -> str:
        return f"Fold({len(self.train)} train, {len(self.validation)} validation, {len(self.test)} test)"


def holdout(
    num_graphs: int, *, test: float = 0.1, validation: float = 0.1, seed: int = 0, strata: Tensor | None = None
) -> Fold:
    """One fold: a share `test` of all graphs, a share `validation` of the rest, and what remains.

    With `strata` [num_graphs] (class codes) every share is taken from each class alike.
    """
    for name, share in (("test", test), ("validation", validation)):
        if not 0 <= share < 1:
            raise InputError(f"{name} must be a share of at least 0 and below 1, got {share}")
    order = _shuffled(num_graphs, seed, strata)
    is_test = _spread(num_graphs, round(test * num_graphs))
    rest = order[~is_test]
    is_validation = _spread(len(rest), round(validation * len(rest)))
    return Fold(_sorted(rest[~is_validation]), _sorted(rest[is_validation]), _sorted(order[is_test]))


def kfold(
    num_graphs: int, k: int = 10, *, validation: float = 0.1, seed: int = 0, strata: Tensor | None = None
) -> tuple[Fold, ...]:
    """k folds whose test sets are disjoint and cover all graphs, each with an inner hold-out for validation."""
    if not 2 <= k <= num_graphs:
        raise InputError(f"k must be between 2 and the number of graphs, {num_graphs}, got {k}")
    order = _shuffled(num_graphs, seed, strata)
    number = torch.arange(num_graphs) % k
    folds = []
    for fold in range(k):
        rest = order[number != fold]
        # The rest is shuffled anew for each fold, or neighbouring folds would share their validation graphs.
        rest = rest[_shuffled(len(rest), seed, None if strata is None else strata[rest], fold + 1)]
        is_validation = _spread(len(rest), round(validation * len(rest)))
        folds.append(Fold(_sorted(rest[~is_validation]), _sorted(rest[is_validation]), _sorted(order[number == fold])))
    return tuple(folds)


def read_folds(path: str | Path, num_graphs: int | None = None) -> tuple[Fold, ...]:
    """Folds from the published form: a list of {"test": […], "model_selection": [{"train": […], "validation": […]}]}.

    The file may be gzipped. Numbers that repeat, overlap or do not exist are refused.
    """
    path = Path(path)
    try:
        raw = path.read_bytes()
        listed = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
        folds = tuple(_fold(entry) for entry in listed)
    except (*DAMAGE, ValueError, KeyError, IndexError, TypeError) as error:
        raise InputError(f"{path} does not hold folds in the published form: {error!r}") from error
    for i, fold in enumerate(folds):
        everything = torch.cat([fold.train, fold.validation, fold.test])
        if len(everything.unique()) != len(everything):
            raise InputError(f"{path}, fold {i}: some graph occurs twice")
        if num_graphs is not None and bool(((everything < 0) | (everything >= num_graphs)).any()):
            raise InputError(f"{path}, fold {i}: a graph number is out of range, there are {num_graphs} graphs")
    return folds


def _fold(entry: Any) -> Fold:
    inner = entry["model_selection"][0]
    train, validation, test = (
        torch.tensor(numbers, dtype=torch.long) for numbers in (inner["train"], inner["validation"], entry["test"])
    )
    return Fold(train, validation, test)


def _shuffled(n: int, seed: int, strata: Tensor | None, stream: int = 0) -> Tensor:
    """All numbers in random order; with strata, class after class, so that evenly spaced picks take all alike."""
    order = torch.randperm(n, generator=keyed_generator(seed, stream))
    if strata is None:
        return order
    if len(strata) != n:
        raise InputError(f"strata must have one class per graph: {n}, got {len(strata)}")
    return order[torch.argsort(strata[order], stable=True)]


def _spread(n: int, chosen: int) -> Tensor:
    """[n] True at `chosen` evenly spaced places."""
    marks = torch.zeros(n, dtype=torch.bool)
    marks[(torch.arange(chosen) * n + n // 2) // max(chosen, 1)] = True
    return marks


def _sorted(numbers: Tensor) -> Tensor:
    return numbers.sort().values
