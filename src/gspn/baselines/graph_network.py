"""GraphNetwork: any graph neural network as an estimator that predicts typed targets of graphs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from gspn.attributes import FloatArray, Schema
from gspn.baselines.features import Features
from gspn.baselines.gin import GIN
from gspn.baselines.networks import Network, Shape, build, check_fitting, fit_network, inputs_of, objective_of
from gspn.baselines.predicting import Predicting
from gspn.graphs import Batch, GraphDataset
from gspn.models.checks import check_edge_types
from gspn.models.fitting import with_labels
from gspn.models.questions import Graphs
from gspn.predictors.outputs import Outputs, outputs_for
from gspn.targets import Target, all_binary

_DEFAULT = GIN()


@dataclass(eq=False, repr=False)
class GraphNetwork(Predicting):
    """A graph neural network on vertex features, trained on the labels alone.

    Missing entries are filled with the training mean of their feature columns (`baselines.features`).

    Parameters
    ----------
    target:
        Categorical, Binary, Continuous or Count, or a Schema of several with missing labels; losses and predictions
        are those of `DeepSets`.
    network:
        What is trained: GIN, GraphSAGE, DGCNN, DiffPool, ECC or DeepMultisets with their own settings.
    epochs:
        Passes over the training graphs, at most.
    batch_size:
        Graphs in a minibatch.
    lr:
        Learning rate of Adam.
    weight_decay:
        Weight decay of Adam.
    clip:
        Norm to which gradients are clipped, or None.
    halve_every:
        The learning rate is halved every so many epochs; None never does.
    patience:
        With validation graphs, training ends when `monitor` has not improved for so many epochs; the best weights are
        kept.
    monitor:
        "loss" or "score".
    seed:
        Fixes everything random.
    """

    schema: Schema
    target: Target
    network: Network = _DEFAULT
    epochs: int = 1000
    batch_size: int = 32
    lr: float = 0.01
    weight_decay: float = 0.0
    clip: float | None = None
    halve_every: int | None = None
    patience: int = 500
    monitor: str = "loss"
    seed: int = 0

    def fit(
        self,
        graphs: Graphs,
        y: Any = None,
        *,
        validation: Graphs | tuple[Graphs, Any] | None = None,
        checkpoint: str | Path | None = None,
        progress: bool = True,
    ) -> Self:
        """Train on graphs and their labels; `validation` are graphs that carry labels, or a pair (graphs, y).

        `checkpoint` is a file in which the run is kept after every epoch, and from which it goes on.
        """
        arguments = self.get_params(deep=False)
        check_fitting(arguments)
        training, labels = self._labelled(graphs, y)
        held_out = None if validation is None else self._labelled(*with_labels(validation))
        meaning, features = outputs_for(self.target, labels), Features.of(self.schema, training.entries())
        shape = Shape(features.width, int(meaning.ends[-1]), training.num_vertices_per_graph())
        module = build(self.network, shape, self.seed)

        def loss(batch: Batch) -> tuple[Tensor, int]:
            assert batch.y is not None
            terms = int((~torch.isnan(batch.y)).sum())
            outputs = module(inputs_of(batch, features))
            return loss_of(outputs, batch.y, meaning) + terms * module.penalty, terms

        def validate() -> dict[str, float]:
            assert held_out is not None
            judged, their_labels = held_out
            outputs = _outputs(module, features, judged, self.batch_size)
            terms = int((~np.isnan(their_labels)).sum())
            found = {"validation": loss_of(outputs, torch.from_numpy(their_labels), meaning).item() / terms}
            if self.monitor == "score" or not all_binary(self.target):  # average precision takes its time
                found["score"] = meaning.score(outputs.double().numpy(), their_labels)
            return found

        self.history_ = fit_network(
            module,
            objective_of(module, loss, self.seed),
            training,
            None if held_out is None else validate,
            arguments,
            {
                "network": repr(self.network),
                "schema": repr(self.schema),
                "target": repr(self.target),
                "validation data": None if held_out is None else held_out[0].digest(),
            },
            checkpoint,
            progress,
        )
        self.module_, self.features_, self.meaning_ = module, features, meaning
        return self

    def _outputs(self, dataset: GraphDataset) -> FloatArray:
        found: FloatArray = _outputs(self.module_, self.features_, dataset, self.batch_size).double().numpy()
        return found

    def _pack(self, graphs: Graphs) -> GraphDataset:
        dataset = super()._pack(graphs)
        check_edge_types(dataset, self.network.num_edge_types)
        return dataset


@torch.no_grad()
def _outputs(module: torch.nn.Module, features: Features, dataset: GraphDataset, batch_size: int) -> Tensor:
    """[G, O] in batches as large as those of training, which are known to fit into memory."""
    module.eval()
    parts = torch.arange(len(dataset)).split(batch_size)
    return torch.cat([module(inputs_of(dataset.batch(ids), features)) for ids in parts])


def loss_of(outputs: Tensor, labels: Tensor, meaning: Outputs) -> Tensor:
    """The sum of the losses of all labelled entries, from outputs [n, O] and labels [n, T]."""
    return meaning.losses(outputs.unsqueeze(0), labels).squeeze(0)
