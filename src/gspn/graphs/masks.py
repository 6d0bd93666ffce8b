"""Which entries are hidden: masks drawn from (seed, epoch, graph, vertex), so that batching does not change them."""

from __future__ import annotations

import torch
from torch import Tensor

from gspn.graphs.batch import Batch
from gspn.random_streams import keyed_uniform

FIXED = -1
"""The "epoch" of masks that stay the same in every epoch: those of validation."""

_OF_STEP = 4
"""Names the streams of random numbers that hide labels, beside those that hide entries."""


def choose_vertices(batch: Batch, rate: float, seed: int, epoch: int, *, gaps: bool = False) -> Tensor:
    """[N] True for vertices with something observed, or any where `gaps` count, each chosen with probability `rate`."""
    graph, vertex = batch.vertex_keys()
    chosen = keyed_uniform(seed, epoch, graph, vertex, 0) < rate
    return chosen if gaps else chosen & batch.observed.any(1)


def hide_entries(batch: Batch, rate: float, seed: int, epoch: int, *, gaps: bool = False) -> Tensor:
    """[N, d] True for entries to hide: half of the chosen vertices hide all, the others a random number of entries.

    "A random number" is uniform over 1 … the vertex's observed entries, and only these are ever hidden; unless `gaps`
    are evidence: then missing entries are hidden and asked for like others, or how often they occur would be forgotten.
    """
    graph, vertex = batch.vertex_keys()
    observed = torch.ones_like(batch.observed) if gaps else batch.observed
    present = observed.sum(1)
    hide_all = keyed_uniform(seed, epoch, graph, vertex, 1) < 0.5
    some = 1 + (keyed_uniform(seed, epoch, graph, vertex, 2) * present).long()
    how_many = torch.where(hide_all, present, torch.minimum(some, present))
    column = torch.arange(observed.shape[1])
    order = keyed_uniform(seed, epoch, graph[:, None], vertex[:, None], 3, column[None, :])
    rank = order.masked_fill(~observed, 2.0).argsort(1).argsort(1)
    return choose_vertices(batch, rate, seed, epoch, gaps=gaps)[:, None] & observed & (rank < how_many[:, None])


def hide_labels(batch: Batch, seed: int, epoch: int) -> Tensor:
    """[N] True for vertices whose labels are hidden in a step: in half of the steps a tenth, else a uniform share."""
    graph, vertex = batch.vertex_keys()
    step = torch.zeros(1, dtype=torch.long)
    few = bool(keyed_uniform(seed, epoch, step, _OF_STEP) < 0.5)
    share = 0.1 if few else float(keyed_uniform(seed, epoch, step, _OF_STEP + 1))
    return keyed_uniform(seed, epoch, graph, vertex, _OF_STEP + 2) < share
