"""The control without a model: pooled attributes, degrees, edge types and, if asked for, subtrees; then a head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gspn.arguments import check_integer
from gspn.attributes import FloatArray, Schema
from gspn.baselines.attribute_columns import AttributeColumns
from gspn.baselines.on_rows import OnRows, standardised
from gspn.baselines.subtrees import Colours, Subtrees
from gspn.graphs import GraphDataset
from gspn.predictors.vectors import DEFAULT
from gspn.targets import Target

_RARE = 0.005
"""Share of the graphs that must have a subtree."""


@dataclass(eq=False, repr=False)
class PooledAttributes(OnRows):
    """Means, sums and deviations of attributes, histograms of degrees and edge types; no edge is followed.

    What a model on graphs does not do better than this, it has not learned from the graph.

    Parameters
    ----------
    heads:
        Families of heads that are tried: names out of `gspn.predictors.vectors.FAMILIES`, and "together", the average
        of the best one of each.
    monitor:
        What chooses among heads: "loss" or "score".
    refit:
        Whether the chosen head learns from validation labels, too, in the end.
    judged_by:
        What judges heads: "validation" graphs, where `fit` is given some, or "folds" of the labelled training graphs in
        any case; then validation labels are not looked at.
    subtrees:
        Height of Weisfeiler-Lehman subtrees that are counted, too, those of at least 0.5 % of the graphs; 0 for none.
    """

    schema: Schema
    target: Target
    heads: Sequence[str] | str = DEFAULT
    monitor: str = "loss"
    refit: bool = False
    judged_by: str = "validation"
    seed: int = 0
    subtrees: int = 0
    subtrees_: Subtrees | None = field(init=False, default=None)
    vocabulary_: Colours | None = field(init=False, default=None)

    def _learn_rows(self, dataset: GraphDataset) -> FloatArray:
        check_integer("subtrees", self.subtrees, 0)
        self.columns_ = AttributeColumns.of(self.schema, dataset)
        self.subtrees_ = Subtrees.of(self.schema, dataset.entries(), self.subtrees) if self.subtrees else None
        self.vocabulary_ = None if self.subtrees_ is None else self.subtrees_.frequent(dataset, _RARE)
        rows = self._raw(dataset)
        self.centre_, self.scale_ = rows.mean(0), rows.std(0)
        return standardised(rows, self.centre_, self.scale_)

    def _rows(self, dataset: GraphDataset) -> FloatArray:
        return standardised(self._raw(dataset), self.centre_, self.scale_)

    def _raw(self, dataset: GraphDataset) -> FloatArray:
        rows = self.columns_(dataset)
        if self.subtrees_ is None or self.vocabulary_ is None:
            return rows
        return np.concatenate([rows, self.subtrees_.rows(dataset, self.vocabulary_)], axis=1)
