"""The constant predictor: class frequencies, median or mean count of the training labels, whatever the graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from gspn.attributes import Binary, Categorical, Continuous, FloatArray, Schema
from gspn.baselines.predicting import Predicting
from gspn.graphs import GraphDataset
from gspn.models.questions import Graphs
from gspn.predictors.outputs import Outputs, outputs_for
from gspn.targets import Target, target_schema


@dataclass(eq=False, repr=False)
class Constant(Predicting):
    """Predicts for every graph what minimises the training loss; what a model knows beyond that, it has learned.

    Graphs are checked against the schema and looked at no further. Nothing in it is random, so it has no seed.
    """

    schema: Schema
    target: Target

    def fit(self, graphs: Graphs, y: Any = None, *, validation: object = None, progress: bool = True) -> Self:
        """Count the labels; `validation` and `progress` are there for those who treat all models alike."""
        _, labels = self._labelled(graphs, y)
        meaning = outputs_for(self.target, labels)
        self.constant_ = best_outputs(meaning, labels)
        self.meaning_ = meaning
        return self

    def _outputs(self, dataset: GraphDataset) -> FloatArray:
        return np.tile(self.constant_, (len(dataset), 1))


def best_outputs(meaning: Outputs, labels: FloatArray) -> FloatArray:
    """[O] the outputs with the lowest loss on labels [n, T]."""
    parts = []
    for attribute, column, (centre, scale) in zip(target_schema(meaning.target), labels.T, meaning.units, strict=True):
        known = column[~np.isnan(column)]
        with np.errstate(divide="ignore"):  # a class that never occurs has probability 0, and log 0 is right
            if isinstance(attribute, Categorical):
                parts.append(np.log(np.bincount(known.astype(int), minlength=len(attribute.categories)) / len(known)))
            elif isinstance(attribute, Binary):
                parts.append(np.log(known.mean(keepdims=True)) - np.log(1 - known.mean(keepdims=True)))
            elif isinstance(attribute, Continuous):
                parts.append((np.median(known, keepdims=True) - centre) / scale)
            else:
                parts.append(np.zeros(1))  # relative to the training mean, which a Poisson rate is best at
    return np.concatenate(parts)
