"""Filling gaps in users' own data: a transform of PyG graphs, and an imputer of tables.

Both leave the work to a model; what a filled value means is explained in `queries.missing`. Reading tables belongs in
`convert`; here belongs only how filled values get back into the columns they come from.
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
from gspn.attributes import Attribute, Binary, Schema, from_json, to_json
from gspn.circuits.distributions import CategoricalDistribution
from gspn.circuits.given import distributions
from gspn.columns import shorten
from gspn.convert.edge_tables import Layout
from gspn.convert.features import as_frame, edges_among, is_bare, like
from gspn.convert.files import Table, import_pandas
from gspn.convert.foreign import DataFrame
from gspn.convert.tables import GraphTables, read_graph_tables
from gspn.convert.writings import Writing, find_writing
from gspn.errors import InputError, NotFittedError
from gspn.files import replace_file
from gspn.graphs import GraphDataset
from gspn.models.gspn import GSPN
from gspn.models.loading import load
from gspn.models.several_tables import several_completed
from gspn.models.stack import Stack
from gspn.queries.missing import HOW, filled

_SPREAD = ("std", "probability", "low", "high")
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


def whole_numbers(dataset: GraphDataset) -> tuple[str, ...]:
    """The continuous attributes whose observed entries are whole numbers, all of them.

    Read from a file, a column of integers with gaps comes as floats, so its type does not show it.
    """
    entries = dataset.entries()
    whole = (entries.isnan() | (entries == entries.round())).all(0).tolist()
    return tuple(
        one.name for one, is_whole in zip(dataset.schema, whole, strict=True) if is_whole and one.kind == "continuous"
    )


def complete(
    model: GSPN | Stack,
    nodes: Table,
    dataset: GraphDataset,
    *,
    graph: str | None = None,
    how: str = "closest",
    level: float | None = None,
    seed: int = 0,
    whole: Sequence[str] = (),
) -> tuple[DataFrame, DataFrame | None]:
    """A table of vertices without gaps, and with a `level` also the spread of what was filled in (see `transform`).

    `dataset` is what was read from the table, and `graph` the column that distinguishes its graphs.
    """
    rows, gaps = _rows(nodes, graph), torch.isnan(dataset.entries()).numpy()
    x, spread = _answers(model, dataset, how, level, torch.Generator().manual_seed(seed))
    writings = _writings(nodes, model.schema)
    completed = _completed(nodes.frame, dataset, x, rows, whole, writings)
    if level is None:
        return completed, None
    # One row per filled entry, in the order of the table's rows and the schema's attributes.
    entries = np.argwhere(gaps)
    entries = entries[np.lexsort((entries[:, 1], rows[entries[:, 0]]))]
    place = rows[entries[:, 0]]
    names = [model.schema.names[column] for column in entries[:, 1]]
    columns = {name: completed[name].tolist() for name in model.schema.names}
    filled_in = np.fromiter((columns[name][row] for row, name in zip(place, names, strict=True)), object, len(place))
    found = {name: spread[name][tuple(entries.T)] for name in (*_SPREAD, "likely")}
    for side in ("low", "high") if writings else ():
        found[side] = np.array(
            [
                writings[name].write(value) if name in writings else value
                for name, value in zip(names, found[side], strict=True)
            ],
            dtype=object,
        )
    return completed, import_pandas().DataFrame(
        {"row": place, "attribute": names, "value": filled_in, **found}, index=completed.index.take(place)
    )


def _writings(nodes: Table, schema: Schema) -> dict[str, Writing]:
    """The notation of columns that write numbers as people do: dates, 87 %, 1,234.5."""
    found = {
        attribute.name: find_writing(nodes.frame[attribute.name], comma=nodes.separator == ";")
        for attribute in schema
        if attribute.kind in ("continuous", "count")
    }
    return {name: writing for name, writing in found.items() if writing is not None}


def complete_often(
    model: GSPN | Stack,
    nodes: Table,
    dataset: GraphDataset,
    m: int,
    *,
    learned_from: GraphDataset | None = None,
    graph: str | None = None,
    seed: int = 0,
    whole: Sequence[str] = (),
) -> list[DataFrame]:
    """m tables of vertices without gaps (see `TableImputer.draws`); `learned_from` is `dataset` unless given."""
    rows, learned_from = _rows(nodes, graph), dataset if learned_from is None else learned_from
    writings = _writings(nodes, dataset.schema)
    return [
        _completed(nodes.frame, dataset, x, rows, whole, writings)
        for x in several_completed(model, dataset, learned_from, m, seed)
    ]


def _rows(nodes: Table, graph: str | None) -> NDArray[np.int64]:
    """The table's rows in the order of the dataset, which has them graph by graph."""
    if graph is None:
        return np.arange(len(nodes.frame))
    return np.argsort(import_pandas().factorize(nodes.column(graph, "graph"))[0], kind="stable")


def _completed(
    frame: DataFrame,
    dataset: GraphDataset,
    x: Tensor,
    rows: NDArray[np.int64],
    whole: Sequence[str],
    writings: Mapping[str, Writing],
) -> DataFrame:
    """A copy of the frame with gaps of the dataset filled from x [N, d], which is in the dataset's order."""
    completed: DataFrame = frame.copy()
    gaps = torch.isnan(dataset.entries()).numpy()
    for column, attribute in enumerate(dataset.schema):
        where = gaps[:, column]
        if where.any():
            values = attribute.decode(x[where, column])
            if attribute.name in whole:
                values = [round(value) for value in values]
            if attribute.name in writings:
                values = list(map(writings[attribute.name].write, values))
            completed[attribute.name] = _with_values(frame[attribute.name], rows[where], values, attribute)
    return completed


def _answers(
    model: GSPN | Stack, dataset: GraphDataset, how: str, level: float | None, generator: torch.Generator
) -> tuple[Tensor, dict[str, NDArray[Any]]]:
    """[N, d] the filled entries, and with a `level` [N, d] the standard deviation, probability and interval of each,
    NaN for none, and the likely values, None for none."""
    x = dataset.entries().clone()
    found: dict[str, NDArray[Any]] = {name: np.full(x.shape, np.nan) for name in _SPREAD}
    found["likely"] = np.full(x.shape, None, dtype=object)
    first = 0
    for batch, vertices, given in model.gaps(dataset):
        x[first : first + batch.num_vertices] = filled(given, batch, vertices, how, generator)
        first += batch.num_vertices
        if level is None:
            continue
        for column, gaps, distribution in distributions(given, ~batch.observed[vertices]):
            row = (first - batch.num_vertices + vertices[gaps]).numpy()
            if distribution.attribute.kind != "continuous":
                found["probability"][row, column] = distribution.log_prob(x[row, column]).exp()
            if isinstance(distribution, CategoricalDistribution):
                for vertex, values in zip(row, _likely(distribution, level), strict=True):
                    found["likely"][vertex, column] = values
            else:
                found["std"][row, column] = distribution.variance.sqrt()
                found["low"][row, column], found["high"][row, column] = distribution.interval(level).T
    return x, found


def _likely(distribution: CategoricalDistribution, level: float) -> list[tuple[Any, ...]]:
    """Of every row the smallest set of values with a probability of at least `level`, most probable first."""
    probs, codes = distribution.probs.sort(dim=1, descending=True, stable=True)
    # A value is needed if those before it do not hold enough.
    needed = (probs.cumsum(1) - probs < level).sum(1).tolist()
    values = distribution.categories
    return [tuple(values[code] for code in row[:n]) for row, n in zip(codes.tolist(), needed, strict=True)]


def _with_values(series: Any, rows: NDArray[np.int64], values: list[Any], attribute: Attribute) -> Any:
    """A copy of the column with decoded values inserted at these rows, in the column's own type."""
    pandas = import_pandas()
    observed = series.dropna()
    if pandas.api.types.is_integer_dtype(series.dtype):
        values = [round(value) for value in values]
    if isinstance(attribute, Binary) and series.dtype == object and not observed.map(_is_bool).any():
        values = [int(value) for value in values]
    if isinstance(series.dtype, pandas.CategoricalDtype):
        # A table to complete may have fewer categories than the one that was learned from, and call True 1.
        known = {category: category for category in series.cat.categories}
        values = [known.get(value, value) for value in values]
        series = series.cat.add_categories([value for value in dict.fromkeys(values) if value not in known])
    filled = series.copy()
    try:
        filled.iloc[rows] = pandas.Series(values, dtype=object).astype(series.dtype).array
    except (TypeError, ValueError, OverflowError) as error:
        if len(observed):
            raise InputError(
                f"column {attribute.name!r} of type {series.dtype} cannot hold what is filled in, such as "
                f"{shorten(values[0])} ({error}); convert it to another type first"
            ) from error
        # A column without any value has its type by accident.
        filled = series.astype(object)
        filled.iloc[rows] = values
        filled = filled.infer_objects()
    return filled


def _is_bool(value: object) -> bool:
    return isinstance(value, bool | np.bool_)
