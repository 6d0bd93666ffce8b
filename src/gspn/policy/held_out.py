"""Entries held out to judge models by, where there are no graphs to spare; and how likely models hold them.

Where candidates are compared, one entry at a time and with smoothed densities: the probability of a bin around the
value, divided by its width. A model that has found exact repeats would else be preferred for its needles, whatever it
says of everything else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gspn.attributes import Schema
from gspn.circuits.distributions import CategoricalDistribution, Distribution
from gspn.circuits.given import distributions
from gspn.errors import InputError
from gspn.graphs import GraphDataset
from gspn.graphs.missing import withholding
from gspn.models.checks import MAX_DEVIATIONS
from gspn.models.gspn import GSPN
from gspn.queries.contract import chunk_size
from gspn.queries.entries import gaps_of
from gspn.random_streams import keyed_uniform

SHARE = 0.1
"""Of the graphs, or of the observed entries, that are held out to stop by."""

_HELD_OUT = -4
"""Names the stream of random numbers that chooses entries; masks of epochs have those from 0 on, and -1."""

_SHARE_OF_DEVIATION = 1 / 50
_FEWEST_DIGITS = 1e-9
"""Below this a difference of two cumulative probabilities is noise."""


class HeldOutEntries:
    """A judge by entries that training does not see, for where there are no graphs to spare, above all one graph.

    A share of the observed entries is withheld in `training`; the judge asks a model for them, and gives their loss in
    nats per entry. Without it a model of a small graph learns the graph by heart, and is far too sure of what it fills
    in.
    """

    def __init__(self, dataset: GraphDataset, seed: int, share: float = SHARE) -> None:
        mask = held_out_mask(dataset, seed, share)
        if not mask.any():
            raise InputError("no entry can be held out: there are too few, or their columns would be empty")
        self.training = withholding(dataset, mask)
        """The dataset without the held-out entries"""
        self.count = int(mask.sum())
        self._dataset, self._truth = dataset, list(dataset)

    def __call__(self, model: Any, /) -> dict[str, float]:
        log_probs = torch.cat(model.log_prob_missing(self.training, self._truth))
        return {"validation": -float(log_probs.double().sum()) / self.count}

    def digest(self) -> str:
        # What is learned from has a digest of its own; together they tell what is held out.
        return self._dataset.digest()


def held_out_mask(dataset: GraphDataset, seed: int, share: float, fold: int = 0) -> Tensor:
    """[N, d] True for a share of the observed entries, but for those that training could not do without.

    Different folds, of which there are at most 1 / share, have no entry in common.
    """
    entries, (graph, vertex) = dataset.entries(), dataset.vertex_keys()
    drawn = keyed_uniform(seed, _HELD_OUT, graph[:, None], vertex[:, None], torch.arange(entries.shape[1]))
    mask = (drawn >= fold * share) & (drawn < (fold + 1) * share) & ~entries.isnan()
    return mask & within_reach(entries.masked_fill(mask, torch.nan), entries)


def within_reach(training: Tensor, entries: Tensor) -> Tensor:
    """[N, d] whether a model of the training entries [M, d] can be asked for these: models refuse what is too far.

    False in columns of which nothing is left; such a column could not even be learned.
    """
    known = ~training.isnan()
    values, count = training.nan_to_num(0.0), known.sum(0).clamp_min(1)
    center = values.sum(0) / count
    spread = (((values - center) * known).square().sum(0) / count).sqrt()
    spread = torch.where(spread > 0, spread, 1.0)
    far = (entries.nan_to_num(0.0) - center).abs() > MAX_DEVIATIONS / 2 * spread
    return known.any(0) & ~(far & ~entries.isnan())


def bin_widths(schema: Schema, entries: Tensor) -> tuple[float | None, ...]:
    """By column of entries [N, d]: the smallest distance of two values, at least a fiftieth of a deviation.

    None for discrete attributes, whose values have probabilities.
    """
    return tuple(
        bin_width(entries[:, column]) if attribute.kind == "continuous" else None
        for column, attribute in enumerate(schema)
    )


def bin_width(column: Tensor) -> float:
    """The smallest distance of two of a column's values, at least a fiftieth of their deviation."""
    known = column[~column.isnan()].double()
    distances = known.unique().diff()
    least = float(distances.min()) if len(distances) else 0.0
    return max(least, _SHARE_OF_DEVIATION * float(known.std(correction=0))) or 1.0


@torch.no_grad()
def log_scores(
    model: GSPN, training: GraphDataset, truth: Tensor, held: Tensor, widths: Sequence[float | None]
) -> Tensor:
    """[H] smoothed log-density of every held-out entry given what `training` has, in the order of `held.nonzero()`.

    `held` [N, d] marks entries that are missing in `training` and stand in `truth` [N, d].
    """
    found, first = torch.full(held.shape, math.nan, dtype=torch.float64), 0
    for batch in training.chunks(chunk_size(model.hierarchy)):
        own = held[first : first + batch.num_vertices]
        vertices = own.any(1).nonzero().squeeze(1)
        given = gaps_of(model.hierarchy, batch, vertices)
        for column, rows, answer in distributions(given, own[vertices]):
            place = first + vertices[rows]
            found[place, column] = _smoothed(answer, truth[place, column].double(), widths[column])
        first += batch.num_vertices
    return found[held]


def _smoothed(answer: Distribution, values: Tensor, width: float | None) -> Tensor:
    log_prob = answer.log_prob(values)
    if width is None or isinstance(answer, CategoricalDistribution):
        return log_prob
    mass = answer.cumulative(values + width / 2) - answer.cumulative(values - width / 2)
    enough = mass > _FEWEST_DIGITS
    return torch.where(enough, mass.clamp_min(_FEWEST_DIGITS).log() - math.log(width), log_prob)
