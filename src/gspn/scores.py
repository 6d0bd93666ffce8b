"""How good predictions are, one number per kind of target; higher is better, as scikit-learn's `score` has it.

Rows without a label are left out. What is predicted, and with what probability, is the models' business.
"""

from __future__ import annotations

import numpy as np

from gspn.attributes import Binary, Categorical, FloatArray
from gspn.errors import InputError
from gspn.targets import Target, all_binary, target_schema


def score(target: Target, labels: FloatArray, predictions: FloatArray, probabilities: FloatArray | None) -> float:
    """Accuracy of one categorical or binary target, R² of a continuous or count one.

    Of several binary targets the mean average precision, from their `probabilities` [n, T]; of several others the mean
    of their own scores. `labels` and `predictions` [n, T] are encoded.
    """
    if all_binary(target) and probabilities is not None:
        return average_precision(labels, probabilities)
    scores = [_one(attribute, labels[:, i], predictions[:, i]) for i, attribute in enumerate(target_schema(target))]
    known = [value for value in scores if value is not None]
    if not known:
        raise InputError("there are too few labels to score the predictions against (accuracy needs one, R² two)")
    return float(np.mean(known))


def _one(attribute: object, labels: FloatArray, predictions: FloatArray) -> float | None:
    labelled = ~np.isnan(labels)
    if not labelled.any():
        return None
    if isinstance(attribute, Binary | Categorical):
        return float(np.mean(labels[labelled] == predictions[labelled]))
    if labelled.sum() < 2:
        return None  # one label has no variance to explain
    from sklearn.metrics import r2_score  # here, as it takes a while and training needs no scores

    return float(r2_score(labels[labelled], predictions[labelled]))


def average_precision(labels: FloatArray, probabilities: FloatArray) -> float:
    """The mean over tasks of the area under precision and recall; tasks whose labels are all alike are left out."""
    from sklearn.metrics import average_precision_score

    values = []
    for task in range(labels.shape[1]):
        labelled = ~np.isnan(labels[:, task])
        own = labels[labelled, task]
        if len(np.unique(own)) == 2:
            values.append(average_precision_score(own, probabilities[labelled, task]))
    if not values:
        raise InputError("no target has labels of both kinds, so there is no average precision")
    return float(np.mean(values))


def mean_absolute_error(labels: FloatArray, predictions: FloatArray) -> float:
    """Over all labelled entries."""
    labelled = ~np.isnan(labels)
    if not labelled.any():
        raise InputError("there is no label to score the predictions against")
    return float(np.abs(labels[labelled] - predictions[labelled]).mean())
