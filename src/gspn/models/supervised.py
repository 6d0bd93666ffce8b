"""SupervisedGSPN: a GSPN whose posteriors, pooled over the graph, predict typed targets through a circuit."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeVar, overload

from numpy.typing import NDArray
from torch import Tensor, nn

from gspn.attributes import Binary, Categorical, FloatArray, Schema
from gspn.circuits.distributions import Distribution
from gspn.circuits.leaves.contract import as_mapping
from gspn.circuits.structure import Unit
from gspn.errors import InputError
from gspn.graphs import Batch, GraphDataset, OneGraph, SeveralGraphs, is_single_graph
from gspn.hierarchy import Hierarchy, Readout, SupervisedHierarchy
from gspn.hierarchy.label_readout import LabelNetwork, LabelReadout
from gspn.models.checks import check_magnitudes, check_supervised, role_of_labels
from gspn.models.goals import Labels, Targets, check_reach, log_prob, predictions, probabilities, score_of
from gspn.models.gspn import GSPN, Graphs, hierarchy_for
from gspn.models.label_choice import LabelFit
from gspn.targets import Target, all_binary, class_values, decode_predictions, target_schema

Predicted = TypeVar("Predicted")
"""Something with a row per graph, or a row per vertex"""


class SupervisedGSPN(GSPN):
    """Graph-Induced Sum-Product Network that predicts targets of graphs, or of vertices.

    It answers all questions about vertices that a GSPN answers; the answers are meaningful as far as
    `likelihood_weight` made the vertices part of the training. That is why it is a `GSPN`: stacks, commands and
    features of graphs accept either.

    Arguments that are not listed here are as for `GSPN`; `objective` is that of the vertices.

    Parameters
    ----------
    target:
        What is predicted: a Categorical, Continuous, Binary or Count, or a Schema of several with missing labels.
    num_graph_states:
        States C_g of the readout's sum unit.
    pooling:
        "sum" or "mean" over the vertices of a graph, as in the paper; "standardised": logarithms of the sums, in units
        of the training graphs, with weights of any sign.
    target_level:
        "graph", or "vertex" for one prediction per vertex.
    head:
        "circuit" (the paper's: a mixture over graph states), or "linear" (logits that are linear in the graph states'
        weights; categorical and binary targets only; for comparison).
    likelihood_weight:
        The loss of a graph is −log P(targets | graph) plus this weight times the sum of its vertices' objective. Above
        0, graphs without labels take part in the training.
    labels:
        The role of labels. "evidence", for targets of vertices: known labels of other vertices are evidence for a
        vertex's label, its own never is. They are the `y` of the graphs, NaN where unknown; see `predict`. "targets":
        they are only predicted, from states. None is "evidence" for targets of vertices and "targets" for those of
        graphs, or where `num_graph_states`, `pooling` or `head` are set, which are for "targets" alone.
    hidden:
        Where labels are evidence: units of the hidden layer, and half of those of the two layers of messages, that are
        tried beside plain regressions; 0 tries neither.
    class_weight:
        Where labels are evidence: None, or "balanced", which gives rare classes the same weight as common ones: for
        macro F1 rather than for probabilities.
    pretraining:
        Epochs in which the vertices are learned first, without targets, from all training graphs: ten let the
        rest begin from the unsupervised model.
    monitor:
        The criterion for the best epoch on validation data: "loss" (−log P(targets | graph)) or "score".
    """

    supervised: Any
    """A `SupervisedHierarchy`, or a `LabelNetwork` where labels are evidence"""
    label_outcome_: LabelFit
    """How the label's leaf was learned, where labels are evidence"""

    def __init__(
        self,
        schema: Schema | None,
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
        labels: str | None = None,
        hidden: int = 16,
        class_weight: str | None = None,
        gaps: str = "ignorable",
        pretraining: int = 0,
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
        self.pretraining = pretraining
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
            gaps,
        )

    def _make(self, arguments: Mapping[str, Any]) -> None:
        check_supervised(arguments)
        hierarchy, targets = hierarchy_for(arguments), target_schema(self.target)
        sums = hierarchy.template.num_sum_units
        if self._are_evidence:
            readout = LabelReadout(self.schema, targets, sums * self.num_states, self.hidden)
            self.supervised = LabelNetwork(hierarchy, readout)
        else:
            levels = (self.num_layers, sums, self.num_states)
            circuit = Readout(targets, levels, self.num_graph_states, self.pooling, self.target_level, self.head)
            self.supervised = SupervisedHierarchy(hierarchy, circuit)

    @property
    def _are_evidence(self) -> bool:
        return role_of_labels(vars(self)) == "evidence"

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
        """A `LabelReadout` where labels are evidence."""
        found: Readout | LabelReadout = self.supervised.readout
        return found

    @property
    def goal(self) -> Targets | Labels:
        """What training learns: the targets, or labels from others' labels."""
        if self._are_evidence:
            return Labels(self.supervised, self.target, self.class_weight)
        return Targets(self.supervised, self.target)

    # Predictions for several graphs: one row per graph, or a list where the targets are those of vertices. A type
    # checker cannot know which; `| Any` saves users a cast.

    @overload
    def predict(self, graphs: SeveralGraphs) -> NDArray[Any] | Any: ...
    @overload
    def predict(self, graphs: OneGraph) -> NDArray[Any]: ...
    def predict(self, graphs: Graphs) -> NDArray[Any] | list[NDArray[Any]]:
        """Category values of categorical and binary targets, means of the others; one row per graph.

        [G] for one target, [G, T] for several. Targets of vertices: [N] for one graph, a list for a sequence.

        graphs: one graph, or a sequence. Where labels are evidence, their `y` is used for all vertices except its own;
            NaN, or no `y` at all, where labels are unknown. It must not contain labels that are to be predicted
            honestly.
        """
        dataset, log_prior = self._read(graphs)
        return self._rows(graphs, dataset, decode_predictions(self.target, predictions(self.readout, log_prior)))

    @overload
    def predict_proba(self, graphs: SeveralGraphs) -> FloatArray | Any: ...
    @overload
    def predict_proba(self, graphs: OneGraph) -> FloatArray: ...
    def predict_proba(self, graphs: Graphs) -> FloatArray | list[FloatArray]:
        """[G, K] probabilities by class; for several binary targets [G, T], each the probability of True."""
        if not isinstance(self.target, Binary | Categorical) and not all_binary(self.target):
            raise InputError("predict_proba is for a categorical or binary target, or several binary; try predictive")
        dataset, log_prior = self._read(graphs)
        return self._rows(graphs, dataset, probabilities(self.readout, self.target, log_prior))

    @overload
    def predictive(
        self, graphs: SeveralGraphs
    ) -> Distribution | list[Distribution] | dict[str, Distribution | list[Distribution]]: ...
    @overload
    def predictive(self, graphs: OneGraph) -> Distribution | dict[str, Distribution]: ...
    def predictive(
        self, graphs: Graphs
    ) -> Distribution | list[Distribution] | dict[str, Distribution] | dict[str, Distribution | list[Distribution]]:
        """The distribution of every graph's target, with `mean`, `interval`, `log_prob` and more.

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
        """[G] log P(observed targets | graph); 0 where none is observed.

        graphs: one graph, or a sequence.
        y: the labels; None takes those of the graphs.
        """
        dataset, log_prior = self._read(graphs)
        labels = self.goal.labels(dataset, y)
        check_reach(self.readout, labels)
        return self._rows(graphs, dataset, log_prob(self.readout, log_prior, labels))

    def score(self, graphs: Graphs, y: Any = None) -> float:
        """Accuracy, R² or (several binary targets) mean average precision on the rows that have labels.

        graphs: one graph, or a sequence.
        y: the labels; None takes those of the graphs.
        """
        dataset, log_prior = self._read(graphs)
        return score_of(self.readout, self.target, log_prior, self.goal.labels(dataset, y))

    def collate(self, graphs: Graphs) -> Batch:
        """All graphs as one batch, checked with the labels that they carry, on the model's device."""
        dataset = self._pack(graphs)
        if dataset.y is not None:
            self.goal.labels(dataset, None)
        return super().collate(dataset)

    def _read(self, graphs: Graphs) -> tuple[GraphDataset, Tensor]:
        """The graphs as the goal prepares them, and what the readout's answers depend on."""
        self._require_fitted()
        dataset, goal = self._pack(graphs), self.goal
        check_magnitudes(self.hierarchy, dataset)
        dataset = goal.asked(dataset)
        return dataset, goal.log_prior(dataset)

    def _rows(self, graphs: Graphs, dataset: GraphDataset, rows: Predicted) -> Predicted | list[Predicted]:
        """One row per graph as they are; one row per vertex by graph, for a sequence of graphs."""
        if self.target_level == "graph" or is_single_graph(graphs):
            return rows
        ends = dataset.num_vertices_per_graph().cumsum(0).tolist()
        cut: Any = rows
        return [cut[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]

    @property
    def classes_(self) -> NDArray[Any]:
        """The target's values by code, the order of `predict_proba`; scikit-learn's scorers assume sorted ones."""
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
        """Set all parameters from what `get_parameters` returns; nothing is set if anything is wrong."""
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
