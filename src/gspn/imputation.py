"""Filling gaps where people have them: a transform of PyG graphs, and an imputer of tables.

Both hand the work to a model; what a filled value means is said in `queries.missing`. Reading tables is the business of
`convert`; here belongs only how filled values get back into the columns they come from.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from torch import Tensor
from torch_geometric.data import Batch, Data, Dataset
from torch_geometric.transforms import BaseTransform

from gspn import policy
from gspn.arguments import check_choice, check_integer
from gspn.attributes import Attribute, Binary, Schema
from gspn.circuits.distributions import CategoricalDistribution
from gspn.circuits.given import distributions
from gspn.columns import shorten
from gspn.convert.files import Table, import_pandas
from gspn.convert.foreign import DataFrame
from gspn.convert.tables import from_tables
from gspn.errors import InputError, NotFittedError
from gspn.graphs import GraphDataset
from gspn.models.gspn import GSPN
from gspn.models.several_tables import several_completed
from gspn.models.stack import Stack
from gspn.queries.missing import HOW, filled

_SPREAD = ("std", "probability", "low", "high")

_Given = TypeVar("_Given", bound=Data | Batch)


class Impute(BaseTransform):
    """PyG transform that fills the missing entries (NaN) of `x` and leaves everything else as it is.

    Works on a Data, a PyG Batch and a list of graphs. `how` is as in `GSPN.impute`; "sample" draws from `generator` and
    differs at every call.
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
        if isinstance(data, Data):  # a Batch, too: nothing is heard across its graphs
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
        # Of the rest of a graph the model knows nothing, and needs nothing.
        bare = [Data(x=graph.x, edge_index=graph.edge_index, edge_type=graph.get("edge_type")) for graph in graphs]
        return [graph.x for graph in self.model.impute(bare, self.how, self.generator)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.model).__name__}, how={self.how!r})"


class TableImputer(BaseEstimator):
    """Completes a table of vertices by what the vertices' other entries and their neighbours say.

        completed = gspn.TableImputer().fit(nodes, edges).transform(nodes, edges)

    `fit` takes DataFrames with gaps and trains models; `transform` completes these, or new rows and new graphs,
    without training again. Observed entries, columns, types, order and index stay as they are; columns that held whole
    numbers alone in training are filled with rounded ones, also where gaps have made floats of them.

    The arguments from `schema` to `ignore` say what the tables' columns mean, as in `gspn.from_tables`; columns in
    `ignore` are handed through. `gspn impute` fills in the same values.

    Which models fill the gaps is chosen by `gspn.policy.select`: candidates of several sizes, with and without the
    edges, learn by EM from a part of the entries and are judged by the others; up to five that do best together answer
    as one `gspn.Stack`. How many are tried depends on `effort`; the seed fixes all of it, and samples.

    Where one of the arguments from `num_layers` to `lr`, or `arguments`, says something about a single model, one is
    trained by gradient descent, and nothing is chosen: what is None follows from the size of the tables, the objective
    is "masked", which is made for filling gaps, and a tenth of the graphs (from 100 on) or of the entries is held out
    to stop in time.

    Parameters
    ----------
    how:
        What is filled in: "closest" (what errs least on average: the mean of numbers, of counts and other whole numbers
        rounded, and the likeliest category), "mean" (the same, but the likeliest count), "median", "mode" or "sample".
    level:
        Probability of the intervals in the table of spreads.
    effort:
        How much is tried, "quick", "normal" or "thorough"; without effect where one model is trained.
    arguments:
        Further arguments of `gspn.GSPN`, by name.

    Attributes
    ----------
    model_:
        After `fit`, the `gspn.Stack`, or the one `gspn.GSPN`.
    selection_:
        What was tried, how it was judged and what was chosen (`gspn.policy.Selection`); None where nothing was.
    schema_:
        The model's attributes.
    edge_types_:
        The edge types by code.
    whole_numbers_:
        The continuous attributes that are filled with whole numbers.
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
        """An imputer that asks a fitted model.

        `edge_types` is what the model's edge types are called, by code; `whole_numbers` names continuous attributes
        that are filled with whole numbers whatever the type of their column.
        """
        if not isinstance(model, GSPN | Stack):
            raise InputError(f"model must be a GSPN or a Stack, got {shorten(model)}")
        imputer = cls(model.schema, edge_types=edge_types, **arguments)
        imputer._take(model, edge_types, tuple(whole_numbers))
        return imputer

    def fit(self, nodes: Any, edges: Any = None, *, progress: bool = True) -> Self:
        """Choose and train models on a table of vertices, and one of edges if there are any."""
        self._check()
        _refuse_other_than_frames(nodes)
        dataset = self._read(nodes, edges, self.schema, self.overrides, self.edge_types, self._ignored())
        settings, selection = self._settings(), None
        model: GSPN | Stack
        if settings:
            model = policy.fit(policy.model_for(dataset, **settings, seed=self.seed), dataset, progress=progress)
        else:
            with policy.choosing(progress) as notice:
                selection = policy.select(dataset, effort=self.effort, seed=self.seed, notice=notice)
            model = selection.stack
        self._take(model, dataset.edge_types, whole_numbers(dataset), selection)
        self._learned_from = nodes.copy(), dataset
        return self

    def _take(
        self,
        model: GSPN | Stack,
        edge_types: Sequence[Any] | None,
        whole: tuple[str, ...],
        selection: policy.Selection | None = None,
    ) -> None:
        self.model_, self.schema_, self.edge_types_ = model, model.schema, edge_types
        self.whole_numbers_, self.selection_ = whole, selection
        self.feature_names_in_ = np.array(self.schema_.names, dtype=object)
        self.n_features_in_ = len(self.schema_)

    @overload
    def transform(self, nodes: Any, edges: Any = None, *, return_spread: Literal[False] = False) -> DataFrame: ...
    @overload
    def transform(
        self, nodes: Any, edges: Any = None, *, return_spread: Literal[True]
    ) -> tuple[DataFrame, DataFrame]: ...
    @overload
    def transform(
        self, nodes: Any, edges: Any = None, *, return_spread: bool
    ) -> DataFrame | tuple[DataFrame, DataFrame]: ...
    def transform(
        self, nodes: Any, edges: Any = None, *, return_spread: bool = False
    ) -> DataFrame | tuple[DataFrame, DataFrame]:
        """The table of vertices without gaps.

        With `return_spread` also a table with one row for each filled entry, under the index of its row: the row's
        position, attribute and value; the standard deviation and the interval of `level` (low, high) of continuous
        attributes and counts; the probability of the filled value of categories, binary attributes and counts; and of
        categories and binary attributes the likely values, the fewest that hold `level` together, likeliest first.
        """
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("this TableImputer is not fitted yet; call fit first")
        self._check()
        _refuse_other_than_frames(nodes)
        dataset = self._read(nodes, edges, self.schema_, None, self.edge_types_, self._present(nodes, edges))
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
        return completed if spread is None else (completed, spread)

    @overload
    def fit_transform(
        self, nodes: Any, edges: Any = None, *, return_spread: Literal[False] = False, progress: bool = True
    ) -> DataFrame: ...
    @overload
    def fit_transform(
        self, nodes: Any, edges: Any = None, *, return_spread: Literal[True], progress: bool = True
    ) -> tuple[DataFrame, DataFrame]: ...
    @overload
    def fit_transform(
        self, nodes: Any, edges: Any = None, *, return_spread: bool, progress: bool = True
    ) -> DataFrame | tuple[DataFrame, DataFrame]: ...
    def fit_transform(
        self, nodes: Any, edges: Any = None, *, return_spread: bool = False, progress: bool = True
    ) -> DataFrame | tuple[DataFrame, DataFrame]:
        """`fit` and `transform` on the same tables."""
        return self.fit(nodes, edges, progress=progress).transform(nodes, edges, return_spread=return_spread)

    def draws(self, m: int, nodes: Any = None, edges: Any = None, *, seed: int | None = None) -> list[DataFrame]:
        """m tables of vertices without gaps, for multiple imputation: analyse each, then pool by Rubin's rules.

        They complete the tables of `fit`, or those that are given. Between them filled entries differ as far as they
        are uncertain, parameters of the models included: each comes from one model of the stack, drawn with the stack's
        weights, that has learned on from the tables of `fit` with random weights of the vertices (a Bayesian
        bootstrap). Entries of neighbours are drawn given each other. There is no guard: its heavy tails have no
        variance that could be pooled. Whole numbers stay whole. The seed (None: the imputer's) fixes the tables, and
        the first ones are the same whatever m is.

        Models that learned by gradient descent (more than two levels, or a single model that something was said about)
        draw with the parameters they have, so that their tables differ a little too little. An imputer made of a model
        (`with_model`) has no tables of its own: the models learn on from those that are given.
        """
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("this TableImputer is not fitted yet; call fit first")
        self._check()
        check_integer("m", m, 1)
        own: tuple[DataFrame, GraphDataset] | None = getattr(self, "_learned_from", None)
        if nodes is not None:
            _refuse_other_than_frames(nodes)
            dataset = self._read(nodes, edges, self.schema_, None, self.edge_types_, self._present(nodes, edges))
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
        """What is said about a single model; where this is nothing, models are chosen."""
        named = ("num_layers", "num_states", "objective", "epochs", "batch_size", "lr")
        said = {name: getattr(self, name) for name in named if getattr(self, name) is not None}
        others = dict(self.arguments or {})
        known = set(GSPN._get_param_names()) - {"schema", "num_edge_types", "seed", *named}
        for name in others:
            if name not in known:
                raise InputError(f"arguments: {name!r} is none of {', '.join(sorted(known))}")
        return said | others

    def _ignored(self) -> tuple[str, ...]:
        return (self.ignore,) if isinstance(self.ignore, str) else tuple(self.ignore)

    def _present(self, nodes: Any, edges: Any) -> tuple[str, ...]:
        """What there is to ignore: tables to complete may have fewer of these columns, or no edges at all."""
        known = {*nodes.columns, *getattr(edges, "columns", ())}
        return tuple(name for name in self._ignored() if name in known)

    def _read(
        self,
        nodes: Any,
        edges: Any,
        schema: Schema | None,
        overrides: Mapping[str, Attribute | str] | None,
        edge_types: Sequence[Any] | None,
        ignored: Sequence[str],
    ) -> GraphDataset:
        return from_tables(
            nodes,
            edges,
            schema,
            overrides=overrides,
            edge_types=edge_types,
            ignore=ignored,
            id=self.id,
            graph=self.graph,
            source=self.source,
            target=self.target,
            edge_type=self.edge_type,
            directed=self.directed,
            parallel=self.parallel,
        )


def whole_numbers(dataset: GraphDataset) -> tuple[str, ...]:
    """The continuous attributes whose observed entries are whole numbers, all of them.

    Read from a file, a column of integers with gaps comes as floats, so its type does not tell.
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

    `dataset` is what was read from the table, and `graph` the column that tells its graphs apart.
    """
    rows, gaps = _rows(nodes, graph), torch.isnan(dataset.entries()).numpy()
    x, spread = _answers(model, dataset, how, level, torch.Generator().manual_seed(seed))
    completed = _completed(nodes.frame, dataset, x, rows, whole)
    if level is None:
        return completed, None
    # One row a filled entry, in the order of the table's rows and the schema's attributes.
    entries = np.argwhere(gaps)
    entries = entries[np.lexsort((entries[:, 1], rows[entries[:, 0]]))]
    place = rows[entries[:, 0]]
    names = [model.schema.names[column] for column in entries[:, 1]]
    columns = {name: completed[name].tolist() for name in model.schema.names}
    filled_in = np.fromiter((columns[name][row] for row, name in zip(place, names, strict=True)), object, len(place))
    found = {name: spread[name][tuple(entries.T)] for name in (*_SPREAD, "likely")}
    return completed, import_pandas().DataFrame(
        {"row": place, "attribute": names, "value": filled_in, **found}, index=completed.index.take(place)
    )


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
    """m tables of vertices without gaps (see `TableImputer.draws`); the models learned from the dataset unless said."""
    rows, learned_from = _rows(nodes, graph), dataset if learned_from is None else learned_from
    return [
        _completed(nodes.frame, dataset, x, rows, whole)
        for x in several_completed(model, dataset, learned_from, m, seed)
    ]


def _rows(nodes: Table, graph: str | None) -> NDArray[np.int64]:
    """The table's rows in the order of the dataset, which has them graph by graph."""
    if graph is None:
        return np.arange(len(nodes.frame))
    return np.argsort(import_pandas().factorize(nodes.column(graph, "graph"))[0], kind="stable")


def _completed(
    frame: DataFrame, dataset: GraphDataset, x: Tensor, rows: NDArray[np.int64], whole: Sequence[str]
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
            completed[attribute.name] = _with_values(frame[attribute.name], rows[where], values, attribute)
    return completed


def _answers(
    model: GSPN | Stack, dataset: GraphDataset, how: str, level: float | None, generator: torch.Generator
) -> tuple[Tensor, dict[str, NDArray[Any]]]:
    """[N, d] the filled entries, and with a `level` [N, d] of each the standard deviation, probability and interval,
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
    """Of every row the fewest values that hold `level` of the probability together, likeliest first."""
    probs, codes = distribution.probs.sort(dim=1, descending=True, stable=True)
    # A value is needed if those before it do not hold enough.
    needed = (probs.cumsum(1) - probs < level).sum(1).tolist()
    values = distribution.categories
    return [tuple(values[code] for code in row[:n]) for row, n in zip(codes.tolist(), needed, strict=True)]


def _with_values(series: Any, rows: NDArray[np.int64], values: list[Any], attribute: Attribute) -> Any:
    """A copy of the column with people's values put in at these rows, in the column's own type."""
    pandas = import_pandas()
    observed = series.dropna()
    if pandas.api.types.is_integer_dtype(series.dtype):
        values = [round(value) for value in values]
    if isinstance(attribute, Binary) and series.dtype == object and not observed.map(_is_bool).any():
        values = [int(value) for value in values]
    if isinstance(series.dtype, pandas.CategoricalDtype):
        # A table to complete may know fewer categories than the one that was learned from, and call True 1.
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


def _refuse_other_than_frames(nodes: Any) -> None:
    if not isinstance(nodes, import_pandas().DataFrame):
        raise InputError(f"nodes must be a pandas DataFrame, got {shorten(nodes)}")
