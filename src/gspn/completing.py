"""Completed tables: how filled values and their spread get back into the columns that they come from.

What a filled value means is explained in `queries.entries`; what is fitted, and with which settings, in `imputation`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gspn.attributes import Attribute, Binary, Schema
from gspn.circuits.distributions import CategoricalDistribution
from gspn.circuits.given import distributions
from gspn.columns import shorten
from gspn.convert.files import Table, import_pandas
from gspn.convert.foreign import DataFrame
from gspn.convert.writings import Writing, find_writing
from gspn.errors import InputError
from gspn.graphs import GraphDataset
from gspn.models.gspn import GSPN
from gspn.models.several_tables import several_completed
from gspn.models.stack import Stack
from gspn.queries.entries import filled

_SPREAD = ("std", "probability", "low", "high")


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
    for batch, vertices, given in model.gaps_of(dataset):
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
