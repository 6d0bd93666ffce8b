"""From positions of points to numbers that stay the same when the whole is moved, turned or mirrored."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gspn.errors import InputError


def sorted_distances(positions: Any, most: int | None = None) -> NDArray[np.float64]:
    """[..., n, k] distances of each of n points to its k nearest others, ascending.

    positions: [..., n, d], one frame or many.
    most: the largest k; None, or more than there are: all n − 1.

    Order among points does not matter to any point's own distances.
    """
    points = np.asarray(positions, dtype=np.float64)
    if points.ndim < 2 or not np.isfinite(points).all():
        raise InputError(f"positions must be finite numbers [..., n, d], got shape {list(points.shape)}")
    apart = np.sqrt(((points[..., :, None, :] - points[..., None, :, :]) ** 2).sum(-1))
    return np.sort(apart, axis=-1)[..., 1 : None if most is None else most + 1]  # the nearest is the point itself
