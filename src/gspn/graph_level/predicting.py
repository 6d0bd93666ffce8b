"""GraphClassifier and GraphRegressor: a model without labels, features of graphs, a head chosen by validation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from gspn import policy
from gspn.arguments import check_choice, check_integer
from gspn.attributes import Binary, Categorical, Continuous, Count, FloatArray, Schema
from gspn.baselines.on_rows import check_heads, standardised
from gspn.baselines.predicting import Predicting
from gspn.circuits.distributions import CategoricalDistribution
from gspn.errors import InputError
from gspn.graph_level.answers import Around
from gspn.graph_level.features import GraphFeatures
from gspn.graphs import GraphDataset, Graphs
from gspn.graphs.degrees import DEGREE, with_degree
from gspn.models.fitting import with_labels
from gspn.models.gspn import GSPN
from gspn.models.labels import labels_of_graphs
from gspn.predictors.outputs import outputs_for
from gspn.predictors.vectors import DEFAULT, MONITORS, Chosen, choose_heads
from gspn.targets import Target, decode_predictions, target_schema

_LEVELS = 5
"""Of the model that is made where none is given: deeper ones than for filling gaps."""
_ROUNDS = 3


class GraphPredictor(Predicting):
    """What classifier and regressor have in common: everything but the kinds of targets."""

    kinds: tuple[type, ...] = ()
    target_level = "graph"
    features_: GraphFeatures
    chosen_: Chosen

    def __init__(
        self,
        schema: Schema,
        target: Target,
        features: GraphFeatures | None = None,
        heads: Sequence[str] | str = DEFAULT,
        monitor: str = "loss",
        refit: bool = True,
        seed: int = 0,
    ) -> None:
        self.schema = schema
        self.target = target
        self.features = features
        self.heads = heads
        self.monitor = monitor
        self.refit = refit
        self.seed = seed

    def fit(
        self,
        graphs: Graphs,
        y: Any = None,
        *,
        validation: Graphs | tuple[Graphs, Any] | None = None,
        extra: Any = None,
        validation_extra: Any = None,
        progress: bool = True,
    ) -> Self:
        """Learn from all graphs, and from the labels of those that have one.

        graphs: the training graphs.
        y: their labels, NaN (in a list, None) where there is none; None takes those of the graphs.
        validation: graphs with labels, or a pair (graphs, y), by which heads are chosen; None: by cross-validation.
        extra: further columns of features of your own, [G, E]; predictions then need them, too.
        validation_extra: the same for the validation graphs.
        progress: whether a progress bar is shown.
        """
        families = self._check()
        dataset, labels = self._labelled(graphs, y)
        held_out = None if validation is None else self._labelled(*with_labels(validation))
        features = self._features(dataset, progress)
        everything = np.asarray(features.fit_transform(dataset, extra=extra, progress=progress))
        units = features.centre_, features.scale_
        judged = None
        if held_out is not None:
            judged = standardised(features.rows(held_out[0], validation_extra), *units), held_out[1]
        known = ~np.isnan(labels).all(1)
        self.chosen_ = choose_heads(
            standardised(everything[known], *units),
            labels[known],
            self.target,
            validation=judged,
            families=families,
            monitor=self.monitor,
            refit=self.refit,
            seed=self.seed,
            views=features.views(),
        )
        self.features_, self.meaning_ = features, outputs_for(self.target, labels)
        return self

    # Predictions; with `extra` columns where there were some in training.

    def predict(self, graphs: Graphs, *, extra: Any = None) -> NDArray[Any]:
        """[G] category values, booleans or numbers; [G, T] for several targets."""
        outputs = self._of_graphs(graphs, extra)
        return decode_predictions(self.target, self.meaning_.predictions(outputs))

    def predict_proba(self, graphs: Graphs, *, extra: Any = None) -> FloatArray:
        """[G, K] calibrated probabilities in the order of `classes_`; for several binary targets [G, T]."""
        outputs = self._of_graphs(graphs, extra)
        return self.meaning_.probabilities(outputs)

    def predictive(
        self, graphs: Graphs, *, extra: Any = None
    ) -> CategoricalDistribution | Around | dict[str, CategoricalDistribution | Around]:
        """The distribution of every graph's target, with mean, interval and more; by name for several targets."""
        rows = self._standard(graphs, extra)
        found: dict[str, CategoricalDistribution | Around] = {}
        for attribute, head in zip(target_schema(self.target), self.chosen_.heads, strict=True):
            if isinstance(attribute, Categorical | Binary):
                found[attribute.name] = CategoricalDistribution(
                    attribute, torch.from_numpy(head.log_probabilities(rows))
                )
            else:
                found[attribute.name] = Around(attribute, head.values(rows), head.errors)
        return found if isinstance(self.target, Schema) else next(iter(found.values()))

    def score(self, graphs: Graphs, y: Any = None, *, extra: Any = None) -> float:
        """Accuracy, R² or mean average precision on `y`, or on the graphs' own labels."""
        outputs = self._of_graphs(graphs, extra)
        return self.meaning_.score(outputs, labels_of_graphs(self._pack(graphs), y, self.target))

    @property
    def tried_(self) -> list[dict[str, Any]]:
        """The heads that were tried: target, head, settings, loss and score on held-out graphs."""
        self._learned()
        return [vars(one).copy() for one in self.chosen_.tried]

    def _of_graphs(self, graphs: Graphs, extra: Any) -> FloatArray:
        rows = self._standard(graphs, extra)
        return self.chosen_.outputs(rows, self.meaning_)

    def _standard(self, graphs: Graphs, extra: Any) -> FloatArray:
        self._learned()
        return standardised(self.features_.rows(graphs, extra), self.features_.centre_, self.features_.scale_)

    def _outputs(self, dataset: GraphDataset) -> FloatArray:
        return self._of_graphs(dataset, None)

    # What it is made of.

    def _check(self) -> tuple[str, ...]:
        check_choice("monitor", self.monitor, MONITORS)
        check_integer("seed", self.seed, 0, 2**32 - 1)
        if self.features is not None and not isinstance(self.features, GraphFeatures):
            raise InputError(f"features must be a GraphFeatures, got {type(self.features).__name__}")
        for attribute in target_schema(self.target):
            if not isinstance(attribute, self.kinds):
                other = "GraphRegressor" if isinstance(self, GraphClassifier) else "GraphClassifier"
                raise InputError(f"target {attribute.name!r} is {attribute.kind}: that is for {other}")
        return check_heads(self.heads)

    def _features(self, dataset: GraphDataset, progress: bool) -> GraphFeatures:
        if self.features is not None:
            # Not scikit-learn's clone, which would make fitted models forget what they have learned.
            arguments = self.features.get_params(deep=False)
            if self.features.__sklearn_is_fitted__():
                arguments["model"] = list(self.features.learned_.models) or None
            return GraphFeatures(**arguments)
        return learned_features(dataset, seed=self.seed, progress=progress)

    # Files.

    def save(self, folder: str | Path) -> None:
        """Write everything into a folder; `gspn.load` reads it. Models must be GSPNs. Nothing is pickled."""
        from gspn.graph_level import saving

        self._learned()
        saving.save(self, Path(folder))


class GraphClassifier(GraphPredictor):
    """Predicts classes of graphs: a model learns from all graphs without labels, a head on its features from few.

    Parameters
    ----------
    schema:
        The typed attributes of a vertex.
    target:
        A `Categorical` or `Binary`, or a Schema of several, with missing labels.
    features:
        A `GraphFeatures`, with a model that is fitted or not. None: a GSPN of five levels as large as the data allow,
        which has the degree as a further attribute; beside its features pooled attributes and subtrees of height 3.
    heads:
        Families of heads that are tried: "linear" (logistic or ridge regression), "support vectors", "linear support
        vectors", "extra trees", "boosting", and "together", the average of the best one of each.
    monitor:
        The criterion for choosing among heads: "loss" or "score".
    refit:
        Whether the chosen head finally learns from the labels of `validation`, too.
    seed:
        Fixes everything random.

    Attributes
    ----------
    features_:
        The fitted `GraphFeatures`.
    tried_:
        One dict per head that was tried.
    classes_:
        The values of a single target, by code, the order of `predict_proba`.
    """

    kinds = (Categorical, Binary)


class GraphRegressor(GraphPredictor):
    """Predicts numbers of graphs; targets are `Continuous`, `Count` or a Schema of several.

    Arguments and attributes are those of `GraphClassifier`. `predictive` gives intervals, from the errors on held-out
    graphs.
    """

    kinds = (Continuous, Count)


def learned_features(
    dataset: GraphDataset, *, checkpoint: str | Path | None = None, progress: bool = True, **given: Any
) -> GraphFeatures:
    """Features of a GSPN that has learned from the graphs, of a suitable size; `given` arguments take precedence.

    They include pooled attributes and subtrees, which the GSPN cannot see exactly.
    """
    counting = DEGREE not in dataset.schema.names
    training = with_degree(dataset) if counting else dataset
    levels = _LEVELS if int(dataset.num_edges_per_graph().sum()) else 1
    said = {name: value for name, value in given.items() if value is not None}
    model = GSPN(
        training.schema, **policy.settings_for(training, **{"objective": "pseudo", "num_layers": levels} | said)
    )
    policy.fit(model, training, checkpoint=checkpoint, progress=progress)
    return GraphFeatures(model, degree=counting, attributes=True, subtrees=_ROUNDS)


def predictor_for(schema: Schema, target: Target, **arguments: Any) -> GraphPredictor | None:
    """The predictor for a target; None for a mixture of classes and numbers, which neither predicts."""
    kinds = [type(attribute) for attribute in target_schema(target)]
    for predictor in (GraphClassifier, GraphRegressor):
        if all(issubclass(kind, predictor.kinds) for kind in kinds):
            return predictor(schema, target, **arguments)
    return None
