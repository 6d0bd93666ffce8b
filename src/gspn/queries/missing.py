"""Entries that are missing in the data: how likely their true values are, what to put in their place, draws of them.

All are missing everywhere, so one pass over a graph answers for all of its vertices at once.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from gspn.circuits.distributions import Mixture
from gspn.circuits.given import draw_many
from gspn.graphs.batch import Batch
from gspn.hierarchy.hierarchy import Hierarchy
from gspn.queries.conditional import roots

HOW = ("mean", "mode", "sample")


@torch.no_grad()
def log_prob_missing(hierarchy: Hierarchy, batch: Batch, truth: Tensor) -> Tensor:
    """[N] joint log-density of each vertex's own missing entries at `truth` [N, d]; 0 where none is missing.

    Only missing entries are read from `truth`; what is missing there as well is summed out.
    """
    missing = ~batch.observed
    asked = replace(batch, x=torch.where(missing, truth, batch.x), hidden=missing)
    log_hidden: Tensor = hierarchy(asked).log_hidden
    return log_hidden.masked_fill(~(missing & ~torch.isnan(truth)).any(1), 0.0)


@torch.no_grad()
def fill(hierarchy: Hierarchy, batch: Batch, how: str, generator: torch.Generator | None = None) -> Tensor:
    """[N, d] the entries with missing ones filled.

    "mean": the mean of continuous ones (the paper's formula) and the mode of the rest; "mode": the mode of each entry;
    "sample": a draw, joint within a vertex.
    """
    if how == "sample":
        return sample_missing(hierarchy, batch, 1, generator)[0]
    x, missing = batch.x.clone(), ~batch.observed
    rows = missing.any(1).nonzero().squeeze(1)
    for column, gaps, found in roots(hierarchy, batch, rows, missing[rows]).distributions(missing[rows]):
        by_mean = how == "mean" and isinstance(found, Mixture) and found.attribute.kind == "continuous"
        x[rows[gaps], column] = (found.mean if by_mean else found.mode).double()
    return x


@torch.no_grad()
def sample_missing(hierarchy: Hierarchy, batch: Batch, n: int, generator: torch.Generator | None = None) -> Tensor:
    """[n, N, d] the entries with missing ones drawn: joint within a vertex, independent across vertices."""
    draws, missing = batch.x.expand(n, *batch.x.shape).clone(), ~batch.observed
    rows = missing.any(1).nonzero().squeeze(1)
    draws[:, rows] = draw_many(roots(hierarchy, batch, rows, missing[rows]), missing[rows], n, generator)
    return draws
