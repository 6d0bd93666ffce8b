"""Which entries are hidden from everybody, to see how well they are filled."""

from __future__ import annotations

import torch
from torch import Tensor

from gspn.errors import InputError
from gspn.graphs import GraphDataset
from gspn.policy.held_out import within_reach
from gspn.random_streams import keyed_uniform

_HIDDEN = 51
"""Names the stream of random numbers that chooses entries."""

_LEAST_SHARE, _MOST_SHARE = 0.1, 0.25
_WANTED = 60
"""Entries of a column by which methods can be told apart; where a tenth is fewer, more are hidden."""
_MOST_ROWS = 4_000
"""Vertices with hidden entries: more make nothing clearer, and methods that compare rows slow."""
FEWEST = 20
"""Hidden entries in all; with fewer nothing can be said."""


def hidden_entries(dataset: GraphDataset, seed: int, share: float | None = None) -> Tensor:
    """[N, d] True for observed entries that are to be hidden, in every column about the same share.

    Without a `share` a tenth, and in columns with few entries up to a quarter. Entries far beyond what is left of
    their column stay, as models refuse them.
    """
    if share is not None and not 0 < share < 1:
        raise InputError(f"share must be between 0 and 1, got {share!r}")
    entries, (graph, vertex) = dataset.entries(), dataset.vertex_keys()
    known = ~entries.isnan()
    chosen = known & _rows(graph, vertex, seed)[:, None]
    counts = chosen.sum(0).clamp_min(1)
    shares = torch.full((entries.shape[1],), share, dtype=torch.float64) if share else _WANTED / counts
    if share is None:
        shares = shares.clamp(_LEAST_SHARE, _MOST_SHARE)
    drawn = keyed_uniform(seed, _HIDDEN, graph[:, None], vertex[:, None], torch.arange(entries.shape[1]))
    mask = chosen & (drawn < shares)
    mask &= within_reach(entries.masked_fill(mask, torch.nan), entries)
    if int(mask.sum()) < FEWEST:
        raise InputError(
            f"a report hides observed entries and checks how they are filled, but only {int(mask.sum())} could be "
            f"hidden here, and {FEWEST} are needed; there are {int(known.sum())} observed entries"
        )
    return mask


def _rows(graph: Tensor, vertex: Tensor, seed: int) -> Tensor:
    """[N] the vertices that may have hidden entries: all, or as many as are enough."""
    if len(vertex) <= _MOST_ROWS:
        return torch.ones(len(vertex), dtype=torch.bool)
    drawn = keyed_uniform(seed, _HIDDEN, graph, vertex)
    return drawn <= drawn.kthvalue(_MOST_ROWS).values
