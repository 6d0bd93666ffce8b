"""The families of heads by name, and which of them a number of labels allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gspn.attributes import FloatArray
from gspn.predictors.vectors.linear import Linear, linear_heads
from gspn.predictors.vectors.support import Support, inner_heads, kernel_ridge_heads, support_heads
from gspn.rows.task import FittedHead, Task
from gspn.rows.trees import Trees, boosted, forests


@dataclass(frozen=True)
class HeadFamily:
    """Heads of one kind, each with its settings."""

    heads: Callable[..., Iterator[tuple[Any, FittedHead]]]
    """from rows, task, seed and (`only`) settings to those heads"""
    kind: type
    """what its fitted heads are"""
    most: int
    """labels that it can be learned from in reasonable time"""

    def one(self, rows: FloatArray, task: Task, seed: int, settings: Any) -> FittedHead:
        ((_, head),) = self.heads(rows, task, seed, only=[settings])
        return head


FAMILIES: Mapping[str, HeadFamily] = {
    "linear": HeadFamily(linear_heads, Linear, 200_000),
    "support vectors": HeadFamily(support_heads, Support, 10_000),
    "linear support vectors": HeadFamily(inner_heads, Linear, 10_000),
    "kernel ridge": HeadFamily(kernel_ridge_heads, Support, 10_000),
    "extra trees": HeadFamily(forests, Trees, 200_000),
    "boosting": HeadFamily(boosted, Trees, 200_000),
}
"""Logistic or ridge regression; machines on Gaussian similarities and on inner products; least squares on the former;
forests, boosted trees."""
