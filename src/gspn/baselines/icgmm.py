"""iCGMM: a CGMM that finds its number of states, each layer a hierarchical Dirichlet process mixture.

All vertices of the first layer are one group. In every later layer a vertex's group is the state that its neighbours'
posteriors in the layer below, summed, favour most (the lower one of equals); vertices without neighbours are a group of
their own. Groups share the states and differ in their weights. Types of edges are not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gspn.arguments import check_integer, check_real
from gspn.attributes import FloatArray, Schema
from gspn.baselines.contexts import neighbour_sums
from gspn.baselines.evidence import read_entries
from gspn.baselines.gibbs import Integers, Priors, Sample, Sampler
from gspn.baselines.layerwise import LayerPosteriors, Layerwise, check_sizes
from gspn.graphs import Batch

LayerFor = Callable[[int, Integers, int, FloatArray], Sample]
"""The layer for its number, the vertices' groups, the number of groups and the evidence: looked up, or learned."""


@dataclass(eq=False, repr=False)
class ICGMM(Layerwise):
    """Infinite Contextual Graph Markov Model, learned without labels by Gibbs sampling.

    A layer is the last of `sweeps` Gibbs sweeps; new vertices, and training vertices when they are embedded, get their
    posteriors from its counts. Missing attributes are integrated out, in sampling as in posteriors. Counts are Gaussian
    on a log scale.

    Parameters
    ----------
    num_layers:
        Number of layers.
    sweeps:
        Sweeps over all vertices for each layer.
    start_states:
        States that a layer's chain starts from; vertices with the same group and attributes start in the same one, at
        random. On large graphs chains move slowly and remember much of this start. None lets the vertices in one
        after the other, each joining a state or opening a new one.
    pseudo_count:
        Of the Dirichlet prior of every category in every state.
    strength:
        Of the normal–gamma prior, in units of the columns' own deviations: the mean is Normal with `strength` times
        the precision.
    shape:
        The precision is Gamma(shape, rate).
    rate:
        The precision is Gamma(shape, rate).
    embedding:
        "unigram", "bigram" or "both": what `embed` gives.

    Attributes
    ----------
    layers_:
        The learned layers.
    num_states_:
        The number of states that each layer has found.
    history_:
        One dict a sweep: layer, sweep, num_states, alpha, gamma.
    """

    schema: Schema
    num_layers: int = 5
    sweeps: int = 50
    start_states: int | None = 20
    pseudo_count: float = 0.1
    strength: float = 0.1
    shape: float = 2.0
    rate: float = 0.2
    embedding: str = "unigram"
    seed: int = 0
    layers_: list[Sample] = field(init=False)
    history_: list[dict[str, Any]] = field(init=False)

    @property
    def num_states_(self) -> list[int]:
        return [sample.weights.shape[1] for sample in self.layers_]

    def _check(self) -> None:
        check_sizes(num_layers=self.num_layers, sweeps=self.sweeps)
        if self.start_states is not None:
            check_sizes(start_states=self.start_states)
        for name in ("pseudo_count", "strength", "shape", "rate"):
            check_real(name, getattr(self, name), 0.0, math.inf, low_open=True)
        check_integer("seed", self.seed, 0, 2**63 - 1)

    def _read(self, batch: Batch) -> LayerPosteriors:
        return self._climb(batch, lambda number, groups, num_groups, evidence: self.layers_[number])

    def _learn(self, batch: Batch) -> None:
        layers: list[Sample] = []
        history: list[dict[str, Any]] = []
        priors = Priors(float(self.pseudo_count), float(self.strength), float(self.shape), float(self.rate))

        def learned(number: int, groups: Integers, num_groups: int, evidence: FloatArray) -> Sample:
            rng = np.random.default_rng([self.seed, number])
            sampler = Sampler(evidence, groups, num_groups, self.columns_, priors, rng)
            if self.start_states is not None:
                sampler.deal(int(self.start_states))
            for sweep in range(self.sweeps):
                sampler.sweep()
                now = sampler.mixture
                history.append(
                    {"layer": number, "sweep": sweep, "num_states": now.num_states}
                    | {"alpha": now.alpha, "gamma": now.gamma}
                )
            layers.append(sampler.sample())
            return layers[-1]

        self._climb(batch, learned)
        self.layers_, self.history_ = layers, history

    def _climb(self, batch: Batch, layer_for: LayerFor) -> LayerPosteriors:
        evidence, reading = read_entries(self.columns_, batch.x), LayerPosteriors()
        groups, num_groups = np.zeros(batch.num_vertices, dtype=np.int64), 1
        for number in range(self.num_layers):
            posteriors = layer_for(number, groups, num_groups, evidence).posteriors(groups, evidence)
            reading.vertices.append(posteriors)
            lonely = posteriors.shape[1]
            favoured = neighbour_sums(batch, posteriors)[:, 0].argmax(1)
            groups = np.where(batch.in_degree.numpy() > 0, favoured, lonely)
            num_groups = lonely + 1
        return reading
