"""One layer of a contextual mixture, learned by EM with everything below it fixed.

A vertex (or edge) n with contexts q[n, a] (distributions over the states of what it sees along arc a) has

    P(evidence_n | q_n) = Σ_i  [Σ_a w_a Σ_j q[n, a, j] θ[a, j, i]]  p(evidence_n | i)

An arc is a pair of earlier layer and kind of edge; w is learned with θ and the emissions. A plain mixture is the case
of one arc with one state. Tables have a Dirichlet(1 + smoothing) prior, so what training has not seen stays possible;
what EM raises in every step is the likelihood times this prior.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gspn.attributes import FloatArray
from gspn.baselines.emissions import SPARSITY, Emission, first_emission, log_densities, normalised
from gspn.baselines.evidence import Column


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
