"""How good predicted probabilities of classes are: macro F1, accuracy, log-loss, calibration error."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import f1_score

_LEAST = 1e-6
"""Probabilities count as at least this: one that is 0 would decide everything."""
_BINS = 15


def judge(probs: NDArray[np.float64], truth: NDArray[np.int64]) -> dict[str, float]:
    """Of probabilities [n, K] and classes [n]. Macro F1 is over the classes that occur in the truth."""
    sound = np.clip(np.nan_to_num(probs), _LEAST, None)
    sound = sound / sound.sum(1, keepdims=True)
    predicted, sure = sound.argmax(1), sound.max(1)
    right = predicted == truth
    place = np.minimum((sure * _BINS).astype(int), _BINS - 1)
    apart = [abs(right[place == b].mean() - sure[place == b].mean()) * (place == b).mean() for b in np.unique(place)]
    return {
        "macro F1": float(f1_score(truth, predicted, labels=np.unique(truth), average="macro", zero_division=0)),
        "accuracy": float(right.mean()),
        "log-loss": float(-np.log(sound[np.arange(len(truth)), truth]).mean()),
        "calibration": float(np.sum(apart)),
        "classes": float(len(np.unique(predicted))),
    }
