"""How likely models hold entries that they have not learned from, one entry at a time.

Densities are smoothed: the probability of a bin around the value, divided by its width. A model that has found exact
repeats would else be preferred for its needles, whatever it says of everything else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from gspn.attributes import Schema
from gspn.circuits.distributions import CategoricalDistribution, Distribution
from gspn.circuits.given import distributions
from gspn.graphs import GraphDataset
from gspn.models.gspn import GSPN
from gspn.queries.chunks import chunk_size
from gspn.queries.missing import gaps_of

_SHARE_OF_DEVIATION = 1 / 50
_FEWEST_DIGITS = 1e-9
"""Below this a difference of two cumulative probabilities is noise."""


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
