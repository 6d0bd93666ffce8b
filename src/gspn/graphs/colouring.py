"""Which vertices do not depend on each other: groups whose members can be treated at the same time."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gspn.graphs.batch import Batch, rows_by_target
from gspn.graphs.walks import Neighbourhood

IntArray: TypeAlias = NDArray[np.int64]

_MOST_PAIRS = 50_000_000
"""Pairs of vertices within reach that are kept at once; beyond, every vertex is a group of its own."""


def independent_groups(batch: Batch, vertices: Tensor, steps: int) -> list[Tensor]:
    """The vertices in groups (a greedy colouring): inside a group no vertex reaches another within `steps` edges.

    Vertices of different graphs are independent, so there are no more groups than the largest graph has vertices.
    """
    near = _near(batch, vertices, steps)
    if near is None:
        return list(vertices.split(1))
    ptr, other = near
    colour = np.full(len(vertices), -1)
    for v in range(len(vertices)):
        taken = set(colour[other[ptr[v] : ptr[v + 1]]].tolist())
        colour[v] = next(c for c in range(len(taken) + 1) if c not in taken)
    return [vertices[torch.from_numpy(np.flatnonzero(colour == c))] for c in range(int(colour.max(initial=-1)) + 1)]


def _near(batch: Batch, vertices: Tensor, steps: int) -> tuple[IntArray, IntArray] | None:
    """For each of the vertices which others reach it, or are reached by it, as rows; None where there are too many."""
    found = Neighbourhood.of(batch).within_reach(vertices, steps, _MOST_PAIRS)
    if found is None:
        return None
    place = torch.full((batch.num_vertices,), -1)
    place[vertices] = torch.arange(len(vertices))
    one, other = found[0] // batch.num_vertices, place[found[0] % batch.num_vertices]
    one, other = one[other >= 0], other[other >= 0]
    order, ptr = rows_by_target(torch.cat([one, other]), len(vertices))
    return ptr.numpy(), torch.cat([other, one])[order].numpy()
