"""Typed attributes of a vertex and the schema that puts them in order.

Here belongs what an attribute's values mean: its kind, the way from people's values to a float column and back (NaN is
missing, nothing else is), which encoded numbers are allowed, and how all this is written to JSON.

Here does not belong how likely a value is (distributions are leaves, see `gspn.circuits`), nor how a kind is guessed
from raw values (`gspn.infer`, reached through `Schema.infer`). Only numpy is imported: tables, graphs and tensors are
recognised by what they can do, so reading a schema never waits for pandas or torch.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Literal, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gspn.columns import enumerate_briefly, is_missing, is_number, read_column, shorten, tensor_to_array
from gspn.errors import InputError

__all__ = ["Attribute", "Binary", "Categorical", "Continuous", "Count", "Schema", "from_json", "to_json"]

Scalar: TypeAlias = str | int | float | bool
FloatArray: TypeAlias = NDArray[np.float64]

# From here on float64 skips whole numbers, so a count could silently become its neighbour.
_LARGEST_COUNT = 2.0**53


DISTRIBUTIONS: dict[str, list[str]] = {
    "continuous": ["gaussian"],
    "categorical": ["categorical"],
    "binary": ["bernoulli"],
    "count": ["poisson", "negative_binomial"],
}
"""By kind, the leaf families that an attribute may name, the usual one first (`gspn.circuits.register_leaf` adds)."""


def _check_distribution(attribute: Any) -> None:
    known = DISTRIBUTIONS[attribute.kind]
    if attribute.distribution not in known:
        raise InputError(
            f"attribute {attribute.name!r}: distribution must be {' or '.join(map(repr, known))}, "
            f"got {attribute.distribution!r}; if another package brings it, import that package first"
        )


def _is_usual(attribute: Any) -> bool:
    usual: str = DISTRIBUTIONS[attribute.kind][0]
    return bool(attribute.distribution == usual)


@dataclass(frozen=True, repr=False)
class _Typed:
    """What the kinds share. `_faulty` and the two conversions are each kind's own."""

    name: str
    kind: ClassVar[str]

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InputError(f"{type(self).__name__}: name must be a non-empty string, got {self.name!r}")
        object.__setattr__(self, "name", str(self.name))  # a numpy string would not survive repr
        _check_distribution(self)

    def __repr__(self) -> str:
        settings = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.kind != "count" and _is_usual(self):
            del settings["distribution"]
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in settings.items())})"

    @property
    def detail(self) -> str:
        """Details besides name and kind."""
        return ""

    def encode(self, values: Any) -> FloatArray:
        """People's values as a float column [n]; missing ones (None, NaN, NaT, NA) become NaN."""
        column = self._encode(read_column(self.name, values))
        self._refuse_fault(column)
        return column

    def decode(self, column: Any) -> list[Any]:
        """An encoded column [n] as Python values, None where missing."""
        array = self._encoded(column)
        self._refuse_fault(array)
        return [None if value != value else self._decode(value) for value in array.tolist()]

    def find_fault(self, column: Any) -> tuple[int, str] | None:
        """Row and reason of the first entry of an encoded column that means nothing; None if all is well."""
        array = self._encoded(column)
        faulty = (np.isinf(array) | self._faulty(array)) & ~np.isnan(array)
        if not faulty.any():
            return None
        row = int(faulty.argmax())
        value = float(array[row])
        return row, "the value is infinite; a missing one is NaN" if math.isinf(value) else self._reason(value)

    def _encoded(self, column: Any) -> FloatArray:
        array = tensor_to_array(column) if hasattr(column, "detach") else np.asarray(column)
        if array.ndim != 1 or array.dtype.kind not in "biuf":
            raise InputError(
                f"attribute {self.name!r}: an encoded column is one-dimensional and numeric, "
                f"got shape {array.shape}, type {array.dtype}"
            )
        return array.astype(np.float64, copy=False)

    def _refuse_fault(self, column: FloatArray) -> None:
        fault = self.find_fault(column)
        if fault is not None:
            raise self._at(*fault)

    def _at(self, row: int, reason: str) -> InputError:
        return InputError(reason, attribute=self.name, row=row)

    def _encode(self, values: NDArray[Any] | list[Any]) -> FloatArray:
        if isinstance(values, np.ndarray):
            return values.astype(np.float64)
        plain = (value if type(value) is float else self._number(row, value) for row, value in enumerate(values))
        return np.fromiter(plain, dtype=np.float64, count=len(values))

    def _number(self, row: int, value: Any) -> float:
        if is_missing(value):
            return math.nan
        if not is_number(value):
            # Text is refused even where it reads as a number: "1,5" and "1e3" leave too much to guess.
            raise self._at(row, f"{shorten(value)} is not a number")
        try:
            return float(value)
        except OverflowError:
            raise self._at(row, f"{shorten(value)} is too large") from None

    def _look_up(
        self, values: NDArray[Any] | list[Any], codes: Mapping[Any, float], reason: Callable[[Any], str]
    ) -> FloatArray:
        def code_of(value: Any) -> float:
            try:
                return codes.get(value, -1.0)
            except TypeError:  # a list, say, has no hash and is no category either
                return -1.0

        values = values.tolist() if isinstance(values, np.ndarray) else values
        column = np.array([code_of(value) for value in values], dtype=np.float64)
        for row in np.flatnonzero(column < 0).tolist():
            if not is_missing(values[row]):
                raise self._at(row, reason(values[row]))
            column[row] = math.nan
        return column

    def _faulty(self, column: FloatArray) -> NDArray[np.bool_]:
        return np.zeros(column.shape, dtype=np.bool_)

    def _reason(self, value: float) -> str:
        return f"{value:g} is not {self.kind}"

    def _decode(self, value: float) -> Scalar:
        return value


@dataclass(frozen=True, repr=False)
class Continuous(_Typed):
    """A real number.

    `floor` is the smallest standard deviation that a state may learn, in units of the column's own deviation. Without
    it a column with repeated values has unbounded likelihood: a state settles on one value and narrows without limit.
    `distribution` is the family of its leaves.
    """

    floor: float = 1e-3
    distribution: str = "gaussian"
    kind: ClassVar[str] = "continuous"

    def __post_init__(self) -> None:
        super().__post_init__()
        usable = is_number(self.floor) and not isinstance(self.floor, (bool, np.bool_))
        if not usable or not 0 < self.floor < math.inf:
            raise InputError(f"attribute {self.name!r}: floor must be a positive number, got {self.floor!r}")
        object.__setattr__(self, "floor", float(self.floor))

    @property
    def detail(self) -> str:
        """The floor, and the distribution where it is not the default."""
        return f"floor {self.floor:g}" + ("" if self.distribution == "gaussian" else f", {self.distribution}")


@dataclass(frozen=True, init=False, repr=False)
class Categorical(_Typed):
    """One of finitely many named values; encoded as its position in `categories`."""

    categories: tuple[Scalar, ...]
    distribution: str = "categorical"
    kind: ClassVar[str] = "categorical"

    def __init__(self, name: str, categories: Iterable[Any], distribution: str = "categorical") -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "distribution", distribution)
        super().__post_init__()
        if isinstance(categories, (str, bytes, Mapping, Set)) or not isinstance(categories, Iterable):
            raise InputError(
                f"attribute {name!r}: categories must be a sequence such as a list, got {shorten(categories)}"
            )
        found: dict[Scalar, Scalar] = {}
        for category in categories:
            value = category.item() if isinstance(category, np.generic) else category
            if is_missing(value):
                raise InputError(f"attribute {name!r}: categories contains {category!r}, which means missing")
            if type(value) not in (str, int, float, bool) or value in (math.inf, -math.inf):
                raise InputError(
                    f"attribute {name!r}: categories must be text, finite numbers or booleans, "
                    f"got {shorten(category)} of type {type(category).__name__}; convert it first"
                )
            if value in found:  # also True and 1, 1 and 1.0: Python, and so a look-up, takes them for the same
                raise InputError(f"attribute {name!r}: categories contains both {found[value]!r} and {value!r}")
            found[value] = value
        if not found:
            raise InputError(f"attribute {name!r}: categories is empty; give at least one")
        object.__setattr__(self, "categories", tuple(found))

    @property
    def detail(self) -> str:
        """Number and names of the categories."""
        count = len(self.categories)
        return f"{count} {'category' if count == 1 else 'categories'}: {enumerate_briefly(self.categories)}"

    def _encode(self, values: NDArray[Any] | list[Any]) -> FloatArray:
        codes = {category: float(code) for code, category in enumerate(self.categories)}
        return self._look_up(values, codes, self._unknown)

    def _unknown(self, value: object) -> str:
        reason = f"{shorten(value)} is none of the categories {enumerate_briefly(self.categories)}"
        for category in self.categories:
            if str(category) == str(value):  # the usual accident: codes read as text or text as codes
                reason += f" (there is {category!r}, of type {type(category).__name__}, not {type(value).__name__})"
        return reason

    def _faulty(self, column: FloatArray) -> NDArray[np.bool_]:
        faulty: NDArray[np.bool_] = (column < 0) | (column >= len(self.categories)) | (column != np.floor(column))
        return faulty

    def _reason(self, value: float) -> str:
        if len(self.categories) == 1:
            return f"code {value:.15g} is not 0, the code of the only category {enumerate_briefly(self.categories)}"
        names = enumerate_briefly(self.categories)
        return f"code {value:.15g} is none of the {len(self.categories)} categories {names}"

    def _decode(self, value: float) -> Scalar:
        return self.categories[int(value)]


@dataclass(frozen=True, repr=False)
class Binary(_Typed):
    """True or false; encoded as 1 or 0."""

    distribution: str = "bernoulli"
    kind: ClassVar[str] = "binary"

    def _encode(self, values: NDArray[Any] | list[Any]) -> FloatArray:
        return self._look_up(
            values, {False: 0.0, True: 1.0}, lambda value: f"{shorten(value)} is neither True nor False (1 nor 0)"
        )

    def _faulty(self, column: FloatArray) -> NDArray[np.bool_]:
        faulty: NDArray[np.bool_] = (column != 0) & (column != 1)
        return faulty

    def _reason(self, value: float) -> str:
        return f"{value:.15g} is neither 0 nor 1"

    def _decode(self, value: float) -> Scalar:
        return bool(value)


@dataclass(frozen=True, repr=False)
class Count(_Typed):
    """A whole number from 0 on, without an upper end; `distribution` is the family of its leaves."""

    distribution: str = "poisson"
    kind: ClassVar[str] = "count"

    @property
    def detail(self) -> str:
        """The distribution."""
        return self.distribution

    def _faulty(self, column: FloatArray) -> NDArray[np.bool_]:
        faulty: NDArray[np.bool_] = (column < 0) | (column != np.floor(column)) | (column >= _LARGEST_COUNT)
        return faulty

    def _reason(self, value: float) -> str:
        if value >= _LARGEST_COUNT:
            return f"{value:.15g} is too large for a count (2**53 or more); use a continuous attribute"
        fault = "is not a whole number" if value != math.floor(value) else "is negative"
        return f"{value:.15g} {fault}, so it is no count"

    def _decode(self, value: float) -> Scalar:
        return int(value)


Attribute: TypeAlias = Continuous | Categorical | Binary | Count

KINDS: dict[str, type[Attribute]] = {kind.kind: kind for kind in (Continuous, Categorical, Binary, Count)}


def to_json(attribute: Attribute) -> dict[str, Any]:
    """The attribute as plain JSON values."""
    settings = {field.name: getattr(attribute, field.name) for field in fields(attribute)}
    if attribute.kind != "count" and _is_usual(attribute):
        del settings["distribution"]  # as files were written when there was no other
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in settings.items()}
    return {"kind": attribute.kind, **plain}


def from_json(data: Mapping[str, Any]) -> Attribute:
    """The attribute that `to_json` wrote."""
    if not isinstance(data, Mapping):
        raise InputError(f"an attribute is written as a JSON object, got {shorten(data)}")
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise InputError(f"attribute {data.get('name')!r}: kind {kind!r} is none of {', '.join(KINDS)}")
    cls = KINDS[kind]
    known = {field.name for field in fields(cls)}
    unknown = sorted(str(key) for key in data.keys() - known - {"kind"})
    if unknown:
        raise InputError(f"attribute {data.get('name')!r}: unknown key {unknown[0]!r} for kind {kind!r}")
    needed = ["name", "categories"] if cls is Categorical else ["name"]
    for key in needed:
        if key not in data:
            raise InputError(f"attribute {data.get('name')!r}: key {key!r} is missing")
    return cls(**{key: value for key, value in data.items() if key != "kind"})


@dataclass(frozen=True, init=False, repr=False)
class Schema:
    """The ordered attributes of a vertex: one per column of `x`. Immutable, hashable, comparable."""

    attributes: tuple[Attribute, ...]

    def __init__(self, attributes: Iterable[Attribute]) -> None:
        if isinstance(attributes, (str, Mapping)) or not isinstance(attributes, Iterable):
            raise InputError(f"a schema takes a list of attributes, got {shorten(attributes)}")
        ordered = tuple(attributes)
        if not ordered:
            raise InputError("a schema needs at least one attribute, got none")
        seen: set[str] = set()
        for position, attribute in enumerate(ordered):
            if not isinstance(attribute, Attribute):
                raise InputError(
                    f"a schema takes Continuous, Categorical, Binary or Count attributes, "
                    f"got {shorten(attribute)} at position {position}"
                )
            if attribute.name in seen:
                raise InputError(f"attribute {attribute.name!r} occurs twice in the schema; names must differ")
            seen.add(attribute.name)
        object.__setattr__(self, "attributes", ordered)

    @classmethod
    def infer(
        cls, source: Any, /, overrides: Mapping[str, Attribute | str] | None = None, **named: Attribute | str
    ) -> Schema:
        """Read a schema off raw values and log the choice.

        Sources: a mapping of names to values, a DataFrame, an array [n, d] or with fields, a NetworkX graph or a list
        of them, a float tensor [n, d], a torch_geometric `Data` or a list of them. Columns without a name are called
        x0, x1, …

        Booleans are binary, text and columns of pandas' type category are categorical. Numbers: only 0 and 1 binary;
        two other integers categorical; everything else continuous, integers too, since they have an order. In tensors
        integers are taken for codes: categorical with up to 20 distinct values, the categories being 0 … max, count
        with more (continuous if one is negative); a column that cannot be codes, with a negative number or one of 1000
        or more, is continuous or count. In other sources categories are the distinct values.
        Text in a column of which at least half reads as numbers is treated as a typo and refused unless overridden.

        Every attribute can be set by name, as an attribute or a kind: `Schema.infer(table, charge=Continuous("charge"),
        degree="count")`; names that are not identifiers go into the mapping `overrides`.
        """
        from gspn.infer import infer_schema  # that module builds schemas, so it must be loaded after this one

        return infer_schema(source, overrides, named)

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes' names in order."""
        return tuple(self._columns)

    @cached_property
    def _columns(self) -> dict[str, int]:
        """The column of every attribute by name: schemas may have thousands."""
        return {attribute.name: column for column, attribute in enumerate(self.attributes)}

    def index(self, name: str) -> int:
        """The column of the attribute with this name."""
        try:
            return self._columns[name]
        except (KeyError, TypeError):
            raise InputError(f"no attribute {name!r} in the schema; known: {enumerate_briefly(self.names)}") from None

    def __len__(self) -> int:
        return len(self.attributes)

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def __getitem__(self, key: str | SupportsIndex) -> Attribute:
        return self.attributes[self.index(key) if isinstance(key, str) else operator.index(key)]

    def __contains__(self, item: object) -> bool:
        return item in (self.names if isinstance(item, str) else self.attributes)

    def __repr__(self) -> str:
        return f"Schema([{', '.join(map(repr, self.attributes))}])"

    def __str__(self) -> str:
        return self.table()

    def table(self, reasons: Sequence[str] | None = None) -> str:
        """An aligned table with one line per attribute, with the reason for each where given."""
        rows = [["name", "kind", "detail"], *([a.name, a.kind, a.detail] for a in self.attributes)]
        if reasons is not None:
            rows = [[*row[:2], reason, row[2]] for row, reason in zip(rows, ["reason", *reasons], strict=True)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)

    def encode(self, columns: Any, *, extra: Literal["error", "ignore"] = "error") -> FloatArray:
        """A table of people's values (mapping or DataFrame) as x [n, d]; `extra` says what to do with other columns."""
        if extra not in ("error", "ignore"):
            raise InputError(f"extra must be 'error' or 'ignore', got {extra!r}")
        if not isinstance(columns, Mapping) and not hasattr(columns, "columns"):
            raise InputError(f"expected a mapping of names to values or a DataFrame, got {shorten(columns)}")
        given = dict.fromkeys(columns if isinstance(columns, Mapping) else columns.columns)
        for name in self.names:
            if name not in given:
                raise InputError(f"no column {name!r}, which the schema asks for; given: {enumerate_briefly(given)}")
        known = set(self.names)
        surplus = [name for name in given if name not in known]
        if surplus and extra == "error":
            raise InputError(
                f"column {surplus[0]!r} is not in the schema ({enumerate_briefly(self.names)}); "
                f"drop it or pass extra='ignore'"
            )
        encoded = [attribute.encode(columns[attribute.name]) for attribute in self.attributes]
        for name, column in zip(self.names, encoded, strict=True):
            if len(column) != len(encoded[0]):
                raise InputError(
                    f"column {name!r} has {len(column)} rows, but column {self.names[0]!r} has {len(encoded[0])}"
                )
        return np.column_stack(encoded)

    def decode(self, x: Any) -> dict[str, list[Any]]:
        """x [n, d] as Python values by attribute name, None where missing."""
        array = self._encoded(x)
        return {attribute.name: attribute.decode(array[:, i]) for i, attribute in enumerate(self.attributes)}

    def find_fault(self, x: Any) -> tuple[int, int, str] | None:
        """Row, column and reason of the first entry of x [n, d], in row order, that means nothing."""
        array = self._encoded(x)
        faults = [(attribute.find_fault(array[:, i]), i) for i, attribute in enumerate(self.attributes)]
        return min(((fault[0], i, fault[1]) for fault, i in faults if fault is not None), default=None)

    def _encoded(self, x: Any) -> NDArray[Any]:
        array = tensor_to_array(x) if hasattr(x, "detach") else np.asarray(x)
        if array.ndim != 2 or array.shape[1] != len(self):
            raise InputError(
                f"expected x of shape [n, {len(self)}], one column per attribute ({enumerate_briefly(self.names)}), "
                f"got shape {list(array.shape)}"
            )
        return array

    def to_json(self) -> dict[str, Any]:
        """The schema as plain JSON values."""
        return {"attributes": [to_json(attribute) for attribute in self.attributes]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Schema:
        """The schema that `to_json` wrote."""
        if not isinstance(data, Mapping) or set(data) != {"attributes"} or not isinstance(data["attributes"], list):
            raise InputError(f"a schema is written as {{'attributes': [...]}}, got {shorten(data)}")
        return cls(map(from_json, data["attributes"]))
