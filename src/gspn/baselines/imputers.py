"""FeatureImputer: what people would reach for to fill gaps, without a density: means, tables' imputers, propagation.

All work on feature columns (`baselines.features`): indicators of categories, standardised numbers. A category is read
off as the largest of its columns, a count is rounded.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self, overload

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer as _  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import FeaturePropagation

from gspn.arguments import check_choice, check_integer
from gspn.attributes import Schema
from gspn.baselines.features import Features
from gspn.baselines.neighbour_means import neighbour_means
from gspn.errors import NotFittedError
from gspn.graphs import GraphDataset, OneGraph, SeveralGraphs, is_single_graph, pack
from gspn.models.questions import Graphs, listed, with_entries
from gspn.random_streams import keyed_generator

METHODS = ("mean", "iterative", "trees", "nearest", "propagation")

_TREES, _ROUNDS = 30, 5
"""Of "trees": a forest for every column in every round."""

_ROWS = 14
"""Names the stream of random numbers that chooses training rows."""

_AT_ONCE = 200_000
"""Vertices and edges of one chunk."""


@dataclass(eq=False, repr=False)
class FeatureImputer(BaseEstimator):
    """Fills missing entries by `method`.

    - "mean": the training mean, or the commonest category.
    - "iterative": scikit-learn's `IterativeImputer`, which regresses each column on the others of the same vertex,
      within the range of what was observed.
    - "trees": the same with extremely randomised trees in place of Bayesian ridge regression.
    - "nearest": scikit-learn's `KNNImputer`, the mean of the most similar vertices of the training graphs.
    - "propagation": PyG's `FeaturePropagation`, values that diffuse along the edges from where they are observed. It
      starts from the training means, and learns nothing else.

    Those of scikit-learn learn from at most `max_rows` vertices, drawn by `seed`. They see edges with `neighbours`
    alone: the means of what neighbours have observed are then columns beside a vertex's own.
    """

    schema: Schema
    method: str = "mean"
    max_rows: int = 5_000
    seed: int = 0
    neighbours: bool = False

    def fit(self, graphs: Graphs, y: object = None, *, validation: object = None, progress: bool = True) -> Self:
        """Learn from graphs with gaps; the other arguments are there for those who treat all models alike."""
        check_choice("method", self.method, METHODS)
        check_integer("max_rows", self.max_rows, 1)
        check_integer("seed", self.seed, 0, 2**63 - 1)
        dataset = pack(graphs, self.schema)
        entries = dataset.entries()
        features, table = Features.of(self.schema, entries), None
        if self.method in ("iterative", "trees", "nearest"):
            chosen = torch.randperm(len(entries), generator=keyed_generator(self.seed, _ROWS))[: self.max_rows]
            seen = self._seen(features, dataset, entries)[chosen].numpy()
            table = self._table(seen)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # ten rounds are what people get by default
                table.fit(seen)
        self.features_, self.table_ = features, table
        return self

    @overload
    def impute(self, graphs: SeveralGraphs) -> list[Data]: ...
    @overload
    def impute(self, graphs: OneGraph) -> Data: ...
    def impute(self, graphs: Graphs) -> Data | list[Data]:
        """A copy of the graph with missing entries filled; a list for a sequence of graphs."""
        if not hasattr(self, "features_"):
            raise NotFittedError("this FeatureImputer is not fitted yet; call fit first")
        dataset = pack(graphs, self.schema)
        entries = dataset.entries()
        filled = torch.where(torch.isnan(entries), self.features_.entries(self._filled(dataset, entries)), entries)
        rows = filled.split(dataset.num_vertices_per_graph().tolist())
        if is_single_graph(graphs):
            return with_entries(graphs, rows[0])
        return [with_entries(graph, x) for graph, x in zip(listed(graphs), rows, strict=True)]

    def _filled(self, dataset: GraphDataset, entries: Tensor) -> Tensor:
        """[n, columns] features without gaps."""
        if self.table_ is not None and len(entries):
            kept = self._columns(self.features_)
            filled = self.table_.transform(self._seen(self.features_, dataset, entries).numpy())
            whole = self.features_(entries).double()
            whole[:, kept] = torch.from_numpy(np.asarray(filled, dtype=np.float64))[:, : int(kept.sum())]
            return whole if self.method == "nearest" else _completed(self.features_, whole)
        if self.method == "propagation" and len(entries):
            return torch.cat([_propagated(self.features_, batch) for batch in dataset.chunks(_AT_ONCE)])
        return self.features_(entries)

    def _table(self, seen: NDArray[np.float32]) -> Any:
        if self.method == "nearest":
            return KNNImputer(keep_empty_features=True)
        seed = self.seed % 2**32
        if self.method == "iterative":
            # Within what was observed: regressions on columns that nearly copy each other go astray in rounds, and
            # counts, which are logarithms here, by orders of magnitude.
            known = ~np.isnan(seen)
            low = np.where(known.any(0), np.where(known, seen, np.inf).min(0), -np.inf)
            high = np.where(known.any(0), np.where(known, seen, -np.inf).max(0), np.inf)
            high = np.where(low < high, high, low + 1)  # of a constant column; scikit-learn wants some room
            return IterativeImputer(random_state=seed, keep_empty_features=True, min_value=low, max_value=high)
        forest = ExtraTreesRegressor(_TREES, min_samples_leaf=2, random_state=seed)
        # Complete columns, such as neighbours' means, are not regressed.
        return IterativeImputer(
            forest, max_iter=_ROUNDS, random_state=seed, keep_empty_features=True, skip_complete=True
        )

    def _seen(self, features: Features, dataset: GraphDataset, entries: Tensor) -> Tensor:
        """[n, columns] what the imputer of tables sees: its own columns with gaps, neighbours' means without."""
        own = _with_gaps(features, entries)
        kept = own[:, self._columns(features)]
        if not self.neighbours:
            return kept
        told = neighbour_means(dataset, own)
        # Where nobody has told anything, what stands for a gap says so.
        rest = features(torch.full_like(entries[:1], torch.nan)) if len(entries) else told[:1]
        return torch.cat([kept, torch.where(told.isnan(), rest, told)], dim=1)

    def _columns(self, features: Features) -> Tensor:
        """Which columns the imputer of tables sees.

        A regression would find a category's last indicator in its others, which are missing whenever it is, and learn
        nothing from the rest.
        """
        kept = torch.ones(features.width, dtype=torch.bool)
        if self.method in ("iterative", "trees"):
            for block in _categories(features):
                kept[block.stop - 1] = False
        return kept


def _categories(features: Features) -> Iterator[slice]:
    """The columns of every categorical attribute with several categories."""
    start = 0
    for attribute in features.schema:
        end = start + len(features.fill[attribute.name])
        if end - start > 1:
            yield slice(start, end)
        start = end


def _completed(features: Features, columns: Tensor) -> Tensor:
    """The last indicator of every category is what the others leave of 1."""
    for block in _categories(features):
        columns[:, block.stop - 1] = 1 - columns[:, block.start : block.stop - 1].sum(1)
    return columns


def _with_gaps(features: Features, entries: Tensor) -> Tensor:
    return features(entries).masked_fill(features.gaps(entries), torch.nan)


def _propagated(features: Features, batch: Any) -> Tensor:
    """Relative to what stands for a gap, so that 0, where propagation starts, is the training mean."""
    rest = features(torch.full_like(batch.x[:1], torch.nan))
    data = Data(x=features(batch.x) - rest, edge_index=torch.stack([batch.source.long(), batch.target.long()]))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse", UserWarning)  # torch's own, of how young its matrices are
        found: Tensor = FeaturePropagation(features.gaps(batch.x))(data).x
    return found + rest
