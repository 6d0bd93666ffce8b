"""What the layer-wise ancestors share: estimators that learn one layer after another and embed by their posteriors.

`LayerwiseEM` is for those whose layers are learned by EM on the fixed ones below, CGMM and E-CGMM.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self, overload

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from torch import Tensor

from gspn.arguments import check_choice, check_integer, check_real
from gspn.attributes import FloatArray, Schema
from gspn.baselines.contexts import edge_sums, neighbour_sums
from gspn.baselines.evidence import Column, columns_of
from gspn.baselines.mixture_layer import Layer, learn, start
from gspn.errors import InputError, NotFittedError
from gspn.graphs import Batch, GraphDataset, OneGraph, SeveralGraphs, is_single_graph, pack
from gspn.models.checks import check_edge_types
from gspn.models.gspn import Graphs

EMBEDDINGS = ("unigram", "bigram", "both")

_ROWS_AT_ONCE = 200_000
"""Vertices and edges that are embedded in one chunk."""


@dataclass(frozen=True, eq=False)
class LayerPosteriors:
    """Posteriors of every layer: vertices [N, C] and, where a model has states for them, edges [E, C]."""

    vertices: list[FloatArray] = field(default_factory=list)
    edges: list[FloatArray] = field(default_factory=list)


class Layerwise(TransformerMixin, BaseEstimator, ABC):
    """Learns layer after layer without labels; `embed` gives one row per vertex, to be read by `DeepSets`.

    A vertex's row holds, layer after layer, its unigrams (its posteriors; where edges have states, also the sums of its
    incoming edges' posteriors), its bigrams (for states i, j its posterior of i times the sum of its neighbours'
    posteriors of j in the same layer), or both, as `embedding` says. `embedding` may be changed after fitting.
    """

    schema: Schema
    embedding: str
    num_edge_types: int = 1
    columns_: tuple[Column, ...]

    @abstractmethod
    def _check(self) -> None:
        """Refuse arguments that cannot work."""

    @abstractmethod
    def _learn(self, batch: Batch) -> None:
        """Learn all layers from the training graphs; `columns_` is there already."""

    @abstractmethod
    def _read(self, batch: Batch) -> LayerPosteriors:
        """Posteriors of all layers for new graphs."""

    def fit(self, graphs: Graphs, y: Any = None, *, progress: bool = True) -> Self:
        """Learn from graphs; labels are not looked at, and `progress` is there for the interface: nothing is shown."""
        if not isinstance(self.schema, Schema):
            raise InputError(f"schema must be a gspn.Schema, got {type(self.schema).__name__}")
        check_choice("embedding", self.embedding, EMBEDDINGS)
        self._check()
        dataset = self._pack(graphs)
        self.columns_ = columns_of(self.schema, dataset.entries())
        self._learn(dataset.batch(torch.arange(len(dataset))))
        return self

    @overload
    def embed(self, graphs: SeveralGraphs) -> list[Tensor]: ...
    @overload
    def embed(self, graphs: OneGraph) -> Tensor: ...
    def embed(self, graphs: Graphs) -> Tensor | list[Tensor]:
        """[N, D] float32, one row per vertex; a list for a sequence of graphs."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")
        check_choice("embedding", self.embedding, EMBEDDINGS)
        dataset = self._pack(graphs)
        rows: list[Tensor] = []
        for batch in dataset.chunks(_ROWS_AT_ONCE):
            found = torch.from_numpy(_embedding(self._read(batch), batch, self.embedding).astype(np.float32))
            rows.extend(found.split(batch.vertex_ptr.diff().tolist()))
        return rows[0] if is_single_graph(graphs) else rows

    @overload
    def embed_graphs(self, graphs: SeveralGraphs) -> list[Tensor]: ...
    @overload
    def embed_graphs(self, graphs: OneGraph) -> Tensor: ...
    def embed_graphs(self, graphs: Graphs) -> Tensor | list[Tensor]:
        """[1, D] the sum over a graph's vertices, as a set of one row; a list for a sequence of graphs."""
        rows = self.embed(graphs)
        return rows.sum(0, keepdim=True) if isinstance(rows, Tensor) else [row.sum(0, keepdim=True) for row in rows]

    transform = embed
    """The same, under the name that pipelines use."""

    def _pack(self, graphs: Graphs) -> GraphDataset:
        dataset = pack(graphs, self.schema)
        check_edge_types(dataset, self.num_edge_types)
        return dataset

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "layers_")


def check_sizes(**sizes: Any) -> None:
    """Arguments that count something and must be at least 1."""
    for name, value in sizes.items():
        check_integer(name, value, 1)


def _embedding(reading: LayerPosteriors, batch: Batch, embedding: str) -> FloatArray:
    parts: list[FloatArray] = []
    if embedding != "bigram":
        parts += reading.vertices
        parts += [edge_sums(batch, edges) for edges in reading.edges]
    if embedding != "unigram":
        for own in reading.vertices:
            theirs = neighbour_sums(batch, own)[:, 0]
            parts.append((own[:, :, None] * theirs[:, None, :]).reshape(len(own), own.shape[1] ** 2))
    return np.concatenate(parts, axis=1)


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
