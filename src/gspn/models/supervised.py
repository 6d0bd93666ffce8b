"""SupervisedGSPN: a GSPN whose posteriors, pooled over the graph, predict typed targets through a circuit."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self, TypeVar, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gspn.attributes import Binary, Categorical, FloatArray, Schema
from gspn.circuits.distributions import CategoricalDistribution, Distribution
from gspn.circuits.leaves.contract import as_mapping
from gspn.circuits.structure import Unit
from gspn.errors import InputError
from gspn.graphs import Batch, GraphDataset, OneGraph, SeveralGraphs, is_single_graph
from gspn.hierarchy import Hierarchy, Readout, SupervisedHierarchy
from gspn.hierarchy.label_readout import LabelNetwork, LabelReadout
from gspn.hierarchy.objectives import Objective, evidence_objective, supervised_objective
from gspn.models.arguments import TRAINING, check_choice, check_labels_argument, check_readout, check_real
from gspn.models.compatibility import check_magnitudes, check_values
from gspn.models.gspn import GSPN, Graphs
from gspn.models.labels import labels_of_graphs, name_target
from gspn.models.labels_as_evidence import LabelsAsEvidence
from gspn.queries.chunks import chunk_size
from gspn.scores import score
from gspn.targets import (
    Target,
    all_binary,
    class_values,
    decode_predictions,
    target_schema,
)
from gspn.training import Processes, Validate

Predicted = TypeVar("Predicted")
"""Something with a row a graph, or a row a vertex"""


class SupervisedGSPN(LabelsAsEvidence, GSPN):
    """Graph-Induced Sum-Product Network that predicts targets of graphs, or of vertices.

    Everything a GSPN can be asked about vertices can be asked here too; it is meaningful as far as `likelihood_weight`
    made the vertices part of the training.

    Arguments that are not listed here are as for `GSPN`; `objective` is the vertices'.

    Parameters
    ----------
    target:
        What is predicted: a Categorical, Continuous, Binary or Count, or a Schema of several with missing labels.
    num_graph_states:
        States C_g of the readout's sum unit.
    pooling:
        "sum" or "mean" over the vertices of a graph.
    target_level:
        "graph", or "vertex" for one prediction a vertex.
    head:
        "circuit" (the paper's: a mixture over graph states), or "linear" (logits that are linear in the graph states'
        weights; categorical and binary targets only; for comparison).
    likelihood_weight:
        The loss of a graph is −log P(targets | graph) plus this weight times the sum of its vertices' objective. Above
        0, graphs without labels take part in the training.
    labels:
        What labels are, for targets of vertices. "targets": what is predicted, nothing else. "evidence": known
        labels of other vertices say something of a vertex's label, its own never does. They are those that graphs carry
        as `y`, NaN where unknown; see `predict`.
    hidden:
        Of labels="evidence": units of the hidden layer that is tried beside plain regressions; 0 tries none.
    class_weight:
        Of labels="evidence": None, or "balanced", by which rare classes count as much as common ones: for macro F1
        rather than for probabilities.
    monitor:
        What chooses the best epoch on validation data: "loss" (−log P(targets | graph)) or "score".
    """

    supervised: Any
    """A `SupervisedHierarchy`, or a `LabelNetwork` where labels are evidence"""
    _training_arguments = (*TRAINING, "likelihood_weight", "monitor")

    def __init__(
        self,
        schema: Schema,
        target: Target,
        num_layers: int = 5,
        num_states: int = 20,
        num_graph_states: int = 32,
        pooling: str = "sum",
        target_level: str = "graph",
        head: str = "circuit",
        likelihood_weight: float = 0.0,
        template: Unit | None = None,
        shortcut: str | None = None,
        num_edge_types: int = 1,
        objective: str = "pseudo",
        mask_rate: float = 0.15,
        epochs: int = 100,
        batch_size: int = 32,
        lr: float = 0.01,
        weight_decay: float = 0.0,
        clip: float | None = None,
        patience: int = 50,
        monitor: str = "loss",
        n_init: int = 1,
        seed: int = 0,
        aggregation: str = "mean",
        leaves: Mapping[Any, str] | None = None,
        covariance: str = "diagonal",
        context: str | None = None,
        context_variance: float = 0.0,
        slopes: str = "tied",
        prior: float = 0.0,
        guard: float = 0.0,
        start: str = "clusters",
        halve_every: float | None = None,
        atoms: Mapping[str, Sequence[float]] | None = None,
        labels: str = "targets",
        hidden: int = 16,
        class_weight: str | None = None,
    ) -> None:
        self.target = target
        self.num_graph_states = num_graph_states
        self.pooling = pooling
        self.target_level = target_level
        self.head = head
        self.likelihood_weight = likelihood_weight
        self.monitor = monitor
        self.labels = labels
        self.hidden = hidden
        self.class_weight = class_weight
        GSPN.__init__(
            self,
            schema,
            num_layers,
            num_states,
            template,
            shortcut,
            num_edge_types,
            objective,
            mask_rate,
            epochs,
            batch_size,
            lr,
            weight_decay,
            clip,
            patience,
            n_init,
            seed,
            aggregation,
            leaves,
            covariance,
            context,
            context_variance,
            slopes,
            prior,
            guard,
            start,
            halve_every,
            atoms,
        )

    def _check(self) -> None:
        super()._check()
        check_readout(self.target, self.num_graph_states, self.pooling, self.target_level, self.head)
        check_labels_argument(self.labels, self.target, self.target_level, self.head, self.hidden, self.class_weight)
        _check_settings(self.arguments())

    def _make(self) -> None:
        hierarchy = self._make_hierarchy()
        levels = (self.num_layers, hierarchy.template.num_sum_units, self.num_states)
        targets = target_schema(self.target)
        if self.labels == "evidence":
            states = hierarchy.template.num_sum_units * self.num_states
            self.supervised = LabelNetwork(hierarchy, LabelReadout(self.schema, targets, states, self.hidden))
            return
        readout = Readout(targets, levels, self.num_graph_states, self.pooling, self.target_level, self.head)
        self.supervised = SupervisedHierarchy(hierarchy, readout)

    @property
    def network(self) -> nn.Module:
        found: nn.Module = self.supervised
        return found

    @property
    def hierarchy(self) -> Hierarchy:  # type: ignore[override]
        found: Hierarchy = self.supervised.hierarchy
        return found

    @property
    def readout(self) -> Readout | LabelReadout:
        """The latter where labels are evidence."""
        found: Readout | LabelReadout = self.supervised.readout
        return found

    # Training.

    def _settings(self, overrides: Mapping[str, Any]) -> dict[str, Any]:
        settings = super()._settings(overrides)
        _check_settings(settings)
        if self.labels == "evidence" and settings["likelihood_weight"] == 0:
            settings["epochs"] = 0  # the vertices stay where they start, and the label's leaf is learned by itself
        return settings

    def _prepare(self, graphs: Graphs, y: Any) -> GraphDataset:
        """Checked graphs with checked labels [rows, T]: those given, or those that the graphs carry."""
        dataset = self._pack(graphs)
        labels = self._labels(dataset, y)
        if np.isnan(labels).all():
            raise InputError(
                f"no graph has a label of {name_target(self.target)}; there is nothing to learn or judge from"
            )
        dataset = self._once_each(dataset)
        if self.labels == "evidence":
            # Beside what is true, what is evidence: the labels that the graphs carry, for whoever asks does not know y.
            known = labels if y is None else self._known(dataset)
            labels = np.concatenate([labels, known], axis=1)
        return dataset.with_targets(torch.from_numpy(labels), self.target_level)

    def _labels(self, dataset: GraphDataset, y: Any) -> FloatArray:
        """[rows, T] encoded labels, one row a graph (or vertex) of the dataset."""
        return labels_of_graphs(dataset, y, self.target, self.target_level)

    def _objective(self, settings: Mapping[str, Any]) -> Objective:
        names = ("mask_rate", "seed", "likelihood_weight")
        if isinstance(self.supervised, LabelNetwork):
            return evidence_objective(self.supervised, settings["objective"], *(settings[name] for name in names))
        return supervised_objective(self.supervised, settings["objective"], *(settings[name] for name in names))

    def _judge(
        self, objective: Objective, validation: GraphDataset, processes: Processes, settings: Mapping[str, Any]
    ) -> Validate:
        """−log P per labelled graph, and the score where there is one; every process judges alike."""
        labels = self._truth(validation)
        self._check_reach(labels)
        if self.labels == "evidence":
            validation = self._with_evidence(validation)
        labelled = int((~np.isnan(labels).all(1)).sum())
        try:
            score(self.target, labels, labels, labels)
            has_score = True
        except InputError:
            if settings["monitor"] == "score":
                raise
            has_score = False

        def judge() -> dict[str, float]:
            log_prior = self._log_prior(validation)
            with torch.no_grad():
                log_prob = self.readout.log_prob(log_prior, torch.from_numpy(labels).to(log_prior.device))
            found = {"validation": -log_prob.double().sum().item() / labelled}
            return found | ({"score": self._score(log_prior, labels)} if has_score else {})

        return judge

    def _start_targets(self, training: GraphDataset, generator: torch.Generator) -> None:
        if isinstance(self.readout, Readout):
            self.readout.initialise(torch.from_numpy(self._labels(training, None)), generator)

    def _set_units(self, training: GraphDataset) -> None:
        super()._set_units(training)
        self.readout.set_units(torch.from_numpy(self._truth(training)))

    def _final_results(self, validation: GraphDataset | None, settings: Mapping[str, Any]) -> dict[str, float]:
        # Where the vertices were not part of the training, their likelihood says nothing.
        return super()._final_results(validation, settings) if settings["likelihood_weight"] > 0 else {}

    def _scores_to_keep(self, usual: GraphDataset | None, settings: Mapping[str, Any]) -> dict[str, Any]:
        return super()._scores_to_keep(usual, settings) if settings["likelihood_weight"] > 0 else {}

    def _monitored(self, settings: Mapping[str, Any]) -> str:
        return str(settings["monitor"])

    # Predictions. Of several graphs: one row a graph, or a list where the targets are those of vertices. A type checker
    # cannot know which; `| Any` spares people to say it.

    @overload
    def predict(self, graphs: SeveralGraphs) -> NDArray[Any] | Any: ...
    @overload
    def predict(self, graphs: OneGraph) -> NDArray[Any]: ...
    def predict(self, graphs: Graphs) -> NDArray[Any] | list[NDArray[Any]]:
        """Category values of categorical and binary targets, means of the others; one row a graph.

        With labels="evidence" the labels that the graphs carry as `y` are used for all vertices but their own; NaN, or
        no `y` at all, where they are not known. A label that is to be predicted honestly must not stand there.

        [G] for one target, [G, T] for several. Targets of vertices: [N] for one graph, a list for a sequence.
        """
        dataset, log_prior = self._read(graphs)
        return self._rows(graphs, dataset, decode_predictions(self.target, self._predictions(log_prior)))

    @overload
    def predict_proba(self, graphs: SeveralGraphs) -> FloatArray | Any: ...
    @overload
    def predict_proba(self, graphs: OneGraph) -> FloatArray: ...
    def predict_proba(self, graphs: Graphs) -> FloatArray | list[FloatArray]:
        """[G, K] probabilities by class; of several binary targets [G, T], each the probability of True."""
        if not isinstance(self.target, Binary | Categorical) and not all_binary(self.target):
            raise InputError("predict_proba is for a categorical or binary target, or several binary; try predictive")
        dataset, log_prior = self._read(graphs)
        return self._rows(graphs, dataset, self._probabilities(log_prior))

    @overload
    def predictive(
        self, graphs: SeveralGraphs
    ) -> Distribution | list[Distribution] | dict[str, Distribution | list[Distribution]]: ...
    @overload
    def predictive(self, graphs: OneGraph) -> Distribution | dict[str, Distribution]: ...
    def predictive(
        self, graphs: Graphs
    ) -> Distribution | list[Distribution] | dict[str, Distribution] | dict[str, Distribution | list[Distribution]]:
        """The distribution of the target of every graph, to be asked for mean, interval, log_prob and more.

        Several targets give a mapping by name: the marginals; `log_prob` of the model has their joint.
        """
        dataset, log_prior = self._read(graphs)
        found = dict(zip(target_schema(self.target).names, self.readout.predictive(log_prior), strict=True))
        by_name = {name: self._rows(graphs, dataset, distribution) for name, distribution in found.items()}
        return by_name if isinstance(self.target, Schema) else next(iter(by_name.values()))

    @overload
    def log_prob(self, graphs: SeveralGraphs, y: Any = None) -> Tensor | Any: ...
    @overload
    def log_prob(self, graphs: OneGraph, y: Any = None) -> Tensor: ...
    def log_prob(self, graphs: Graphs, y: Any = None) -> Tensor | list[Tensor]:
        """[G] log P(observed targets | graph) of `y` or of the graphs' own labels; 0 where none is observed."""
        dataset, log_prior = self._read(graphs)
        labels = self._labels(dataset, y)
        self._check_reach(labels)
        with torch.no_grad():
            log_prob = self.readout.log_prob(log_prior, torch.from_numpy(labels).to(log_prior.device))
        return self._rows(graphs, dataset, log_prob)

    def score(self, graphs: Graphs, y: Any = None) -> float:
        """Accuracy, R² or (several binary targets) mean average precision on the rows that have labels."""
        dataset, log_prior = self._read(graphs)
        return self._score(log_prior, self._labels(dataset, y))

    def collate(self, graphs: Graphs) -> Batch:
        """All graphs as one batch, checked with the labels that they carry, on the model's device."""
        dataset = self._pack(graphs)
        if dataset.y is not None:
            self._labels(dataset, None)
        return super().collate(dataset)

    def _check_reach(self, labels: FloatArray) -> None:
        """Continuous labels must lie as near to the training labels' mean as attributes must to theirs."""
        for column, family in enumerate(self.readout.families):
            values = torch.from_numpy(labels[:, column : column + 1])
            check_values(family, values, lambda row, name: f"y, row {row}, target '{name}'", "labels")

    def _read(self, graphs: Graphs) -> tuple[GraphDataset, Tensor]:
        self._require_fitted()
        dataset = self._pack(graphs)
        check_magnitudes(self.hierarchy, dataset)
        if self.labels == "evidence":
            known = self._known(dataset)
            self._check_reach(known)
            dataset = self._once_each(dataset).with_targets(torch.from_numpy(known), "vertex")
        return dataset, self._log_prior(dataset)

    @torch.no_grad()
    def _log_prior(self, dataset: GraphDataset) -> Tensor:
        """[rows, C_g] of all graphs (or vertices), in chunks; labels have no say in it, whatever they are.

        Where they are evidence: [rows, W + 1], what a vertex's own label depends on.
        """
        if isinstance(self.supervised, LabelNetwork):
            return torch.cat([self.supervised.told(batch) for batch in dataset.chunks(chunk_size(self.hierarchy))])
        chunks = replace(dataset, y=None, target_level=None).chunks(chunk_size(self.hierarchy))
        return torch.cat([self.supervised(batch).readout_log_prior for batch in chunks])

    def _predictions(self, log_prior: Tensor) -> FloatArray:
        """[rows, T] codes of the likeliest values, or means."""
        found = self.readout.predictive(log_prior)
        columns = [one.mode.double() if isinstance(one, CategoricalDistribution) else one.mean for one in found]
        return np.column_stack([column.detach().cpu().numpy() for column in columns])

    def _probabilities(self, log_prior: Tensor) -> FloatArray:
        tables = [
            one.probs.detach().cpu().numpy()
            for one in self.readout.predictive(log_prior)
            if isinstance(one, CategoricalDistribution)
        ]
        return np.column_stack([table[:, 1] for table in tables]) if all_binary(self.target) else tables[0]

    def _score(self, log_prior: Tensor, labels: FloatArray) -> float:
        probabilities = self._probabilities(log_prior) if all_binary(self.target) else None
        return score(self.target, labels, self._predictions(log_prior), probabilities)

    def _rows(self, graphs: Graphs, dataset: GraphDataset, rows: Predicted) -> Predicted | list[Predicted]:
        """One row a graph as they are; one row a vertex by graph, for a sequence of graphs."""
        if self.target_level == "graph" or is_single_graph(graphs):
            return rows
        ends = dataset.num_vertices_per_graph().cumsum(0).tolist()
        cut: Any = rows
        return [cut[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]

    @property
    def classes_(self) -> NDArray[Any]:
        """The target's values by code, the order of `predict_proba`; scikit-learn's scorers take them for sorted."""
        if not isinstance(self.target, Binary | Categorical):
            raise AttributeError("only a single categorical or binary target has classes")
        return class_values(self.target)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if isinstance(self.target, Binary | Categorical):
            from sklearn.utils import ClassifierTags

            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        elif not isinstance(self.target, Schema):
            from sklearn.utils import RegressorTags

            tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        tags.target_tags.required = False  # the graphs may carry it
        return tags

    # Parameters.

    def get_parameters(self) -> dict[str, Any]:
        """As for `GSPN`, and "readout": "transitions" [L, S, C, C_g], "leaves" by target and "units" of a circuit head,
        or "weight" and "bias" of a linear one.
        """
        return super().get_parameters() | {"readout": self.readout.export()}

    def set_parameters(self, parameters: Mapping[str, Any]) -> Self:
        """Set all parameters from the form that `get_parameters` gives; nothing is set if anything is wrong."""
        given = dict(as_mapping("parameters", parameters))
        if "readout" not in given:
            raise InputError("parameters of a supervised model need a 'readout'")
        before, fitted = copy.deepcopy(self.network.state_dict()), self.__sklearn_is_fitted__()
        try:
            self.readout.assign(given.pop("readout"), fitted=fitted)
            return super().set_parameters(given)
        except BaseException:
            self.network.load_state_dict(before)
            raise


def _check_settings(settings: Mapping[str, Any]) -> None:
    check_real("likelihood_weight", settings["likelihood_weight"], 0.0, float("inf"))
    check_choice("monitor", settings["monitor"], ("loss", "score"))
