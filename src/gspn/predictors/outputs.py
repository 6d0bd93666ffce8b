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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gspn.attributes import Attribute, Binary, Categorical, Continuous, FloatArray
from gspn.compiling import compiled
from gspn.errors import InputError
from gspn.scores import score
from gspn.targets import Target, all_binary, target_schema

_CATEGORICAL, _BINARY, _CONTINUOUS, _COUNT = range(4)
_NUMBER_OF_KIND = {"categorical": _CATEGORICAL, "binary": _BINARY, "continuous": _CONTINUOUS, "count": _COUNT}


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
        sizes = [len(a.categories) if isinstance(a, Categorical) else 1 for a in target_schema(self.target)]
        return np.cumsum(sizes, dtype=np.int64)

    @cached_property
    def kinds(self) -> NDArray[np.int64]:
        """[T] the targets' kinds as the compiled loss numbers them."""
        return np.array([_NUMBER_OF_KIND[attribute.kind] for attribute in target_schema(self.target)])

    def standardise(self, labels: FloatArray) -> FloatArray:
        """Labels [n, T] as the loss takes them: continuous ones in their units."""
        continuous = self.kinds == _CONTINUOUS
        return np.where(continuous, (labels - self.units[:, 0]) / self.units[:, 1], labels)

    def losses(self, outputs: NDArray[Any], labels: FloatArray, gradients: NDArray[Any], weight: float) -> FloatArray:
        """[heads] sums of the losses of all labelled entries, from outputs [heads, n, O] and standardised labels.

        `gradients` becomes their derivative in the outputs, times `weight`.
        """
        return _losses(outputs, labels, self.kinds, self.ends, self.units[:, 0], gradients, weight)

    def predictions(self, outputs: FloatArray) -> FloatArray:
        """[n, T] codes, medians and rates in the users' units, from the outputs [n, O] of one head."""
        predicted = np.empty((len(outputs), len(self.ends)))
        start = 0
        for column, (kind, end) in enumerate(zip(self.kinds, self.ends, strict=True)):
            own, (centre, scale) = outputs[:, start:end], self.units[column]
            if kind == _CATEGORICAL:
                predicted[:, column] = own.argmax(1)
            elif kind == _BINARY:
                predicted[:, column] = own[:, 0] > 0
            elif kind == _CONTINUOUS:
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


@compiled
def _losses(
    outputs: NDArray[Any],
    labels: FloatArray,
    kinds: NDArray[np.int64],
    ends: NDArray[np.int64],
    centres: FloatArray,
    gradients: NDArray[Any],
    weight: float,
) -> FloatArray:
    totals = np.zeros(len(outputs))
    for head in range(len(outputs)):
        for row in range(len(labels)):
            own, gradient, start = outputs[head, row], gradients[head, row], 0
            for t in range(len(kinds)):
                end, label, kind = ends[t], labels[row, t], kinds[t]
                if math.isnan(label):
                    gradient[start:end] = 0
                elif kind == _CATEGORICAL:
                    largest, total = own[start], 0.0
                    for k in range(start, end):
                        largest = max(largest, own[k])
                    for k in range(start, end):
                        total += math.exp(own[k] - largest)
                    totals[head] += math.log(total) + largest - own[start + int(label)]
                    for k in range(start, end):
                        gradient[k] = weight * (math.exp(own[k] - largest) / total - (k == start + int(label)))
                elif kind == _BINARY:
                    raised = math.exp(-abs(own[start]))
                    totals[head] += max(own[start], 0.0) - label * own[start] + math.log1p(raised)
                    gradient[start] = weight * ((1.0 if own[start] >= 0 else raised) / (1.0 + raised) - label)
                elif kind == _CONTINUOUS:
                    totals[head] += abs(own[start] - label)
                    gradient[start] = weight * np.sign(own[start] - label)
                else:
                    log_rate = own[start] + centres[t]
                    rate = math.exp(log_rate)
                    totals[head] += rate - label * log_rate
                    gradient[start] = weight * (rate - label)
                start = end
    return totals
