"""What experiments measure: the scores of a trained model on graphs that it has not learned from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from gspn.attributes import Binary, Categorical, Continuous, Count
from gspn.errors import InputError
from gspn.graphs import GraphDataset
from gspn.scores import mean_absolute_error
from gspn.targets import Target, all_binary


@dataclass(frozen=True)
class Measure:
    """How a score is called, shown and compared."""

    title: str
    label: str
    better: Literal["higher", "lower"]
    factor: float = 1.0
    digits: int = 2


MEASURES: Mapping[str, Measure] = {
    "accuracy": Measure("Accuracy", "accuracy in %", "higher", 100.0, 1),
    "average precision": Measure(
        "Average precision", "average precision in %, mean over the tasks", "higher", 100.0, 2
    ),
    "mean absolute error": Measure("Mean absolute error", "mean absolute error", "lower"),
    "R²": Measure("R²", "R²", "higher", 1.0, 3),
    "nll per vertex": Measure(
        "NLL per vertex", "−log density of the missing entries, nats per vertex that has some", "lower"
    ),
    "nll per entry": Measure("NLL per entry", "−log density, nats per missing entry", "lower", 1.0, 3),
}


def measure_of(target: Target) -> str:
    """The score that predictions of a target are judged by."""
    if isinstance(target, Continuous | Count):
        return "mean absolute error"
    if isinstance(target, Categorical | Binary):
        return "accuracy"
    if all_binary(target):
        return "average precision"
    raise InputError(
        f"experiments predict one target, or several binary ones, not {', '.join(one.name for one in target)} together"
    )


def judge_predictions(target: Target, model: Any, inputs: Any, labels: Tensor) -> dict[str, float]:
    """Score of anything that has `predict` and `score`: a model on graphs or a head on embeddings."""
    measure = measure_of(target)
    if measure == "mean absolute error":
        error = mean_absolute_error(labels.double().numpy().reshape(-1), model.predict(inputs).reshape(-1))
        scored = int((~labels.double().isnan()).sum()) > 1  # one label has no variance to explain
        return {measure: error} | ({"R²": model.score(inputs, labels)} if scored else {})
    return {measure: model.score(inputs, labels)}


def judge_missing(
    log_prob_missing: Callable[[GraphDataset, GraphDataset], list[Tensor]], observed: GraphDataset, truth: GraphDataset
) -> dict[str, float]:
    """How likely the missing entries' true values are."""
    total = -float(torch.cat(log_prob_missing(observed, truth)).double().sum())
    gaps = torch.isnan(observed.entries()).sum(1)
    return {"nll per entry": total / int(gaps.sum()), "nll per vertex": total / int((gaps > 0).sum())}
