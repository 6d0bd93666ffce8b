"""Linear heads: logistic regression for classes, ridge regression for values."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gspn.attributes import FloatArray
from gspn.rows.task import Task

PENALTIES = (0.001, 0.01, 0.1, 1.0)
"""Of logistic regression: weights are the freer, the larger it is (scikit-learn's C)."""
RIDGES = (10_000.0, 1_000.0, 100.0, 10.0, 1.0)

_ITERATIONS = 500


@dataclass(frozen=True, eq=False)
class Linear:
    """A linear map and a constant."""

    weights: FloatArray
    """[F, width]"""
    bias: FloatArray
    """[width]"""

    def outputs(self, rows: FloatArray) -> FloatArray:
        found: FloatArray = rows @ self.weights + self.bias
        return found


def linear_heads(
    rows: FloatArray, task: Task, seed: int, only: Sequence[float] | None = None
) -> Iterator[tuple[float, Linear]]:
    """A head for every strength of the penalty; scikit-learn's solvers, which draw nothing."""
    if not task.classes:
        from sklearn.linear_model import Ridge

        for alpha in RIDGES if only is None else only:
            ridge = Ridge(alpha=alpha).fit(rows, task.labels)
            yield alpha, Linear(ridge.coef_[:, None], np.array([ridge.intercept_]))
        return
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    machine = LogisticRegression(max_iter=_ITERATIONS, warm_start=True)
    for strength in PENALTIES if only is None else only:
        with warnings.catch_warnings():
            # Validation judges where it has stopped, too.
            warnings.simplefilter("ignore", ConvergenceWarning)
            machine.set_params(C=strength).fit(rows, task.labels)
        yield strength, Linear(machine.coef_.T.copy(), machine.intercept_.copy())
