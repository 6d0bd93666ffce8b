"""The control without a model: attributes pooled, histograms of degrees and edge types, then a head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gspn.attributes import FloatArray, Schema
from gspn.baselines.attribute_columns import AttributeColumns
from gspn.baselines.on_rows import OnRows, standardised
from gspn.graphs import GraphDataset
from gspn.predictors.vectors import DEFAULT
from gspn.targets import Target


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
    """

    schema: Schema
    target: Target
    heads: Sequence[str] | str = DEFAULT
    monitor: str = "loss"
    refit: bool = False
    judged_by: str = "validation"
    seed: int = 0

    def _learn_rows(self, dataset: GraphDataset) -> FloatArray:
        self.columns_ = AttributeColumns.of(self.schema, dataset)
        rows = self.columns_(dataset)
        self.centre_, self.scale_ = rows.mean(0), rows.std(0)
        return standardised(rows, self.centre_, self.scale_)

    def _rows(self, dataset: GraphDataset) -> FloatArray:
        return standardised(self.columns_(dataset), self.centre_, self.scale_)
