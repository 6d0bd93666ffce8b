"""Conditionals of entries given all else: of any that are asked for, and of those that are missing in the data.

What is asked for is kept out of the evidence, everywhere. Missing entries are missing everywhere, so one pass over a
graph answers for all of its vertices at once: what to put in their place, and draws of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gspn.circuits.distributions import CategoricalDistribution, Distribution
from gspn.circuits.given import Joint, Roots, distribution, distributions, draw_many
from gspn.graphs.batch import Batch
from gspn.queries.contract import Answering

HOW = ("mean", "median", "mode", "closest", "sample")


def conditional(model: Answering, batch: Batch, vertices: Tensor, names: Sequence[str]) -> Joint:
    """P(named attributes of v | v's other observed entries, all other vertices) for each of the vertices."""
    columns = [model.schema.index(name) for name in names]
    hidden = torch.zeros(len(vertices), batch.x.shape[1], dtype=torch.bool)
    hidden[:, columns] = True
    return Joint(model.roots(batch, vertices, hidden), names)


def conditional_of_one(model: Answering, batch: Batch, vertices: Tensor, names: Sequence[str]) -> Distribution:
    """The same for a single attribute, as a univariate distribution."""
    column = model.schema.index(names[0])
    hidden = torch.zeros(len(vertices), batch.x.shape[1], dtype=torch.bool)
    hidden[:, column] = True
    return distribution(model.roots(batch, vertices, hidden), column)


@torch.no_grad()
def fill(model: Answering, batch: Batch, how: str, generator: torch.Generator | None = None) -> Tensor:
    """[N, d] the entries with missing ones filled.

    "mean": the mean of continuous ones (the paper's formula) and the mode of the rest; "median": the median of numbers
    and the mode of the rest; "mode": the mode of each entry; "closest": what is wrong by least on average, the mean of
    numbers, of counts the whole number next to it, and the mode of the rest; "sample": a draw, joint within a vertex.
    """
    rows = (~batch.observed).any(1).nonzero().squeeze(1)
    return filled(gaps_of(model, batch, rows), batch, rows, how, generator)


def filled(given: Roots, batch: Batch, rows: Tensor, how: str, generator: torch.Generator | None = None) -> Tensor:
    """The same from what is known of the vertices `rows`, which have all the gaps."""
    x, missing = batch.x.clone(), ~batch.observed[rows]
    if how == "sample":
        x[rows] = draw_many(given, missing, 1, generator)[0]
        return x
    for column, gaps, found in distributions(given, missing):
        x[rows[gaps], column] = _value(found, how).double()
    return x


def _value(found: Distribution, how: str) -> Tensor:
    """[n] one value of each distribution."""
    if isinstance(found, CategoricalDistribution) or how == "mode":
        return found.mode
    if how == "median":
        return found.quantile(0.5)
    if found.attribute.kind == "continuous":
        return found.mean
    return found.mean.round() if how == "closest" else found.mode


@torch.no_grad()
def sample_missing(model: Answering, batch: Batch, n: int, generator: torch.Generator | None = None) -> Tensor:
    """[n, N, d] the entries with missing ones drawn: joint within a vertex, independent across vertices."""
    draws, missing = batch.x.expand(n, *batch.x.shape).clone(), ~batch.observed
    rows = missing.any(1).nonzero().squeeze(1)
    draws[:, rows] = draw_many(gaps_of(model, batch, rows), missing[rows], n, generator)
    return draws


def gaps_of(model: Answering, batch: Batch, vertices: Tensor) -> Roots:
    """The distributions over the vertices' entries, given all that is observed, and that gaps are gaps."""
    batch = batch.hiding_withheld()
    return model.roots(batch, vertices, torch.zeros(len(vertices), batch.x.shape[1], dtype=torch.bool))
