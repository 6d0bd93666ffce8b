"""What every baseline that predicts has in common: graphs with labels going in, predictions and scores coming out.

What an output means is said by `predictors.outputs`; how outputs are computed from graphs, by each baseline.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from gspn.attributes import Binary, Categorical, FloatArray, Schema
from gspn.errors import InputError, NotFittedError
from gspn.graphs import GraphDataset, pack
from gspn.models.labels import labels_of_graphs, name_target
from gspn.models.questions import Graphs
from gspn.predictors import DeepSets
from gspn.predictors.outputs import Outputs
from gspn.targets import Target, class_values, decode_predictions


class Predicting(BaseEstimator, ABC):
    """Predictions read off the outputs [G, O] that `_outputs` computes; `meaning_` says what they mean once fitted."""

    schema: Schema
    target: Target
    meaning_: Outputs

    @abstractmethod
    def _outputs(self, dataset: GraphDataset) -> FloatArray:
        """[G, O] for checked graphs."""

    def predict(self, graphs: Graphs) -> NDArray[Any]:
        """[G] category values, booleans, medians or rates; [G, T] for a Schema of targets."""
        return decode_predictions(self.target, self._learned().predictions(self._outputs(self._pack(graphs))))

    def predict_proba(self, graphs: Graphs) -> FloatArray:
        """[G, K] probabilities in the order of `classes_`; of several binary targets [G, T]."""
        return self._learned().probabilities(self._outputs(self._pack(graphs)))

    def score(self, graphs: Graphs, y: Any = None) -> float:
        """Accuracy, R² or mean average precision on `y`, or on the labels that the graphs carry."""
        meaning, dataset = self._learned(), self._pack(graphs)
        return meaning.score(self._outputs(dataset), labels_of_graphs(dataset, y, self.target))

    @property
    def classes_(self) -> NDArray[Any]:
        """The target's values by code, the order of `predict_proba`; scikit-learn's scorers take them for sorted."""
        if not isinstance(self.target, Binary | Categorical):
            raise AttributeError("only a single categorical or binary target has classes")
        return class_values(self.target)

    def _pack(self, graphs: Graphs) -> GraphDataset:
        return pack(graphs, self.schema)

    def _labelled(self, graphs: Graphs, y: Any) -> tuple[GraphDataset, FloatArray]:
        """Checked graphs that carry their labels [G, T], and these labels."""
        dataset = self._pack(graphs)
        labels = labels_of_graphs(dataset, y, self.target)
        if np.isnan(labels).all():
            raise InputError(
                f"no graph has a label of {name_target(self.target)}; there is nothing to learn or judge from"
            )
        if len(dataset.positions.unique()) < len(dataset):  # a graph that occurs twice may have two labels
            dataset = pack(list(dataset), self.schema)
        return dataset.with_targets(torch.from_numpy(labels), "graph"), labels

    def _learned(self) -> Outputs:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")
        return self.meaning_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "meaning_")

    def __sklearn_tags__(self) -> Any:
        tags, like = super().__sklearn_tags__(), DeepSets(self.target).__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = like.estimator_type, like.classifier_tags
        tags.regressor_tags = like.regressor_tags
        tags.target_tags.required = False  # the graphs may carry it
        return tags
