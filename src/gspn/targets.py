"""What is predicted: one typed target or a schema of several. Labels come in as people call them, so go predictions.

Inside, labels are one float table [n, T] in the targets' order, NaN where a label is missing. How likely a label is
belongs to the models, how good a prediction is to `gspn.scores`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gspn.attributes import Attribute, Binary, Categorical, FloatArray, Schema
from gspn.columns import shorten, tensor_to_array
from gspn.errors import InputError

Target: TypeAlias = Attribute | Schema


def target_schema(target: Any) -> Schema:
    """The targets in order; a single one is a schema of one."""
    if isinstance(target, Schema):
        return target
    if isinstance(target, Attribute):
        return Schema([target])
    raise InputError(
        f"target must be a Categorical, Continuous, Binary or Count, or a Schema of several, got {shorten(target)}"
    )


def encode_labels(target: Target, y: Any, num_rows: int | None = None) -> FloatArray:
    """Labels [n, T] from what people have.

    A tensor holds encoded labels, as `Data.y` does: class codes or values, [n] or [n, T], NaN for a missing one; a list
    of tensors, such as every graph's `y`, holds them one after another. Anything else holds values as they are called:
    a sequence for one target; a mapping, a DataFrame or a table [n, T] for several.
    """
    schema = target_schema(target)
    if hasattr(y, "detach"):
        labels = check_labels(target, tensor_to_array(y))
    elif isinstance(y, list | tuple) and y and all(hasattr(own, "detach") for own in y):
        labels = check_labels(target, _one_after_another([np.atleast_1d(tensor_to_array(own)) for own in y]))
    elif isinstance(y, Mapping) or hasattr(y, "columns"):
        labels = schema.encode(y)
    else:
        labels = np.column_stack(
            [attribute.encode(column) for attribute, column in zip(schema, _columns(schema, y), strict=True)]
        )
    if num_rows is not None and len(labels) != num_rows:
        raise InputError(f"y has {len(labels)} rows, but there are {num_rows} to predict")
    return labels


def check_labels(target: Target, labels: Any) -> FloatArray:
    """Encoded labels, [n] or [n, T], as a checked table [n, T]."""
    schema = target_schema(target)
    table = np.asarray(labels)
    if table.dtype.kind not in "biuf":
        raise InputError(f"encoded labels are numbers, got {table.dtype}")
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or table.shape[1] != len(schema):
        raise InputError(
            f"y has shape {list(np.shape(labels))}, but there {'is one target' if len(schema) == 1 else 'are several'}"
            f": {', '.join(schema.names)}"
        )
    fault = schema.find_fault(table)
    if fault is not None:
        row, column, reason = fault
        raise InputError(f"y, row {row}, target '{schema[column].name}': {reason}")
    return table.astype(np.float64)


def _one_after_another(tables: list[NDArray[Any]]) -> NDArray[Any]:
    shapes = {table.shape[1:] for table in tables}
    if len(shapes) > 1:
        raise InputError(f"y consists of tensors with different numbers of targets: {sorted(shapes)}")
    return np.concatenate(tables)


def _columns(schema: Schema, y: Any) -> Sequence[Any]:
    """One sequence of values per target, from a sequence of values or a table of rows."""
    if isinstance(y, str | bytes | Set) or not hasattr(y, "__len__") or getattr(y, "ndim", 1) == 0:
        raise InputError(f"y must be a sequence of labels, got {shorten(y)}")
    if hasattr(y, "tolist") and getattr(y, "ndim", 1) == 1 and len(schema) == 1:
        return [y]
    if len(schema) == 1:
        # A column such as [[0], [1]] is the same labels with a bracket more.
        return [[row[0] if isinstance(row, list | tuple | np.ndarray) and len(row) == 1 else row for row in y]]
    rows = [list(row) if isinstance(row, list | tuple | np.ndarray) else [row] for row in y]
    wrong = next((i for i, row in enumerate(rows) if len(row) != len(schema)), None)
    if wrong is not None:
        raise InputError(
            f"y, row {wrong}: {len(rows[wrong])} labels for the {len(schema)} targets {', '.join(schema.names)}"
        )
    return [[row[column] for row in rows] for column in range(len(schema))]


def decode_predictions(target: Target, predictions: FloatArray) -> NDArray[Any]:
    """Predictions [n, T] as people call them: category values, booleans, means; [n] for one target.

    Means of continuous and count targets stay the numbers that they are. Targets of different kinds share an array of
    objects.
    """
    schema = target_schema(target)
    columns = [_decoded(attribute, predictions[:, i]) for i, attribute in enumerate(schema)]
    if not isinstance(target, Schema):
        return columns[0]
    if len({column.dtype for column in columns}) == 1:
        return np.column_stack(columns)
    table = np.empty((len(predictions), len(schema)), dtype=object)
    for i, column in enumerate(columns):
        table[:, i] = column
    return table


def _decoded(attribute: Attribute, column: FloatArray) -> NDArray[Any]:
    if isinstance(attribute, Categorical):
        return class_values(attribute)[column.astype(np.int64)]
    return column.astype(bool) if isinstance(attribute, Binary) else column


def class_values(target: Target) -> NDArray[Any]:
    """[K] the values of a categorical or binary target, by code: the `classes_` of estimators.

    They are not sorted, as scikit-learn's own estimators have them. The target's order is that of the codes in data and
    saved models and of every distribution's `probs`, and values of different types have no other. Who passes
    probabilities to a metric that expects sorted classes gives the target sorted categories.
    """
    if isinstance(target, Binary):
        return np.array([False, True])
    if isinstance(target, Categorical):
        values = np.array(target.categories)
        # numpy turns 1 and "a" together into text, True and 2 into numbers; such categories stay what they are.
        same = all(type(a) is type(b) and a == b for a, b in zip(values.tolist(), target.categories, strict=True))
        return values if same else np.array(target.categories, dtype=object)
    raise InputError("only a single categorical or binary target has classes")


def all_binary(target: Target) -> bool:
    """Several yes-or-no targets: what is called multi-label."""
    return isinstance(target, Schema) and all(isinstance(attribute, Binary) for attribute in target)
