"""What a vertex sees of its neighbours: weighted sums of their posteriors, and a bottom state for what is not there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gspn.attributes import FloatArray
from gspn.compiling import compiled
from gspn.graphs import Batch


@compiled
def _gather(
    row_ptr: NDArray[np.int64], source: NDArray[np.int32], shares: FloatArray, rows: FloatArray, sums: FloatArray
) -> None:
    """sums[v, a] = Σ over edges (u, v) of shares[edge, a] · rows[u]."""
    for v in range(len(row_ptr) - 1):
        for edge in range(row_ptr[v], row_ptr[v + 1]):
            sender = rows[source[edge]]
            for a in range(shares.shape[1]):
                share = shares[edge, a]
                if share != 0.0:
                    for j in range(len(sender)):
                        sums[v, a, j] += share * sender[j]


def neighbour_sums(batch: Batch, posteriors: FloatArray, shares: FloatArray | None = None) -> FloatArray:
    """[N, A, C] sums of the senders' posteriors [N, C], each edge counted by its shares [E, A] (None: once, A = 1)."""
    shares = np.ones((batch.num_edges, 1)) if shares is None else shares
    sums = np.zeros((batch.num_vertices, shares.shape[1], posteriors.shape[1]))
    _gather(batch.row_ptr.numpy(), batch.source.numpy(), shares, np.ascontiguousarray(posteriors), sums)
    return sums


def neighbour_means(batch: Batch, posteriors: FloatArray, shares: FloatArray, *, of_all: bool) -> FloatArray:
    """[N, A, C + 1] a distribution over a neighbour's state for every arc, the bottom state last.

    The mean is taken within each arc, and an arc without edges is in the bottom state; or it is taken `of_all` incoming
    edges, and the share of them that belongs to other arcs is in the bottom state.
    """
    sums = neighbour_sums(batch, posteriors, shares)
    weights = sums.sum(2)  # posteriors sum to 1, so this is the weight of each arc
    edges = batch.in_degree.numpy()[:, None] if of_all else weights
    means = sums / np.where(edges > 0, edges, 1.0)[:, :, None]
    return np.concatenate([means, np.maximum(1.0 - means.sum(2, keepdims=True), 0.0)], axis=2)


def edge_sums(batch: Batch, rows: FloatArray) -> FloatArray:
    """[N, C] sums of rows [E, C] over each vertex's incoming edges."""
    running = np.concatenate([np.zeros((1, rows.shape[1])), rows.cumsum(0)])
    sums: FloatArray = np.diff(running[batch.row_ptr.numpy()], axis=0)
    return sums
