"""Attributes, schemas and their inference: what goes in comes out, and what is wrong is named."""

from __future__ import annotations

import copy
import json
import logging
import math
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from decimal import Decimal
from fractions import Fraction
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset

from gspn.attributes import Attribute, Binary, Categorical, Continuous, Count, Schema, from_json, to_json
from gspn.errors import InputError

ELEMENT = Categorical("element", ["C", "N", "O", "Cl"])
SCHEMA = Schema([ELEMENT, Continuous("charge"), Binary("aromatic"), Count("hydrogens")])
MISSING = [None, math.nan, np.float32("nan"), pd.NA, pd.NaT, np.datetime64("NaT"), Decimal("NaN")]

finite = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.one_of(st.text(), st.integers(), finite, st.booleans())
names = st.text(min_size=1)


@st.composite
def categoricals(draw: st.DrawFn) -> Categorical:
    return Categorical(draw(names), draw(st.lists(scalars, min_size=1, max_size=8, unique=True)))


attributes: st.SearchStrategy[Attribute] = st.one_of(
    st.builds(Continuous, names, st.floats(min_value=1e-9, max_value=10)),
    categoricals(),
    st.builds(Binary, names),
    st.builds(Count, names, st.sampled_from(["poisson", "negative_binomial"])),
)
schemas = st.lists(attributes, min_size=1, max_size=5, unique_by=lambda attribute: attribute.name).map(Schema)


def values_of(attribute: Attribute) -> st.SearchStrategy[Any]:
    if isinstance(attribute, Categorical):
        return st.sampled_from(attribute.categories)
    if isinstance(attribute, Count):
        return st.integers(0, 2**53 - 1)
    return st.booleans() if isinstance(attribute, Binary) else finite


def same(first: list[Any], second: list[Any]) -> bool:
    """Equal values of equal types: 1, 1.0 and True are three things here."""
    return first == second and list(map(type, first)) == list(map(type, second))


def raises(message: str, call: Callable[..., object], *arguments: Any, **named: Any) -> None:
    """The call fails with exactly this message."""
    with pytest.raises(InputError) as caught:
        call(*arguments, **named)
    assert str(caught.value) == message


# Attributes


@given(st.data(), attributes)
def test_decoding_undoes_encoding(data: st.DataObject, attribute: Attribute) -> None:
    values = data.draw(st.lists(st.none() | values_of(attribute)))
    column = attribute.encode(values)
    assert column.dtype == np.float64
    assert column.shape == (len(values),)
    assert [value is None for value in values] == np.isnan(column).tolist()
    assert attribute.find_fault(column) is None
    assert same(attribute.decode(column), values)
    assert same(attribute.decode(torch.from_numpy(column)), values)


@given(st.data(), attributes)
def test_faults_are_what_encoding_cannot_produce(data: st.DataObject, attribute: Attribute) -> None:
    """Seen one number at a time, against the definition of each kind."""
    value = data.draw(st.floats() | st.integers(-3, 12).map(float))
    if isinstance(attribute, Categorical):
        fine = value in range(len(attribute.categories))
    elif isinstance(attribute, Binary):
        fine = value in (0, 1)
    elif isinstance(attribute, Count):
        fine = 0 <= value < 2**53 and value.is_integer()
    else:
        fine = not math.isinf(value)
    fault = attribute.find_fault(np.array([math.nan, value, value]))
    assert (fault is None) == (fine or math.isnan(value))
    assert fault is None or fault[0] == 1


@pytest.mark.parametrize("attribute", SCHEMA, ids=lambda attribute: attribute.kind)
@pytest.mark.parametrize("missing", MISSING, ids=repr)
def test_all_sorts_of_missing_are_nan(attribute: Attribute, missing: object) -> None:
    value = "C" if attribute is ELEMENT else 1
    column = attribute.encode([value, missing, value])
    assert np.isnan(column).tolist() == [False, True, False]
    assert attribute.decode(column) == [value, None, value]


@pytest.mark.parametrize(
    ("attribute", "values", "expected"),
    [
        (Continuous("a"), pd.Series([1.5, None]), [1.5, None]),
        (Continuous("a"), pd.Series([1, None], dtype="Int64"), [1.0, None]),
        (Continuous("a"), np.array([1, 2], dtype=np.int8), [1.0, 2.0]),
        (Continuous("a"), np.ma.masked_array([1.0, 2.0], [False, True]), [1.0, None]),
        (Continuous("a"), torch.tensor([1.5, math.nan], requires_grad=True), [1.5, None]),
        (Continuous("a"), torch.tensor([1.5, 2.0], dtype=torch.bfloat16), [1.5, 2.0]),
        (Continuous("a"), [Fraction(1, 2), Decimal("0.25"), True, np.float32(4), 3], [0.5, 0.25, 1.0, 4.0, 3.0]),
        (Continuous("a"), (value for value in (1.0, 2.0)), [1.0, 2.0]),
        (Continuous("a"), [], []),
        (ELEMENT, pd.Series(["N", None, "C"]), ["N", None, "C"]),
        (ELEMENT, pd.Series(["N", None, "C"], dtype="string"), ["N", None, "C"]),
        (ELEMENT, pd.Series(["N", None, "C"], dtype=object), ["N", None, "C"]),
        (ELEMENT, pd.Series(["N", None, "C"], dtype="category"), ["N", None, "C"]),
        (ELEMENT, np.array(["N", "Cl"]), ["N", "Cl"]),
        (Categorical("a", [6, 8]), pd.Series([6, None, 8]), [6, None, 8]),  # floats, because of the gap
        (Categorical("a", [6, 8]), np.array([8, 6]), [8, 6]),
        (Categorical("a", ["nan", ""]), ["", "nan", None], ["", "nan", None]),
        (Binary("a"), pd.Series([True, None, False], dtype="boolean"), [True, None, False]),
        (Binary("a"), np.array([True, False]), [True, False]),
        (Binary("a"), np.array([1.0, math.nan, 0.0]), [True, None, False]),
        (Binary("a"), [1, 0.0, np.True_], [True, False, True]),
        (Binary("a"), torch.tensor([True, False]), [True, False]),
        (Count("a"), pd.Series([3, None], dtype="Int64"), [3, None]),
        (Count("a"), torch.tensor([3, 0]), [3, 0]),
    ],
)
def test_encoding_accepts_what_people_have(attribute: Attribute, values: Any, expected: list[Any]) -> None:
    assert same(attribute.decode(attribute.encode(values)), expected)


def test_codes_are_positions() -> None:
    assert ELEMENT.encode(["Cl", "C", "O"]).tolist() == [3, 0, 2]


def test_encoding_copies() -> None:
    values = np.array([1.0, 2.0])
    Continuous("a").encode(values)[0] = 9
    assert values.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("attribute", "values", "message"),
    [
        (ELEMENT, ["C"] * 4 + ["Xx"], "attribute 'element', row 4: 'Xx' is none of the categories C, N, O, Cl"),
        (ELEMENT, [None, ["C"]], "attribute 'element', row 1: ['C'] is none of the categories C, N, O, Cl"),
        (ELEMENT, [np.zeros(1)], "attribute 'element', row 0: array([0.]) is none of the categories C, N, O, Cl"),
        (
            Categorical("a", [1, 2]),
            [2, "1"],
            "attribute 'a', row 1: '1' is none of the categories 1, 2 (there is 1, of type int, not str)",
        ),
        (
            Categorical("a", ["", " x", "y\n", "z" * 99]),
            ["q" * 99],
            f"attribute 'a', row 0: '{'q' * 58}… is none of the categories '', ' x', 'y\\n', '{'z' * 30}…",
        ),
        (
            Categorical("a", range(50)),
            [50],
            "attribute 'a', row 0: 50 is none of the categories 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, … (50 in all)",
        ),
        (Binary("a"), [1, "yes"], "attribute 'a', row 1: 'yes' is neither True nor False (1 nor 0)"),
        (Binary("a"), np.array([0, 2]), "attribute 'a', row 1: 2 is neither True nor False (1 nor 0)"),
        (Continuous("a"), [1.0, "abc"], "attribute 'a', row 1: 'abc' is no number"),
        (Continuous("a"), ["1.5"], "attribute 'a', row 0: '1.5' is no number"),
        (Continuous("a"), [1j], "attribute 'a', row 0: 1j is no number"),
        (Continuous("a"), [np.timedelta64(1, "ns")], "attribute 'a', row 0: np.timedelta64(1,'ns') is no number"),
        (Continuous("a"), [10**400], f"attribute 'a', row 0: 1{'0' * 58}… is too large"),
        (
            Continuous("a"),
            [0.0, -math.inf],
            "attribute 'a', row 1: the value is infinite; a missing one is NaN",
        ),
        (Count("a"), [3, -1], "attribute 'a', row 1: -1 is negative, so it is no count"),
        (Count("a"), [2.5], "attribute 'a', row 0: 2.5 is not a whole number, so it is no count"),
        (Count("a"), ["3"], "attribute 'a', row 0: '3' is no number"),
        (
            Count("a"),
            [2**53 + 1],
            "attribute 'a', row 0: 9.00719925474099e+15 is too large for a count (2**53 or more); "
            "use a continuous attribute",
        ),
        (Count("a"), "123", "attribute 'a': expected a sequence with one value a row, got a str"),
        (Count("a"), {1, 2}, "attribute 'a': expected a sequence with one value a row, got a set"),
        (Count("a"), 5, "attribute 'a': expected a sequence of values, got 5"),
        (Count("a"), np.zeros((2, 3)), "attribute 'a': expected one value a row, got an array of shape (2, 3)"),
        (Count("a"), torch.tensor(1.0), "attribute 'a': expected one value a row, got an array of shape ()"),
        (
            Continuous("a"),
            pd.Series(["2020-01-01"], dtype="datetime64[ns]"),
            "attribute 'a': values of type datetime64[ns] are not supported; convert to numbers or text",
        ),
        (
            ELEMENT,
            np.array([b"C"]),
            "attribute 'element': values of type |S1 are not supported; convert to numbers or text",
        ),
    ],
)
def test_encoding_names_what_is_wrong(attribute: Attribute, values: Any, message: str) -> None:
    raises(message, attribute.encode, values)


@pytest.mark.parametrize(
    ("attribute", "value", "reason"),
    [
        (ELEMENT, 9, "code 9 is none of the 4 categories C, N, O, Cl"),
        (ELEMENT, -1, "code -1 is none of the 4 categories C, N, O, Cl"),
        (ELEMENT, 1.5, "code 1.5 is none of the 4 categories C, N, O, Cl"),
        (ELEMENT, math.inf, "the value is infinite; a missing one is NaN"),
        (Categorical("a", ["only"]), 1, "code 1 is not 0, the code of the only category only"),
        (Binary("a"), 2, "2 is neither 0 nor 1"),
        (Count("a"), -3, "-3 is negative, so it is no count"),
        (Count("a"), 0.5, "0.5 is not a whole number, so it is no count"),
        (Count("a"), math.inf, "the value is infinite; a missing one is NaN"),
        (Continuous("a"), -math.inf, "the value is infinite; a missing one is NaN"),
    ],
)
def test_faults_have_reasons(attribute: Attribute, value: float, reason: str) -> None:
    column = np.array([math.nan, 0, value, value], dtype=np.float32)
    assert attribute.find_fault(column) == (2, reason)
    raises(f"attribute {attribute.name!r}, row 2: {reason}", attribute.decode, column)


def test_an_encoded_column_is_numeric_and_flat() -> None:
    message = "attribute 'a': an encoded column is one-dimensional and numeric, got shape "
    raises(message + "(1, 2), type float64", Binary("a").decode, np.zeros((1, 2)))
    raises(message + "(1,), type object", Binary("a").find_fault, np.array([None]))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Binary(""), "Binary: name must be a non-empty string, got ''"),
        (lambda: Categorical(3, ["a"]), "Categorical: name must be a non-empty string, got 3"),  # type: ignore[arg-type]
        (lambda: Continuous("a", 0), "attribute 'a': floor must be a positive number, got 0"),
        (lambda: Continuous("a", math.nan), "attribute 'a': floor must be a positive number, got nan"),
        (lambda: Continuous("a", math.inf), "attribute 'a': floor must be a positive number, got inf"),
        (lambda: Continuous("a", True), "attribute 'a': floor must be a positive number, got True"),
        (lambda: Continuous("a", "1"), "attribute 'a': floor must be a positive number, got '1'"),  # type: ignore[arg-type]
        (
            lambda: Count("a", "gauss"),  # type: ignore[arg-type]
            "attribute 'a': distribution must be 'poisson' or 'negative_binomial', got 'gauss'",
        ),
        (lambda: Categorical("a", []), "attribute 'a': categories is empty; give at least one"),
        (lambda: Categorical("a", "CNO"), "attribute 'a': categories must be a sequence such as a list, got 'CNO'"),
        (lambda: Categorical("a", {"C"}), "attribute 'a': categories must be a sequence such as a list, got {'C'}"),
        (
            lambda: Categorical("a", 4),  # type: ignore[arg-type]
            "attribute 'a': categories must be a sequence such as a list, got 4",
        ),
        (lambda: Categorical("a", ["C", "C"]), "attribute 'a': categories contains both 'C' and 'C'"),
        (lambda: Categorical("a", [1, True]), "attribute 'a': categories contains both 1 and True"),
        (lambda: Categorical("a", [0, 0.0]), "attribute 'a': categories contains both 0 and 0.0"),
        (lambda: Categorical("a", [None]), "attribute 'a': categories contains None, which means missing"),
        (lambda: Categorical("a", [1.5, math.nan]), "attribute 'a': categories contains nan, which means missing"),
        (
            lambda: Categorical("a", [math.inf]),
            "attribute 'a': categories must be text, finite numbers or booleans, "
            "got inf of type float; convert it first",
        ),
        (
            lambda: Categorical("a", [("C",)]),
            "attribute 'a': categories must be text, finite numbers or booleans, "
            "got ('C',) of type tuple; convert it first",
        ),
    ],
)
def test_constructors_name_attribute_and_argument(build: Callable[[], Attribute], message: str) -> None:
    raises(message, build)


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (np.array([1, 2]), (1, 2)),
        (np.array(["a", "b"]), ("a", "b")),
        (pd.Index([1.5, 2.5]), (1.5, 2.5)),
        ([np.True_, np.False_], (True, False)),
        (range(3), (0, 1, 2)),
        (iter("ab"), ("a", "b")),
    ],
)
def test_categories_become_a_tuple_of_python_scalars(given: Any, stored: tuple[Any, ...]) -> None:
    categories = Categorical("a", given).categories
    assert type(categories) is tuple
    assert same(list(categories), list(stored))


def test_numpy_settings_become_python_ones() -> None:
    attribute = Continuous(np.str_("a"), np.float64(0.5))
    assert repr(attribute) == "Continuous(name='a', floor=0.5)"


def test_attributes_are_frozen_and_hashable() -> None:
    assert len({Binary("a"), Binary("a"), Count("a"), ELEMENT, Categorical("element", ("C", "N", "O", "Cl"))}) == 3
    with pytest.raises(FrozenInstanceError):
        ELEMENT.name = "other"  # type: ignore[misc]


# JSON


@given(attributes)
def test_json_keeps_everything(attribute: Attribute) -> None:
    data = to_json(attribute)
    assert data["kind"] == attribute.kind
    back = from_json(json.loads(json.dumps(data, allow_nan=False)))
    assert back == attribute
    if isinstance(attribute, Categorical) and isinstance(back, Categorical):
        assert same(list(back.categories), list(attribute.categories))


def test_json_is_what_is_promised() -> None:
    assert to_json(ELEMENT) == {"kind": "categorical", "name": "element", "categories": ["C", "N", "O", "Cl"]}
    assert to_json(Continuous("a")) == {"kind": "continuous", "name": "a", "floor": 0.001}
    assert to_json(Binary("a")) == {"kind": "binary", "name": "a"}
    assert to_json(Count("a")) == {"kind": "count", "name": "a", "distribution": "poisson"}
    assert from_json({"kind": "count", "name": "a"}) == Count("a")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (["a"], "an attribute is written as a JSON object, got ['a']"),
        (
            {"kind": "ordinal", "name": "a"},
            "attribute 'a': kind 'ordinal' is none of continuous, categorical, binary, count",
        ),
        (
            {"kind": ["binary"], "name": "a"},
            "attribute 'a': kind ['binary'] is none of continuous, categorical, binary, count",
        ),
        ({"name": "a"}, "attribute 'a': kind None is none of continuous, categorical, binary, count"),
        ({"kind": "binary", "name": "a", "floor": 1}, "attribute 'a': unknown key 'floor' for kind 'binary'"),
        ({"kind": "categorical", "name": "a"}, "attribute 'a': key 'categories' is missing"),
        ({"kind": "binary"}, "attribute None: key 'name' is missing"),
        ({"kind": "continuous", "name": "a", "floor": -1}, "attribute 'a': floor must be a positive number, got -1"),
    ],
)
def test_bad_json_is_refused(data: Any, message: str) -> None:
    raises(message, from_json, data)


# Schema


@given(schemas)
def test_schema_round_trips(schema: Schema) -> None:
    assert Schema.from_json(json.loads(json.dumps(schema.to_json(), allow_nan=False))) == schema
    assert eval(repr(schema)) == schema
    assert pickle.loads(pickle.dumps(schema)) == copy.deepcopy(schema) == schema
    assert hash(copy.deepcopy(schema)) == hash(schema)
    assert Schema(iter(schema)) == schema
    assert len(str(schema).split("\n")) == 1 + len(schema) or any(not n.isprintable() for n in schema.names)


@given(st.data(), schemas)
def test_schema_decoding_undoes_encoding(data: st.DataObject, schema: Schema) -> None:
    length = data.draw(st.integers(0, 4))
    table = {
        a.name: data.draw(st.lists(st.none() | values_of(a), min_size=length, max_size=length))
        for a in reversed(schema.attributes)
    }
    x = schema.encode(table)
    assert x.shape == (length, len(schema))
    assert x.dtype == np.float64
    assert schema.find_fault(x) is None
    decoded = schema.decode(torch.from_numpy(x))
    assert list(decoded) == list(schema.names)
    assert all(same(decoded[name], table[name]) for name in table)


def test_schema_is_an_ordered_collection() -> None:
    assert len(SCHEMA) == 4
    assert SCHEMA.names == ("element", "charge", "aromatic", "hydrogens")
    assert list(SCHEMA)[2] == SCHEMA["aromatic"] == SCHEMA[2] == SCHEMA[-2] == SCHEMA[np.int64(2)] == Binary("aromatic")
    assert SCHEMA.index("hydrogens") == 3
    assert "charge" in SCHEMA
    assert ELEMENT in SCHEMA
    assert "mass" not in SCHEMA
    assert Binary("charge") not in SCHEMA
    assert Schema(reversed(SCHEMA.attributes)) != SCHEMA
    message = "no attribute 'mass' in the schema; known: element, charge, aromatic, hydrogens"
    raises(message, SCHEMA.index, "mass")
    raises(message, lambda: SCHEMA["mass"])
    with pytest.raises(IndexError):
        SCHEMA[4]
    with pytest.raises(FrozenInstanceError):
        SCHEMA.attributes = ()  # type: ignore[misc]


def test_schema_prints_a_table() -> None:
    assert str(SCHEMA) == (
        "name       kind         detail\n"
        "element    categorical  4 categories: C, N, O, Cl\n"
        "charge     continuous   floor 0.001\n"
        "aromatic   binary\n"
        "hydrogens  count        poisson"
    )
    assert "1 category: 7" in str(Schema([Categorical("a", [7])]))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "a schema needs at least one attribute, got none"),
        ([Binary("a"), Count("a")], "attribute 'a' occurs twice in the schema; names must differ"),
        (
            [Binary("a"), "b"],
            "a schema takes Continuous, Categorical, Binary or Count attributes, got 'b' at position 1",
        ),
        (Binary("a"), "a schema takes a list of attributes, got Binary(name='a')"),
        ("ab", "a schema takes a list of attributes, got 'ab'"),
    ],
)
def test_schema_refuses(given: Any, message: str) -> None:
    raises(message, Schema, given)


def test_schema_encodes_tables() -> None:
    table = pd.DataFrame(
        {
            "hydrogens": pd.Series([1, None], dtype="Int64"),
            "element": pd.Series(["O", None], dtype="category"),
            "aromatic": pd.Series([True, None], dtype="boolean"),
            "charge": [0.5, None],
            "id": [7, 8],
        }
    )
    expected = [[2, 0.5, 1, 1], [math.nan] * 4]
    np.testing.assert_array_equal(SCHEMA.encode(table, extra="ignore"), expected)
    np.testing.assert_array_equal(SCHEMA.encode(table.drop(columns="id")), expected)
    np.testing.assert_array_equal(SCHEMA.encode(dict(table.items()), extra="ignore"), expected)
    extra = "column 'id' is not in the schema (element, charge, aromatic, hydrogens); drop it or pass extra='ignore'"
    raises(extra, SCHEMA.encode, table)
    raises(
        "no column 'charge', which the schema asks for; given: hydrogens, element, aromatic, id",
        SCHEMA.encode,
        table.drop(columns="charge"),
        extra="ignore",
    )
    raises("extra must be 'error' or 'ignore', got 'drop'", SCHEMA.encode, table, extra="drop")
    raises("expected a mapping of names to values or a DataFrame, got [1]", SCHEMA.encode, [1])


def test_schema_needs_columns_of_one_length() -> None:
    schema = Schema([Binary("a"), Binary("b")])
    raises("column 'b' has 1 rows, but column 'a' has 2", schema.encode, {"a": [0, 1], "b": [1]})


def test_schema_finds_the_first_fault_in_row_order() -> None:
    x = torch.tensor([[0, 0.5, 1, 2], [9, 0.5, 1, -2], [0, math.inf, 3, 2]])
    assert SCHEMA.find_fault(x[:1]) is None
    assert SCHEMA.find_fault(x) == (1, 0, "code 9 is none of the 4 categories C, N, O, Cl")
    x[1, 0] = math.nan
    assert SCHEMA.find_fault(x.numpy()) == (1, 3, "-2 is negative, so it is no count")
    raises("attribute 'charge', row 2: the value is infinite; a missing one is NaN", SCHEMA.decode, x)


@pytest.mark.parametrize("shape", [[4], [2, 3], [2, 4, 1]])
def test_schema_checks_the_shape(shape: list[int]) -> None:
    message = (
        "expected x of shape [n, 4], one column per attribute (element, charge, aromatic, hydrogens), "
        f"got shape {shape}"
    )
    raises(message, SCHEMA.find_fault, np.zeros(shape))
    raises(message, SCHEMA.decode, torch.zeros(shape))


@pytest.mark.parametrize("data", [[], {}, {"attributes": "a"}, {"attributes": [], "more": 1}])
def test_bad_schema_json_is_refused(data: Any) -> None:
    raises(f"a schema is written as {{'attributes': [...]}}, got {data!r}", Schema.from_json, data)


# Inference

MANY = list(range(21))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([True, None, False], Binary("a")),
        ([True, True], Binary("a")),
        (pd.Series([True, None], dtype="boolean"), Binary("a")),
        ([0, 1, None], Binary("a")),
        ([0.0, 0.0], Binary("a")),
        ([1], Binary("a")),
        ([True, 2], Categorical("a", [1, 2])),
        (["b", None, "a", "b"], Categorical("a", ["a", "b"])),
        (pd.Series(["b", None, "a"]), Categorical("a", ["a", "b"])),
        (pd.Series(["b", None, "a"], dtype="string"), Categorical("a", ["a", "b"])),
        (pd.Series(["b", None], dtype=object), Categorical("a", ["b"])),
        (np.array(["b", "a"]), Categorical("a", ["a", "b"])),
        (pd.Categorical(["b", "a"], ["c", "b", "a"]), Categorical("a", ["c", "b", "a"])),
        (pd.Series(pd.Categorical(["b", None], ["c", "b"])), Categorical("a", ["c", "b"])),
        (pd.Series(pd.Categorical([0, 1], [1, 0])), Categorical("a", [1, 0])),
        (["b", "c", 2, "10", True], Categorical("a", ["10", 2, True, "b", "c"])),
        (["C", "N", 1], Categorical("a", [1, "C", "N"])),
        (["1.5", "2"], Categorical("a", ["1.5", "2"])),
        ([True, False, "x"], Categorical("a", [False, True, "x"])),
        ([3, -1, 3], Categorical("a", [-1, 3])),
        ([7], Categorical("a", [7])),
        (pd.Series([6, None, 8]), Categorical("a", [6, 8])),
        (pd.Series([6, None, 8], dtype="Int64"), Categorical("a", [6, 8])),
        (np.array([8, 6], dtype=np.uint8), Categorical("a", [6, 8])),
        ([2**60 + 1, 2**60], Categorical("a", [2**60, 2**60 + 1])),
        (range(1, 21), Categorical("a", range(1, 21))),
        (MANY, Count("a")),
        (np.array([*MANY, math.nan]), Count("a")),
        ([-1, *MANY], Continuous("a")),
        ([*MANY, 0.5], Continuous("a")),
        ([0, 1, 0.5], Continuous("a")),
        ([Decimal("0.5"), 1], Continuous("a")),
        (pd.Series([0.5, None], dtype="Float64"), Continuous("a")),
        (np.array([0.5, math.nan, 1.0]), Continuous("a")),
        (pd.Series([0.5, None], dtype=object), Continuous("a")),
    ],
    ids=repr,
)
def test_raw_columns_are_read_by_type(values: Any, expected: Attribute) -> None:
    (found,) = Schema.infer({"a": values})
    assert found == expected
    if isinstance(found, Categorical) and isinstance(expected, Categorical):
        assert same(list(found.categories), list(expected.categories))


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ([0, 1, math.nan], Binary("x0")),
        ([1, 1], Binary("x0")),
        ([0, 3], Categorical("x0", range(4))),
        ([2, math.nan], Categorical("x0", range(3))),
        ([0, 999], Categorical("x0", range(1000))),
        ([0, 1000], Count("x0")),
        (MANY, Count("x0")),
        ([-1, 3], Continuous("x0")),
        ([-1, 0], Continuous("x0")),
        ([-1, *MANY], Continuous("x0")),
        ([0, 0.5], Continuous("x0")),
    ],
    ids=str,
)
def test_tensor_columns_hold_codes(column: list[float], expected: Attribute) -> None:
    x = torch.tensor(column)[:, None]
    assert Schema.infer(x) == Schema.infer(Data(x=x)) == Schema([expected])
    if isinstance(expected, Categorical):  # raw arrays hold values: their categories are only those that occur
        (raw,) = Schema.infer(x.numpy())
        assert raw == Categorical("x0", sorted({int(value) for value in column if value == value}))


@given(
    st.lists(st.integers(-30, 30), min_size=1) | st.lists(st.floats(-3, 3).map(lambda v: round(v * 2) / 2), min_size=1)
)
def test_inferred_schemas_fit_what_they_were_inferred_from(column: list[float]) -> None:
    table = {"a": [*column, None], "b": [*map(str, column), None], "c": [*(value > 0 for value in column), None]}
    schema = Schema.infer(table)
    assert schema.decode(schema.encode(table)) == table
    x = torch.tensor(column, dtype=torch.float64)[:, None]
    schema = Schema.infer(x)
    assert schema.find_fault(x) is None
    if isinstance(schema[0], Categorical):  # code k means category k
        assert schema.decode(x)["x0"] == column


def test_all_sources_of_one_table_agree() -> None:
    table = pd.DataFrame({"x0": [1, 0, 1], "x1": [0.5, 1.5, 2.0], "x2": [2, 0, 1]})
    schema = Schema([Binary("x0"), Continuous("x1"), Categorical("x2", [0, 1, 2])])
    x = torch.tensor(table.to_numpy(dtype=np.float32))
    graphs = [Data(x=x[:1], edge_index=torch.zeros(2, 0, dtype=torch.long)), Data(x=x[1:])]
    chain = nx.path_graph(3)
    nx.set_node_attributes(chain, dict(enumerate(table.to_dict("records"))))
    for source in (
        table,
        dict(table.items()),
        table.to_numpy(),
        table.to_numpy(dtype=object),
        table.to_records(index=False),
        x,
        x.bfloat16(),
        Data(x=x),
        graphs,
        tuple(graphs),
        iter(graphs),
        Batch.from_data_list([Data(x=x), Data(x=x)]),
        chain,
        [chain, chain],
        nx.MultiDiGraph(chain),
    ):
        assert Schema.infer(source) == schema, type(source)


class Stored(InMemoryDataset):
    """A PyG dataset, which has x and edge_index as well but is a sequence of graphs."""

    def __init__(self, graphs: list[Data]) -> None:
        super().__init__(None)
        self.data, self.slices = self.collate(graphs)


def test_datasets_are_sequences_of_graphs() -> None:
    graphs = [Data(x=torch.tensor([[code]]), edge_index=torch.zeros(2, 0, dtype=torch.long)) for code in (0.0, 2.0)]
    assert Schema.infer(Stored(graphs)) == Schema([Categorical("x0", range(3))])


def test_names_of_columns_do_not_confuse() -> None:
    """A table shows its columns as attributes, which is how graphs are recognised."""
    table = pd.DataFrame({name: [0, 1] for name in ("nodes", "edges", "node_types", "edge_index", "x")})
    assert Schema.infer(table).names == tuple(table.columns)


def test_attributes_absent_from_vertices_are_missing() -> None:
    first, second = nx.Graph(), nx.Graph()
    first.add_node("u", element="C", charge=0.5)
    first.add_node("v")
    second.add_node("w", element="N", aromatic=True)
    expected = [Categorical("element", ["C", "N"]), Continuous("charge"), Binary("aromatic")]
    assert list(Schema.infer([first, second])) == expected


def test_overrides_win() -> None:
    table = {"charge": [0, 1], "my col": [3, 4], "degree": [2, 3], "source": [0, 1], "empty": [None, None]}
    schema = Schema.infer(
        table,
        {"my col": "count"},
        charge=Continuous("charge", floor=0.1),
        degree="continuous",
        source="categorical",
        empty="binary",
    )
    assert list(schema) == [
        Continuous("charge", floor=0.1),
        Count("my col"),
        Continuous("degree"),
        Categorical("source", [0, 1]),
        Binary("empty"),
    ]
    assert Schema.infer({"a": [1.5, 0.5]}, overrides={"a": "categorical"})[0] == Categorical("a", [0.5, 1.5])
    declared = pd.Series(["b"], dtype=pd.CategoricalDtype(["c", "b"]))
    assert Schema.infer({"a": declared}, a="categorical")[0] == Categorical("a", ["c", "b"])
    assert Schema.infer({"a": ["b"]}, a="categorical")[0] == Categorical("a", ["b"])
    many = torch.tensor([MANY]).T
    assert Schema.infer(many, x0="categorical")[0] == Categorical("x0", MANY)
    assert Schema.infer(many, x0=Categorical("x0", range(5000)))[0] == Categorical("x0", range(5000))


def test_the_choice_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    table = {"element": ["C", "N"], "ring": [0, 1], "size": [3, 6], "degree": MANY, "charge": [0.5, 2], "n": [1, 2]}
    with caplog.at_level(logging.INFO, logger="gspn"):
        Schema.infer(table | {"shift": [-1, *MANY], "flag": [True]}, n="count")
        Schema.infer(torch.tensor([[2000.0], [3.0]]))
    first, second = (record.getMessage() for record in caplog.records)
    assert first == (
        "inferred schema:\n"
        "name     kind         reason             detail\n"
        "element  categorical  text               2 categories: C, N\n"
        "ring     binary       0 and 1\n"
        "size     categorical  few integers       2 categories: 3, 6\n"
        "degree   count        many integers      poisson\n"
        "charge   continuous   fractions          floor 0.001\n"
        "n        count        given              poisson\n"
        "shift    continuous   negative integers  floor 0.001\n"
        "flag     binary       booleans"
    )
    assert "large integers" in second


X = torch.zeros(2, 1)
SOURCES = (
    "a schema can be inferred from a mapping, a DataFrame, an array, a tensor, or graphs of NetworkX or torch_geometric"
)
EMPTY = "every value is missing, so its kind cannot be inferred; override it with an attribute"
TYPO = "is no number, but most values are; mend it, or pass overrides={'a': 'categorical'} if it is meant"
HETERO = HeteroData()
HETERO["atom"].x = X


@pytest.mark.parametrize(
    ("source", "overrides", "message"),
    [
        ({"a": [1], "b": [None, math.nan, pd.NA]}, {}, f"attribute 'b': {EMPTY}"),
        ({"b": [None]}, {"b": "categorical"}, f"attribute 'b': {EMPTY}"),
        ({"b": []}, {}, f"attribute 'b': {EMPTY}"),
        (torch.full((2, 1), math.nan), {}, f"attribute 'x0': {EMPTY}"),
        ({"a": [1, "?", None, pd.NA, 2.5]}, {}, f"attribute 'a', row 1: '?' {TYPO}"),
        ({"a": pd.Series([None, "1.5", "1e3", "-"])}, {}, f"attribute 'a', row 3: '-' {TYPO}"),
        ({"a": ["1", "x"]}, {}, f"attribute 'a', row 1: 'x' {TYPO}"),
        ({"a": ["1", "2", "nan"]}, {}, f"attribute 'a', row 2: 'nan' {TYPO}"),
        ({"a": [1, pd.NA, None, math.inf]}, {}, "attribute 'a', row 3: the value is infinite; a missing one is NaN"),
        ({"a": [1, math.inf]}, {}, "attribute 'a', row 1: the value is infinite; a missing one is NaN"),
        (
            {"a": [1, -math.inf]},
            {"a": "categorical"},
            "attribute 'a', row 1: the value is infinite; a missing one is NaN",
        ),
        (torch.tensor([[math.inf]]), {}, "attribute 'x0', row 0: the value is infinite; a missing one is NaN"),
        (np.array([[0.5], [math.inf]]), {}, "attribute 'x0', row 1: the value is infinite; a missing one is NaN"),
        ({"a": ["C", ["N"]]}, {}, "attribute 'a', row 1: ['N'] is no single value"),
        (
            {"a": pd.to_datetime(["2020-01-01"])},
            {},
            "attribute 'a': values of type datetime64[us] are not supported; convert to numbers or text",
        ),
        (
            {"a": [("C", "N")]},
            {},
            "attribute 'a': categories must be text, finite numbers or booleans, "
            "got ('C', 'N') of type tuple; convert it first",
        ),
        ({"a": [1], "b": [2]}, {"c": "count"}, "override 'c' names no attribute of the source; known: a, b"),
        (
            {"a": [1]},
            {"a": "ordinal"},
            "override 'a': kind 'ordinal' is none of continuous, categorical, binary, count",
        ),
        (
            {"a": [1]},
            {"a": Binary},
            "override 'a' must be an attribute or a kind, got <class 'gspn.attributes.Binary'>",
        ),
        ({"a": [1]}, {"a": Binary("b")}, "override 'a' is an attribute of another name, 'b'"),
        ({"a": [1]}, "a", "overrides must map names to attributes or kinds, got 'a'"),
        (
            torch.tensor([[-1.0], [4.0]]),
            {"x0": "categorical"},
            "attribute 'x0': as categorical it should hold codes 0, 1, … below 1000, but its values reach from -1.0 "
            "to 4.0; override it with a Categorical that lists the categories",
        ),
        (
            torch.tensor([[0.5], [1e9]]),
            {"x0": "categorical"},
            "attribute 'x0': as categorical it should hold codes 0, 1, … below 1000, but its values reach from 0.5 "
            "to 1000000000.0; override it with a Categorical that lists the categories",
        ),
        ({}, {}, "the source has no attributes, so there is no schema to infer"),
        (nx.path_graph(3), {}, "the source has no attributes, so there is no schema to infer"),
        (pd.DataFrame([[1, 2]]), {}, "column 0: names of attributes must be text; rename it"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), {}, "column 'a' occurs twice in the table; rename one"),
        (torch.zeros(3), {}, "a tensor must have shape [n, d], one column per attribute, got shape [3]"),
        (np.zeros(3), {}, "an array must have shape [n, d], one column per attribute, got shape [3]"),
        ([], {}, "an empty list of graphs has no attributes to infer"),
        (Data(num_nodes=3), {}, "graph 0 has no x, so it has no attributes to infer"),
        ([Data(x=X), Data(x=torch.zeros(2, 3))], {}, "graph 1 has x of shape [2, 3], expected [n, 1]"),
        ([Data(x=X), Data(x=torch.zeros(2))], {}, "graph 1 has x of shape [2], expected [n, 1]"),
        ([Data(x=torch.zeros(2))], {}, "graph 0 has x of shape [2], expected [n, d]"),
        ([Data(x=X), HETERO], {}, "graph 1 is heterogeneous; infer one schema for each type of vertex"),
        (
            [Data(x=X), nx.path_graph(2)],
            {},
            "graph 1 is a Graph; expected all graphs to be of NetworkX, or all Data of torch_geometric",
        ),
        (
            [[1, 2], [3, 4]],
            {},
            "graph 0 is a list; expected all graphs to be of NetworkX, or all Data of torch_geometric",
        ),
        (HETERO, {}, "graph 0 is heterogeneous; infer one schema for each type of vertex"),
        ("table.csv", {}, f"{SOURCES}, not from 'table.csv' of type str"),
        (3, {}, f"{SOURCES}, not from 3 of type int"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_inference_names_what_is_wrong(source: Any, overrides: Any, message: str) -> None:
    raises(message, Schema.infer, source, overrides)


def test_text_among_numbers_may_be_meant() -> None:
    values = ["1", "2", "X"]
    assert Schema.infer({"a": values}, a="categorical") == Schema([Categorical("a", values)])


def test_errors_about_a_value_know_its_place() -> None:
    calls: list[Callable[[], object]] = [
        lambda: Continuous("a, row 7: b").encode([0.5, "x"]),
        lambda: Schema.infer({"a, row 7: b": [0.5, math.inf]}),
        lambda: Schema.infer({"a, row 7: b": [0.5, ["x"]]}),
        lambda: Schema.infer({"a, row 7: b": [0.5, "x"]}),
    ]
    for call in calls:
        with pytest.raises(InputError) as caught:
            call()
        for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
            assert (error.attribute, error.row) == ("a, row 7: b", 1)
            assert str(error) == f"attribute 'a, row 7: b', row 1: {error.reason}"
    assert (InputError("x").attribute, InputError("x").row, str(InputError("x"))) == (None, None, "x")


def test_an_override_given_twice_is_refused() -> None:
    raises(
        "override 'a' is given twice, as a keyword and in overrides",
        lambda: Schema.infer({"a": [1]}, {"a": "count"}, a="binary"),
    )


def test_neither_torch_nor_tables_are_imported() -> None:
    """Reading a schema must not wait for them, nor must inferring one from plain Python values."""
    code = (
        "import sys; from gspn.attributes import Schema; Schema.infer({'a': [1, None]}).encode({'a': [1]}); "
        "print([m for m in ('torch', 'torch_geometric', 'networkx') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
