"""Layers learned by EM, one after another on the fixed ones below: what CGMM and E-CGMM share."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from gspn.arguments import check_integer, check_real
from gspn.attributes import FloatArray
from gspn.baselines.evidence import Column
from gspn.baselines.layerwise import LayerPosteriors, Layerwise, check_sizes
from gspn.baselines.mixture_layer import Layer, learn, start
from gspn.graphs import Batch

LayerFor = Callable[[int, str, FloatArray, FloatArray], Layer]
"""The layer for its number, what it is about, contexts and evidence: looked up, or learned on the spot."""


class LayerwiseEM(Layerwise):
    """What CGMM and E-CGMM share: how layers are learned by EM, and how those learned are looked up again."""

    num_layers: int
    context: int | None
    em_steps: int
    tolerance: float
    smoothing: float
    seed: int
    layers_: list[dict[str, Layer]]
    history_: list[dict[str, Any]]

    def _check(self) -> None:
        check_sizes(num_layers=self.num_layers, num_edge_types=self.num_edge_types, em_steps=self.em_steps)
        if self.context is not None:
            check_sizes(context=self.context)
        check_real("tolerance", self.tolerance, 0.0, math.inf)
        check_real("smoothing", self.smoothing, 0.0, math.inf, low_open=True)
        check_integer("seed", self.seed, 0, 2**63 - 1)

    @abstractmethod
    def _columns(self) -> dict[str, tuple[tuple[Column, ...], int]]:
        """For each thing that has states, its columns of evidence and its number of states."""

    @abstractmethod
    def _climb(self, batch: Batch, layer_for: LayerFor) -> LayerPosteriors:
        """All layers from the first up."""

    def _earlier(self, layers: list[Any]) -> list[Any]:
        """Those of the layers so far that the next one sees."""
        return layers if self.context is None else layers[-int(self.context) :]

    def _read(self, batch: Batch) -> LayerPosteriors:
        return self._climb(batch, lambda number, part, contexts, evidence: self.layers_[number][part])

    def _learn(self, batch: Batch) -> None:
        layers: list[dict[str, Layer]] = [{} for _ in range(self.num_layers)]
        history: list[dict[str, Any]] = []

        def learned(number: int, part: str, contexts: FloatArray, evidence: FloatArray) -> Layer:
            columns, num_states = self._columns()[part]
            rng = np.random.default_rng([self.seed, number, len(layers[number])])
            layer = start(contexts, evidence, columns, num_states, rng)
            before = -math.inf
            steps = learn(layer, contexts, evidence, float(self.smoothing))
            for step, (log_likelihood, objective, after) in zip(range(self.em_steps), steps, strict=False):
                history.append(
                    {"layer": number, "part": part, "step": step}
                    | {"log_likelihood": log_likelihood, "objective": objective}
                )
                layer = after
                if objective - before < self.tolerance:
                    break
                before = objective
            layers[number][part] = layer
            return layer

        self._climb(batch, learned)
        self.layers_, self.history_ = layers, history


def nothing_seen(size: int) -> FloatArray:
    """[n, 1, 1] contexts of a first layer: one arc with one state."""
    return np.ones((size, 1, 1))
