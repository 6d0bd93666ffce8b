"""What has been learned of one target: calibrated heads, to be averaged, and their errors on rows not learned from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gspn.attributes import Attribute, Binary, Categorical, Count, FloatArray
from gspn.predictors.vectors.calibration import Calibration, log_probabilities
from gspn.rows.task import FittedHead, Task

_NEVER = -12.0
"""Log-probability, relative to the others, of a class that no label has."""
_LEAST_COUNT = 1e-3


_FARTHEST = 3.0
"""Deviations beyond which a weighted column says nothing more: rare columns of few labelled rows reach far"""


def seen(rows: Any, view: FloatArray | None) -> Any:
    """Rows with weighted columns; those of weight 0 do not count."""
    return rows if view is None else np.clip(rows, -_FARTHEST, _FARTHEST) * view


@dataclass(frozen=True, eq=False)
class Part:
    """One head of those that are averaged."""

    family: str
    settings: Any
    head: FittedHead
    calibration: Calibration | None
    """None for values"""
    view: FloatArray | None = None
    """[F] weights of the columns as it sees them; None for rows as they are"""

    def outputs(self, rows: FloatArray) -> FloatArray:
        """[n, width]"""
        outputs = self.head.outputs(seen(rows, self.view))
        return outputs if self.calibration is None else self.calibration(outputs)


@dataclass(frozen=True, eq=False)
class Units:
    """From labels of one target to a task, and back."""

    attribute: Attribute
    present: NDArray[np.int64]
    """codes of the classes that occur; empty for values"""
    centre: float = 0.0
    scale: float = 1.0
    """of values, counts on a logarithmic scale"""

    @classmethod
    def of(cls, attribute: Attribute, labels: FloatArray) -> Units:
        if isinstance(attribute, Categorical | Binary):
            return cls(attribute, np.unique(labels).astype(np.int64))
        values = np.log1p(labels) if isinstance(attribute, Count) else labels
        return cls(attribute, np.zeros(0, dtype=np.int64), float(values.mean()), float(values.std()) or 1.0)

    def task(self, labels: FloatArray) -> Task:
        """Labels that these units were taken from, or others of the same classes."""
        if len(self.present):
            return Task(np.searchsorted(self.present, labels).astype(np.float64), len(self.present))
        values = np.log1p(labels) if isinstance(self.attribute, Count) else labels
        return Task((values - self.centre) / self.scale, 0)

    def values(self, outputs: FloatArray) -> FloatArray:
        """[n] predictions in the users' units."""
        found: FloatArray = outputs[:, 0] * self.scale + self.centre
        return np.maximum(np.expm1(np.minimum(found, 700.0)), 0.0) if isinstance(self.attribute, Count) else found


@dataclass(frozen=True, eq=False)
class TargetHead:
    units: Units
    parts: tuple[Part, ...]
    """none where only one class occurs"""
    errors: FloatArray = field(default_factory=lambda: np.zeros(0))
    """[n] of values on rows that were not learned from, ascending by size, in the users' units"""

    def log_probabilities(self, rows: FloatArray) -> FloatArray:
        """[n, K] over all codes of the target."""
        attribute = self.units.attribute
        codes = len(attribute.categories) if isinstance(attribute, Categorical) else 2
        found = np.full((rows.shape[0], codes), _NEVER)
        found[:, self.units.present] = log_probabilities(self._mean(rows)) if self.parts else 0.0
        high = found.max(1, keepdims=True)
        logs: FloatArray = found - high - np.log(np.exp(found - high).sum(1, keepdims=True))
        return logs

    def values(self, rows: FloatArray) -> FloatArray:
        """[n] predictions of a continuous or count target in the users' units."""
        return self.units.values(self._mean(rows))

    def outputs(self, rows: FloatArray, units: FloatArray) -> FloatArray:
        """[n, O] as `predictors.outputs` reads them, with its units [2] of this target."""
        attribute = self.units.attribute
        if isinstance(attribute, Categorical):
            return self.log_probabilities(rows)
        if isinstance(attribute, Binary):
            logs = self.log_probabilities(rows)
            return logs[:, 1:] - logs[:, :1]
        values = self.values(rows)
        if isinstance(attribute, Count):
            values = np.log(np.maximum(values, _LEAST_COUNT))
        found: FloatArray = ((values - units[0]) / units[1])[:, None]  # the scale of counts is 1
        return found

    def _mean(self, rows: FloatArray) -> FloatArray:
        total = np.zeros((rows.shape[0], 1))
        for part in self.parts:
            total = total + part.outputs(rows)
        return total / max(1, len(self.parts))
