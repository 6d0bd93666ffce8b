"""How messages become priors: the contract of an aggregation, the paper's mean, and the registry of others.

Along every edge travels what its sender knows at the level below: the posteriors of its sum units and, where leaves ask
for it, the expectations of its entries. An aggregation turns what reaches a vertex into a prior that sums to 1 and a
context. What is done with these is the template's and the leaves' business.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from gspn.circuits.evidence import Context
from gspn.errors import InputError
from gspn.graphs.batch import Batch
from gspn.kernels.contract import LONG_SUM, Received


@dataclass(frozen=True, eq=False)
class Messages:
    """What the vertices of a batch send to a level, and what the level knows to make of it."""

    posterior: Tensor
    """[N, S, C] of the level below"""
    expectation: Tensor | None
    """[N, D] of the level below; None where no leaf asks for it"""
    level: int
    """The level that receives, from 1 on"""
    transition: Tensor
    """[T, S, C, C] row-stochastic maps from the states below to those of the level"""
    batch: Batch
    start: Tensor
    """[N, S, C] the prior of level 0, at every vertex"""
    target: Tensor
    """[E] vertex that receives along each edge of the batch"""
    in_degree: Tensor
    """[N] number of incoming edges, with multiplicity; of those who receive, not of those who send"""

    @property
    def out_degree(self) -> Tensor:
        """[N] number of outgoing edges in the whole graph, also where a question is answered on a part of it."""
        return self.batch.out_degree


class Aggregation(nn.Module, ABC):
    """The contract; one may have parameters of its own, which are learned and saved with the model.

    `forward` gives a prior for every vertex, also for those without an incoming edge, and a context where expectations
    are sent. It depends on nothing but the messages along a vertex's incoming edges, in whatever order these come, and
    on the senders' out-degrees where `reads_out_degree` says so.
    """

    reads_out_degree: ClassVar[bool] = False
    """Whether `messages.out_degree` matters: then a new edge changes what its sender tells all its other receivers."""

    def __init__(self, num_levels: int, num_edge_types: int, num_sum_units: int, num_states: int) -> None:
        super().__init__()

    @abstractmethod
    def forward(self, messages: Messages) -> Received:
        """What every vertex makes of the messages that reach it."""

    def start(self, generator: torch.Generator) -> None:
        """Set the parameters to where learning starts; for those that have any."""
        if next(self.parameters(), None) is not None:
            raise NotImplementedError(f"{type(self).__name__} has parameters: `start` must say where they start")

    def export(self) -> dict[str, Tensor]:
        """The parameters as people read them, by name; as they are learned, unless one says otherwise."""
        return {name: value.detach().double().clone() for name, value in self.named_parameters()}

    def assign(self, exported: Mapping[str, Tensor]) -> None:
        """Set the parameters from checked, exported ones."""
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                parameter.copy_(exported[name])


class Mean(Aggregation):
    """The paper's: the mean over incoming edges, with multiplicity, of θ[t]ᵀ h; without any, the prior of level 0."""

    def forward(self, messages: Messages) -> Received:
        batch, transition = messages.batch, messages.transition
        num_vertices, num_types = batch.num_vertices, transition.shape[0]
        in_degree, row = messages.in_degree, messages.target
        if num_types > 1 and batch.edge_type is not None:
            row = row.long() * num_types + batch.edge_type
        # Summing first and transforming once per vertex and edge type is the same thing and never costs more per edge
        # than the message itself.
        mean = mean_by_row(messages.posterior, batch, row, in_degree.repeat_interleave(num_types))
        mean = mean.reshape(num_vertices, num_types, *messages.posterior.shape[1:])
        context = None
        if messages.expectation is not None:
            context = Context(mean_by_row(messages.expectation, batch, messages.target, in_degree), in_degree > 0)
        return Received(mixed_prior(mean, transition, messages.start, in_degree == 0), context)


def mean_by_row(values: Tensor, batch: Batch, row: Tensor, count: Tensor) -> Tensor:
    """Σ over edges of the senders' values [N, …], by row [E] of a table of len(count) rows, divided by the counts."""
    messages = values.index_select(0, batch.source)
    dtype = torch.float64 if batch.max_in_degree > LONG_SUM else values.dtype
    total = values.new_zeros(len(count), *values.shape[1:], dtype=dtype).index_add(0, row, messages.to(dtype))
    return (total / count.clamp_min(1).to(dtype).view(-1, *[1] * (values.ndim - 1))).to(values.dtype)


def mixed_prior(mean: Tensor, transition: Tensor, start: Tensor, alone: Tensor) -> Tensor:
    """[N, S, C] priors from mean posteriors [N, T, S, C] by edge type; `start` where a vertex is `alone` [N]."""
    return torch.where(alone[:, None, None], start, torch.einsum("ntsk,tski->nsi", mean, transition))


Build = Callable[[int, int, int, int], Aggregation]
"""(levels, edge types, sum units, states) → the aggregation of a model"""

_AGGREGATIONS: dict[str, Build] = {"mean": Mean}


def register_aggregation(name: str, build: Build) -> None:
    """Make an aggregation known under a name, by which models and saved files refer to it.

    Parameters
    ----------
    name:
        A new name; registering the same aggregation again changes nothing.
    build:
        A subclass of `Aggregation`, or a function that gives one: called with the numbers of levels, edge types, sum
        units and states of a model.
    """
    if not isinstance(name, str) or not name:
        raise InputError(f"the name of an aggregation must be a non-empty string, got {name!r}")
    if _AGGREGATIONS.get(name, build) is not build:
        raise InputError(f"there is an aggregation '{name}' already; choose another name")
    _AGGREGATIONS[name] = build


def aggregation_named(name: str) -> Build:
    if name not in _AGGREGATIONS:
        raise InputError(
            f"there is no aggregation '{name}', only {', '.join(_AGGREGATIONS)}; if another package brings it, import "
            "that package first"
        )
    return _AGGREGATIONS[name]
