"""Several completed copies of graphs, for multiple imputation: between them, what is filled in differs as far as it is
uncertain.

Each copy comes from one model with parameters of its own: drawn by a Bayesian bootstrap, in which EM learns on from
weighted vertices. The gaps are then filled by sweeps, so that what neighbours are given hangs together. The steps are
EM's (`expectation_maximisation`) and the sampler's (`queries.pseudo_gibbs`); tables are the business of `imputation`.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator

import torch
from torch import Tensor

from gspn.errors import GSPNError
from gspn.graphs import GraphDataset
from gspn.models.expectation_maximisation import bootstrap_by_em
from gspn.models.gspn import GSPN
from gspn.models.stack import Stack
from gspn.random_streams import keyed_generator

_log = logging.getLogger(__name__)

SWEEPS = 10
"""Over the gaps of graphs whose vertices depend on each other."""

_AGAIN = 4
"""How often other weights are drawn where EM diverges."""

_DRAW = 17
"""Names the stream of random numbers of a completed copy."""


def several_completed(
    model: GSPN | Stack, dataset: GraphDataset, learned_from: GraphDataset, m: int, seed: int
) -> Iterator[Tensor]:
    """m times [N, d]: the entries of the dataset with missing ones drawn, each time by other parameters.

    Which member of a stack draws is drawn with the stack's weights. The number of a copy and the seed fix it, however
    many there are.
    """
    stack: Stack = Stack([model]) if isinstance(model, GSPN) else model
    weights = torch.tensor(stack.weights, dtype=torch.float64)
    for number in range(m):
        generator = keyed_generator(seed, _DRAW, number)
        member = stack.models[int(torch.multinomial(weights, 1, generator=generator))]
        drawn = Stack([_with_drawn_parameters(member, learned_from, stack.spread, generator)])
        yield _filled(drawn, dataset, generator)


def learns_by_em(model: GSPN) -> bool:
    """Whether EM has learned all of a model, so that a bootstrap can draw its parameters."""
    return model.start == "em" and model.epochs == 0 and model.num_layers <= 2


def _with_drawn_parameters(member: GSPN, learned_from: GraphDataset, spread: float, generator: torch.Generator) -> GSPN:
    """A copy, without the guard: one draw from its heavy tails would decide a mean or a slope of a whole table."""
    for _ in range(_AGAIN):
        drawn = copy.deepcopy(member)
        drawn.hierarchy.guard = 0.0
        if not learns_by_em(member):
            return drawn
        try:
            bootstrap_by_em(drawn.hierarchy, learned_from, drawn.prior, generator)
        except GSPNError as error:
            _log.info("%s; other weights are drawn", error)
            failed = error
            continue
        drawn.hierarchy.widen(spread)
        return drawn
    raise failed


def _filled(stack: Stack, dataset: GraphDataset, generator: torch.Generator) -> Tensor:
    """[N, d] entries with missing ones drawn."""
    (member,) = stack.models
    sweeps = SWEEPS if member.hierarchy.reach else 0  # alone, a vertex is drawn as it should be at once
    drawn = stack.pseudo_gibbs(dataset, 1, sweeps, "missing", generator=generator)
    return torch.cat([one[0] for one in drawn])
