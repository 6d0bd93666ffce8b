"""One layer of a contextual mixture, learned by EM with everything below it fixed.

A vertex (or edge) n with contexts q[n, a] (distributions over the states of what it sees along arc a) has

    P(evidence_n | q_n) = Σ_i  [Σ_a w_a Σ_j q[n, a, j] θ[a, j, i]]  p(evidence_n | i)

An arc is a pair of earlier layer and kind of edge; w is learned with θ and the emissions, which are one distribution
per state for each column of evidence. A plain mixture is the case of one arc with one state. Tables have a Dirichlet(1
+ smoothing) prior, so what training has not seen stays possible; what EM raises in every step is the likelihood times
this prior. A missing entry has log-density 0 and weight 0: it is marginalised.
"""

from __future__ import annotations

from collections.abc import Iterator
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


@dataclass(frozen=True, eq=False)
class Layer:
    """Learned parameters."""

    arcs: FloatArray
    """[A] weights w of the arcs"""
    transitions: FloatArray
    """[A, J, C] θ, rows sum to 1"""
    emissions: tuple[Emission, ...]

    def posteriors(self, contexts: FloatArray, evidence: FloatArray) -> FloatArray:
        """[n, C] of the state, given contexts [n, A, J] and evidence [n, d]."""
        return _expect(self, contexts, evidence)[0]

    def log_likelihood(self, contexts: FloatArray, evidence: FloatArray) -> FloatArray:
        """[n] log P(evidence | contexts)."""
        return _expect(self, contexts, evidence)[1]


def start(
    contexts: FloatArray,
    evidence: FloatArray,
    columns: tuple[Column, ...],
    num_states: int,
    rng: np.random.Generator,
) -> Layer:
    """Random parameters, different for every state."""
    _, num_arcs, num_origins = contexts.shape
    emissions = [first_emission(c, values, num_states, rng) for c, values in zip(columns, evidence.T, strict=True)]
    transitions = rng.dirichlet(np.full(num_states, SPARSITY), (num_arcs, num_origins))
    return Layer(np.full(num_arcs, 1 / num_arcs), normalised(transitions + 1e-6, 2), tuple(emissions))


def learn(
    layer: Layer, contexts: FloatArray, evidence: FloatArray, smoothing: float
) -> Iterator[tuple[float, float, Layer]]:
    """Steps of EM without end: mean log-likelihood and objective of the present parameters, and the next ones."""
    size = max(len(evidence), 1)
    while True:
        posteriors, log_likelihood, prior = _expect(layer, contexts, evidence)
        penalty = smoothing * (np.log(layer.arcs).sum() + np.log(layer.transitions).sum())
        penalty += sum(emission.log_prior(smoothing) for emission in layer.emissions)
        joint = layer.arcs[:, None, None] * layer.transitions
        # Expected number of vertices that took state i from origin j along arc a.
        counts = joint * (_flat(contexts).T @ (posteriors / prior)).reshape(joint.shape)
        columns = zip(layer.emissions, evidence.T, strict=True)
        layer = Layer(
            normalised(counts.sum((1, 2)) + smoothing, 0),
            normalised(counts + smoothing, 2),
            tuple(emission.maximised(values, posteriors, smoothing) for emission, values in columns),
        )
        total = float(log_likelihood.sum())
        yield total / size, (total + float(penalty)) / size, layer


def _expect(layer: Layer, contexts: FloatArray, evidence: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Posteriors [n, C], log-likelihoods [n] and priors [n, C]."""
    joint = layer.arcs[:, None, None] * layer.transitions
    prior = _flat(contexts) @ joint.reshape(-1, joint.shape[2])
    log_joint = np.log(prior) + log_densities(layer.emissions, evidence)
    top = log_joint.max(1, keepdims=True)
    share = np.exp(log_joint - top)
    total = share.sum(1, keepdims=True)
    return share / total, (top + np.log(total))[:, 0], prior


def _flat(contexts: FloatArray) -> FloatArray:
    """[n, A · J], also of no rows at all."""
    return contexts.reshape(len(contexts), contexts.shape[1] * contexts.shape[2])
