"""How messages become priors: the contract of an aggregation, the paper's mean and a weighted one, and the registry.

Every edge carries a message from the level below: the posteriors of its sum units and, where leaves ask
for it, the expectations of its entries. An aggregation turns what reaches a vertex into a prior that sums to 1 and a
context. What is done with these is the template's and the leaves' business; products of messages are in `product`.
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
    """[N, S, C] the prior of a vertex that receives nothing: that of level 0, or what is usual made of it"""
    target: Tensor
    """[E] vertex that receives along each edge of the batch"""
    in_degree: Tensor
    """[N] number of incoming edges, with multiplicity; of those who receive, not of those who send"""
    lowest: Tensor
    """[S, C] the prior of level 0"""

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

    def sender_weight(self, batch: Batch) -> Tensor | None:
        """[N] how much the message of each vertex weighs in contexts, relative to others; None: all weigh the same."""
        return None

    def start(self, generator: torch.Generator) -> None:
        """Set the parameters to where learning starts; for those that have any."""
        if next(self.parameters(), None) is not None:
            raise NotImplementedError(f"{type(self).__name__} has parameters: `start` must say where they start")

    def settle(self, level: int, prior: Tensor, transition: Tensor, edge_shares: Tensor) -> None:
        """Let the parameters of a level follow those that learning starts with: nothing, unless they depend on them.

        These are the prior [S, C] of level 0, the transitions [T, S, C, C] to the level, and the shares [T] that edge
        types have among edges. Called after `start`, level by level from 1 upwards.
        """

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
        # Summing first and transforming once per vertex and edge type is the same thing and never costs more per edge
        # than the message itself.
        batch, transition, target = messages.batch, messages.transition, messages.target
        weight, in_degree = self.sender_weight(batch), messages.in_degree
        whole = in_degree if weight is None else weight_received(weight, batch, target)
        mean = mean_by_type(messages.posterior, batch, target, whole, len(transition), weight)
        context = None
        if messages.expectation is not None:
            context = Context(mean_by_row(messages.expectation, batch, target, whole, weight), in_degree > 0)
        return Received(mixed_prior(mean, transition, messages.start, in_degree == 0), context)


class Symmetric(Mean):
    """A weighted mean: the message of u weighs n_u^(−½), where n_u edges leave u in the whole graph."""

    reads_out_degree = True

    def sender_weight(self, batch: Batch) -> Tensor:
        return batch.out_degree.clamp_min(1).to(torch.float64).rsqrt()


def weight_received(weight: Tensor, batch: Batch, target: Tensor) -> Tensor:
    """[N] Σ over incoming edges of the senders' weights [N]."""
    return torch.zeros_like(weight).index_add(0, target, weight.index_select(0, batch.source))


def mean_by_type(
    values: Tensor, batch: Batch, target: Tensor, whole: Tensor, num_types: int, weight: Tensor | None = None
) -> Tensor:
    """[N, T, …] Σ over incoming edges of a type of the senders' weighted values, divided by the whole weight [N]."""
    row = target
    if num_types > 1 and batch.edge_type is not None:
        row = row.long() * num_types + batch.edge_type
    mean = mean_by_row(values, batch, row, whole.repeat_interleave(num_types), weight)
    return mean.reshape(batch.num_vertices, num_types, *values.shape[1:])


def mean_by_row(values: Tensor, batch: Batch, row: Tensor, whole: Tensor, weight: Tensor | None = None) -> Tensor:
    """Σ over edges of the senders' values [N, …], by row [E] of a table, divided by what each row weighs as a whole.

    `weight` [N] is that of the senders; None: 1.
    """
    weighed = values if weight is None else values * _beside(weight, values)
    messages = weighed.index_select(0, batch.source)
    dtype = torch.float64 if batch.max_in_degree > LONG_SUM else values.dtype
    total = values.new_zeros(len(whole), *values.shape[1:], dtype=dtype).index_add(0, row, messages.to(dtype))
    return (total / _beside(whole.masked_fill(whole == 0, 1), total)).to(values.dtype)


def _beside(numbers: Tensor, values: Tensor) -> Tensor:
    """Numbers [n] in the dtype of values [n, …], to multiply them by."""
    return numbers.to(values.dtype).view(-1, *[1] * (values.ndim - 1))


def mixed_prior(mean: Tensor, transition: Tensor, start: Tensor, alone: Tensor) -> Tensor:
    """[N, S, C] priors from mean posteriors [N, T, S, C] by edge type; `start` where a vertex is `alone` [N]."""
    return torch.where(alone[:, None, None], start, torch.einsum("ntsk,tski->nsi", mean, transition))


Build = Callable[[int, int, int, int], Aggregation]
"""(levels, edge types, sum units, states) → the aggregation of a model"""

_AGGREGATIONS: dict[str, Build] = {"mean": Mean, "symmetric": Symmetric}


def register_aggregation(name: str, build: Build) -> None:
    """Register an aggregation under a name, by which models and saved files refer to it.

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
