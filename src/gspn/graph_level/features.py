"""GraphFeatures: from graphs to one row of numbers each, for heads and other programs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone

from gspn.arguments import check_integer, check_real
from gspn.attributes import FloatArray, Schema
from gspn.baselines.attribute_columns import AttributeColumns
from gspn.baselines.subtrees import Colours, Subtrees
from gspn.columns import shorten
from gspn.convert.foreign import DataFrame
from gspn.errors import InputError, NotFittedError
from gspn.graph_level.blocks import Asked, columns_of, names_of
from gspn.graphs import GraphDataset, Graphs, pack
from gspn.graphs.degrees import ATTRIBUTE, DEGREE, with_degree
from gspn.models.gspn import GSPN

_FLAT = 1e-4
"""Deviation, in the columns' own units (shares, logarithms, nats), below which a column carries no information."""
_SAME = 1e-6
"""Columns whose standardised values are all as near as this are one, as those of an edge's two directions."""
_WEIGHT = 10.0
"""Of a kind of columns, as if it had a hundred"""
_SAMPLE, _AT_ONCE = 5_000, 2_000
"""Graphs by which columns are chosen, and graphs all of whose columns are held at once."""


@dataclass(frozen=True, eq=False)
class Learned:
    """What `fit` found: fitted models, what other blocks need, and which columns are kept."""

    models: tuple[Any, ...]
    widths: tuple[int, ...]
    """of each model's embeddings"""
    attributes: AttributeColumns | None = None
    subtrees: Subtrees | None = None
    vocabulary: Colours = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))
    kept: NDArray[np.int64] | None = None
    """places of the columns that are kept; None for all"""
    extra: tuple[str, ...] = ()


class GraphFeatures(TransformerMixin, BaseEstimator):
    """One row [F] per graph, from a model that has learned without labels: a scikit-learn transformer.

    Of a `GSPN`, for every level, sum unit and state: mean over the vertices, log(1 + sum), deviation; entropies; pairs
    of states along edges; log-likelihood per observed entry. Of anything else that has `embed` (`SupervisedGSPN` is a
    GSPN; CGMM and its kin, GAE, DGI): mean, sign(s) log(1 + |s|) of the sum s, deviation of its columns. Always the
    logarithms of 1 + the numbers of vertices and edges. Columns that hardly vary over the graphs of `fit`, and columns
    that repeat another, are dropped.

    Parameters
    ----------
    model:
        A model, fitted or not, or a list of several (seeds, sizes), whose columns are concatenated. An unfitted one is
        cloned and learns from the graphs of `fit`; a fitted one is used as it is. None: no model, which
        leaves `attributes`, `subtrees` and `extra`.
    pairs:
        Levels of a GSPN whose pairs of states along edges are counted, at most; they are spread evenly.
    likelihood:
        Whether the pseudo-log-likelihood per entry is a column.
    left_out:
        Whether that of vertices left out of their own evidence is one, too; it takes much longer.
    attributes:
        Whether attributes themselves are pooled, with histograms of degrees and edge types, which needs no model.
    subtrees:
        Rounds of Weisfeiler-Lehman whose subtrees are counted; 0 for none. Those in at least a share `rare` of the
        graphs are kept, at most the 2,000 most frequent ones.
    rare:
        Share of the graphs that must differ from the most common value, or the column is dropped.
    degree:
        Whether models are given the degree as a further attribute, which a mean over neighbours cannot count. Fitted
        models must have learned with it (`gspn.graphs.degrees.with_degree`), the schema of others gets it.

    Attributes
    ----------
    n_features_out_:
        Number of columns F.
    centre_, scale_:
        [F] mean and deviation of the columns over the graphs of `fit`, for standardising.
    """

    def __init__(
        self,
        model: Any = None,
        pairs: int = 4,
        likelihood: bool = True,
        left_out: bool = False,
        attributes: bool = False,
        subtrees: int = 0,
        rare: float = 0.005,
        degree: bool = False,
    ) -> None:
        self.model = model
        self.pairs = pairs
        self.likelihood = likelihood
        self.left_out = left_out
        self.attributes = attributes
        self.subtrees = subtrees
        self.rare = rare
        self.degree = degree

    def fit(
        self, graphs: Graphs, y: object = None, *, extra: Any = None, progress: bool = True, **fitting: Any
    ) -> Self:
        """Fit models that are not fitted, and decide which columns are kept.

        graphs: the training graphs.
        y: labels, which are ignored.
        extra: columns of your own, such as descriptors: a table or matrix [G, E].
        progress: whether a progress bar is shown.
        fitting: further arguments of the models' `fit`.
        """
        self.fit_transform(graphs, y, extra=extra, progress=progress, **fitting)
        return self

    def fit_transform(
        self, graphs: Graphs, y: object = None, *, extra: Any = None, progress: bool = True, **fitting: Any
    ) -> FloatArray | DataFrame:
        """The rows of the training graphs; arguments are those of `fit`, and everything is computed once."""
        self._check()
        models = self._models()
        schema = self._schema(models, graphs)
        dataset = pack(graphs, schema)
        names, columns = _extra(extra, len(dataset))
        seen = with_degree(dataset) if self.degree else dataset
        fitted = tuple(one if _is_fitted(one) else _learn(one, seen, progress, fitting) for one in models)
        subtrees, vocabulary = None, np.zeros(0, dtype=np.uint64)
        if self.subtrees:
            subtrees = Subtrees.of(schema, dataset.entries(), self.subtrees)
            vocabulary = subtrees.frequent(dataset, self.rare)
        attributes = AttributeColumns.of(schema, dataset) if self.attributes else None
        widths = tuple(0 if isinstance(one, GSPN) else _width(one, seen) for one in fitted)
        everything = Learned(fitted, widths, attributes, subtrees, vocabulary, None, names)
        # Which columns vary is seen from some thousand graphs; all columns of all graphs may be too much to hold.
        places = np.linspace(0, len(dataset) - 1, min(len(dataset), _SAMPLE)).round()
        sample = np.unique(places.astype(np.int64)).tolist()
        seen_rows = self._rows(everything, dataset[sample], columns[sample])
        kept = _worth_keeping(seen_rows, self.rare)
        if not len(kept):
            raise InputError("no column varies over the graphs, so there is nothing to describe them by")
        self.schema_ = schema
        self.learned_ = replace(everything, kept=kept)
        whole = len(sample) == len(dataset)
        rows = seen_rows[:, kept] if whole else self._rows(self.learned_, dataset, columns)
        self.centre_, self.scale_ = rows.mean(0), rows.std(0)
        self.n_features_out_ = len(kept)
        return rows

    def transform(self, graphs: Graphs, *, extra: Any = None) -> FloatArray | DataFrame:
        """[G, F] float64, one row per graph; a single graph gives one row. `extra` as in `fit`."""
        return self.rows(graphs, extra)

    def rows(self, graphs: Graphs, extra: Any = None) -> FloatArray:
        """The same as a plain array, whatever `set_output` says."""
        learned = self._learned()
        dataset = pack(graphs, self.schema_)
        names, columns = _extra(extra, len(dataset))
        if names != learned.extra:
            wanted = ", ".join(learned.extra) or "none"
            raise InputError(f"extra has the columns {', '.join(names) or 'none'}, but it was fitted with {wanted}")
        return self._rows(learned, dataset, columns)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """[F] the names of the columns; with several models, prefixed by the model's number."""
        learned = self._learned()
        names = np.array(list(self._names(learned)), dtype=object)
        return names if learned.kept is None else names[learned.kept]

    def views(self) -> list[FloatArray]:
        """Weights [F] of the columns for heads that measure distances and have few labels to learn from.

        First all columns, each kind (states, pairs, attributes, subtrees, extra) with the same weight as a whole; then
        attributes alone, and `extra` alone. None where there is only one kind.
        """
        learned = self._learned()
        kinds = np.array(list(self._kinds(learned)))
        kinds = kinds if learned.kept is None else kinds[learned.kept]
        present = sorted(set(kinds.tolist()))
        if len(present) < 2:
            return []
        balanced = np.zeros(len(kinds))
        for kind in present:
            own = kinds == kind
            balanced[own] = _WEIGHT / np.sqrt(own.sum())
        alone = [(kinds == kind).astype(np.float64) for kind in ("attributes", "extra") if kind in present]
        return [balanced, *alone]

    # The columns.

    def _rows(self, learned: Learned, dataset: GraphDataset, extra: FloatArray) -> FloatArray:
        """[G, F] the columns that are kept, part after part."""
        width = len(list(self._names(learned))) if learned.kept is None else len(learned.kept)
        rows = np.empty((len(dataset), width))
        for start in range(0, len(dataset), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            blocks = self._blocks(learned, dataset[part], extra[part])
            found = np.concatenate([block.reshape(len(extra[part]), -1) for block in blocks], axis=1)
            rows[part] = found if learned.kept is None else found[:, learned.kept]
        return rows

    def _blocks(self, learned: Learned, dataset: GraphDataset, extra: FloatArray) -> Iterator[FloatArray]:
        sizes = torch.stack([dataset.num_vertices_per_graph(), dataset.num_edges_per_graph()], dim=1)
        yield sizes.double().log1p().numpy()
        seen = with_degree(dataset) if self.degree else dataset
        for model in learned.models:
            yield columns_of(model, seen, self._asked()).numpy()
        if learned.attributes is not None:
            yield learned.attributes(dataset)[:, :-2]  # without the sizes, which are there already
        if learned.subtrees is not None:
            yield learned.subtrees.rows(dataset, learned.vocabulary)
        yield extra

    def _names(self, learned: Learned) -> Iterator[str]:
        yield from ("log_vertices", "log_edges")
        for number, (model, width) in enumerate(zip(learned.models, learned.widths, strict=True)):
            prefix = f"model{number}_" if len(learned.models) > 1 else ""
            yield from (f"{prefix}{name}" for name in names_of(model, width, self._asked()))
        if learned.attributes is not None:
            yield from learned.attributes.names[:-2]
        yield from (f"subtree_{colour:016x}" for colour in learned.vocabulary.tolist())
        yield from learned.extra

    def _kinds(self, learned: Learned) -> Iterator[str]:
        """What every column is of, in the order of `_names`."""
        # Sizes are attributes of graphs, where there are others.
        yield from ["attributes" if learned.attributes or not learned.models else "states"] * 2
        for model, width in zip(learned.models, learned.widths, strict=True):
            for name in names_of(model, width, self._asked()):
                yield "pairs" if name.startswith(("pairs_", "logpairs_")) else "states"
        yield from ("attributes" for _ in (learned.attributes.names[:-2] if learned.attributes else ()))
        yield from ("subtrees" for _ in learned.vocabulary)
        yield from ("extra" for _ in learned.extra)

    def _asked(self) -> Asked:
        return Asked(self.pairs, self.likelihood, self.left_out)

    # What it is made of.

    def _models(self) -> list[Any]:
        if self.model is None:
            return []
        models = list(self.model) if isinstance(self.model, list | tuple) else [self.model]
        for model in models:
            if not hasattr(model, "embed"):
                raise InputError(f"a model must have embed, as GSPN and CGMM do; got {shorten(model)}")
        return models

    def _schema(self, models: Sequence[Any], graphs: Graphs) -> Schema:
        schemas = [_without_degree(model) if self.degree else model.schema for model in models] or (
            [graphs.schema] if isinstance(graphs, GraphDataset) else []
        )
        if not schemas:
            raise InputError("without a model, only a GraphDataset says what the attributes are: use gspn.pack")
        other = next((schema for schema in schemas if schema != schemas[0]), None)
        if other is not None:
            raise InputError(
                f"the models have different attributes: {', '.join(schemas[0].names)}; {', '.join(other.names)}"
            )
        return schemas[0]

    def _check(self) -> None:
        check_integer("pairs", self.pairs, 0)
        check_integer("subtrees", self.subtrees, 0)
        check_real("rare", self.rare, 0.0, 1.0)

    def _learned(self) -> Learned:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("this GraphFeatures is not fitted yet; call fit first")
        return self.learned_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "learned_")


def _is_fitted(model: Any) -> bool:
    from sklearn.exceptions import NotFittedError as Unfitted
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(model)
    except Unfitted:
        return False
    return True


def _learn(model: Any, dataset: GraphDataset, progress: bool, fitting: dict[str, Any]) -> Any:
    """A clone that has learned from the graphs; what is given stays as it is."""
    learned = clone(model).set_params(schema=dataset.schema)
    return learned.fit(dataset, progress=progress, **fitting)


def _without_degree(model: Any) -> Schema:
    """The attributes that graphs have for a model that knows their degrees besides."""
    own: Schema = model.schema
    if DEGREE in own.names[:-1] or (_is_fitted(model) and own[-1] != ATTRIBUTE):
        raise InputError(
            f"with degree=True, the last attribute of a fitted model must be '{DEGREE}', as with_degree gives"
        )
    return Schema(list(own)[:-1]) if own[-1] == ATTRIBUTE else own


def _width(model: Any, dataset: GraphDataset) -> int:
    """Columns of the model's embeddings."""
    if isinstance(model, GSPN) or not len(dataset):
        return 0
    smallest = int(dataset.num_vertices_per_graph().argmin())
    return int(model.embed(dataset[[smallest]])[0].shape[1])


def _extra(extra: Any, graphs: int) -> tuple[tuple[str, ...], FloatArray]:
    """Names and columns [G, E] of what others computed."""
    if extra is None:
        return (), np.zeros((graphs, 0))
    names = [str(name) for name in extra.columns] if hasattr(extra, "columns") else None
    try:
        table = np.asarray(extra.detach() if hasattr(extra, "detach") else extra, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"extra must be a table of numbers, one row per graph: {error}") from error
    if table.ndim != 2 or len(table) != graphs:
        raise InputError(f"extra must have one row for each of the {graphs} graphs, got shape {list(table.shape)}")
    names = [f"extra{column}" for column in range(table.shape[1])] if names is None else names
    wrong = np.argwhere(~np.isfinite(table))
    if len(wrong):
        row, column = wrong[0]
        raise InputError(f"extra, graph {row}, column '{names[column]}': {table[row, column]} is not a finite number")
    return tuple(names), table


def _worth_keeping(rows: FloatArray, rare: float) -> NDArray[np.int64]:
    """Places of the columns that vary, and repeat no column before them."""
    deviation = rows.std(0)
    apart = np.abs(rows - np.median(rows, axis=0)) > 1e-3 * deviation
    kept = np.flatnonzero((deviation > _FLAT) & (apart.mean(0) >= rare))
    standard = (rows[:, kept] - rows[:, kept].mean(0)) / deviation[kept]
    # Columns that are equal have equal sums with any weights, so only those that come together are compared.
    sums = standard.T @ np.random.default_rng(0).standard_normal(len(rows))
    order = np.lexsort((kept, sums))
    repeated = np.zeros(len(kept), dtype=bool)
    for before, after in itertools.pairwise(order):
        if np.abs(standard[:, before] - standard[:, after]).max() < _SAME:
            repeated[max(before, after)] = True
    return kept[~repeated]
