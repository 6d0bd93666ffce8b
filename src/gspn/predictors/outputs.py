"""What the outputs of a network mean: a target's kind decides its outputs, its loss and how predictions are read off.

Categorical: one output a category, cross entropy. Binary: the log odds, logistic loss. Continuous: the value in units
of the training labels (their mean is 0, their deviation 1), absolute error, so that the prediction estimates the
conditional median. Count: the logarithm of the rate relative to the training labels' mean, Poisson likelihood without
the term that depends on the label alone. A missing label has no loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from gspn.attributes import Attribute, Binary, Categorical, Continuous, FloatArray
from gspn.errors import InputError
from gspn.scores import score
from gspn.targets import Target, all_binary, target_schema

_NO_CODE = -100
"""What torch's cross entropy is told where a label is missing."""


@dataclass(frozen=True)
class Outputs:
    """The outputs of one or several targets, in the targets' order, and the units that the training labels gave."""

    target: Target
    units: FloatArray
    """[T, 2] centre and scale of every target: mean and deviation of a continuous one, log mean and 1 of a count, else
    0 and 1."""

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """[T] where every target's outputs end."""
        return np.cumsum(self._sizes, dtype=np.int64)

    @cached_property
    def _sizes(self) -> list[int]:
        return [len(a.categories) if isinstance(a, Categorical) else 1 for a in target_schema(self.target)]

    @cached_property
    def _columns_of_kind(self) -> dict[str, list[int]]:
        """The targets by kind: those of one kind have one loss."""
        columns: dict[str, list[int]] = {}
        for t, attribute in enumerate(target_schema(self.target)):
            columns.setdefault(attribute.kind, []).append(t)
        return columns

    def losses(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """[heads] sums of the losses of all labelled entries, from outputs [heads, n, O] and encoded labels [n, T]."""
        outputs, totals = outputs.double(), []
        parts = outputs.split(self._sizes, dim=2) if len(self._sizes) > 1 else (outputs,)
        for kind, columns in self._columns_of_kind.items():
            if kind == "categorical":
                for t in columns:
                    codes = labels[:, t].nan_to_num(_NO_CODE).long().expand(len(outputs), -1)
                    losses = F.cross_entropy(parts[t].mT, codes, reduction="none", ignore_index=_NO_CODE)
                    totals.append(losses.sum(1))
                continue
            own = parts[columns[0]] if len(columns) == 1 else torch.cat([parts[t] for t in columns], dim=2)
            y, known = labels[:, columns], ~labels[:, columns].isnan()
            # Filled on both sides, a missing label has a finite loss, which is left out together with its gradient.
            own, y = own.where(known, 0.0), y.where(known, 0.0)
            centre, scale = torch.from_numpy(self.units[columns]).unbind(1)
            if kind == "binary":
                losses = F.binary_cross_entropy_with_logits(own, y.expand_as(own), reduction="none")
            elif kind == "continuous":
                losses = (own - (y - centre) / scale).abs()
            else:
                losses = (own + centre).exp() - y * (own + centre)
            totals.append(losses.where(known, 0.0).sum((1, 2)))
        return torch.stack(totals).sum(0) if len(totals) > 1 else totals[0]

    def predictions(self, outputs: FloatArray) -> FloatArray:
        """[n, T] codes, medians and rates in the users' units, from the outputs [n, O] of one head."""
        predicted = np.empty((len(outputs), len(self.ends)))
        start = 0
        for column, (attribute, end) in enumerate(zip(target_schema(self.target), self.ends, strict=True)):
            own, (centre, scale) = outputs[:, start:end], self.units[column]
            if isinstance(attribute, Categorical):
                predicted[:, column] = own.argmax(1)
            elif isinstance(attribute, Binary):
                predicted[:, column] = own[:, 0] > 0
            elif isinstance(attribute, Continuous):
                predicted[:, column] = own[:, 0] * scale + centre
            else:
                with np.errstate(over="ignore"):
                    predicted[:, column] = np.exp(own[:, 0] + centre)
            start = end
        return predicted

    def score(self, outputs: FloatArray, labels: FloatArray) -> float:
        """How good the predictions are, by the encoded labels [n, T]."""
        outputs = outputs.astype(np.float64, copy=False)
        probabilities = self.probabilities(outputs) if all_binary(self.target) else None
        return score(self.target, labels, self.predictions(outputs), probabilities)

    def probabilities(self, outputs: FloatArray) -> FloatArray:
        """[n, K] for a categorical target, [n, 2] for a binary one, [n, T] of True for several binary ones."""
        if isinstance(self.target, Categorical):
            raised = np.exp(outputs - outputs.max(1, keepdims=True))
            return np.asarray(raised / raised.sum(1, keepdims=True))
        if isinstance(self.target, Binary):
            return np.column_stack([_sigmoid(-outputs[:, 0]), _sigmoid(outputs[:, 0])])
        if all_binary(self.target):
            return _sigmoid(outputs)
        raise InputError(
            "predict_proba is for one categorical or binary target, or for several binary ones; use predict"
        )


def outputs_for(target: Target, labels: FloatArray) -> Outputs:
    """The outputs of a target with the units of its training labels [n, T]."""
    units = []
    for column, attribute in enumerate(target_schema(target)):
        labelled = labels[~np.isnan(labels[:, column]), column]
        if not len(labelled):
            raise InputError(f"target {attribute.name!r}: all labels are missing, so there is nothing to learn from")
        units.append(_units(attribute, labelled))
    return Outputs(target, np.array(units))


def _units(attribute: Attribute, labels: FloatArray) -> tuple[float, float]:
    if isinstance(attribute, Continuous):
        # Divided before they are added and squared, large labels do not overflow.
        centre = float((labels / len(labels)).sum())
        largest = float(np.abs(labels - centre).max())
        return centre, largest * float(np.sqrt(np.mean(((labels - centre) / largest) ** 2))) if largest else 1.0
    if isinstance(attribute, Categorical | Binary):
        return 0.0, 1.0
    # Where all counts are 0, a rate that would give less than one count among them.
    return math.log(max(float(labels.mean()), 0.5 / len(labels))), 1.0


def _sigmoid(x: FloatArray) -> FloatArray:
    raised = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, raised) / (1.0 + raised)
