"""The training of one head as a record: what it learns from, how, and how far it has come."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch

from gspn.attributes import FloatArray
from gspn.predictors.embeddings import PackedEmbeddings
from gspn.predictors.heads import Head, Weights, starting_weights


@dataclass(frozen=True)
class LabelledEmbeddings:
    """Graphs with labels [G, T] as they were encoded, NaN where missing."""

    rows: PackedEmbeddings
    labels: FloatArray


@dataclass
class HeadRun:
    """The training of one head: how, and how far it has come."""

    hidden: int
    pooling: str
    epochs: int
    lr: float
    weight_decay: float
    patience: int
    monitor: str
    seed: int
    history: list[dict[str, Any]] = field(default_factory=list)
    weights: Weights | None = None
    """The best weights after whole epochs (without validation, the last); None before there are any."""
    best: tuple[float, float] | None = None
    """What the best weights reached in validation, larger being better."""
    best_epoch: int = 0
    diverged: bool = False

    @property
    def finished(self) -> bool:
        waited = len(self.history) - 1 - self.best_epoch
        return self.diverged or len(self.history) >= self.epochs or (self.best is not None and waited >= self.patience)

    def start(self, columns: int, outputs: int, dtype: torch.dtype) -> Head:
        weights = starting_weights(columns, self.hidden, outputs, self.seed, dtype)
        return Head(weights, self.pooling, self.lr, self.weight_decay)

    def note(self, record: dict[str, Any], weights: Weights) -> None:
        """Take down an epoch, and its weights if they are the best so far."""
        if not math.isfinite(record["train"]) or not all(bool(w.isfinite().all()) for w in weights.values()):
            self.diverged = True
        elif "validation" not in record:
            self.weights = weights
        elif math.isfinite(loss := record["validation"]):
            reached = (record["score"], -loss) if self.monitor == "score" else (-loss, 0.0)
            if self.best is None or reached > self.best:
                self.weights, self.best, self.best_epoch = weights, reached, record["epoch"]
        self.history.append(record)
