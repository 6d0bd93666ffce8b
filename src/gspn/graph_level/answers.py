"""Predictions of values as distributions: a prediction and the errors that were made on graphs not learned from."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gspn.attributes import Attribute, FloatArray
from gspn.circuits.distributions import check_draws, several
from gspn.errors import InputError


class Around:
    """n distributions around predictions: each is off as often, and as far, as predictions were on unseen graphs.

    The errors are the same for all graphs. Intervals are split-conformal: they hold the value with at least their
    probability, if graphs come as those did that the errors were seen on; with fewer than 1 / (1 - level) of these they
    reach just as far as the largest error.
    """

    def __init__(self, attribute: Attribute, mean: FloatArray, errors: FloatArray) -> None:
        self.attribute = attribute
        self._mean = torch.as_tensor(mean, dtype=torch.float64)
        self._errors = torch.as_tensor(errors, dtype=torch.float64)

    def __len__(self) -> int:
        return len(self._mean)

    def __getitem__(self, rows: int | slice | Tensor) -> Around:
        return Around(self.attribute, self._mean[several(rows, len(self))].numpy(), self._errors.numpy())

    def __repr__(self) -> str:
        return f"Around({len(self)} distributions of {self.attribute!r})"

    @property
    def mean(self) -> Tensor:
        """[n] the predictions."""
        return self._mean

    @property
    def variance(self) -> Tensor:
        """[n] mean squared error on unseen graphs; 0 where there were none."""
        size = float(self._errors.square().mean()) if len(self._errors) else 0.0
        return torch.full_like(self._mean, size)

    def interval(self, level: float = 0.9) -> Tensor:
        """[n, 2]"""
        if not 0 < level < 1:
            raise InputError(f"level must be a number between 0 and 1, got {level!r}")
        sizes = self._errors.abs().sort().values
        place = min(math.ceil((len(sizes) + 1) * level), len(sizes)) - 1
        reach = float(sizes[place]) if len(sizes) else 0.0
        low = self._mean - reach
        return torch.stack([low.clamp_min(0) if self.attribute.kind == "count" else low, self._mean + reach], dim=-1)

    def least_level(self, values: Tensor) -> Tensor:
        """[n] level from which on intervals hold these values; infinite where none does."""
        sizes = self._errors.abs().sort().values
        nearer = torch.searchsorted(sizes, (values - self._mean).abs())
        return torch.where(nearer < len(sizes), nearer / (len(sizes) + 1), math.inf)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """[n, rows] predictions with errors drawn from those that were made."""
        check_draws(n)
        if not len(self._errors):
            return self._mean.expand(n, -1).clone()
        drawn = torch.randint(len(self._errors), (n, len(self)), generator=generator)
        found = self._mean + self._errors[drawn]
        return found.clamp_min(0).round() if self.attribute.kind == "count" else found
