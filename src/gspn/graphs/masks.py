"""Which entries are hidden: masks drawn from (seed, epoch, graph, vertex), so that batching does not change them."""

from __future__ import annotations

import torch
from torch import Tensor

from gspn.graphs.batch import Batch
from gspn.graphs.draws import keyed_uniform

FIXED = -1
"""The "epoch" of masks that stay the same in every epoch: those of validation."""


def choose_vertices(batch: Batch, rate: float, seed: int, epoch: int) -> Tensor:
    """[N] True for vertices with something observed, each chosen with probability `rate`."""
    graph, vertex = batch.vertex_keys()
    return (keyed_uniform(seed, epoch, graph, vertex, 0) < rate) & batch.observed.any(1)


def hide_entries(batch: Batch, rate: float, seed: int, epoch: int) -> Tensor:
    """[N, d] True for entries to hide: half of the chosen vertices hide all, the others a random number of entries.

    Only observed entries are ever hidden. "A random number" is uniform over 1 … the vertex's observed entries.
    """
    graph, vertex = batch.vertex_keys()
    observed = batch.observed
    present = observed.sum(1)
    hide_all = keyed_uniform(seed, epoch, graph, vertex, 1) < 0.5
    some = 1 + (keyed_uniform(seed, epoch, graph, vertex, 2) * present).long()
    how_many = torch.where(hide_all, present, torch.minimum(some, present))
    column = torch.arange(observed.shape[1])
    order = keyed_uniform(seed, epoch, graph[:, None], vertex[:, None], 3, column[None, :])
    rank = order.masked_fill(~observed, 2.0).argsort(1).argsort(1)
    return choose_vertices(batch, rate, seed, epoch)[:, None] & observed & (rank < how_many[:, None])
