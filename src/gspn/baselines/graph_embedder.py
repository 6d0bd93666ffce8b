"""GraphEmbedder: a network that learns vertex representations without labels, to be followed by DeepSets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self, overload

import torch
from sklearn.base import BaseEstimator, TransformerMixin
from torch import Tensor

from gspn.attributes import Schema
from gspn.baselines.encoders import GAE
from gspn.baselines.features import Features
from gspn.baselines.networks import Network, Shape, build, check_fitting, fit_network, inputs_of, objective_of
from gspn.errors import NotFittedError
from gspn.graphs import Batch, OneGraph, SeveralGraphs, is_single_graph, pack
from gspn.models.questions import Graphs
from gspn.training import join_processes, mean_loss

_DEFAULT = GAE()

_AT_ONCE = 50_000
"""Vertices and edges of one chunk when embedding."""


@dataclass(eq=False, repr=False)
class GraphEmbedder(TransformerMixin, BaseEstimator):
    """An encoder trained by its own objective: `network` is GAE (edges against non-edges) or DGI (mutual information).

    Missing entries are filled with the training mean of their feature columns. With validation graphs, training ends
    when their loss has not improved for `patience` epochs. The other arguments are those of `GraphNetwork`.
    """

    schema: Schema
    network: Network = _DEFAULT
    epochs: int = 100
    batch_size: int = 1024
    lr: float = 0.01
    weight_decay: float = 0.0
    clip: float | None = None
    patience: int = 50
    seed: int = 0

    def fit(
        self,
        graphs: Graphs,
        y: object = None,
        *,
        validation: Graphs | None = None,
        checkpoint: str | Path | None = None,
        progress: bool = True,
    ) -> Self:
        """Train on graphs; labels mean nothing here, scikit-learn's pipelines pass them."""
        arguments = self.get_params(deep=False)
        check_fitting(arguments)
        training = pack(graphs, self.schema)
        held_out = None if validation is None else pack(validation, self.schema)
        features = Features.of(self.schema, training.entries())
        module = build(self.network, Shape(features.width, 0, training.num_vertices_per_graph()), self.seed)

        def loss(batch: Batch) -> tuple[Tensor, int]:
            found: tuple[Tensor, int] = module.loss(inputs_of(batch, features))
            return found

        objective = objective_of(module, loss, self.seed)

        def validate() -> dict[str, float]:
            assert held_out is not None
            return {"validation": mean_loss(objective, held_out, join_processes())}

        self.history_ = fit_network(
            module,
            objective,
            training,
            None if held_out is None else validate,
            arguments,
            {
                "network": repr(self.network),
                "schema": repr(self.schema),
                "validation data": None if held_out is None else held_out.digest(),
            },
            checkpoint,
            progress,
        )
        self.module_, self.features_ = module, features
        return self

    @overload
    def embed(self, graphs: SeveralGraphs) -> list[Tensor]: ...
    @overload
    def embed(self, graphs: OneGraph) -> Tensor: ...
    @torch.no_grad()
    def embed(self, graphs: Graphs) -> Tensor | list[Tensor]:
        """[N, D] one row per vertex; a list for a sequence of graphs."""
        if not hasattr(self, "module_"):
            raise NotFittedError("this GraphEmbedder is not fitted yet; call fit first")
        dataset = pack(graphs, self.schema)
        chunks = dataset.chunks(_AT_ONCE)
        rows = torch.cat([self.module_(inputs_of(batch, self.features_)) for batch in chunks])
        return rows if is_single_graph(graphs) else list(rows.split(dataset.num_vertices_per_graph().tolist()))

    transform = embed
    """The same, under the name that pipelines use."""
