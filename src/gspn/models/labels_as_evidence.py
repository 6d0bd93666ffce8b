"""What a model does otherwise that predicts labels from other vertices' labels: what it reads, and how it learns.

The labels that are evidence stand beside the true ones, in one table [rows, 2 T]. What is learned beside the model of
attributes is in `label_learning`; what all models with targets do, in `supervised`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gspn.attributes import FloatArray, Schema
from gspn.graphs import GraphDataset, pack
from gspn.hierarchy.label_readout import LabelNetwork
from gspn.hierarchy.objectives import Objective
from gspn.models.fitting import Fitting
from gspn.models.judging import Judge
from gspn.models.label_learning import LabelFit, learn_labels
from gspn.targets import Target, target_schema
from gspn.training import Checkpoint, Epochs, Processes


class LabelsAsEvidence(Fitting):
    """For `SupervisedGSPN`; nothing here changes models whose labels are targets alone."""

    schema: Schema
    target: Target
    labels: str
    class_weight: str | None
    supervised: Any
    label_outcome_: LabelFit
    """How the label's leaf was learned, where labels are evidence"""

    if TYPE_CHECKING:

        def _labels(self, dataset: GraphDataset, y: Any) -> FloatArray: ...

    def _once_each(self, dataset: GraphDataset) -> GraphDataset:
        """A graph that occurs twice may have two labels, so it is stored twice."""
        return pack(list(dataset), self.schema) if len(dataset.positions.unique()) < len(dataset) else dataset

    def _known(self, dataset: GraphDataset) -> FloatArray:
        """[rows, T] the labels that the graphs carry, if any."""
        if dataset.y is not None:
            return self._labels(dataset, None)
        return np.full((len(dataset.vertex_rows()), len(target_schema(self.target))), np.nan)

    def _with_evidence(self, dataset: GraphDataset) -> GraphDataset:
        """A dataset that `_prepare` made, with the labels that are evidence alone."""
        assert dataset.y is not None
        return dataset.with_targets(dataset.y[dataset.vertex_rows()].double().chunk(2, dim=1)[1], "vertex")

    def _truth(self, dataset: GraphDataset) -> FloatArray:
        """[rows, T] the true labels of a dataset that `_prepare` made."""
        if self.labels == "targets":
            return self._labels(dataset, None)
        assert dataset.y is not None
        found: FloatArray = dataset.y[dataset.vertex_rows()].double().chunk(2, dim=1)[0].numpy()
        return found

    def _fitting(
        self,
        training: GraphDataset,
        validation: GraphDataset | Judge | None,
        scored: GraphDataset | None,
        settings: dict[str, Any],
        checkpoint: str | Path | None,
        show_progress: bool,
        warm_start: bool,
        seconds: float,
    ) -> Epochs:
        """As for any model; then the label's leaf is learned anew for the attributes' model as it is at the end."""
        yield from super()._fitting(
            training, validation, scored, settings, checkpoint, show_progress, warm_start, seconds
        )
        if self.labels == "evidence":
            self._learn_labels(training, validation, settings)

    def _set_out(
        self,
        training: GraphDataset,
        validation: GraphDataset | Judge | None,
        objective: Objective,
        processes: Processes,
        settings: dict[str, Any],
        checkpoint: str | Path | None,
        warm_start: bool,
    ) -> Checkpoint | None:
        kept = super()._set_out(training, validation, objective, processes, settings, checkpoint, warm_start)
        resumed = warm_start or (kept is not None and kept.path.exists())
        if self.labels == "evidence" and settings["epochs"] and not resumed:
            self._learn_labels(training, validation, settings)
        return kept

    def _learn_labels(
        self, training: GraphDataset, validation: GraphDataset | Judge | None, settings: Mapping[str, Any]
    ) -> None:
        assert isinstance(self.supervised, LabelNetwork)
        held_out = validation if isinstance(validation, GraphDataset) else None
        self.label_outcome_ = learn_labels(self.supervised, training, held_out, settings["seed"], self.class_weight)
