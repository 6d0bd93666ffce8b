"""People's values as encoded columns and back, with the place of a bad value in every message.

Here belongs what all ways in and out share about attributes and targets: which columns make up the schema, where a
value stands that cannot be encoded, names as arrays. What a kind of attribute means is in `gspn.attributes`. torch is
not imported: that a table cannot be used is told before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gspn.attributes import Attribute, Categorical, Schema
from gspn.columns import enumerate_briefly, shorten
from gspn.errors import Advice, InputError, Problems, together
from gspn.infer import infer_schema

if TYPE_CHECKING:
    from torch import Tensor

Place: TypeAlias = Callable[[int], str]
"""From a row to words: "nodes, row 7"."""


def placed(error: InputError, source: str, place: Place) -> InputError:
    """The error, or each of several, with the place in the source where its value stands."""
    if error.parts:
        return together([placed(part, source, place) for part in error.parts])
    if error.row is None:
        return InputError(f"{source}: {error.told}", advice=error.advice)
    return InputError(f"{place(error.row)}, attribute {error.attribute!r}: {error.reason}", advice=error.advice)


def encode_vertices(
    columns: Mapping[str, Any],
    schema: Schema | None,
    overrides: Mapping[str, Attribute | str] | None,
    source: str,
    place: Place,
) -> tuple[Schema, NDArray[np.float64]]:
    """Schema and x [N, d] of raw columns; a given schema must name just these columns, in any order."""
    if schema is not None and overrides is not None:
        raise InputError("overrides change an inferred schema, but a schema is given; pass one of them")
    if schema is not None and not isinstance(schema, Schema):
        raise InputError(f"schema must be a gspn.Schema, got {type(schema).__name__}")
    try:
        if schema is not None:
            _refuse_differences(columns, schema)
        chosen = Schema.infer(columns, overrides) if schema is None else schema
        return chosen, chosen.encode(columns)
    except InputError as error:
        raise placed(_with_others(error, columns, schema, overrides), source, place) from None


def _refuse_differences(columns: Mapping[str, Any], schema: Schema) -> None:
    lacking = [
        InputError(f"no column {name!r}, which the schema asks for; there are {enumerate_briefly(columns)}")
        for name in schema.names
        if name not in columns
    ]
    surplus = [
        InputError(
            f"column {name!r} is not in the schema ({enumerate_briefly(schema.names)})",
            advice=[Advice("ignore", "to leave it out", [name])],
        )
        for name in columns
        if name not in schema.names
    ]
    if lacking or surplus:
        raise together(lacking + surplus)


def _with_others(
    error: InputError,
    columns: Mapping[str, Any],
    schema: Schema | None,
    overrides: Mapping[str, Attribute | str] | None,
) -> InputError:
    """The error beside those of the columns that it says nothing of."""
    found = Problems()
    found.found += error.parts or (error,)
    said = {part.attribute for part in found.found}
    others = {name: values for name, values in columns.items() if name not in said}
    kinds = {name: kind for name, kind in (overrides or {}).items() if name in others}
    known = schema
    if known is None and others and None not in said:
        with found.noted():
            known = Schema.infer(others, kinds)
    for attribute in known or ():
        if attribute.name in others:
            with found.noted():
                attribute.encode(others[attribute.name])
    return together(found.found)


def encode_target(
    columns: Mapping[str, Any], target: Attribute | Schema | None, single: bool, source: str, place: Place
) -> tuple[NDArray[np.float64], Attribute | Schema]:
    """y [n] and its attribute if there is a single target, else y [n, T] and their schema."""
    try:
        if isinstance(target, Schema):
            return target.encode(columns), target
        if target is not None and not isinstance(target, Attribute):
            raise InputError(f"the target must be an attribute or a schema, got {shorten(target)}")
        if target is not None and not single:
            raise InputError(
                f"there are {len(columns)} targets ({enumerate_briefly(columns)}), so a schema with an attribute for "
                "each is needed, not one attribute"
            )
        if target is not None:
            (column,) = columns.values()
            return target.encode(column), target
        inferred = infer_schema(
            columns, None, {}, Advice("target_attribute", "to say what the target is"), classes=True
        )
        y = inferred.encode(columns)
        return (y[:, 0], inferred[0]) if single else (y, inferred)
    except InputError as error:
        raise placed(error, f"targets of {source}", place) from None


def target_names(y: Tensor | NDArray[Any], target: Attribute | Schema | None, names: object = None) -> list[str]:
    """What the columns of y are called: as asked, else after the attributes, else y, or y0, y1, … of several."""
    count = 1 if y.ndim == 1 else y.shape[1]
    if names is not None:
        asked = [names] if isinstance(names, str) else list(names) if isinstance(names, Iterable) else []
        if len(asked) != count or not all(isinstance(name, str) for name in asked):
            raise InputError(f"y must name the {count} column{'s' * (count > 1)} of targets, got {shorten(names)}")
        return asked
    if isinstance(target, Schema):
        return list(target.names)
    if target is not None:
        return [target.name]
    return ["y"] if y.ndim == 1 else [f"y{i}" for i in range(count)]


def target_columns(
    y: NDArray[Any], target: Attribute | Schema | None, names: object = None
) -> dict[str, tuple[NDArray[Any], Attribute | None]]:
    """The columns of y by name, each with its attribute where the target is typed."""
    called = target_names(y, target, names)
    columns = [y] if y.ndim == 1 else list(y.T)
    attributes: Sequence[Attribute | None]
    attributes = list(target) if isinstance(target, Schema) else [target] * len(columns)
    return dict(zip(called, zip(columns, attributes, strict=True), strict=True))


def encode_edge_types(
    name: str, values: Any, edge_types: Sequence[Any] | None, source: str, place: Place
) -> tuple[NDArray[np.int64], tuple[Any, ...]]:
    """Codes of edge types, none of them missing, and the types in order: as given, as categories, or sorted."""
    if len(values) == 0:
        return np.zeros(0, dtype=np.int64), () if edge_types is None else tuple(edge_types)
    try:
        if edge_types is None:
            (attribute,) = Schema.infer({name: values}, {name: "categorical"})
        else:
            attribute = Categorical(name, edge_types)
        codes = attribute.encode(values)
    except InputError as error:
        raise placed(error, source, place) from None
    assert isinstance(attribute, Categorical)
    return codes.astype(np.int64), attribute.categories


def name_array(names: Iterable[Any]) -> NDArray[Any]:
    """Names of any kind as a flat array: int64 if all are whole numbers, else Python objects (also tuples)."""
    listed = list(names)
    if listed and all(type(name) is int and -(2**63) <= name < 2**63 for name in listed):
        return np.array(listed, dtype=np.int64)
    return np.fromiter(listed, dtype=object, count=len(listed))
