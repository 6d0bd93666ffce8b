"""Entries as the probabilistic ancestors read them: every column is a code or a number on a standard scale.

Categorical and binary attributes are codes. Continuous ones are standardised with the training data, counts likewise on
a log scale (the models know categorical and Gaussian emissions only). NaN stays NaN: each model says what it does then.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gspn.attributes import Binary, Categorical, Continuous, Count, FloatArray, Schema
from gspn.errors import InputError

_FLOOR_OF_COUNTS = 0.1
"""Smallest deviation of a state for counts on their log scale: repeated values are normal there, and no spikes."""


@dataclass(frozen=True)
class Column:
    """What a column of evidence holds."""

    size: int
    """number of categories; 0 for a number"""
    center: float = 0.0
    spread: float = 1.0
    floor: float = 0.0
    """smallest deviation of a state, in standard units"""
    logarithmic: bool = False

    def __call__(self, column: FloatArray) -> FloatArray:
        """Values of an encoded column in the units of the models."""
        values = np.log1p(column) if self.logarithmic else column
        return (values - self.center) / self.spread


def columns_of(schema: Schema, entries: Tensor) -> tuple[Column, ...]:
    """Learn units from training entries [n, d]; every attribute must be observed somewhere."""
    columns = []
    for attribute, values in zip(schema, entries.unbind(1), strict=True):
        known = values[~torch.isnan(values)]
        if not len(known):
            raise InputError(f"attribute '{attribute.name}' is missing at every vertex; nothing can be learned of it")
        if isinstance(attribute, Categorical | Binary):
            columns.append(Column(len(attribute.categories) if isinstance(attribute, Categorical) else 2))
            continue
        if isinstance(attribute, Count):
            known = torch.log1p(known)
        deviation = known.std(correction=0).item()
        floor = attribute.floor if isinstance(attribute, Continuous) else _FLOOR_OF_COUNTS
        columns.append(Column(0, known.mean().item(), deviation or 1.0, floor, isinstance(attribute, Count)))
    return tuple(columns)


def read_entries(columns: tuple[Column, ...], entries: Tensor) -> NDArray[np.float64]:
    """[n, d] evidence of entries [n, d]."""
    read = [column(values.double().numpy()) for column, values in zip(columns, entries.unbind(1), strict=True)]
    return np.stack(read, axis=1)
