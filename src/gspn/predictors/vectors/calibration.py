"""Calibration: from the outputs of a head to probabilities that come true, by what it said of rows it had not seen.

Outputs are multiplied by one number and get a constant a class. Both are drawn towards doing nothing, which is what
counts where few labels are there to learn them from.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gspn.attributes import FloatArray
from gspn.rows.task import Task


@dataclass(frozen=True, eq=False)
class Calibration:
    scale: float
    shift: FloatArray
    """[width]"""

    def __call__(self, outputs: FloatArray) -> FloatArray:
        return outputs * self.scale + self.shift


def calibrate(outputs: FloatArray, task: Task) -> Calibration:
    """The most likely calibration [n, width] of the labels, with a prior of deviation 1 on logarithm and constants."""
    from scipy.optimize import minimize

    usual = float(np.sqrt(np.mean(outputs**2))) or 1.0
    width, labels = outputs.shape[1], task.labels.astype(np.int64)

    def objective(free: FloatArray) -> tuple[float, FloatArray]:
        scaled = outputs / usual * np.exp(free[0])
        log_probs = log_probabilities(scaled + free[1:])
        wrong = np.exp(log_probs)
        wrong[np.arange(len(labels)), labels] -= 1.0
        wrong = wrong[:, 1:] if width == 1 else wrong
        loss = -float(log_probs[np.arange(len(labels)), labels].sum()) + float((free**2).sum()) / 2
        return loss, np.concatenate([[float((wrong * scaled).sum())], wrong.sum(0)]) + free

    found = minimize(objective, np.zeros(1 + width), jac=True, method="L-BFGS-B", bounds=[(-6, 6)] * (1 + width)).x
    return Calibration(float(np.exp(found[0])) / usual, found[1:])


def log_probabilities(outputs: FloatArray) -> FloatArray:
    """[n, classes] from one number per class, or from the log odds of two."""
    full = np.column_stack([np.zeros(len(outputs)), outputs]) if outputs.shape[1] == 1 else outputs
    high = full.max(1, keepdims=True)
    found: FloatArray = full - high - np.log(np.exp(full - high).sum(1, keepdims=True))
    return found
