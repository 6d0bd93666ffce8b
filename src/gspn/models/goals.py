"""What `SupervisedGSPN` learns and reads off: targets as a readout predicts them, or labels from others' labels.

Each is a `Goal` of `fitting`, and has what its model's predictions begin with: `asked`, `log_prior`. What is predicted
from there is the same for both: the functions at the end, which take a readout and what it depends on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from gspn.attributes import FloatArray
from gspn.circuits.distributions import CategoricalDistribution
from gspn.errors import InputError
from gspn.graphs import GraphDataset, pack
from gspn.hierarchy import Readout, SupervisedHierarchy
from gspn.hierarchy.label_readout import LabelNetwork, LabelReadout
from gspn.hierarchy.objectives import Objective, evidence_objective, supervised_objective
from gspn.models.checks import TRAINING, check_supervised_training, check_values
from gspn.models.label_learning import learn_labels
from gspn.models.labels import labels_of_graphs, name_target
from gspn.queries.contract import chunk_size
from gspn.scores import score
from gspn.targets import Target, all_binary, target_schema
from gspn.training import Processes, Validate

_ARGUMENTS = (*TRAINING, "likelihood_weight", "monitor", "pretraining")
_OF_OBJECTIVES = ("objective", "mask_rate", "seed", "likelihood_weight")


class Targets:
    """Targets of graphs, or of vertices, predicted from states; labels are what is predicted and nothing else."""

    kind: ClassVar[str] = "targets"
    arguments: ClassVar[tuple[str, ...]] = _ARGUMENTS

    def __init__(self, network: SupervisedHierarchy, target: Target) -> None:
        self.network = network
        self.target = target

    def checked(self, settings: dict[str, Any]) -> dict[str, Any]:
        check_supervised_training(settings)
        return settings

    def labels(self, dataset: GraphDataset, y: Any) -> FloatArray:
        """[rows, T] encoded labels, one row per graph (or vertex) of the dataset."""
        return labels_of_graphs(dataset, y, self.target, self.network.readout.target_level)

    def prepare(self, dataset: GraphDataset, y: Any) -> GraphDataset:
        """Graphs with checked labels [rows, T]: those given, or those that the graphs carry."""
        labels = torch.from_numpy(_some(self.labels(dataset, y), self.target))
        return _once_each(dataset).with_targets(labels, self.network.readout.target_level)

    def objective(self, settings: Mapping[str, Any]) -> Objective:
        return supervised_objective(self.network, *(settings[name] for name in _OF_OBJECTIVES))

    def judge(
        self, objective: Objective, validation: GraphDataset, processes: Processes, settings: Mapping[str, Any]
    ) -> Validate:
        return _judge(self, validation, self.labels(validation, None), settings)

    def pretraining(self, settings: Mapping[str, Any]) -> int:
        return int(settings["pretraining"])

    def learns_vertices(self, settings: Mapping[str, Any]) -> bool:
        return bool(settings["likelihood_weight"] > 0)

    def set_units(self, training: GraphDataset) -> None:
        self.network.readout.set_units(torch.from_numpy(self.labels(training, None)))

    def start(self, training: GraphDataset, generator: torch.Generator) -> None:
        readout, hierarchy = self.network.readout, self.network.hierarchy
        readout.initialise(torch.from_numpy(self.labels(training, None)), generator)
        if readout.pooling == "standardised":
            with torch.no_grad():
                chunks = training.chunks(chunk_size(hierarchy))
                readout.standardise(hierarchy(batch.to(hierarchy.raw_prior.device)) for batch in chunks)

    def learn_at_once(
        self, training: GraphDataset, validation: GraphDataset | None, settings: Mapping[str, Any]
    ) -> dict[str, Any]:
        return {}

    # Predictions.

    def asked(self, dataset: GraphDataset) -> GraphDataset:
        """Graphs as they are predicted from."""
        return dataset

    @torch.no_grad()
    def log_prior(self, dataset: GraphDataset) -> Tensor:
        """[rows, C_g] of all graphs (or vertices), in chunks; labels have no say in it, whatever they are."""
        chunks = replace(dataset, y=None, target_level=None).chunks(chunk_size(self.network.hierarchy))
        return torch.cat([self.network(batch).readout_log_prior for batch in chunks])


class Labels:
    """Labels of vertices, predicted from what is known of others' labels beside the attributes.

    In prepared graphs, true labels [rows, T] are followed by those that are evidence [rows, T].
    """

    kind: ClassVar[str] = "labels"
    arguments: ClassVar[tuple[str, ...]] = _ARGUMENTS

    def __init__(self, network: LabelNetwork, target: Target, class_weight: str | None) -> None:
        self.network = network
        self.target = target
        self.class_weight = class_weight

    def checked(self, settings: dict[str, Any]) -> dict[str, Any]:
        """With weight 0 the vertices stay where they start, and the label's leaf is learned by itself."""
        check_supervised_training(settings)
        return settings if self.learns_vertices(settings) else settings | {"epochs": 0}

    def labels(self, dataset: GraphDataset, y: Any) -> FloatArray:
        """[rows, T] encoded labels, one row per vertex of the dataset."""
        return labels_of_graphs(dataset, y, self.target, "vertex")

    def prepare(self, dataset: GraphDataset, y: Any) -> GraphDataset:
        """Evidence are the labels that the graphs carry, for whoever asks does not know y."""
        labels = _some(self.labels(dataset, y), self.target)
        known = labels if y is None else self._known(dataset)
        return _once_each(dataset).with_targets(torch.from_numpy(np.concatenate([labels, known], axis=1)), "vertex")

    def objective(self, settings: Mapping[str, Any]) -> Objective:
        return evidence_objective(self.network, *(settings[name] for name in _OF_OBJECTIVES))

    def judge(
        self, objective: Objective, validation: GraphDataset, processes: Processes, settings: Mapping[str, Any]
    ) -> Validate:
        truth, known = _prepared(validation)
        return _judge(self, validation.with_targets(known, "vertex"), truth.numpy(), settings)

    def pretraining(self, settings: Mapping[str, Any]) -> int:
        return 0

    def learns_vertices(self, settings: Mapping[str, Any]) -> bool:
        return bool(settings["likelihood_weight"] > 0)

    def set_units(self, training: GraphDataset) -> None:
        self.network.readout.set_units(_prepared(training)[0])

    def start(self, training: GraphDataset, generator: torch.Generator) -> None: ...

    def learn_at_once(
        self, training: GraphDataset, validation: GraphDataset | None, settings: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The label's leaf: before the first epoch, and for the attributes' model as it is at the end."""
        fit = learn_labels(self.network, training, validation, settings["seed"], self.class_weight)
        return {"label_outcome_": fit}

    # Predictions.

    def asked(self, dataset: GraphDataset) -> GraphDataset:
        """Graphs with the labels that are evidence."""
        known = self._known(dataset)
        check_reach(self.network.readout, known)
        return _once_each(dataset).with_targets(torch.from_numpy(known), "vertex")

    @torch.no_grad()
    def log_prior(self, dataset: GraphDataset) -> Tensor:
        """[rows, W + 1] what every vertex's own label depends on, in chunks."""
        chunks = dataset.chunks(chunk_size(self.network.hierarchy))
        return torch.cat([self.network.told(batch) for batch in chunks])

    def _known(self, dataset: GraphDataset) -> FloatArray:
        """[rows, T] the labels that the graphs carry, if any."""
        if dataset.y is not None:
            return self.labels(dataset, None)
        return np.full((len(dataset.vertex_rows()), len(target_schema(self.target))), np.nan)


def _some(labels: FloatArray, target: Target) -> FloatArray:
    if np.isnan(labels).all():
        raise InputError(f"no graph has a label of {name_target(target)}; there is nothing to learn or judge from")
    return labels


def _once_each(dataset: GraphDataset) -> GraphDataset:
    """A graph that occurs twice may have two labels, so it is stored twice."""
    return pack(list(dataset), dataset.schema) if len(dataset.positions.unique()) < len(dataset) else dataset


def _prepared(dataset: GraphDataset) -> tuple[Tensor, Tensor]:
    """[rows, T] true labels, and those that are evidence, of a dataset that `Labels.prepare` made."""
    assert dataset.y is not None
    truth, known = dataset.y[dataset.vertex_rows()].double().chunk(2, dim=1)
    return truth, known


def _judge(
    goal: Targets | Labels, validation: GraphDataset, labels: FloatArray, settings: Mapping[str, Any]
) -> Validate:
    """−log P per labelled graph, and the score where there is one; every process judges alike."""
    readout, target = goal.network.readout, goal.target
    check_reach(readout, labels)
    labelled = int((~np.isnan(labels).all(1)).sum())
    try:
        score(target, labels, labels, labels)
        has_score = True
    except InputError:
        if settings["monitor"] == "score":
            raise
        has_score = False

    def judge() -> dict[str, float]:
        log_prior = goal.log_prior(validation)
        found = {"validation": -log_prob(readout, log_prior, labels).double().sum().item() / labelled}
        return found | ({"score": score_of(readout, target, log_prior, labels)} if has_score else {})

    return judge


def check_reach(readout: Readout | LabelReadout, labels: FloatArray) -> None:
    """Continuous labels must lie as near to the training labels' mean as attributes must to theirs."""
    for column, family in enumerate(readout.families):
        values = torch.from_numpy(labels[:, column : column + 1])
        check_values(family, values, lambda row, name: f"y, row {row}, target '{name}'", "labels")


@torch.no_grad()
def log_prob(readout: Readout | LabelReadout, log_prior: Tensor, labels: FloatArray) -> Tensor:
    """[rows] log P(observed targets)."""
    return readout.log_prob(log_prior, torch.from_numpy(labels).to(log_prior.device))


def predictions(readout: Readout | LabelReadout, log_prior: Tensor) -> FloatArray:
    """[rows, T] codes of the likeliest values, or means."""
    found = readout.predictive(log_prior)
    columns = [one.mode.double() if isinstance(one, CategoricalDistribution) else one.mean for one in found]
    return np.column_stack([column.detach().cpu().numpy() for column in columns])


def probabilities(readout: Readout | LabelReadout, target: Target, log_prior: Tensor) -> FloatArray:
    """[rows, K] by class; of several binary targets [rows, T], each the probability of True."""
    tables = [
        one.probs.detach().cpu().numpy()
        for one in readout.predictive(log_prior)
        if isinstance(one, CategoricalDistribution)
    ]
    return np.column_stack([table[:, 1] for table in tables]) if all_binary(target) else tables[0]


def score_of(readout: Readout | LabelReadout, target: Target, log_prior: Tensor, labels: FloatArray) -> float:
    likely = probabilities(readout, target, log_prior) if all_binary(target) else None
    return score(target, labels, predictions(readout, log_prior), likely)
