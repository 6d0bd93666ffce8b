"""Questions about a single model's states: posteriors, embeddings, how uncertain they are.

Several models that answer as one have no states in common, so these questions do not apply to them.
"""

from __future__ import annotations

from typing import overload

import torch
from torch import Tensor

from gspn.arguments import check_choice
from gspn.graphs import OneGraph, SeveralGraphs
from gspn.hierarchy import Hierarchy
from gspn.models.questions import Graphs, Questions
from gspn.queries.scoring import posterior_entropy


class Representations(Questions):
    """The questions, with those about a model's states."""

    hierarchy: Hierarchy

    @overload
    def posteriors(self, graphs: SeveralGraphs) -> list[Tensor]: ...
    @overload
    def posteriors(self, graphs: OneGraph) -> Tensor: ...
    def posteriors(self, graphs: Graphs) -> Tensor | list[Tensor]:
        """[N, L, S, C] posterior of every sum unit at every level; a list for a sequence of graphs."""
        return self._ask(graphs, lambda batch, _: self.hierarchy(batch).posteriors)

    @overload
    def embed(self, graphs: SeveralGraphs, pooling: None = None) -> list[Tensor]: ...
    @overload
    def embed(self, graphs: SeveralGraphs, pooling: str) -> Tensor: ...
    @overload
    def embed(self, graphs: OneGraph, pooling: None = None) -> Tensor: ...
    @overload
    def embed(self, graphs: OneGraph, pooling: str) -> Tensor: ...
    def embed(self, graphs: Graphs, pooling: str | None = None) -> Tensor | list[Tensor]:
        """[N, L·S·C] the posteriors as one vector per vertex; a list for a sequence of graphs.

        graphs: one graph, or a sequence of graphs.
        pooling: None, or "mean" or "sum" over the vertices of a graph: [L·S·C] for one graph, [G, L·S·C] for a
            sequence. The mean of a graph without vertices is 0.
        """
        if pooling is not None:
            check_choice("pooling", pooling, ("mean", "sum"))
        found = self._ask(graphs, lambda batch, _: self.hierarchy(batch).posteriors.flatten(1))
        if pooling is None:
            return found
        pooled = [_pooled(one, pooling) for one in ([found] if isinstance(found, Tensor) else found)]
        return pooled[0] if isinstance(found, Tensor) else torch.stack(pooled)

    transform = embed
    """The same, under the name that pipelines use."""

    @overload
    def posterior_entropy(self, graphs: SeveralGraphs) -> list[Tensor]: ...
    @overload
    def posterior_entropy(self, graphs: OneGraph) -> Tensor: ...
    def posterior_entropy(self, graphs: Graphs) -> Tensor | list[Tensor]:
        """[N, L, S] entropy of every sum unit's posterior in nats: how uncertain the states are; at most log C."""
        return self._ask(graphs, lambda batch, _: posterior_entropy(self.hierarchy, batch))


def _pooled(embedding: Tensor, pooling: str) -> Tensor:
    total = embedding.sum(0)
    return total / max(len(embedding), 1) if pooling == "mean" else total
