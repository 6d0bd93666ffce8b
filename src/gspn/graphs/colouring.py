"""Which vertices do not hear each other: groups whose members can be treated at the same time."""

from __future__ import annotations

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from gspn.graphs.batch import Batch

_MOST_PAIRS = 50_000_000
"""Pairs of vertices within hearing that are kept at once; beyond, every vertex is a group of its own."""


def independent_groups(batch: Batch, vertices: Tensor, steps: int) -> list[Tensor]:
    """The vertices in groups (a greedy colouring): inside a group no vertex reaches another within `steps` edges.

    Vertices of different graphs never hear each other, so there are no more groups than the largest graph has vertices.
    """
    near = _within_reach(batch, vertices, steps)
    if near is None:
        return list(vertices.split(1))
    colour = np.full(len(vertices), -1)
    for v in range(len(vertices)):
        taken = set(colour[near.indices[near.indptr[v] : near.indptr[v + 1]]].tolist())
        colour[v] = next(c for c in range(len(taken) + 1) if c not in taken)
    return [vertices[torch.from_numpy(np.flatnonzero(colour == c))] for c in range(int(colour.max(initial=-1)) + 1)]


def _within_reach(batch: Batch, vertices: Tensor, steps: int) -> scipy.sparse.csr_array | None:
    """[R, R] which of the vertices reach, or are reached by, each other; None where there are too many pairs."""
    n = batch.num_vertices
    ones = np.ones(batch.num_edges, dtype=bool)
    hears = scipy.sparse.csr_array((ones, batch.source.numpy(), batch.row_ptr.numpy()), shape=(n, n))
    reach = scipy.sparse.csr_array(scipy.sparse.eye_array(n, dtype=bool))[vertices.numpy()]
    everything = reach
    for _ in range(steps):
        reach = scipy.sparse.csr_array(reach @ hears)
        grown = scipy.sparse.csr_array(everything + reach)
        if grown.nnz == everything.nnz:
            break
        if grown.nnz > _MOST_PAIRS:
            return None
        everything = grown
    among = everything[:, vertices.numpy()]
    return scipy.sparse.csr_array(among + among.T)
