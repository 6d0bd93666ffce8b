"""Attributes: what goes in comes out, also as JSON, and what is wrong is named."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_attributes import ELEMENT, SCHEMA, attributes, raises, same, values_of

from gspn.attributes import Attribute, Binary, Categorical, Continuous, Count, from_json, to_json

MISSING = [None, math.nan, np.float32("nan"), pd.NA, pd.NaT, np.datetime64("NaT"), Decimal("NaN")]


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
        (Categorical("a", [1, 2]), [2, "1"], "attribute 'a', row 1: '1' .. 1, 2 .. of type int, not str"),
        (
            Categorical("a", ["", " x", "y\n", "z" * 99]),
            ["q" * 99],
            f"attribute 'a', row 0: '{'q' * 58}… is none of the categories '', ' x', 'y\\n', '{'z' * 30}…",
        ),
        (Categorical("a", range(50)), [50], "attribute 'a', row 0: 50 .. 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, … (50 in all)"),
        (Binary("a"), [1, "yes"], "attribute 'a', row 1: 'yes' is neither True nor False (1 nor 0)"),
        (Binary("a"), np.array([0, 2]), "attribute 'a', row 1: 2 is neither True nor False (1 nor 0)"),
        (Continuous("a"), [1.0, "abc"], "attribute 'a', row 1: 'abc' is not a number"),
        (Continuous("a"), ["1.5"], "attribute 'a', row 0: '1.5' is not a number"),
        (Continuous("a"), [1j], "attribute 'a', row 0: 1j is not a number"),
        (Continuous("a"), [np.timedelta64(1, "ns")], "attribute 'a', row 0: np.timedelta64(1,'ns') is not a number"),
        (Continuous("a"), [10**400], f"attribute 'a', row 0: 1{'0' * 58}… is too large"),
        (Continuous("a"), [0.0, -math.inf], "attribute 'a', row 1: the value is infinite"),
        (Count("a"), [3, -1], "attribute 'a', row 1: -1 is negative, so it is no count"),
        (Count("a"), [2.5], "attribute 'a', row 0: 2.5 is not a whole number, so it is no count"),
        (Count("a"), ["3"], "attribute 'a', row 0: '3' is not a number"),
        (Count("a"), [2**53 + 1], "row 0: 9.00719925474099e+15 is too large .. continuous"),
        (Count("a"), "123", "attribute 'a': expected a sequence with one value per row, got a str"),
        (Count("a"), {1, 2}, "attribute 'a': expected a sequence with one value per row, got a set"),
        (Count("a"), 5, "attribute 'a': expected a sequence of values, got 5"),
        (Count("a"), np.zeros((2, 3)), "attribute 'a': expected one value per row, got an array of shape (2, 3)"),
        (Count("a"), torch.tensor(1.0), "attribute 'a': expected one value per row, got an array of shape ()"),
        (Continuous("a"), pd.Series(["2020-01-01"], dtype="datetime64[ns]"), "'a': values of type datetime64[ns]"),
        (ELEMENT, np.array([b"C"]), "attribute 'element': values of type |S1"),
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
        (lambda: Count("a", "gauss"), "'a': distribution must be 'poisson' or .. got 'gauss'; .. import"),
        (lambda: Categorical("a", []), "attribute 'a': categories is empty; give at least one"),
        (lambda: Categorical("a", "CNO"), "attribute 'a': categories must be a sequence such as a list, got 'CNO'"),
        (lambda: Categorical("a", {"C"}), "attribute 'a': categories must be a sequence such as a list, got {'C'}"),
        (lambda: Categorical("a", 4), "'a': categories must be a sequence .. got 4"),  # type: ignore[arg-type]
        (lambda: Categorical("a", ["C", "C"]), "attribute 'a': categories contains both 'C' and 'C'"),
        (lambda: Categorical("a", [1, True]), "attribute 'a': categories contains both 1 and True"),
        (lambda: Categorical("a", [0, 0.0]), "attribute 'a': categories contains both 0 and 0.0"),
        (lambda: Categorical("a", [None]), "attribute 'a': categories contains None, which means missing"),
        (lambda: Categorical("a", [1.5, math.nan]), "attribute 'a': categories contains nan, which means missing"),
        (lambda: Categorical("a", [math.inf]), "'a': categories must be .. inf of type float; convert"),
        (lambda: Categorical("a", [("C",)]), "'a': categories must be .. ('C',) of type tuple; convert"),
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
        ({"kind": "ordinal", "name": "a"}, "'a': kind 'ordinal' .. continuous, categorical, binary, count"),
        ({"kind": ["binary"], "name": "a"}, "'a': kind ['binary'] .. continuous, categorical, binary, count"),
        ({"name": "a"}, "attribute 'a': kind None is none of continuous, categorical, binary, count"),
        ({"kind": "binary", "name": "a", "floor": 1}, "attribute 'a': unknown key 'floor' for kind 'binary'"),
        ({"kind": "categorical", "name": "a"}, "attribute 'a': key 'categories' is missing"),
        ({"kind": "binary"}, "attribute None: key 'name' is missing"),
        ({"kind": "continuous", "name": "a", "floor": -1}, "attribute 'a': floor must be a positive number, got -1"),
    ],
)
def test_bad_json_is_refused(data: Any, message: str) -> None:
    raises(message, from_json, data)
