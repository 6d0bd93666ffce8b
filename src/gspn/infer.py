"""Schema inference: from raw values to typed attributes. Package-private; people call `gspn.Schema.infer`.

Here belong the recognition of sources (tables, arrays, graphs, tensors) and the rules that choose a kind. What a kind
means, and how its values are encoded, is in `gspn.attributes`. pandas, NetworkX, torch and torch_geometric are never
imported: their objects are recognised by what they can do.
"""

from __future__ import annotations

import difflib
import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gspn.attributes import KINDS, Attribute, Binary, Categorical, Continuous, Count, Schema, from_json
from gspn.columns import enumerate_briefly, is_missing, is_number, read_column, shorten, tensor_to_array
from gspn.errors import Advice, InputError, Problems

_log = logging.getLogger(__name__)

# More distinct integers than this are taken for quantities rather than for names.
_MOST_CATEGORIES = 20
# Codes 0 … max make max + 1 categories; past this many the integers are hardly codes, and tables per state get large.
_MOST_CODES = 1000


@dataclass(frozen=True)
class _Columns:
    """The columns of a source; `coded` when integers in them are codes already rather than people's own values."""

    values: Mapping[str, Any]
    coded: bool = False


def infer_schema(
    source: Any,
    overrides: Mapping[str, Attribute | str] | None,
    named: Mapping[str, Attribute | str],
    advice: Advice | None = None,
    classes: bool = False,
) -> Schema:
    """See `Schema.infer`; `overrides` and `named` mean the same and may not contradict each other.

    `advice` tells how the caller's users keep text among numbers; without it, by overrides. `classes` says that few
    whole numbers are classes to be told apart, as those of targets are, whatever the source.
    """
    columns = _read(source)
    if not columns.values:
        raise InputError("the source has no attributes, so there is no schema to infer")
    for name in columns.values:
        if not isinstance(name, str):
            raise InputError(f"column {name!r}: names of attributes must be text; rename it")
    chosen, problems = [], Problems()
    every = _overrides(columns.values, overrides, named)
    for (name, values), override in zip(columns.values.items(), every, strict=True):
        with problems.noted():
            chosen.append(_choose(name, values, columns.coded, override, advice, classes or columns.coded))
    problems.tell()
    schema = Schema(attribute for attribute, _ in chosen)
    _log.info("inferred schema:\n%s", schema.table([reason for _, reason in chosen]))
    return schema


def _known(name: str, columns: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, columns := list(columns), n=1)
    return f"{f'did you mean {close[0]!r}? ' if close else ''}known: {enumerate_briefly(columns)}"


def _overrides(
    columns: Iterable[str], overrides: Mapping[str, Attribute | str] | None, named: Mapping[str, Attribute | str]
) -> list[Attribute | str | None]:
    """What is set by name, for each column; None where nothing is."""
    if overrides is not None and not isinstance(overrides, Mapping):
        raise InputError(f"overrides must map names to attributes or kinds, got {shorten(overrides)}")
    twice = [name for name in named if name in (overrides or {})]
    if twice:
        raise InputError(f"override {twice[0]!r} is given twice, as a keyword and in overrides")
    every = {**(overrides or {}), **named}
    for name, override in every.items():
        if name not in columns:
            raise InputError(f"override {name!r} names no attribute of the source; {_known(name, columns)}")
        if isinstance(override, str) and override not in KINDS:
            raise InputError(f"override {name!r}: kind {override!r} is none of {', '.join(KINDS)}")
        if not isinstance(override, (str, Attribute)):
            raise InputError(f"override {name!r} must be an attribute or a kind, got {shorten(override)}")
        if not isinstance(override, str) and override.name != name:
            raise InputError(f"override {name!r} is an attribute of another name, {override.name!r}")
    return [every.get(name) for name in columns]


def _read(source: Any) -> _Columns:
    if _is_data(source) or _is_networkx(source):
        return _read_graphs([source])
    if hasattr(source, "detach"):
        return _Columns(_split(tensor_to_array(source), "a tensor"), coded=True)
    if isinstance(source, Mapping):
        return _Columns(source)
    if isinstance(source, np.ndarray):
        if source.dtype.names is not None:
            return _Columns({name: source[name] for name in source.dtype.names})
        return _Columns(_split(source, "an array"))
    if hasattr(source, "columns") and hasattr(source, "__getitem__"):
        names = list(source.columns)
        for position, name in enumerate(names):
            if name in names[:position]:
                raise InputError(f"column {name!r} occurs twice in the table; rename one")
        return _Columns({name: source[name] for name in names})
    if isinstance(source, Iterable) and not isinstance(source, (str, bytes)):
        return _read_graphs(list(source))
    raise InputError(
        "a schema can be inferred from a mapping, a DataFrame, an array, a tensor, or graphs of NetworkX or "
        f"torch_geometric, not from {shorten(source)} of type {type(source).__name__}"
    )


def _is_data(source: Any) -> bool:
    # Tensors have detach(), PyG datasets have edge_index, tables may have columns of any name; only graphs have both.
    return hasattr(source, "detach") and (hasattr(source, "edge_index") or hasattr(source, "node_types"))


def _is_networkx(source: Any) -> bool:
    return callable(getattr(source, "nodes", None)) and hasattr(source, "edges")


def _read_graphs(graphs: Sequence[Any]) -> _Columns:
    if not graphs:
        raise InputError("an empty list of graphs has no attributes to infer")
    if all(map(_is_networkx, graphs)):
        return _Columns(_read_networkx(graphs))
    parts = []
    for position, graph in enumerate(graphs):
        where = f"graph {position}"
        if hasattr(graph, "node_types"):
            raise InputError(f"{where} is heterogeneous; infer one schema for each type of vertex")
        if not _is_data(graph):
            raise InputError(
                f"{where} is a {type(graph).__name__}; expected all graphs to be of NetworkX, or all Data of "
                "torch_geometric"
            )
        if getattr(graph, "x", None) is None:
            raise InputError(f"{where} has no x, so it has no attributes to infer")
        parts.append(tensor_to_array(graph.x))
        if parts[-1].ndim != 2 or parts[-1].shape[1:] != parts[0].shape[1:]:
            expected = f"[n, {parts[0].shape[1]}]" if parts[0].ndim == 2 else "[n, d]"
            raise InputError(f"{where} has x of shape {list(parts[-1].shape)}, expected {expected}")
    return _Columns(_split(np.concatenate(parts), "x"), coded=True)


def _read_networkx(graphs: Iterable[Any]) -> dict[str, list[Any]]:
    vertices = [attributes for graph in graphs for _, attributes in graph.nodes(data=True)]
    names = dict.fromkeys(name for attributes in vertices for name in attributes)
    return {name: [attributes.get(name) for attributes in vertices] for name in names}


def _split(array: NDArray[Any], what: str) -> dict[str, Any]:
    if array.ndim != 2:
        raise InputError(f"{what} must have shape [n, d], one column per attribute, got shape {list(array.shape)}")
    return {f"x{i}": array[:, i] for i in range(array.shape[1])}


def _choose(
    name: str, values: Any, coded: bool, override: Attribute | str | None, advice: Advice | None, classes: bool
) -> tuple[Attribute, str]:
    """The attribute for a column and the reason in a word or two."""
    if isinstance(override, Attribute):
        return override, "given"
    if override is not None and override != "categorical":
        return from_json({"kind": override, "name": name}), "given"
    declared = getattr(getattr(values, "dtype", None), "categories", None)
    if declared is not None and len(declared) > 0:
        return Categorical(name, declared), "given" if override else "category type"
    column = read_column(name, values)
    if override is None and _is_array_of_fractions(column):
        return Continuous(name), "fractions"
    distinct = _distinct(name, column)
    if not distinct:
        raise InputError(
            "every value is missing, so its kind cannot be inferred; leave it out, or say what it is",
            attribute=name,
            advice=[Advice("overrides", "with its kind", {name: "continuous"})],
        )
    if not all(map(is_number, distinct)):
        if override is None:
            _refuse_text_among_numbers(name, column, distinct, advice)
        return Categorical(name, _in_order(distinct)), "given" if override else "text"
    if any(value in (math.inf, -math.inf) for value in distinct):
        row = next(row for row, value in enumerate(column) if not is_missing(value) and abs(value) == math.inf)
        raise InputError("the value is infinite; a missing one is NaN", attribute=name, row=row)
    if override is not None:
        return _categorical(name, distinct, coded), "given"
    return _choose_for_numbers(name, distinct, coded, classes)


def _refuse_text_among_numbers(
    name: str, column: NDArray[Any] | list[Any], distinct: Sequence[Any], advice: Advice | None
) -> None:
    """One typo would make a category of every number: where most values are numbers, all of them have to be."""
    reads = {value: reads_as_number(value) for value in distinct}
    if all(reads.values()):
        return
    present = [(row, value) for row, value in enumerate(column) if value in reads]
    if 2 * sum(reads[value] for _, value in present) >= len(present):
        row, value = next((row, value) for row, value in present if not reads[value])
        raise InputError(
            f"{shorten(value)} is not a number, but most values are; mend it, or keep it as a category",
            attribute=name,
            row=row,
            advice=[advice or Advice("overrides", "if it is meant", {name: "categorical"}, doubtful=True)],
        )


def reads_as_number(value: object) -> bool:
    """Whether a cell of text is a number, but for its type."""
    if not isinstance(value, str):
        return is_number(value) and not isinstance(value, (bool, np.bool_))
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False


def _choose_for_numbers(name: str, distinct: Sequence[Any], coded: bool, classes: bool) -> tuple[Attribute, str]:
    if all(isinstance(value, (bool, np.bool_)) for value in distinct):
        return Binary(name), "booleans"
    if not _is_integral(distinct):
        return Continuous(name), "fractions"
    if min(distinct) >= 0 and max(distinct) <= 1:
        return Binary(name), "0 and 1"
    if len(distinct) > 2 and not classes:
        # They have an order, which categories would forget; of two values nothing lies between.
        return Continuous(name), "whole numbers"
    few = len(distinct) <= _MOST_CATEGORIES
    if few and (not coded or _is_codes(distinct)):
        return _categorical(name, distinct, coded), "few integers"
    if min(distinct) < 0:
        return Continuous(name), "negative integers"
    return Count(name), "large integers" if few else "many integers"


def _categorical(name: str, distinct: Sequence[Any], coded: bool) -> Categorical:
    if not coded:
        # A gap turns a column of integers into floats; the categories are integers none the less.
        return Categorical(name, sorted(int(value) if value == int(value) else float(value) for value in distinct))
    if not _is_codes(distinct):
        raise InputError(
            f"attribute {name!r}: as categorical it should hold codes 0, 1, … below {_MOST_CODES}, but its values "
            f"reach from {min(distinct)} to {max(distinct)}; override it with a Categorical that lists the categories"
        )
    return Categorical(name, range(int(max(distinct)) + 1))


def _is_codes(distinct: Sequence[Any]) -> bool:
    return _is_integral(distinct) and min(distinct) >= 0 and max(distinct) < _MOST_CODES


def _is_integral(distinct: Sequence[Any]) -> bool:
    return all(value == int(value) for value in distinct)


def _in_order(distinct: Sequence[Any]) -> list[Any]:
    try:
        return sorted(distinct)
    except TypeError:  # text next to numbers has no order of its own
        return sorted(distinct, key=str)


def _is_array_of_fractions(column: NDArray[Any] | list[Any]) -> bool:
    """Whether the rules would end at "fractions", without the cost of a million distinct Python numbers."""
    if not isinstance(column, np.ndarray) or column.dtype.kind != "f":
        return False
    present = column[~np.isnan(column)]
    return bool(np.isfinite(present).all() and (present != np.floor(present)).any())


def _distinct(name: str, column: NDArray[Any] | list[Any]) -> list[Any]:
    """The different values of a column without the missing ones, in no particular order."""
    if isinstance(column, np.ndarray):
        unique = np.unique(column)
        present: list[Any] = unique[~np.isnan(unique)].tolist()
        return present
    different: dict[Any, None] = {}
    for row, value in enumerate(column):
        try:
            different[value] = None
        except TypeError:  # a list, say, has no hash
            raise InputError(f"{shorten(value)} is no single value", attribute=name, row=row) from None
    return [value for value in different if not is_missing(value)]
