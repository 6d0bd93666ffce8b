"""Schemas: an ordered collection of attributes that encodes, decodes and checks whole tables."""

from __future__ import annotations

import copy
import json
import math
import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_attributes import ELEMENT, SCHEMA, raises, same, schemas, values_of

import gspn.attributes
from gspn.attributes import Binary, Categorical, Count, Schema


@given(schemas)
def test_schema_round_trips(schema: Schema) -> None:
    assert Schema.from_json(json.loads(json.dumps(schema.to_json(), allow_nan=False))) == schema
    assert eval(repr(schema), {**vars(gspn.attributes)}) == schema
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
        ([Binary("a"), "b"], "Continuous, Categorical, Binary or Count attributes, got 'b' at position 1"),
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
