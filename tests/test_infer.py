"""Schemas inferred from tables, arrays and graphs: the choice by type, overrides, and what is wrong is named."""

from __future__ import annotations

import logging
import math
import pickle
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_attributes import raises, same
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset

from gspn.attributes import Attribute, Binary, Categorical, Continuous, Count, Schema
from gspn.errors import InputError

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
        ([1, 2, 3, None], Continuous("a")),
        (pd.Series([6, None, 8, 9]), Continuous("a")),
        (pd.Series([6, None, 8, 9], dtype="Int64"), Continuous("a")),
        (pd.Series([6, None, 8, 9], dtype="category"), Categorical("a", [6, 8, 9])),
        (pd.Series(["6", None, "8", "9"]), Categorical("a", ["6", "8", "9"])),
        (MANY, Continuous("a")),
        (np.array([*MANY, math.nan]), Continuous("a")),
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
    if isinstance(expected, Categorical):  # raw arrays hold values: more than two of them have an order
        different = sorted({int(value) for value in column if value == value})
        (raw,) = Schema.infer(x.numpy())
        assert raw == (Categorical("x0", different) if len(different) < 3 else Continuous("x0"))


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
    common: list[Attribute] = [Binary("x0"), Continuous("x1")]
    values, codes = Schema([*common, Continuous("x2")]), Schema([*common, Categorical("x2", [0, 1, 2])])
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
        chain,
        [chain, chain],
        nx.MultiDiGraph(chain),
    ):
        assert Schema.infer(source) == values, type(source)
    tensors = (x, x.bfloat16(), Data(x=x), graphs, tuple(graphs), iter(graphs), Batch.from_data_list([Data(x=x)] * 2))
    for source in tensors:
        assert Schema.infer(source) == codes, type(source)


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
        "name     kind         reason         detail\n"
        "element  categorical  text           2 categories: C, N\n"
        "ring     binary       0 and 1\n"
        "size     categorical  few integers   2 categories: 3, 6\n"
        "degree   continuous   whole numbers  floor 0.001\n"
        "charge   continuous   fractions      floor 0.001\n"
        "n        count        given          poisson\n"
        "shift    continuous   whole numbers  floor 0.001\n"
        "flag     binary       booleans"
    )
    assert "large integers" in second


X = torch.zeros(2, 1)
SOURCES = (
    "a schema can be inferred from a mapping, a DataFrame, an array, a tensor, or graphs of NetworkX or torch_geometric"
)
EMPTY = "every value is missing, so its kind cannot be inferred; leave it out, or say what it is"
TYPO = "is not a number, but most values are; mend it, or keep it as a category"
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
        ({"a": [1, -math.inf]}, {"a": "categorical"}, "'a', row 1: the value is infinite"),
        (torch.tensor([[math.inf]]), {}, "attribute 'x0', row 0: the value is infinite; a missing one is NaN"),
        (np.array([[0.5], [math.inf]]), {}, "attribute 'x0', row 1: the value is infinite; a missing one is NaN"),
        ({"a": ["C", ["N"]]}, {}, "attribute 'a', row 1: ['N'] is no single value"),
        ({"a": pd.to_datetime(["2020-01-01"])}, {}, "'a': values of type datetime64[us]"),
        ({"a": [("C", "N")]}, {}, "'a': categories must be .. ('C', 'N') of type tuple; convert"),
        ({"a": [1], "b": [2]}, {"c": "count"}, "override 'c' names no attribute of the source; known: a, b"),
        ({"a": [1]}, {"a": "ordinal"}, "override 'a': kind 'ordinal' .. continuous, categorical, binary, count"),
        ({"a": [1]}, {"a": Binary}, "override 'a' .. got <class 'gspn.attributes.Binary'>"),
        ({"a": [1]}, {"a": Binary("b")}, "override 'a' is an attribute of another name, 'b'"),
        ({"a": [1]}, "a", "overrides must map names to attributes or kinds, got 'a'"),
        (
            torch.tensor([[-1.0], [4.0]]),
            {"x0": "categorical"},
            "attribute 'x0': as categorical it should hold codes 0, 1, … below 1000, but its values reach from -1.0 "
            "to 4.0; override it with a Categorical that lists the categories",
        ),
        (torch.tensor([[0.5], [1e9]]), {"x0": "categorical"}, "'x0': .. from 0.5 to 1000000000.0; .. Categorical"),
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
        ([Data(x=X), nx.path_graph(2)], {}, "graph 1 is a Graph; .. of NetworkX, or all Data"),
        ([[1, 2], [3, 4]], {}, "graph 0 is a list; .. of NetworkX, or all Data"),
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
            assert error.told == f"attribute 'a, row 7: b', row 1: {error.reason}"
            assert str(error).startswith(error.told)
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
