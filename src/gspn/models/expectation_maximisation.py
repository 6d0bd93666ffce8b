"""EM as a starting point of models: several first fits, the best of them, then level after level.

The steps themselves are in `hierarchy.em`; here is which graphs they see, how often a run is begun, and when one is
given up.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from gspn.circuits.evidence import Evidence
from gspn.errors import GSPNError
from gspn.graphs import GraphDataset
from gspn.graphs.batch import Batch
from gspn.hierarchy import Hierarchy
from gspn.hierarchy.em import (
    check_em,
    frozen_below,
    learn_level,
    learn_mixture,
    prepare,
    responsibilities,
    start_level,
)
from gspn.random_streams import keyed_generator
from gspn.training import pause

_log = logging.getLogger(__name__)

MOST_VERTICES = 200_000
"""Vertices that EM sees; of more, whole graphs are drawn."""

_AGAIN = 4
"""How often a run that has diverged is begun anew."""

_STEPS_ON = 15
"""Of EM at a level, where it goes on: what was learned is near already."""

_STEPS_OF_BOOTSTRAP, _GAIN_OF_BOOTSTRAP = 50, 0.01
"""Of EM at a level, and what a step must gain, in nats of all vertices: parameters are uncertain by half a nat each."""

_SAMPLE, _ANEW = 5, 6
"""Name the streams of random numbers that choose graphs, and starts after one that has diverged."""


@torch.no_grad()
def learn_by_em(
    hierarchy: Hierarchy, training: GraphDataset, prior: float, generators: Sequence[torch.Generator]
) -> list[dict[str, Any]]:
    """Learn all levels from the training graphs: one start for each generator, the best of them goes on.

    In double precision, whatever the hierarchy's is. Gives a record of every step that led to the result: level, step
    and objective, in nats per vertex.
    """
    batch = _seen(training)
    check_em(hierarchy, batch)
    starts = _Starts(list(generators))
    with _doubled(hierarchy):
        while True:
            history = _first_level(hierarchy, batch, prior, starts)
            try:
                _further_levels(hierarchy, batch, prior, history)
                return history
            except GSPNError as error:
                starts.another(error)  # from another mixture: what is above it follows from it


@torch.no_grad()
def learn_on_by_em(hierarchy: Hierarchy, training: GraphDataset, prior: float) -> list[dict[str, Any]]:
    """A few steps of EM from where the hierarchy stands, up to level 1, for graphs that know more; the rest stays."""
    batch, history = _seen(training), list[dict[str, Any]]()
    check_em(hierarchy, batch)
    with _doubled(hierarchy):
        learn_mixture(hierarchy, batch, prior, _noting(history), _STEPS_ON)
        if hierarchy.num_layers > 1:
            frozen = frozen_below(hierarchy, 1, batch)
            if len(frozen.evidence):
                learn_level(hierarchy, 1, frozen, prior, _noting(history), _STEPS_ON)
    return history


@torch.no_grad()
def bootstrap_by_em(
    hierarchy: Hierarchy, training: GraphDataset, prior: float, generator: torch.Generator
) -> list[dict[str, Any]]:
    """Steps of EM from where the hierarchy stands, up to level 1, on vertices with the weights of a Bayesian bootstrap.

    What is learned is a draw from about the posterior of the parameters. The graph stays: a vertex sends to its
    neighbours as ever.
    """
    batch, history = _seen(training), list[dict[str, Any]]()
    check_em(hierarchy, batch)
    weights = bootstrap_weights(batch.num_vertices, generator)
    gain = _GAIN_OF_BOOTSTRAP / max(batch.num_vertices, 1)
    with _doubled(hierarchy):
        note = _noting(history)
        learn_mixture(hierarchy, batch, prior, note, _STEPS_OF_BOOTSTRAP, gain=gain, weights=weights)
        if hierarchy.num_layers > 1:
            frozen = frozen_below(hierarchy, 1, batch, weights)
            if len(frozen.evidence):
                learn_level(hierarchy, 1, frozen, prior, note, _STEPS_OF_BOOTSTRAP, gain=gain)
    return history


def bootstrap_weights(number: int, generator: torch.Generator) -> torch.Tensor:
    """[number] weights of a Bayesian bootstrap (Rubin 1981): uniform on the simplex, 1 on average."""
    drawn = torch.empty(number, dtype=torch.float64).exponential_(generator=generator)
    return drawn / drawn.mean()


@contextmanager
def _doubled(hierarchy: Hierarchy) -> Iterator[None]:
    """In double precision for a while."""
    dtype = hierarchy.dtype
    hierarchy.double()
    try:
        yield
    finally:
        hierarchy.to(dtype)


class _Starts:
    """The generators of first fits that are still to be made; a run that has diverged adds one."""

    def __init__(self, left: list[torch.Generator]) -> None:
        self.left = left
        self.added = 0

    def another(self, error: GSPNError) -> None:
        """One more, unless there have been too many of them: then the error."""
        if self.added == _AGAIN:
            raise error
        self.added += 1
        _log.info("%s; it is begun anew", error)
        self.left.append(keyed_generator(_ANEW, self.added))


def _first_level(hierarchy: Hierarchy, batch: Batch, prior: float, starts: _Starts) -> list[dict[str, Any]]:
    """The mixture of level 0: the best of several."""
    best: tuple[float, dict[str, Any], list[dict[str, Any]]] | None = None
    evidence = Evidence(batch.visible, batch.hidden, batch.missing)
    while starts.left:
        generator, history = starts.left.pop(0), list[dict[str, Any]]()
        hierarchy.initialise(batch.x, generator)
        prepare(hierarchy, 0, evidence, None, responsibilities(hierarchy, 0, evidence, None))
        try:
            objective = learn_mixture(hierarchy, batch, prior, _noting(history))
        except GSPNError as error:
            starts.another(error)
            continue
        if best is None or objective > best[0]:
            best = objective, copy.deepcopy(hierarchy.state_dict()), history
    assert best is not None
    hierarchy.load_state_dict(best[1])
    return best[2]


def _further_levels(hierarchy: Hierarchy, batch: Batch, prior: float, history: list[dict[str, Any]]) -> None:
    """Level after level from the mixture; notes its steps in the history."""
    shares = _settle_shares(hierarchy, batch)
    for level in range(1, hierarchy.num_layers):
        frozen = start_level(hierarchy, level, batch)
        if level > 1:
            # By then a vertex occurs in its own tree; what was learned below is the best that is known.
            hierarchy.raw_transitions[level - 1] = hierarchy.raw_transitions[level - 2]
        hierarchy.aggregation.settle(level, hierarchy.prior(), hierarchy.transitions()[level - 1], shares)
        if level > 1 or not len(frozen.evidence):
            continue
        weights = responsibilities(hierarchy, level, frozen.evidence, frozen.context)
        prepare(hierarchy, level, frozen.evidence, frozen.context, weights)
        learn_level(hierarchy, level, frozen, prior, _noting(history))


def _noting(history: list[dict[str, Any]]) -> Any:
    def note(level: int, step: int, objective: float) -> None:
        history.append({"level": level, "step": step, "objective": objective})
        pause()

    return note


def _seen(training: GraphDataset) -> Batch:
    """All graphs as one batch, or as many as have about the most vertices that EM sees; at least one."""
    order = torch.arange(len(training))
    sizes = training.num_vertices_per_graph()
    if int(sizes.sum()) > MOST_VERTICES:
        order = torch.randperm(len(training), generator=keyed_generator(_SAMPLE))
        count = max(1, int((sizes[order].cumsum(0) <= MOST_VERTICES).sum()))
        order = order[:count].sort().values
    return training.batch(order)


def _settle_shares(hierarchy: Hierarchy, batch: Batch) -> torch.Tensor:
    """The shares of edge types [T], which what is usual in contexts follows, too; alike where there is no edge."""
    number, types = hierarchy.num_edge_types, batch.edge_type
    if types is None or number == 1:
        counts = torch.tensor([batch.num_edges] + [0] * (number - 1), dtype=torch.float64)
    else:
        counts = torch.bincount(types.long(), minlength=number).double()
    if hierarchy.context is not None:
        hierarchy.usual.settle_shares(counts)
    return counts / counts.sum() if batch.num_edges else torch.full_like(counts, 1 / number)


@torch.no_grad()
def settle(hierarchy: Hierarchy, training: GraphDataset) -> None:
    """Take what is usual, in contexts and for the aggregation, from graphs and the present parameters.

    For models that do not start by EM.
    """
    if hierarchy.context is None and next(hierarchy.aggregation.parameters(), None) is None:
        return
    batch = _seen(training)
    shares = _settle_shares(hierarchy, batch)
    if hierarchy.context is not None:
        transitions = hierarchy.raw_transitions.clone()
        for level in range(1, hierarchy.num_layers):
            start_level(hierarchy, level, batch)
        hierarchy.raw_transitions.copy_(transitions)
    settle_aggregation(hierarchy, shares)


@torch.no_grad()
def settle_aggregation(hierarchy: Hierarchy, edge_shares: torch.Tensor) -> None:
    """Let the aggregation follow prior and transitions, given the shares [T] of edge types."""
    for level, transition in enumerate(hierarchy.transitions(), start=1):
        hierarchy.aggregation.settle(level, hierarchy.prior(), transition, edge_shares)
