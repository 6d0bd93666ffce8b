"""Filling gaps in users' own data: a transform of PyG graphs, and an imputer of tables.

Both leave the work to a model; what a filled value means is explained in `queries.entries`. Reading tables belongs in
`convert`, writing completed ones in `completing`.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in
from torch import Tensor
from torch_geometric.data import Batch, Data, Dataset
from torch_geometric.transforms import BaseTransform

from gspn import policy
from gspn.arguments import check_choice, check_integer
from gspn.attributes import Attribute, Schema, from_json, to_json
from gspn.columns import shorten
from gspn.completing import complete, complete_often, whole_numbers
from gspn.convert.edge_tables import Layout
from gspn.convert.features import as_frame, edges_among, is_bare, like
from gspn.convert.files import Table
from gspn.convert.foreign import DataFrame
from gspn.convert.tables import GraphTables, read_graph_tables
from gspn.errors import InputError, NotFittedError
from gspn.files import replace_file
from gspn.graphs import GraphDataset
from gspn.models.gspn import GSPN
from gspn.models.saving import load
from gspn.models.stack import Stack
from gspn.queries.entries import HOW

_FILE = "imputer.json"
"""Beside the saved model of a `TableImputer`: its settings, and what it has learned about tables."""
_FITTED = ("edge_types_", "whole_numbers_", "left_out_", "id_", "feature_names_in_", "n_features_in_")

_Given = TypeVar("_Given", bound=Data | Batch)


class Impute(BaseTransform):
    """PyG transform that fills the missing entries (NaN) of `x` and leaves everything else as it is.

    Works on a Data, a PyG Batch and a list of graphs.

    model: a fitted `GSPN` or `Stack`.
    how: as in `GSPN.impute`; "sample" differs at every call.
    generator: what "sample" draws from; None is torch's own.
    """

    def __init__(self, model: GSPN | Stack, how: str = "mean", generator: torch.Generator | None = None) -> None:
        if not isinstance(model, GSPN | Stack):
            raise InputError(f"model must be a GSPN or a Stack, got {shorten(model)}")
        check_choice("how", how, HOW)
        self.model, self.how, self.generator = model, how, generator

    @overload
    def forward(self, data: Sequence[Data] | GraphDataset | Dataset) -> list[Data]: ...
    @overload
    def forward(self, data: _Given) -> _Given: ...
    def forward(self, data: Any) -> Data | Batch | list[Data]:
        if isinstance(data, Data):  # a Batch, too: its graphs do not depend on each other
            data.x = self._filled([data])[0]
            return data
        graphs = list(data) if isinstance(data, Sequence | GraphDataset | Dataset) else [data]
        if not all(isinstance(graph, Data) for graph in graphs):
            raise InputError(f"Impute takes a Data, a Batch or a list of Data, got {shorten(data)}")
        graphs = [copy.copy(graph) for graph in graphs]
        for graph, x in zip(graphs, self._filled(graphs), strict=True):
            graph.x = x
        return graphs

    if TYPE_CHECKING:  # PyG's own: `forward` on a shallow copy

        @overload
        def __call__(self, data: Sequence[Data] | GraphDataset | Dataset) -> list[Data]: ...
        @overload
        def __call__(self, data: _Given) -> _Given: ...
        def __call__(self, data: Any) -> Data | Batch | list[Data]: ...

    def _filled(self, graphs: Sequence[Data]) -> list[Tensor]:
        # The model needs nothing else of a graph.
        bare = [Data(x=graph.x, edge_index=graph.edge_index, edge_type=graph.get("edge_type")) for graph in graphs]
        return [graph.x for graph in self.model.impute(bare, self.how, self.generator)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.model).__name__}, how={self.how!r})"


class TableImputer(TransformerMixin, BaseEstimator):
    """Completes a table of vertices from the vertices' other entries and their neighbours.

        completed = gspn.TableImputer().fit(nodes, edges=edges).transform(nodes, edges)

    `fit` takes DataFrames or arrays with gaps and trains models; `transform` completes these, or new rows and new
    graphs, without training again, and returns the same type: a DataFrame, or an array. It is a transformer of
    scikit-learn, for pipelines; in `fit` labels `y` are ignored. Observed entries, columns, types, order and index stay
    as they are; columns with only whole numbers in training are filled with rounded ones, also where gaps have turned
    them into floats. Dates, 87 %, and 1,234.5 are numbers, and are filled in the same notation. `gspn impute` fills in
    the same values.

    Columns that carry no information are passed through with their gaps. Of an array, whose columns were chosen on
    purpose, only empty ones are.

    Which models fill the gaps is chosen by `gspn.policy.select`: candidates of several sizes, with and without the
    edges, learn by EM from a part of the entries and are compared on the others; up to five that do best together
    answer as one `gspn.Stack`.

    If any of the arguments from `num_layers` to `lr`, or `arguments`, is given, a single model is trained by gradient
    descent, and nothing is chosen: arguments that are None follow from the size of the tables, the objective is
    "masked", which is meant for filling gaps, and a tenth of the graphs (from 100 on) or of the entries is held out
    for early stopping.

    Parameters
    ----------
    schema:
        The attributes; None infers them from the columns.
    overrides:
        Kinds or attributes of single columns, where they are inferred.
    id, graph, source, target, edge_type:
        Names of columns, as in `gspn.from_tables`.
    edge_types:
        The edge types by code; None takes those that occur.
    directed:
        Whether edges apply in one direction only; or the name of a column that says so per row.
    parallel:
        Whether duplicate edges are kept; otherwise they are an error.
    ignore:
        Columns that are passed through.
    keep:
        Columns that are used although they seem to carry no information.
    how:
        What is filled in: "closest" (least expected error: the mean of numbers, rounded for counts and other whole
        numbers, and the most probable category), "mean" (the same, but the most probable count), "median", "mode" or
        "sample".
    level:
        Probability of the intervals in the table of spreads.
    effort:
        How much is tried, "quick", "normal" or "thorough"; without effect where one model is trained.
    num_layers, num_states, objective, epochs, batch_size, lr:
        Settings of a single model, as in `gspn.GSPN`.
    seed:
        Fixes everything random, samples included.
    arguments:
        Further arguments of `gspn.GSPN`, by name.

    Attributes
    ----------
    model_:
        After `fit`, the `gspn.Stack`, or the one `gspn.GSPN`.
    selection_:
        What was tried, the losses and what was chosen (`gspn.policy.Selection`); None where nothing was chosen.
    schema_:
        The model's attributes.
    edge_types_:
        The edge types by code.
    whole_numbers_:
        The continuous attributes that are filled with whole numbers.
    left_out_:
        The columns that carry no information, each with the reason.
    id_:
        The column of ids; None where the index identifies rows.
    """

    def __init__(
        self,
        schema: Schema | None = None,
        *,
        overrides: Mapping[str, Attribute | str] | None = None,
        id: str | None = "id",
        graph: str | None = None,
        source: str = "source",
        target: str = "target",
        edge_type: str | None = None,
        edge_types: Sequence[Any] | None = None,
        directed: bool | str = False,
        parallel: bool = False,
        ignore: str | Sequence[str] = (),
        keep: str | Sequence[str] = (),
        how: str = "closest",
        level: float = 0.9,
        effort: policy.Effort = "normal",
        num_layers: int | None = None,
        num_states: int | None = None,
        objective: str | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        lr: float | None = None,
        seed: int = 0,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        self.schema = schema
        self.overrides = overrides
        self.id = id
        self.graph = graph
        self.source = source
        self.target = target
        self.edge_type = edge_type
        self.edge_types = edge_types
        self.directed = directed
        self.parallel = parallel
        self.ignore = ignore
        self.keep = keep
        self.how = how
        self.level = level
        self.effort = effort
        self.num_layers = num_layers
        self.num_states = num_states
        self.objective = objective
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.seed = seed
        self.arguments = arguments

    @classmethod
    def with_model(
        cls,
        model: GSPN | Stack,
        edge_types: Sequence[Any] | None = None,
        *,
        whole_numbers: Sequence[str] = (),
        **arguments: Any,
    ) -> Self:
        """An imputer that uses a fitted model.

        model: a fitted `GSPN` or `Stack`.
        edge_types: names of the model's edge types, by code.
        whole_numbers: continuous attributes that are filled with whole numbers whatever the type of their column.
        arguments: further arguments of the constructor.
        """
        if not isinstance(model, GSPN | Stack):
            raise InputError(f"model must be a GSPN or a Stack, got {shorten(model)}")
        imputer = cls(model.schema, edge_types=edge_types, **arguments)
        imputer._take(model, edge_types, tuple(whole_numbers))
        imputer.feature_names_in_ = np.array(model.schema.names, dtype=object)
        imputer.n_features_in_ = len(model.schema)
        return imputer

    def fit(self, X: Any, y: Any = None, *, edges: Any = None, progress: bool = True) -> Self:
        """Choose and train models on a table of vertices, and one of edges if there are any.

        X: the vertices, a DataFrame or an array.
        y: labels, which are ignored; edges are accepted here, too.
        edges: a table, a [2, E] array of whole numbers, or another form that `gspn.from_tables` reads.
        progress: whether a progress bar is shown.
        """
        self._check()
        nodes = as_frame(self, X, reset=True)
        keep = (self.keep,) if isinstance(self.keep, str) else tuple(self.keep)
        if is_bare(X):
            keep = tuple(nodes.columns[nodes.notna().any()])
        read = self._read(
            nodes, edges_among(y, edges), self.id, self.schema, self.overrides, self.edge_types, self._ignored(), keep
        )
        read.tell_what_is_left_out()
        dataset = read.dataset()
        settings, selection = self._settings(), None
        model: GSPN | Stack
        if settings:
            model = policy.fit(policy.model_for(dataset, **settings, seed=self.seed), dataset, progress=progress)
        else:
            with policy.choosing(progress) as notice:
                selection = policy.select(dataset, effort=self.effort, seed=self.seed, notice=notice)
            model = selection.stack
        self._take(model, dataset.edge_types, whole_numbers(dataset), selection, read.left_out, read.id)
        self._learned_from = nodes.copy(), dataset
        return self

    def _take(
        self,
        model: GSPN | Stack,
        edge_types: Sequence[Any] | None,
        whole: tuple[str, ...],
        selection: policy.Selection | None = None,
        left_out: dict[str, str] | None = None,
        id: Any = ...,
    ) -> None:
        self.model_, self.schema_, self.edge_types_ = model, model.schema, edge_types
        self.whole_numbers_, self.selection_ = whole, selection
        self.left_out_, self.id_ = left_out or {}, self.id if id is ... else id

    @overload
    def transform(
        self, X: NDArray[Any], edges: Any = None, *, return_spread: Literal[False] = False
    ) -> NDArray[Any]: ...
    @overload
    def transform(self, X: Any, edges: Any = None, *, return_spread: Literal[False] = False) -> DataFrame: ...
    @overload
    def transform(self, X: Any, edges: Any = None, *, return_spread: Literal[True]) -> tuple[DataFrame, DataFrame]: ...
    @overload
    def transform(
        self, X: Any, edges: Any = None, *, return_spread: bool
    ) -> DataFrame | tuple[DataFrame, DataFrame]: ...
    def transform(
        self, X: Any, edges: Any = None, *, return_spread: bool = False
    ) -> NDArray[Any] | DataFrame | tuple[NDArray[Any] | DataFrame, DataFrame]:
        """The table of vertices without gaps; an array where X is one.

        X: the vertices, with the columns of `fit`.
        edges: as in `fit`.
        return_spread: whether to return a second table, with one row per filled entry under the index of its row: the
            row's position, attribute and value; the standard deviation and the interval of `level` (low, high) of
            continuous attributes and counts; the probability of the filled value of categories, binary attributes and
            counts; and the smallest set of values of categories and binary attributes with a probability of at least
            `level`, most probable first.
        """
        self._refuse_unfitted()
        self._check()
        nodes = as_frame(self, X, reset=False)
        dataset = self._to_complete(nodes, edges)
        completed, spread = complete(
            self.model_,
            Table(nodes, "nodes"),
            dataset,
            graph=self.graph,
            how=self.how,
            level=self.level if return_spread else None,
            seed=self.seed,
            whole=self.whole_numbers_,
        )
        return like(completed, X) if spread is None else (like(completed, X), spread)

    @overload
    def fit_transform(
        self,
        X: NDArray[Any],
        y: Any = None,
        *,
        edges: Any = None,
        return_spread: Literal[False] = False,
        progress: bool = True,
    ) -> NDArray[Any]: ...
    @overload
    def fit_transform(
        self,
        X: Any,
        y: Any = None,
        *,
        edges: Any = None,
        return_spread: Literal[False] = False,
        progress: bool = True,
    ) -> DataFrame: ...
    @overload
    def fit_transform(
        self, X: Any, y: Any = None, *, edges: Any = None, return_spread: Literal[True], progress: bool = True
    ) -> tuple[DataFrame, DataFrame]: ...
    @overload
    def fit_transform(
        self, X: Any, y: Any = None, *, edges: Any = None, return_spread: bool, progress: bool = True
    ) -> DataFrame | tuple[DataFrame, DataFrame]: ...
    def fit_transform(
        self, X: Any, y: Any = None, *, edges: Any = None, return_spread: bool = False, progress: bool = True
    ) -> NDArray[Any] | DataFrame | tuple[NDArray[Any] | DataFrame, DataFrame]:
        """`fit` and `transform` on the same tables, with the arguments of both."""
        edges = edges_among(y, edges)
        return self.fit(X, edges=edges, progress=progress).transform(X, edges, return_spread=return_spread)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The names of all columns, which `transform` keeps."""
        self._refuse_unfitted()
        names: NDArray[Any] = _check_feature_names_in(self, input_features)
        return names

    def save(self, folder: str | Path) -> None:
        """Write the model and all settings to a folder, as readable text and safetensors, without pickle."""
        self._refuse_unfitted()
        kept = {name: _plain(value) for name, value in self.get_params(deep=False).items() if name != "schema"}
        kept["schema"] = None if self.schema is None else self.schema.to_json()
        fitted = {name: _plain(getattr(self, name)) for name in _FITTED if hasattr(self, name)}
        try:
            text = json.dumps({"settings": kept, "fitted": fitted}, indent=1)
        except TypeError as error:
            raise InputError(f"an argument of this TableImputer cannot be written as JSON: {error}") from error
        self.model_.save(folder)
        replace_file(Path(folder) / _FILE, f"{text}\n".encode())

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """The imputer that `save` wrote; what was tried (`selection_`) is not kept."""
        path = Path(folder) / _FILE
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            settings, fitted = (
                {name: _tuple(value) for name, value in kept[part].items()} for part in ("settings", "fitted")
            )
            schema, overrides = settings.pop("schema"), settings.pop("overrides")
            imputer = cls(
                None if schema is None else Schema.from_json(schema),
                overrides=overrides
                and {name: kind if isinstance(kind, str) else from_json(kind) for name, kind in overrides.items()},
                **settings,
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{path} is not a saved TableImputer: {error}") from error
        model = load(folder)
        assert isinstance(model, GSPN | Stack)
        imputer._take(model, fitted["edge_types_"], fitted["whole_numbers_"])
        for name, value in fitted.items():
            if name not in ("edge_types_", "whole_numbers_"):
                setattr(imputer, name, np.array(value, dtype=object) if name == "feature_names_in_" else value)
        return imputer

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        tags.target_tags.required = False
        return tags

    def _refuse_unfitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("this TableImputer is not fitted yet; call fit first")

    def draws(self, m: int, nodes: Any = None, edges: Any = None, *, seed: int | None = None) -> list[DataFrame]:
        """m tables of vertices without gaps, for multiple imputation: analyse each, then pool by Rubin's rules.

        Filled entries vary between the tables according to their uncertainty, that of the models' parameters included:
        each table comes from one model of the stack, drawn with the stack's weights, that has continued to learn from
        the tables of `fit` with random weights of the vertices (a Bayesian bootstrap). Entries of neighbours are drawn
        given each other. There is no guard: its heavy tails have no variance that could be pooled. Whole numbers stay
        whole. The first tables are the same whatever m is.

        Models that learned by gradient descent (more than two levels, or a single model that was specified) draw with
        fixed parameters, so that their tables differ slightly too little. An imputer made from a model (`with_model`)
        has no tables of its own: the models continue to learn from those that are given.

        m: number of tables.
        nodes, edges: the tables to complete; None completes those of `fit`.
        seed: fixes the tables; None is the imputer's.
        """
        self._refuse_unfitted()
        self._check()
        check_integer("m", m, 1)
        own: tuple[DataFrame, GraphDataset] | None = getattr(self, "_learned_from", None)
        if nodes is not None:
            nodes = as_frame(self, nodes, reset=False)
            dataset = self._to_complete(nodes, edges)
        elif own is None or edges is not None:
            raise InputError("draws needs the table of vertices, nodes, unless it completes the tables of fit")
        else:
            nodes, dataset = own
        return complete_often(
            self.model_,
            Table(nodes, "nodes"),
            dataset,
            m,
            learned_from=None if own is None else own[1],
            graph=self.graph,
            seed=self.seed if seed is None else seed,
            whole=self.whole_numbers_,
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def _check(self) -> None:
        check_choice("how", self.how, HOW)
        check_choice("effort", self.effort, policy.EFFORTS)
        if not isinstance(self.level, float) or not 0 < self.level < 1:
            raise InputError(f"level must be a number between 0 and 1, got {shorten(self.level)}")

    def _settings(self) -> dict[str, Any]:
        """The settings given for a single model; if there are none, models are chosen."""
        named = ("num_layers", "num_states", "objective", "epochs", "batch_size", "lr")
        given = {name: getattr(self, name) for name in named if getattr(self, name) is not None}
        others = dict(self.arguments or {})
        known = set(GSPN._get_param_names()) - {"schema", "num_edge_types", "seed", *named}
        for name in others:
            if name not in known:
                raise InputError(f"arguments: {name!r} is none of {', '.join(sorted(known))}")
        return given | others

    def _ignored(self) -> tuple[str, ...]:
        return (self.ignore,) if isinstance(self.ignore, str) else tuple(self.ignore)

    def _present(self, nodes: Any, edges: Any) -> tuple[str, ...]:
        """What there is to ignore: tables to complete may have fewer of these columns, or no edges at all."""
        known = {*nodes.columns, *getattr(edges, "columns", ())}
        return tuple(name for name in dict.fromkeys((*self._ignored(), *self.left_out_)) if name in known)

    def _to_complete(self, nodes: Any, edges: Any) -> GraphDataset:
        """Tables as those of `fit` were read."""
        id = self.id_ if self.id_ in nodes.columns else self.id
        ignored = self._present(nodes, edges)
        return self._read(nodes, edges, id, self.schema_, None, self.edge_types_, ignored).dataset()

    def _read(
        self,
        nodes: Any,
        edges: Any,
        id: str | None,
        schema: Schema | None,
        overrides: Mapping[str, Attribute | str] | None,
        edge_types: Sequence[Any] | None,
        ignored: Sequence[str],
        keep: Sequence[str] = (),
    ) -> GraphTables:
        layout = Layout(self.source, self.target, self.graph, self.edge_type, edge_types, self.directed, self.parallel)
        return read_graph_tables(
            nodes, edges, schema, layout=layout, id=id, overrides=overrides, ignore=ignored, keep=keep
        )


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    """A setting as JSON has it."""
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, np.ndarray | tuple | list):
        return [_plain(one) for one in (value.tolist() if isinstance(value, np.ndarray) else value)]
    return to_json(value) if isinstance(value, Attribute) else value
