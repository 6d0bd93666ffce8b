"""People's values as columns: what counts as missing, what as a number, and how values look in messages.

Nothing here knows of kinds of attributes (`gspn.attributes`) or guesses them (`gspn.infer`). Only numpy is imported:
tables and tensors are recognised by what they can do.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping, Set
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gspn.errors import InputError


def is_missing(value: object) -> bool:
    """None, NaN, NaT and pandas' NA: whatever is not equal to itself, and NA, whose comparisons are NA again."""
    if value is None:
        return True
    unequal: object = value != value
    return bool(unequal) if isinstance(unequal, (bool, np.bool_)) else unequal is value


def is_number(value: object) -> bool:
    """Whether the value is one real number (durations are registered as integers by numpy, and are not meant)."""
    if isinstance(value, (int, float)):  # nearly always, and much faster than asking an abstract class
        return True
    return isinstance(value, (numbers.Real, Decimal, np.bool_)) and not isinstance(value, np.timedelta64)


def tensor_to_array(tensor: Any) -> NDArray[Any]:
    """A tensor's numbers on the host."""
    tensor = tensor.detach().cpu()
    try:
        array: NDArray[Any] = tensor.numpy()
    except TypeError:  # bfloat16 and its like have no numpy type
        array = tensor.double().numpy()
    return array


def read_column(name: str, values: Any) -> NDArray[Any] | list[Any]:
    """The values of one column: an array if their type is numeric and knows no other gap than NaN, else a list."""
    if hasattr(values, "detach"):
        values = tensor_to_array(values)
    if isinstance(values, (str, bytes, Mapping, Set)):
        found = type(values).__name__
        raise InputError(f"attribute {name!r}: expected a sequence with one value per row, got a {found}")
    shape = getattr(values, "shape", (0,))
    if len(shape) != 1:
        raise InputError(f"attribute {name!r}: expected one value per row, got an array of shape {tuple(shape)}")
    dtype = getattr(values, "dtype", None)
    kind = getattr(dtype, "kind", None)
    if kind in ("m", "M", "c", "S", "V"):
        # Their tolist() would turn dates into bare integers, and NaT into an ordinary one.
        raise InputError(f"attribute {name!r}: values of type {dtype} are not supported; convert to numbers or text")
    if isinstance(dtype, np.dtype) and kind in ("b", "i", "u", "f") and not isinstance(values, np.ma.MaskedArray):
        return np.asarray(values)
    try:
        return list(values.tolist() if hasattr(values, "tolist") else values)
    except TypeError:
        raise InputError(f"attribute {name!r}: expected a sequence of values, got {shorten(values)}") from None


def shorten(value: object, width: int = 60) -> str:
    """The value's repr, cut where it would drown the message around it."""
    text = repr(value)
    return text if len(text) <= width else text[: width - 1] + "…"


def enumerate_briefly(items: Iterable[object], limit: int = 10) -> str:
    """`C, N, O, Cl`: bare where that is readable, quoted where it is not, the end of a long list left out."""

    def show(item: object) -> str:
        readable = isinstance(item, str) and item.isprintable() and item == item.strip() != "" and len(item) <= 30
        return str(item) if readable else shorten(item, 32)

    every = list(items)
    return ", ".join(map(show, every[:limit])) + (f", … ({len(every)} in all)" if len(every) > limit else "")
