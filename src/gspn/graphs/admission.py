"""What arrays from files must fulfil before they are used: compiled code checks no bounds and trusts them.

A digest shows that a file is the one that was written, not who wrote it. So shapes, types and ranges are looked at
each time a stored graph or a prepared dataset is opened: in pieces, and in one pass over what the digest has just read.
How arrays are written and mapped is in `storage` and `stored`; graphs from memory are checked by `pack`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gspn.attributes import Schema

Array: TypeAlias = NDArray[Any]

_AT_ONCE = 1 << 18


def check_form(name: str, array: Array, shape: tuple[int | None, ...], *dtypes: str) -> None:
    """Refuse another number of dimensions, sizes (None: any) or dtype."""
    fits = array.ndim == len(shape) and all(
        want is None or want == size for want, size in zip(shape, array.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"{name} has shape {list(array.shape)} instead of [{wanted}]")
    if array.dtype.name not in dtypes:
        raise ValueError(f"{name} has dtype {array.dtype} instead of {' or '.join(dtypes)}")


def check_entries(x: Array, schema: Schema) -> None:
    """Refuse values that mean nothing, the first of them by vertex and attribute."""
    check_form("x", x, (None, len(schema)), "float32", "float64")
    for start in range(0, len(x), _AT_ONCE):
        fault = schema.find_fault(x[start : start + _AT_ONCE])
        if fault is not None:
            row, column, reason = fault
            raise ValueError(f"vertex {start + row}, attribute '{schema[column].name}': {reason}")


def check_pointer(name: str, pointer: Array, segments: int, end: int) -> None:
    """Refuse what is no division of 0 … end − 1 into segments: it must begin at 0, never fall, and end at `end`."""
    check_form(name, pointer, (segments + 1,), "int64")
    if int(pointer[0]) != 0 or int(pointer[-1]) != end:
        raise ValueError(f"{name} goes from {int(pointer[0])} to {int(pointer[-1])} instead of from 0 to {end}")
    for start in range(0, segments, _AT_ONCE):
        part = pointer[start : start + _AT_ONCE + 1]
        falls = part[1:] < part[:-1]
        if falls.any():
            raise ValueError(f"{name} falls at {start + int(falls.argmax()) + 1}")


def check_range(name: str, numbers: Array, least: int, below: int) -> None:
    """Refuse integers outside least … below − 1, the first of them by its place."""
    for start in range(0, len(numbers), _AT_ONCE):
        part = numbers[start : start + _AT_ONCE]
        if int(part.min()) < least or int(part.max()) >= below:
            place = int(((part < least) | (part >= below)).argmax())
            raise ValueError(f"{name} has {int(part[place])} at {start + place}, outside {least} … {below - 1}")


def check_by_segment(name: str, numbers: Array, pointer: Array, sizes: Array) -> None:
    """Refuse integers that are negative, or not below the size [segments] of the segment they stand in."""
    filled = np.flatnonzero(np.diff(pointer))
    if not len(filled):
        return
    check_range(name, numbers, 0, int(sizes.max()))
    largest = np.maximum.reduceat(numbers, pointer[filled])
    outside = largest >= sizes[filled]
    if outside.any():
        graph = int(outside.argmax())
        raise ValueError(f"{name} has {int(largest[graph])} in graph {int(filled[graph])}, of {sizes[filled[graph]]}")
