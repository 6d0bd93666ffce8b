"""Small sets of embeddings whose labels follow from them, for targets of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from gspn import Binary, Categorical, Continuous, Count, Schema
from gspn.predictors import DeepSets
from gspn.targets import Target, target_schema

COLUMNS = 4


def draw(number: int, seed: int) -> tuple[list[Tensor], NDArray[np.float64]]:
    """Embeddings in [0, 1], and of each graph the mean of its first column, which its labels depend on."""
    rng = np.random.default_rng(seed)
    graphs, signal = [], []
    for _ in range(number):
        level = rng.random()
        x = rng.random((int(rng.integers(3, 9)), COLUMNS))
        x[:, 0] = np.clip(level + 0.1 * rng.normal(size=len(x)), 0, 1)
        graphs.append(torch.from_numpy(x).float())
        signal.append(x[:, 0].mean())
    return graphs, np.array(signal)


GRAPHS, SIGNAL = draw(120, seed=0)
OTHERS, OTHER_SIGNAL = draw(60, seed=1)
KIND = Categorical("kind", ["low", "middle", "high"])


def kinds(signal: NDArray[np.float64]) -> list[str]:
    return [("low", "middle", "high")[code] for code in np.digitize(signal, [0.33, 0.66])]


def labels(target: Target, signal: NDArray[np.float64]) -> Any:
    """Labels in people's words that follow from the signal."""
    if isinstance(target, Schema):
        return {attribute.name: labels(attribute, signal) for attribute in target}
    if isinstance(target, Categorical):
        return kinds(signal)
    if isinstance(target, Binary):
        return (signal > 0.5).tolist() if target.name != "rare" else (signal < 0.3).tolist()
    if isinstance(target, Continuous):
        return 1000.0 + 250.0 * signal
    return np.random.default_rng(2).poisson(1.0 + 40.0 * signal)


TARGETS: list[Target] = [
    KIND,
    Binary("toxic"),
    Continuous("energy"),
    Count("rings"),
    Schema([Binary("toxic"), Binary("rare")]),
    Schema([KIND, Continuous("energy"), Count("rings"), Binary("toxic")]),
]
every_target = pytest.mark.parametrize(
    "target", TARGETS, ids=lambda target: "+".join(a.kind for a in target_schema(target))
)


def make(target: Target = KIND, **arguments: Any) -> DeepSets:
    defaults: dict[str, Any] = {"hidden": 16, "pooling": "mean", "epochs": 60, "lr": 0.01}
    return DeepSets(target, **defaults | arguments)


def fitted(target: Target = KIND, **arguments: Any) -> DeepSets:
    return make(target, **arguments).fit(GRAPHS, labels(target, SIGNAL), progress=False)
