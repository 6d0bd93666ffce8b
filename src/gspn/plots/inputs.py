"""What figures accept as numbers: tensors, arrays and sequences, checked before anything is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gspn.columns import shorten, tensor_to_array
from gspn.errors import InputError


def read_numbers(values: Any, name: str, *, ndim: int = 1, gaps: bool = False) -> NDArray[np.float64]:
    """The values as an array of so many dimensions, not empty, all finite; with `gaps` some, not all, may be NaN."""
    if hasattr(values, "detach"):
        values = tensor_to_array(values)
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be numbers, got {shorten(values)}") from None
    if array.ndim != ndim:
        raise InputError(f"{name} must have {ndim} dimension{'s' * (ndim != 1)}, got the shape {array.shape}")
    if not array.size:
        raise InputError(f"{name} is empty: there is nothing to draw")
    if np.isinf(array).any():
        place = tuple(int(i) for i in np.argwhere(np.isinf(array))[0])
        raise InputError(f"{name} has an infinite value at {place[0] if ndim == 1 else place}")
    missing = np.isnan(array)
    if missing.all():
        raise InputError(f"{name} has no number, only NaN: there is nothing to draw")
    if missing.any() and not gaps:
        place = tuple(int(i) for i in np.argwhere(missing)[0])
        raise InputError(f"{name} is NaN at {place[0] if ndim == 1 else place}")
    return array


def check_length(array: NDArray[Any], wanted: int, name: str, what: str) -> None:
    """`what` says of which things there are so many: "atoms"."""
    if len(array) != wanted:
        raise InputError(f"{name} has {len(array)} numbers for {wanted} {what}")
