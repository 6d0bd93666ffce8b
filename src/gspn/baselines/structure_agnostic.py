"""The structure-agnostic baseline: the sum of the vertices' features, then a perceptron. It never sees an edge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from gspn.attributes import FloatArray, Schema
from gspn.baselines.features import Features
from gspn.baselines.predicting import Predicting
from gspn.graphs import GraphDataset, pack
from gspn.models.fitting import with_labels
from gspn.models.labels import labels_of_graphs
from gspn.models.questions import Graphs
from gspn.predictors import DeepSets
from gspn.targets import Target


@dataclass(eq=False, repr=False)
class StructureAgnostic(Predicting):
    """A perceptron with two hidden layers on the sum of a graph's vertex features and its number of vertices.

    Missing entries are filled with the training mean. The perceptron is a DeepSets on sets of one row each, the sum;
    targets and the other arguments are those of `DeepSets`.
    """

    schema: Schema
    target: Target
    hidden: int = 32
    epochs: int = 1000
    batch_size: int = 32
    lr: float = 0.001
    weight_decay: float = 0.0
    patience: int = 200
    monitor: str = "loss"
    seed: int = 0

    def fit(
        self,
        graphs: Graphs,
        y: Any = None,
        *,
        validation: Graphs | tuple[Graphs, Any] | None = None,
        progress: bool = True,
    ) -> Self:
        """Train on graphs and their labels; `validation` are graphs that carry labels, or a pair (graphs, y)."""
        dataset = pack(graphs, self.schema)
        features = Features.of(self.schema, dataset.entries())
        held_out = None
        if validation is not None:
            others, their_y = with_labels(validation)
            judged = pack(others, self.schema)
            held_out = (_rows(features, judged), self._labels(judged, their_y))
        head = DeepSets(**{name: getattr(self, name) for name in self.get_params(deep=False) if name != "schema"})
        head.fit(_rows(features, dataset), self._labels(dataset, y), validation=held_out, progress=progress)
        self.features_, self.head_, self.history_ = features, head, head.history_
        self.meaning_ = head.outputs_
        return self

    def _outputs(self, dataset: GraphDataset) -> FloatArray:
        return self.head_.outputs(_rows(self.features_, dataset))

    def _labels(self, dataset: GraphDataset, y: Any) -> Tensor:
        return torch.from_numpy(labels_of_graphs(dataset, y, self.target))


def _rows(features: Features, dataset: GraphDataset) -> list[Tensor]:
    """Sets of one row each: the sum of a graph's features, and its number of vertices."""
    graph, _ = dataset.vertex_keys()
    rows = features(dataset.entries())
    rows = torch.cat([rows, torch.ones(len(rows), 1)], dim=1)
    return list(torch.zeros(len(dataset), rows.shape[1]).index_add(0, graph, rows).split(1))
