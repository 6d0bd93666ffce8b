"""How good predictions of targets are on graphs or vertices that nothing was learned from, beside simple baselines.

A fifth of the labels is held out. Who predicts has learned without them: `gspn fit` says how. Scores come with the
range in which 95 of 100 other draws of as many held-out labels would have them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gspn.attributes import Attribute, Binary, Categorical
from gspn.circuits.distributions import CategoricalDistribution, MixtureDistribution
from gspn.graph_level.answers import Around
from gspn.graphs import GraphDataset
from gspn.graphs.splits import holdout
from gspn.reports.certainty import Answers, answers_of, joined
from gspn.targets import Target, target_schema

OURS, CONSTANT = "gspn", "constant"

_SHARE = 0.2
_FEWEST, _MOST = 40, 2_000
"""Labels without which none are held out, and how many are at most."""
_DRAWS = 400
"""Of held-out labels, with replacement, for the ranges of scores."""

Predictions = tuple[NDArray[np.float64], NDArray[np.float64] | None]
"""[H] encoded predictions of one target, and of a binary one the probability of True"""


@dataclass(frozen=True)
class ScoreRange:
    """A number with the range of chance."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class TargetScores:
    """Of one target: what was true, what gspn said, and the scores of all."""

    attribute: Attribute
    answers: Answers
    scores: Mapping[str, Mapping[str, ScoreRange]]
    """By method and measure, as R² and MAE, or accuracy and AUC"""

    @property
    def measures(self) -> tuple[str, ...]:
        return tuple(self.scores[OURS])

    @property
    def best(self) -> str:
        """By the first measure; of those that score alike the simplest."""
        name = self.measures[0]
        simple = [method for method in self.scores if method != OURS]
        return max([*simple, OURS], key=lambda method: _or_least(self.scores[method][name].value))


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The scores of all targets, or why there are none."""

    targets: tuple[TargetScores, ...] = ()
    held_out: int = 0
    """Graphs or vertices"""
    learned_from: int = 0
    """Others with a label"""
    what: str = "graphs"
    methods: Mapping[str, str] = field(default_factory=dict)
    """Explained"""
    why_not: str = ""

    def rows(self) -> list[dict[str, Any]]:
        """One row a target and method."""
        return [
            {"target": one.attribute.name, "method": method}
            | {name: measure.value for name, measure in found.items()}
            | {f"{name} {side}": getattr(measure, side) for name, measure in found.items() for side in ("low", "high")}
            | {"best": method == one.best}
            for one in self.targets
            for method, found in one.scores.items()
        ]

    def verdict(self) -> str:
        """Who predicts best, in a sentence; whoever it is."""
        if not self.targets:
            return self.why_not
        told = []
        for one in self.targets:
            name = one.measures[0]
            best, own = one.scores[one.best][name], one.scores[OURS][name]
            ours = "" if one.best == OURS else f", gspn {own.value:.3f}"
            told.append(f"{one.attribute.name}: {one.best} is best with {name} {best.value:.3f}{ours}")
        kind = f"{self.held_out:,} of {self.held_out + self.learned_from:,} labelled {self.what}"
        return f"{'; '.join(told)} ({kind} were held out)"


@dataclass(frozen=True, eq=False)
class Split:
    """Which labelled graphs or vertices are held out."""

    held: Tensor
    """Their numbers"""
    known: Tensor
    """Those of the others with a label"""

    def others(self, count: int) -> Tensor:
        """All of so many that are not held out, with a label or without."""
        kept = torch.ones(count, dtype=torch.bool)
        kept[self.held] = False
        return kept.nonzero().squeeze(1)


def split(dataset: GraphDataset, seed: int) -> Split | None:
    """A fifth of what is labelled, every class alike; None where there is too little."""
    labels = labels_of(dataset)
    labelled = torch.from_numpy(np.flatnonzero(~np.isnan(labels).all(1)))
    if len(labelled) < _FEWEST:
        return None
    strata = None
    if isinstance(dataset.target, Binary | Categorical):
        strata = torch.from_numpy(labels[labelled.numpy(), 0]).long()
    share = min(_SHARE, _MOST / len(labelled))
    fold = holdout(len(labelled), test=share, validation=0.0, seed=seed, strata=strata)
    return Split(labelled[fold.test], labelled[fold.train])


def too_few(dataset: GraphDataset) -> HeldOut:
    """What is said where nothing can be held out."""
    count = int((~np.isnan(labels_of(dataset)).all(1)).sum())
    what = "vertices" if dataset.target_level == "vertex" else "graphs"
    return HeldOut(
        what=what, why_not=f"{count} labelled {what} are too few to hold any out: no score ({_FEWEST} would do)"
    )


def labels_of(dataset: GraphDataset) -> NDArray[np.float64]:
    """[n, T] the encoded labels of a dataset's graphs or vertices, in order."""
    assert dataset.y is not None
    assert dataset.target is not None
    rows = dataset.vertex_rows() if dataset.target_level == "vertex" else dataset.positions
    own: NDArray[np.float64] = dataset.y[rows].double().numpy()
    return own.reshape(len(rows), len(list(target_schema(dataset.target))))


def judge(
    truth: NDArray[np.float64],
    target: Target,
    said: Sequence[Any],
    baselines: Mapping[str, Callable[[], list[Predictions]]],
    explained: Mapping[str, str],
    *,
    learned_from: int,
    what: str,
    seed: int,
) -> HeldOut:
    """Scores for held-out labels `truth` [H, T], from what gspn and baselines say of them.

    `said` are answers of `predictive`, which together are about all H.
    """
    schema = target_schema(target)
    found = {name: predict() for name, predict in baselines.items()}
    scored = []
    for column, attribute in enumerate(schema):
        y = truth[:, column]
        known = np.flatnonzero(~np.isnan(y))
        if len(known) < 2:
            continue
        parts = [one[attribute.name] if isinstance(one, dict) else one for one in said]
        own = joined(list(_answers(attribute, parts, y)))
        best = own.best.numpy()
        chances = np.where(best == 1, own.probability, 1 - own.probability) if isinstance(attribute, Binary) else None
        ours: Predictions = best, chances
        all_of_them = {OURS: ours} | {
            name: (values[known], None if chances is None else chances[known])
            for name, (values, chances) in ((name, each[column]) for name, each in found.items())
        }
        scores = {name: _scores(attribute, y[known], *each, seed) for name, each in all_of_them.items()}
        scored.append(TargetScores(attribute, own, scores))
    if not scored:
        return HeldOut(what=what, why_not="no target has two held-out labels: no score")
    return HeldOut(tuple(scored), len(truth), learned_from, what, explained)


def _answers(attribute: Attribute, parts: Sequence[Any], truth: NDArray[np.float64]) -> Iterator[Answers]:
    """What every part says of its labels that are known."""
    first = 0
    for said in parts:
        own = truth[first : first + len(said)]
        known = torch.from_numpy(np.flatnonzero(~np.isnan(own)))
        if len(known):
            yield _of_part(attribute, said[known], first + known, torch.from_numpy(own)[known])
        first += len(said)


def _of_part(attribute: Attribute, said: Any, rows: Tensor, x: Tensor) -> Answers:
    if isinstance(said, CategoricalDistribution | MixtureDistribution):
        return answers_of(said, rows, x)
    assert isinstance(said, Around)
    low, high = said.interval().double().unbind(1)
    none, mean = torch.full_like(x, math.nan), said.mean.double()
    # The least level whose interval reaches the truth, as where a central interval of that level ends.
    least = said.least_level(x)
    before = torch.where(least.isfinite(), (1 + least) / 2, math.inf)
    return Answers(attribute, rows, x, mean, low, high, before, torch.ones_like(x), none, none)


def _scores(
    attribute: Attribute, y: NDArray[np.float64], values: NDArray[np.float64], chances: Any, seed: int
) -> dict[str, ScoreRange]:
    drawn = np.random.default_rng(seed).integers(len(y), size=(_DRAWS, len(y)))
    found = {}
    for name, measure in _measures(attribute, chances):
        given = chances if name == "AUC" else values
        others = np.array([measure(y[rows], given[rows]) for rows in drawn])
        others = others[~np.isnan(others)]
        low, high = np.quantile(others, [0.025, 0.975]) if len(others) else (math.nan, math.nan)
        found[name] = ScoreRange(measure(y, given), float(low), float(high))
    return found


def _measures(attribute: Attribute, chances: Any) -> Iterator[tuple[str, Callable[..., float]]]:
    if not isinstance(attribute, Binary | Categorical):
        yield "R²", _r2
        yield "MAE", lambda y, values: float(np.abs(y - values).mean())
        return
    if chances is not None:
        yield "AUC", _auc
    yield "accuracy", lambda y, values: float((y == values).mean())


def _r2(y: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    spread = float(np.square(y - y.mean()).sum())
    return 1 - float(np.square(y - values).sum()) / spread if spread > 0 else math.nan


def _auc(y: NDArray[np.float64], chances: NDArray[np.float64]) -> float:
    """The probability that one that is true is given a higher chance than one that is not; ties count half."""
    from scipy.stats import rankdata

    positive = int(y.sum())
    if positive in (0, len(y)):
        return math.nan
    ranks = rankdata(chances)[y == 1].sum()
    return float((ranks - positive * (positive + 1) / 2) / (positive * (len(y) - positive)))


def _or_least(value: float) -> float:
    return -math.inf if math.isnan(value) else value
