"""Support vectors: machines on similarities between rows, one per class against all others; fitted on Gram matrices.

Similarities are given, or those of Gaussians around standardised rows. libsvm solves; what it finds is kept as one
matrix of coefficients over the rows that support any of the machines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gspn.attributes import FloatArray
from gspn.predictors.vectors.linear import Linear
from gspn.rows.task import Task

COSTS = (1.0, 10.0, 100.0)
"""Of a row on the wrong side (scikit-learn's C)."""
COSTS_OF_PRODUCTS = (0.01, 0.1, 1.0, 10.0)
WIDTHS = (1.0,)
"""Exponents of the similarity at the median distance between two rows."""

RIDGE_WIDTHS = (0.05, 0.2, 1.0)
RIDGE_PENALTIES = (1e-4, 1e-3, 1e-2, 0.1)

_TUBE = 0.05
"""Errors of values that cost nothing, in deviations of the labels."""
_SAMPLE = 500
"""Rows that the median distance is taken over."""
_AT_ONCE = 2_000
"""Rows whose similarities are computed at once."""


@dataclass(frozen=True, eq=False)
class Support:
    """Gaussians around the rows that support the machines."""

    vectors: FloatArray
    """[S, F]"""
    coefficients: FloatArray
    """[S, width]"""
    bias: FloatArray
    """[width]"""
    rate: FloatArray
    """[1] by which similarities fall with squared distance"""

    def outputs(self, rows: FloatArray) -> FloatArray:
        found = np.empty((len(rows), len(self.bias)))
        for start in range(0, len(rows), _AT_ONCE):
            part = rows[start : start + _AT_ONCE]
            similar = np.exp(-self.rate[0] * squared_distances(part, self.vectors))
            found[start : start + _AT_ONCE] = similar @ self.coefficients + self.bias
        return found


def support_heads(
    rows: FloatArray, task: Task, seed: int, only: Sequence[Sequence[float]] | None = None
) -> Iterator[tuple[tuple[float, float], Support]]:
    """A head for every width of the Gaussians and every cost."""
    distances = squared_distances(rows, rows)
    sample = distances[:: max(1, len(rows) // _SAMPLE), :: max(1, len(rows) // _SAMPLE)]
    away = sample[sample > 0]
    usual = float(np.median(away)) if len(away) else 1.0
    settings = [(width, cost) for width in WIDTHS for cost in COSTS] if only is None else [(w, c) for w, c in only]
    for width in dict.fromkeys(width for width, _ in settings):
        gram = np.exp(-width / usual * distances)
        for cost in [cost for own, cost in settings if own == width]:
            supporting, coefficients, bias = machines(gram, task, cost)
            yield (
                (width, cost),
                Support(rows[supporting], coefficients[supporting], bias, np.array([width / usual])),
            )


def kernel_ridge_heads(
    rows: FloatArray, task: Task, seed: int, only: Sequence[Sequence[float]] | None = None
) -> Iterator[tuple[tuple[float, float], Support]]:
    """Least squares on Gaussian similarities, for every width and penalty; of classes, on their sides."""
    distances = squared_distances(rows, rows)
    away = distances[np.triu_indices(len(rows), 1)]  # rounding may leave a row at some distance from itself
    away = away[away > 0]
    usual = float(np.median(away)) if len(away) else 1.0
    targets = task.sides if task.classes else task.labels[:, None]
    centre = targets.mean(0)
    settings = [(width, alpha) for width in RIDGE_WIDTHS for alpha in RIDGE_PENALTIES] if only is None else only
    for width, alpha in settings:
        gram = np.exp(-width / usual * distances)
        gram[np.diag_indices(len(gram))] += alpha
        coefficients = np.linalg.solve(gram, targets - centre)
        yield (width, alpha), Support(rows, coefficients, centre, np.array([width / usual]))


def inner_heads(
    rows: Any, task: Task, seed: int, only: Sequence[float] | None = None
) -> Iterator[tuple[float, Linear]]:
    """Machines on inner products of rows, which may be sparse, for every cost; what they find is a linear map."""
    products = rows @ rows.T
    gram = products if isinstance(products, np.ndarray) else products.toarray()
    for cost in COSTS_OF_PRODUCTS if only is None else only:
        _, coefficients, bias = machines(gram, task, cost)
        yield cost, Linear(np.asarray(rows.T @ coefficients), bias)


def machines(gram: FloatArray, task: Task, cost: float) -> tuple[NDArray[np.int64], FloatArray, FloatArray]:
    """The supporting rows, coefficients [n, width] and constants [width] of machines on similarities [n, n]."""
    from sklearn.svm import SVC, SVR

    coefficients, bias = np.zeros((len(gram), task.width)), np.zeros(task.width)
    for column in range(task.width):
        if task.classes:
            machine = SVC(C=cost, kernel="precomputed", cache_size=500).fit(gram, task.sides[:, column])
        else:
            machine = SVR(C=cost, epsilon=_TUBE, kernel="precomputed", cache_size=500).fit(gram, task.labels)
        coefficients[machine.support_, column] = machine.dual_coef_[0]
        bias[column] = machine.intercept_[0]
    return np.flatnonzero(coefficients.any(1)), coefficients, bias


def squared_distances(one: FloatArray, other: FloatArray) -> FloatArray:
    """[n, m] between rows [n, F] and [m, F]."""
    found = (one**2).sum(1)[:, None] + (other**2).sum(1) - 2 * (one @ other.T)
    positive: FloatArray = np.maximum(found, 0.0)
    return positive
