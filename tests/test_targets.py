"""Labels come in as people have them, predictions go out as people call them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from gspn import Binary, Categorical, Continuous, Count, Schema
from gspn.errors import GSPNError, InputError
from gspn.targets import all_binary, check_labels, class_values, decode_predictions, encode_labels, target_schema

NAN = math.nan
KIND = Categorical("kind", ["low", "mid", "high"])
NUMBERED = Categorical("kind", [7, 3])
SEVERAL = Schema([KIND, Continuous("energy"), Binary("toxic"), Count("rings")])
ROWS: list[list[Any]] = [["low", 1.5, True, 3], ["high", None, False, None], [None, -2.0, None, 0]]
CODES = [[0, 1.5, 1, 3], [2, NAN, 0, NAN], [NAN, -2.0, NAN, 0]]


def columns() -> dict[str, list[Any]]:
    return {name: [row[i] for row in ROWS] for i, name in enumerate(SEVERAL.names)}


# ---- One target


@pytest.mark.parametrize(
    "y",
    [
        ["high", "low", None],
        ("high", "low", None),
        np.array(["high", "low", None], dtype=object),
        np.array([["high"], ["low"], [None]], dtype=object),
        [["high"], ["low"], [None]],
        pd.Series(["high", "low", None]),
        pd.Series(["high", "low", pd.NA], dtype="string"),
        pd.Series(["high", "low", None], dtype="category", index=[5, 1, 9]),
        pd.DataFrame({"kind": ["high", "low", None]}),
        {"kind": ["high", "low", None]},
        torch.tensor([2.0, 0.0, NAN]),
        torch.tensor([[2.0], [0.0], [NAN]], dtype=torch.float64),
        torch.tensor([2.0, 0.0, NAN], dtype=torch.bfloat16),
        [torch.tensor([2.0]), torch.tensor([0.0]), torch.tensor([NAN])],
        [torch.tensor(2.0), torch.tensor(0.0), torch.tensor(NAN)],
        (torch.tensor([[2.0], [0.0]]), torch.tensor([[NAN]])),
    ],
    ids=lambda y: type(y).__name__,
)
def test_categories_in_every_form(y: Any) -> None:
    labels = encode_labels(KIND, y, 3)
    assert labels.dtype == np.float64
    np.testing.assert_array_equal(labels, [[2], [0], [NAN]])


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.uint8, torch.float16, torch.bool])
def test_codes_of_every_dtype(dtype: torch.dtype) -> None:
    np.testing.assert_array_equal(encode_labels(KIND, torch.tensor([1, 0, 1]).to(dtype)), [[1], [0], [1]])


def test_tensors_hold_codes_and_everything_else_holds_values() -> None:
    """Where categories are numbers, the two differ: this is the one place where it matters."""
    np.testing.assert_array_equal(encode_labels(NUMBERED, np.array([3, 7])), [[1], [0]])
    np.testing.assert_array_equal(encode_labels(NUMBERED, [3, 7]), [[1], [0]])
    np.testing.assert_array_equal(encode_labels(NUMBERED, torch.tensor([1, 0])), [[1], [0]])
    with pytest.raises(InputError, match=r"y, row 0, target 'kind': code 3 is none of the 2 categories 7, 3"):
        encode_labels(NUMBERED, torch.tensor([3, 7]))


@pytest.mark.parametrize(
    ("target", "y", "expected"),
    [
        (Continuous("e"), [1, 2.5, None], [1, 2.5, NAN]),
        (Continuous("e"), range(3), [0, 1, 2]),
        (Continuous("e"), np.ma.masked_invalid([1.0, NAN, 3.0]), [1, NAN, 3]),
        (Binary("b"), [True, False, None], [1, 0, NAN]),
        (Binary("b"), np.array([1, 0, 1]), [1, 0, 1]),
        (Binary("b"), pd.Series([True, None, False], dtype="boolean"), [1, NAN, 0]),
        (Count("n"), [3, 0, None], [3, 0, NAN]),
        (Count("n"), pd.Series([3, None, 1], dtype="Int64"), [3, NAN, 1]),
    ],
)
def test_the_other_kinds(target: Any, y: Any, expected: list[float]) -> None:
    np.testing.assert_array_equal(encode_labels(target, y, 3), np.array(expected)[:, None])


# ---- Several targets


@pytest.mark.parametrize(
    "y",
    [
        ROWS,
        [tuple(row) for row in ROWS],
        np.array(ROWS, dtype=object),
        pd.DataFrame(columns()),
        pd.DataFrame(columns(), index=[4, 4, 4])[["rings", "toxic", "energy", "kind"]],
        columns(),
        torch.tensor(CODES),
        [torch.tensor([row]) for row in CODES],
    ],
    ids=lambda y: type(y).__name__,
)
def test_several_targets_in_every_form(y: Any) -> None:
    np.testing.assert_array_equal(encode_labels(SEVERAL, y, 3), CODES)


def test_a_schema_of_one_is_one_target() -> None:
    assert target_schema(KIND) == Schema([KIND])
    assert target_schema(SEVERAL) is SEVERAL
    np.testing.assert_array_equal(encode_labels(Schema([KIND]), ["mid", "low"]), [[1], [0]])
    np.testing.assert_array_equal(encode_labels(Schema([KIND]), [["mid"], ["low"]]), [[1], [0]])


# ---- What is refused


@pytest.mark.parametrize(
    ("target", "y", "message"),
    [
        (KIND, ["low", "middle"], r"'kind', row 1: 'middle' is none of the categories low, mid, high"),
        (KIND, [0, 1], r"'kind', row 0: 0 is none of the categories"),
        (KIND, [["low", "mid"], ["mid", "low"]], r"row 0: \['low', 'mid'\] is none of"),
        (KIND, np.array([["low", "mid"]] * 2), "row 0"),
        (KIND, torch.tensor([0, 3]), r"y, row 1, target 'kind': code 3 is none of the 3 categories"),
        (KIND, torch.tensor([0.0, -1.0]), r"y, row 1, target 'kind': code -1 is none"),
        (KIND, torch.tensor([0.5, 0.0]), r"y, row 0, target 'kind': code 0.5 is none"),
        (KIND, torch.zeros(2, 2), r"y has shape \[2, 2\], but there is one target: kind"),
        (KIND, torch.zeros(2, 1, 1), r"shape \[2, 1, 1\]"),
        (KIND, torch.tensor(0), r"shape \[\]"),
        (KIND, torch.tensor([1j, 0]), "encoded labels are numbers, got complex"),
        (KIND, [torch.zeros(1), torch.zeros(1, 2)], "tensors with different numbers of targets"),
        (KIND, [torch.zeros(1), "low"], r"row 0: tensor\(\[0.\]\) is none of"),
        (KIND, "low", "y must be a sequence of labels, got 'low'"),
        (KIND, {"low", "mid"}, "y must be a sequence of labels"),
        (KIND, 3, "y must be a sequence of labels, got 3"),
        (KIND, np.array("low"), "y must be a sequence of labels"),
        (KIND, (label for label in ("low", "mid")), "y must be a sequence of labels"),
        (KIND, ["low"], "y has 1 rows, but there are 2 to predict"),
        (KIND, [], "y has 0 rows, but there are 2 to predict"),
        (KIND, {"label": ["low", "mid"]}, "no column 'kind'"),
        (KIND, pd.DataFrame({"kind": ["low", "mid"], "other": [1, 2]}), "column 'other' is not in the schema"),
        (Continuous("e"), [1.0, math.inf], r"'e', row 1: the value is infinite"),
        (Continuous("e"), torch.tensor([math.inf, 0.0]), r"y, row 0, target 'e': the value is infinite"),
        (Continuous("e"), ["1.0", 2.0], r"'e', row 0: '1.0' is not a number"),
        (Binary("b"), [0, 2], r"'b', row 1: 2 is neither True nor False"),
        (Count("n"), [1, -1], r"'n', row 1: -1 is negative"),
        (Count("n"), torch.tensor([0.5, 1.0]), r"y, row 0, target 'n': 0.5 is not a whole number"),
        (SEVERAL, [1, 2], r"y, row 0: 1 labels for the 4 targets kind, energy, toxic, rings"),
        (SEVERAL, [ROWS[0], ROWS[1][:3]], r"y, row 1: 3 labels for the 4 targets"),
        (SEVERAL, torch.zeros(2), r"y has shape \[2\], but there are several: kind, energy"),
        (SEVERAL, torch.tensor([[0, 0, 0, 0], [0, 0, 2, 0]]), r"y, row 1, target 'toxic': 2 is neither 0 nor 1"),
        (SEVERAL, {"kind": ["low", "mid"]}, "no column 'energy'"),
        (SEVERAL, {**columns(), "kind": ["low"]}, "column 'energy' has 3 rows, but column 'kind' has 1"),
    ],
)
def test_refused_labels_name_row_and_target(target: Any, y: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        encode_labels(target, y, 2)


@pytest.mark.parametrize("target", [None, "kind", ["kind"], 3, Categorical, [KIND]])
def test_what_is_no_target(target: Any) -> None:
    with pytest.raises(GSPNError, match="target must be a Categorical, Continuous, Binary or Count, or a Schema"):
        target_schema(target)


def test_checked_labels_are_a_copy() -> None:
    given = np.zeros((3, 1))
    labels = check_labels(KIND, given)
    labels[0] = 2
    assert given[0] == 0


# ---- Predictions


@pytest.mark.parametrize(
    ("categories", "kind"),
    [
        (["a", "bb"], "U"),
        ([3, 1], "i"),
        ([0.5, 1.5], "f"),
        ([True, False], "b"),
        ([1, "a"], "O"),
        ([True, 2], "O"),
        ([1, 2.5], "O"),
    ],
)
def test_class_values_are_the_categories(categories: list[Any], kind: str) -> None:
    """Never what numpy would make of them: 1 beside "a" is not "1"."""
    values = class_values(Categorical("y", categories))
    assert values.dtype.kind == kind
    assert values.tolist() == categories
    assert [type(value) for value in values.tolist()] == [type(category) for category in categories]
    predictions = decode_predictions(Categorical("y", categories), np.array([[1.0], [0.0], [1.0]]))
    assert predictions.tolist() == [categories[1], categories[0], categories[1]]


def test_predictions_of_one_target() -> None:
    assert decode_predictions(Binary("b"), np.array([[1.0], [0.0]])).tolist() == [True, False]
    assert class_values(Binary("b")).tolist() == [False, True]
    for target in (Continuous("e"), Count("n")):
        means = decode_predictions(target, np.array([[1.25], [0.5]]))
        assert means.tolist() == [1.25, 0.5]
        with pytest.raises(InputError, match="only a single categorical or binary target has classes"):
            class_values(target)
    with pytest.raises(InputError, match="only a single"):
        class_values(SEVERAL)


def test_predictions_of_several_targets() -> None:
    """One array where all are of one type, an array of objects where not."""
    table = decode_predictions(SEVERAL, np.array([[2, 1.25, 1, 0.5], [0, 0.0, 0, 2.5]]))
    assert table.dtype == object
    assert table.tolist() == [["high", 1.25, True, 0.5], ["low", 0.0, False, 2.5]]
    numbers = decode_predictions(Schema([Continuous("a"), Count("b")]), np.array([[1.5, 2.5]]))
    assert numbers.dtype == np.float64
    both = decode_predictions(Schema([Binary("a"), Binary("b")]), np.array([[1.0, 0.0]]))
    assert both.dtype == bool
    assert decode_predictions(Schema([KIND]), np.array([[1.0]])).tolist() == [["mid"]]
    assert decode_predictions(KIND, np.empty((0, 1))).shape == (0,)
    assert decode_predictions(SEVERAL, np.empty((0, 4))).shape == (0, 4)


@pytest.mark.parametrize("target", [KIND, NUMBERED, Binary("b")])
def test_encoding_undoes_decoding(target: Any) -> None:
    codes = np.array([[1.0], [0.0], [1.0]])
    np.testing.assert_array_equal(encode_labels(target, decode_predictions(target, codes)), codes)


def test_all_binary() -> None:
    assert all_binary(Schema([Binary("a"), Binary("b")]))
    assert all_binary(Schema([Binary("a")]))
    assert not all_binary(Binary("a"))
    assert not all_binary(SEVERAL)
