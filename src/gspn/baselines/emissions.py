"""Emissions of a mixture learned by EM: one distribution per state for each column of evidence.

Each kind knows its log-densities and its exact M-step. A missing entry has log-density 0 and weight 0: it is
marginalised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.sparse import csr_array

from gspn.attributes import FloatArray
from gspn.baselines.evidence import Column

_LEAST_WEIGHT = 1e-10
"""A state that explains less than this share of a vertex keeps its Gaussian: there is nothing to learn it from."""


SPARSITY = 0.1
"""Shape of the Gamma numbers that tables start from: states that differ much at first stay apart, and say more."""


@dataclass(frozen=True, eq=False)
class CategoricalEmission:
    """Tables of probabilities with a Dirichlet(1 + smoothing) prior."""

    table: FloatArray
    """[V, C] columns sum to 1"""

    def log_density(self, values: FloatArray) -> FloatArray:
        padded = np.concatenate([np.log(self.table), np.zeros((1, self.table.shape[1]))])
        found: FloatArray = padded[self._codes(values)]
        return found

    def maximised(self, values: FloatArray, weights: FloatArray, smoothing: float) -> CategoricalEmission:
        codes = self._codes(values)
        chosen = csr_array((np.ones(len(codes)), codes, np.arange(len(codes) + 1)), (len(codes), len(self.table) + 1))
        return CategoricalEmission(normalised((chosen.T @ weights)[:-1] + smoothing, axis=0))

    def log_prior(self, smoothing: float) -> float:
        return smoothing * float(np.log(self.table).sum())

    def _codes(self, values: FloatArray) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        """Codes, the one after the last for a missing entry."""
        return np.where(np.isnan(values), len(self.table), values).astype(np.int64)


@dataclass(frozen=True, eq=False)
class GaussianEmission:
    """Means and deviations in standard units; deviations from `floor` up, which keeps the likelihood bounded."""

    mean: FloatArray
    deviation: FloatArray
    floor: float

    def log_density(self, values: FloatArray) -> FloatArray:
        apart = (values[:, None] - self.mean) / self.deviation
        found: FloatArray = np.nan_to_num(-0.5 * apart**2 - np.log(self.deviation) - 0.5 * np.log(2 * np.pi), nan=0.0)
        return found

    def maximised(self, values: FloatArray, weights: FloatArray, smoothing: float) -> GaussianEmission:
        known = ~np.isnan(values)
        values, weights = values[known], weights[known]
        total = weights.sum(0)
        enough = total > _LEAST_WEIGHT
        total = np.where(enough, total, 1.0)
        mean = np.where(enough, values @ weights / total, self.mean)
        # The best deviation under a floor is the larger of the two: the likelihood has one maximum in it.
        variance = np.einsum("nc,nc->c", (values[:, None] - mean) ** 2, weights) / total
        deviation = np.where(enough, np.maximum(np.sqrt(variance), self.floor), self.deviation)
        return GaussianEmission(mean, deviation, self.floor)

    def log_prior(self, smoothing: float) -> float:
        return 0.0


Emission: TypeAlias = CategoricalEmission | GaussianEmission


def first_emission(column: Column, values: FloatArray, num_states: int, rng: np.random.Generator) -> Emission:
    """Where EM starts: frequencies, most of them shrunk at random in each state, or means at random vertices."""
    known = values[~np.isnan(values)]
    if column.size:
        frequencies = np.bincount(known.astype(np.int64), minlength=column.size) + 1.0
        shaken = frequencies[:, None] * rng.gamma(SPARSITY, size=(column.size, num_states))
        return CategoricalEmission(normalised(shaken + 1e-3, axis=0))
    # A column without a value is a part of an edge's evidence in graphs without edges.
    mean = rng.choice(known, num_states) if len(known) else np.zeros(num_states)
    return GaussianEmission(mean, np.ones(num_states), column.floor)


def log_densities(emissions: tuple[Emission, ...], evidence: FloatArray) -> FloatArray:
    """[n, C] log p(evidence | state)."""
    found = np.zeros((len(evidence), 1))
    for emission, values in zip(emissions, evidence.T, strict=True):
        found = found + emission.log_density(values)
    return found


def normalised(weights: FloatArray, axis: int) -> FloatArray:
    share: FloatArray = weights / weights.sum(axis, keepdims=True)
    return share
