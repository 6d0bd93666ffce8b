"""Whether a model is as sure as it should be: hidden values against the distributions that it gave for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import binom
from torch import Tensor

from gspn.attributes import Attribute
from gspn.circuits.distributions import CategoricalDistribution, MixtureDistribution
from gspn.circuits.given import distributions
from gspn.graphs import GraphDataset
from gspn.models.gspn import GSPN
from gspn.models.stack import Stack

LEVEL = 0.9


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model says of the hidden entries of one attribute, in the order of the vertices."""

    attribute: Attribute
    rows: Tensor
    """[H] vertices"""
    truth: Tensor
    """[H] encoded"""
    best: Tensor
    """[H] the mean of numbers, the most probable code of categories"""
    low: Tensor
    """[H] of the central interval of 90 %; of categories NaN"""
    high: Tensor
    before: Tensor
    """[H] probability of less than the truth; of categories, of all values more probable than it"""
    upto: Tensor
    """[H] the same with the truth itself"""
    probability: Tensor
    """[H] of the best category; of numbers NaN"""
    needed: Tensor
    """[H] how many categories hold 90 % together; of numbers NaN"""

    @property
    def is_number(self) -> bool:
        return self.attribute.kind in ("continuous", "count")

    def inside(self, level: float = LEVEL) -> Tensor:
        """[H] whether the truth is in the central interval, or the smallest set of values, of this probability."""
        if self.is_number:
            tail = (1 - level) / 2
            return (self.upto >= tail) & (self.before <= 1 - tail)
        return self.before < level

    def shares_inside(self, levels: Sequence[float]) -> NDArray[np.float64]:
        return np.array([float(self.inside(level).double().mean()) for level in levels])


@torch.no_grad()
def ask(model: GSPN | Stack, seen: GraphDataset, truth: Tensor, hidden: Tensor) -> list[Answers]:
    """The model's answers for the entries `hidden` [N, d], which are missing in `seen`; by attribute."""
    parts: dict[int, list[Answers]] = {}
    first = 0
    for batch, vertices, given in model.gaps_of(seen):
        own = hidden[first + vertices]
        if own.any():
            for column, rows, answer in distributions(given, own):
                place = first + vertices[rows]
                parts.setdefault(column, []).append(answers_of(answer, place, truth[place, column].double()))
        first += batch.num_vertices
    return [joined(parts[column]) for column in sorted(parts)]


def answers_of(answer: Any, rows: Tensor, truth: Tensor) -> Answers:
    """What distributions say of encoded truths [H]."""
    none = torch.full_like(truth, math.nan)
    if isinstance(answer, CategoricalDistribution):
        probs = answer.probs.double()
        own = probs.gather(1, truth.long()[:, None])
        before = torch.where(probs > own, probs, 0.0).sum(1)
        ordered = probs.sort(1, descending=True).values
        needed = (ordered.cumsum(1) - ordered < LEVEL).sum(1).double()
        best = answer.mode.double()
        return Answers(
            answer.attribute, rows, truth, best, none, none, before, before + own.squeeze(1), probs.amax(1), needed
        )
    assert isinstance(answer, MixtureDistribution)
    low, high = answer.interval(LEVEL).double().unbind(1)
    # A leap at the truth, of an atom or a count, counts as inside where any of it does.
    if answer.attribute.kind == "count":
        before = torch.where(truth < 1, 0.0, _cumulative(answer, (truth - 1).clamp_min(0)))
    else:
        before = _cumulative(answer, truth.nextafter(torch.tensor(-math.inf).double()))
    return Answers(
        answer.attribute, rows, truth, answer.mean.double(), low, high, before, _cumulative(answer, truth), none, none
    )


def _cumulative(answer: MixtureDistribution, values: Tensor) -> Tensor:
    return answer.cumulative(values).double()


def joined(parts: Sequence[Answers]) -> Answers:
    """The answers for one attribute, one after another."""
    names = [name for name in vars(parts[0]) if name != "attribute"]
    return Answers(parts[0].attribute, *(torch.cat([getattr(part, name) for part in parts]) for name in names))


def chance_range(count: int, level: float = LEVEL, error: float = 0.05) -> tuple[float, float]:
    """Between which shares all but `error` of honest models would have of so many truths inside their intervals."""
    tail = error / 2
    return float(binom.ppf(tail, count, level)) / count, float(binom.ppf(1 - tail, count, level)) / count
