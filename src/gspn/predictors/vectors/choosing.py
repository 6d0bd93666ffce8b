"""Which head: all families are tried on rows that they have not learned from, and the best one learns from all.

Judged are held-out rows, or, where none are given, all labelled rows in turn (cross-validation). The same rows
calibrate probabilities and tell how large errors are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gspn.attributes import FloatArray
from gspn.errors import InputError
from gspn.predictors.outputs import Outputs
from gspn.predictors.vectors.calibration import calibrate, log_probabilities
from gspn.predictors.vectors.families import FAMILIES
from gspn.predictors.vectors.linear import Linear
from gspn.predictors.vectors.target_head import Part, TargetHead, Units, seen
from gspn.rows.task import FittedHead, Task
from gspn.targets import Target, target_schema

TOGETHER = "together"
"""The average of the best head of each family, which is tried beside these."""

DEFAULT = ("linear", "support vectors", "extra trees", "boosting", TOGETHER)
"""What is tried where nobody says."""

MONITORS = ("loss", "score")

_ABSENT = -6.0
"""Output for a class that a fold has no row of."""
_MANY, _VERY_MANY = 1_000, 20_000
"""Labels from which on fewer folds will do and rows need no views, and one fold."""
_DISTANT = ("linear", "support vectors", "linear support vectors", "kernel ridge")
"""Families that weigh columns by their deviations: many of one kind drown the others."""


@dataclass(frozen=True)
class HeadTrial:
    """How good one head was on rows that it had not learned from."""

    target: str
    head: str
    settings: Any
    loss: float
    """mean negative log-probability of classes; mean squared error of values, in deviations of the labels"""
    score: float
    """accuracy or R²"""


@dataclass(frozen=True, eq=False)
class Chosen:
    heads: tuple[TargetHead, ...]
    """one per target"""
    tried: tuple[HeadTrial, ...]

    def outputs(self, rows: Any, meaning: Outputs) -> FloatArray:
        """[n, O] of all targets, one after another."""
        found = [head.outputs(rows, units) for head, units in zip(self.heads, meaning.units, strict=True)]
        return np.column_stack(found)


@dataclass(frozen=True, eq=False)
class _Judged:
    """One head's outputs for the rows that judge."""

    family: str
    settings: Any
    outputs: FloatArray
    loss: float
    score: float
    head: FittedHead | None = None
    """as it was judged, if it has seen all classes"""
    view: int | None = None
    """its number, where rows are not seen as they are"""

    def rank(self, monitor: str) -> tuple[float, float]:
        return (-self.score, self.loss) if monitor == "score" else (self.loss, -self.score)


def choose_heads(
    rows: FloatArray,
    labels: FloatArray,
    target: Target,
    *,
    validation: tuple[FloatArray, FloatArray] | None = None,
    families: Sequence[str] = DEFAULT,
    monitor: str = "loss",
    refit: bool = True,
    seed: int = 0,
    views: Sequence[FloatArray] = (),
) -> Chosen:
    """A head for every target, from standardised rows [n, F] and encoded labels [n, T], NaN where one is missing.

    Rows may be a sparse array where the families take one: the linear ones do.

    `views` are weights [F] of the columns: where there are few labels, heads that measure distances see rows in all
    these ways in place of as they are, and "together" is the average of the best of each family in each of them.

    With `validation`, another such pair, `refit` says whether the chosen heads learn from its labels, too, in the end.
    """
    heads, tried = [], []
    for column, attribute in enumerate(target_schema(target)):
        known = ~np.isnan(labels[:, column])
        if not known.any():
            raise InputError(f"target {attribute.name!r}: all labels are missing, so there is nothing to learn from")
        held_out = None
        if validation is not None:
            judged = ~np.isnan(validation[1][:, column])
            held_out = validation[0][judged], validation[1][judged, column]
            if not judged.any():
                raise InputError(f"target {attribute.name!r}: no validation graph has a label")
        data = _Data(
            rows[known], labels[known, column], held_out, Units.of(attribute, labels[known, column]), seed, tuple(views)
        )
        head, candidates = _choose(data, families, monitor, refit)
        heads.append(head)
        tried += [HeadTrial(attribute.name, one.family, one.settings, one.loss, one.score) for one in candidates]
    return Chosen(tuple(heads), tuple(tried))


@dataclass(frozen=True, eq=False)
class _Data:
    """One target's rows with labels, and who judges."""

    rows: FloatArray
    labels: FloatArray
    validation: tuple[FloatArray, FloatArray] | None
    units: Units
    seed: int
    views: tuple[FloatArray, ...] = ()

    def viewed_by(self, family: str) -> Iterator[tuple[int | None, _Data]]:
        """The rows in all ways in which a family sees them."""
        if not self.views or family not in _DISTANT or len(self.labels) >= _MANY:
            yield None, self
            return
        for number, view in enumerate(self.views):
            judged = self.validation and (seen(self.validation[0], view), self.validation[1])
            yield number, replace(self, rows=seen(self.rows, view), validation=judged)

    def judges(self) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Labels, and which of them judge: those of classes that can be learned, in folds that are held out."""
        labels = self.labels if self.validation is None else self.validation[1]
        known = np.isin(labels, self.units.present) if len(self.units.present) else np.ones(len(labels), dtype=bool)
        if self.validation is None:
            fold, judging = _dealt(labels, self.seed)
            known &= fold < judging
        return labels, known

    def splits(self) -> Iterator[tuple[NDArray[np.int64], FloatArray, NDArray[np.int64]]]:
        """Rows to learn from, rows to judge by, and the places of these among all that judge."""
        everything = np.arange(self.rows.shape[0])
        if self.validation is not None:
            yield everything, self.validation[0], np.arange(self.validation[0].shape[0])
            return
        fold, used = _dealt(self.labels, self.seed)
        for number in range(used):
            own = np.flatnonzero(fold == number)
            yield everything[fold != number], self.rows[own], own


def _dealt(labels: FloatArray, seed: int) -> tuple[NDArray[np.int64], int]:
    """[n] the fold of each label, dealt in their order so that folds are alike, and how many folds judge."""
    number = len(labels)
    folds = min(number, 5 if number < _MANY else 3)
    rng = np.random.default_rng(seed)
    shuffled = rng.permutation(number)
    order = shuffled[np.argsort(labels[shuffled], kind="stable")]
    hands = np.concatenate([rng.permutation(folds) for _ in range(-(-number // folds))])[:number]
    found = np.empty(number, dtype=np.int64)
    found[order] = hands
    return found, 1 if number >= _VERY_MANY else folds


def _choose(data: _Data, families: Sequence[str], monitor: str, refit: bool) -> tuple[TargetHead, list[_Judged]]:
    units = data.units
    labels, known = data.judges()
    if len(units.present) == 1 or len(data.labels) < 2 or not known.any():
        return _nothing(data), []
    task = units.task(labels[known])
    # Whoever has learned from all there is need not learn again.
    lasting = data.validation is not None and not refit
    candidates: list[_Judged] = []
    best: dict[tuple[str, int | None], _Judged] = {}
    for one in _candidates(data, families, known, task):
        kind = one.family, one.view
        if kind not in best or one.rank(monitor) < best[kind].rank(monitor):
            best[kind] = one if lasting else replace(one, head=None)
        candidates.append(replace(one, head=None))  # all heads together may be large
    if TOGETHER in families and len(best) > 1:
        mean = np.mean([_calibrated(one.outputs, task) for one in best.values()], axis=0)
        candidates.append(_judge(TOGETHER, None, mean, task))
    winner = min(candidates, key=lambda one: one.rank(monitor))
    chosen = list(best.values()) if winner.family == TOGETHER else [best[winner.family, winner.view]]
    rows, learned = data.rows, data.labels
    if refit and data.validation is not None:
        rows = _stacked(rows, data.validation[0][known])
        learned = np.concatenate([learned, labels[known]])
    parts = []
    for one in chosen:
        view = None if one.view is None else data.views[one.view]
        head = one.head or FAMILIES[one.family].one(seen(rows, view), units.task(learned), data.seed, one.settings)
        parts.append(Part(one.family, one.settings, head, calibrate(one.outputs, task) if task.classes else None, view))
    errors = np.zeros(0)
    if not task.classes:
        errors = labels[known] - units.values(np.mean([one.outputs for one in chosen], axis=0))
        errors = errors[np.argsort(np.abs(errors), kind="stable")]
    return TargetHead(units, tuple(parts), errors), candidates


def _candidates(data: _Data, families: Sequence[str], known: NDArray[np.bool_], task: Task) -> Iterator[_Judged]:
    """Every head of every family, judged."""
    for family in families:
        if family == TOGETHER or data.rows.shape[0] > FAMILIES[family].most:
            continue
        for view, viewed in data.viewed_by(family):
            outputs: dict[Any, FloatArray] = {}
            heads: dict[Any, FittedHead | None] = {}
            splits = list(viewed.splits())
            for learned, rows, places in splits:
                for settings, head, found in _fitted(family, viewed, learned, rows):
                    outputs.setdefault(settings, np.zeros((len(known), found.shape[1])))[places] = found
                    heads[settings] = head if len(splits) == 1 else None
            for settings, found in outputs.items():
                yield replace(_judge(family, settings, found[known], task), head=heads[settings], view=view)


def _fitted(
    family: str, data: _Data, learned: NDArray[np.int64], judging: FloatArray
) -> Iterator[tuple[Any, FittedHead | None, FloatArray]]:
    """Every head of a family that has learned from some rows, and its outputs for the judging ones.

    None for a head that has not seen all classes.
    """
    rows, whole = data.rows[learned], data.units.task(data.labels[learned])
    present = np.unique(whole.labels).astype(np.int64)
    if not whole.classes or len(present) == whole.classes:
        for settings, head in FAMILIES[family].heads(rows, whole, data.seed):
            yield settings, head, head.outputs(judging)
        return
    # A class with few rows may be missing here.
    if len(present) == 1:
        heads: Any = ((settings, None) for settings in _settings(family, data))
    else:
        task = Task(np.searchsorted(present, whole.labels).astype(np.float64), len(present))
        heads = FAMILIES[family].heads(rows, task, data.seed)
    for settings, head in heads:
        found = np.full((judging.shape[0], whole.classes), _ABSENT)
        found[:, present] = 0.0
        if head is not None:
            own = head.outputs(judging)
            found[:, present] = np.column_stack([np.zeros(len(own)), own]) if own.shape[1] == 1 else own
        yield settings, None, found[:, 1:] - found[:, :1] if whole.classes == 2 else found


def _settings(family: str, data: _Data) -> list[Any]:
    """The settings of a family, which it has whatever it learns from."""
    two = Task(np.array([0.0, 1.0]), 2)
    return [settings for settings, _ in FAMILIES[family].heads(np.array([[0.0], [1.0]]), two, data.seed)]


def _judge(family: str, settings: Any, outputs: FloatArray, task: Task) -> _Judged:
    if task.classes:
        labels = task.labels.astype(np.int64)
        logs = log_probabilities(outputs if family == TOGETHER else _calibrated(outputs, task))
        loss = -float(logs[np.arange(len(labels)), labels].mean())
        return _Judged(family, settings, outputs, loss, float((logs.argmax(1) == labels).mean()))
    squares = float(((outputs[:, 0] - task.labels) ** 2).mean())
    spread = float(task.labels.var())
    return _Judged(family, settings, outputs, squares, 1 - squares / spread if spread else 0.0)


def _calibrated(outputs: FloatArray, task: Task) -> FloatArray:
    return calibrate(outputs, task)(outputs) if task.classes else outputs


def _nothing(data: _Data) -> TargetHead:
    """One class, one label, or nothing that could judge: always the same answer."""
    units = data.units
    if len(units.present) == 1:
        return TargetHead(units, ())
    width = units.task(data.labels).width
    still: FittedHead = Linear(np.zeros((data.rows.shape[1], width)), np.zeros(width))
    calibration = (
        calibrate(np.zeros((len(data.labels), width)), units.task(data.labels)) if len(units.present) else None
    )
    return TargetHead(units, (Part("linear", None, still, calibration),))


def _stacked(one: Any, other: Any) -> Any:
    if isinstance(one, np.ndarray):
        return np.concatenate([one, other])
    from scipy.sparse import vstack

    return vstack([one, other], format="csr")
