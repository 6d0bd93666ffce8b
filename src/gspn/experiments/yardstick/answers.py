"""Predictive distributions of hidden entries, as methods give them and scores ask them.

A method answers for all gaps of a dataset: column by column, which rows, and their distributions. What GSPN answers
(`gspn.circuits.distributions`) is of this kind already. Here are the answers of the rivals: mixtures of normals, and a
point with the errors that its method made on held-out entries.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gspn.attributes import Attribute, Count

_HALVINGS = 50
_PLACES = 2_000
GUARD, GUARD_SCALE = 1e-3, 5.0
"""Weight, and scale in deviations of the residuals, of the Cauchy part of a distribution made of residuals."""


class Numbers(Protocol):
    """n distributions of a continuous attribute or of a count, in users' units, float64."""

    @property
    def mean(self) -> Tensor:
        """[n]"""

    def cumulative(self, values: Tensor) -> Tensor:
        """[n] probability of at most the values [n]; of counts, at whole numbers."""

    def log_prob(self, values: Tensor) -> Tensor:
        """[n] log-density, or of counts log-probability. Asked where a difference of `cumulative` has no digits."""

    def quantile(self, q: float) -> Tensor:
        """[n]"""


@runtime_checkable
class Categories(Protocol):
    """n distributions of a categorical or binary attribute."""

    @property
    def probs(self) -> Tensor:
        """[n, K]"""


Answer: TypeAlias = Numbers | Categories
Answers: TypeAlias = Iterator[tuple[int, Tensor, Answer]]
"""Column, rows [n] of the dataset, distributions of these n entries; every gap once, a column perhaps in parts."""


@dataclass(frozen=True)
class Probabilities:
    """Categories as a table."""

    probs: Tensor


@dataclass(frozen=True)
class Normals:
    """Mixtures of normals in standard units: (x − center) / spread, of counts (log(1 + x) − center) / spread."""

    attribute: Attribute
    weights: Tensor
    """[n, C]"""
    means: Tensor
    """[n, C]"""
    deviations: Tensor
    """[n, C]"""
    center: float
    spread: float
    largest: float
    """Of the observed values: means of counts, exponentials of uncertain logarithms, stay below it."""

    @property
    def mean(self) -> Tensor:
        if not isinstance(self.attribute, Count):
            return (self.weights * self.means).sum(1) * self.spread + self.center
        logarithm = self.center + self.spread * self.means + (self.spread * self.deviations).square() / 2
        return (self.weights * logarithm.exp()).sum(1).sub(1).clamp(0.0, self.largest)

    def cumulative(self, values: Tensor) -> Tensor:
        return self._cumulative(self._standard(values + 0.5 if isinstance(self.attribute, Count) else values))

    def log_prob(self, values: Tensor) -> Tensor:
        z = self._standard(values)
        parts = -0.5 * ((z[:, None] - self.means) / self.deviations).square() - self.deviations.log()
        scale = math.log(self.spread) + 0.5 * math.log(2 * math.pi)
        found = torch.logsumexp(self.weights.log() + parts, 1) - scale
        return found - torch.log1p(values) if isinstance(self.attribute, Count) else found

    def quantile(self, q: float) -> Tensor:
        """A mixture's quantile lies between those of its components."""
        of_components = self.means + self.deviations * float(torch.special.ndtri(torch.tensor(q, dtype=torch.float64)))
        low, high = of_components.amin(1), of_components.amax(1)
        for _ in range(_HALVINGS if self.weights.shape[1] > 1 else 0):
            middle = (low + high) / 2
            enough = self._cumulative(middle) >= q
            low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
        x = high * self.spread + self.center
        return x.expm1().sub(0.5).ceil().clamp(min=0.0) if isinstance(self.attribute, Count) else x

    def _standard(self, values: Tensor) -> Tensor:
        known = torch.log1p(values.clamp(min=-1 + 1e-9)) if isinstance(self.attribute, Count) else values
        return (known - self.center) / self.spread

    def _cumulative(self, z: Tensor) -> Tensor:
        below: Tensor = torch.special.ndtr((z[:, None] - self.means) / self.deviations)
        return (self.weights * below).sum(1)


class Residuals:
    """Points with the errors that were made on held-out entries of the same column.

    The errors are smoothed by a normal kernel: δ, or Silverman's width where that is larger, as otherwise most true
    values would fall between two errors. A Cauchy part keeps what no error has reached possible; quantiles from
    0.001 to 0.999 are those of all, beyond that they stay there.
    """

    def __init__(self, attribute: Attribute, points: Tensor, errors: Tensor, delta: float) -> None:
        self.attribute, self.mean, self._errors = attribute, points, errors
        share = torch.tensor([0.25, 0.75], dtype=torch.float64)
        quartiles = torch.quantile(errors, share).diff().item() / 1.34
        deviation = errors.std(correction=0).item()
        narrow = min(deviation, quartiles) or deviation
        self._width = max(delta, 0.9 * narrow * len(errors) ** -0.2)
        self._scale = GUARD_SCALE * max(deviation, delta)
        self._shift = 0.5 if isinstance(attribute, Count) else 0.0

    def cumulative(self, values: Tensor) -> Tensor:
        return self._cumulative(values + self._shift - self.mean)

    def log_prob(self, values: Tensor) -> Tensor:
        away = values - self.mean
        z = (away[:, None] - self._errors) / self._width
        kernel = torch.logsumexp(-0.5 * z.square(), 1) - math.log(
            len(self._errors) * self._width * math.sqrt(2 * math.pi)
        )
        cauchy = -torch.log1p((away / self._scale).square()) - math.log(math.pi * self._scale)
        return torch.logaddexp(kernel + math.log(1 - GUARD), cauchy + math.log(GUARD))

    def quantile(self, q: float) -> Tensor:
        """Errors do not depend on the points: one table of the cumulative probability, read between its places."""
        places, cumulative = self._table
        found = self.mean + float(np.interp(q, cumulative, places))
        return found.sub(0.5).ceil().clamp(min=0.0) if isinstance(self.attribute, Count) else found

    @cached_property
    def _table(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        margin = 6 * self._width
        ends = float(self._errors.min()) - margin, float(self._errors.max()) + margin
        places = torch.linspace(*ends, _PLACES, dtype=torch.float64)
        return places.numpy(), self._cumulative(places).numpy()

    def _cumulative(self, away: Tensor) -> Tensor:
        kernel: Tensor = torch.special.ndtr((away[:, None] - self._errors) / self._width).mean(1)
        return (1 - GUARD) * kernel + GUARD * (0.5 + torch.atan(away / self._scale) / math.pi)


def calibrated(codes: Tensor, frequencies: Tensor, hits: int, tries: int) -> Probabilities:
    """Categories [n] as probable as they were right on held-out entries; the others share the rest by frequency [K].

    One hit and one miss are added to those that were counted, half an entry to the frequencies.
    """
    share = (hits + 1) / (tries + 2)
    others = (frequencies + 0.5).expand(len(codes), -1).clone().scatter(1, codes[:, None], 0.0)
    probs = (1 - share) * others / others.sum(1, keepdim=True)
    return Probabilities(probs.scatter(1, codes[:, None], share))
