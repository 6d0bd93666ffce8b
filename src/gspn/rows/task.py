"""What one head has to learn: codes of the classes that occur, or standardised values; and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gspn.attributes import FloatArray


@dataclass(frozen=True, eq=False)
class Task:
    """Labels of one target as all families of heads take them."""

    labels: FloatArray
    """[n] codes 0 … classes - 1, each of which occurs, or standardised values"""
    classes: int
    """how many; 0 for values"""

    @property
    def width(self) -> int:
        """Outputs of a head: a value, the log odds of the second of two classes, or one number per class."""
        return self.classes if self.classes > 2 else 1

    @property
    def sides(self) -> FloatArray:
        """[n, width] what a machine that separates two sides learns: 1 inside a class, -1 outside of it."""
        if self.classes == 2:
            return 2.0 * self.labels[:, None] - 1.0
        return np.where(self.labels[:, None] == np.arange(self.classes), 1.0, -1.0)

    def part(self, chosen: NDArray[np.int64]) -> Task:
        return Task(self.labels[chosen], self.classes)


class FittedHead(Protocol):
    """What has been learned, as plain arrays."""

    def outputs(self, rows: FloatArray) -> FloatArray:
        """[n, width] from rows [n, F]."""
