"""What vertices usually receive, and contexts relative to it, for models whose leaves regress on neighbours.

Stored with the model, one row for each level from 1 on: the mean and the covariance of the context over the training
vertices with an incoming edge, fixed once the level below is; and the shares of the edge types. A vertex without an
incoming edge is taken to have received the usual, as uncertain as it is, and its prior is what edges would usually make
of the prior of level 0. How messages are averaged is the aggregation's business; sums over two hops are in `contexts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from gspn.circuits.evidence import Context
from gspn.graphs.batch import Batch
from gspn.hierarchy.contexts import neighbour_covariance, two_hops
from gspn.hierarchy.parameters import check_like
from gspn.kernels.contract import Expectations

CONTEXTS = (None, "neighbours", "two_hops")


class UsualContexts(nn.Module):
    """Contexts of a hierarchy of `num_levels` levels, whose vertices tell `told_width` numbers."""

    mean: Tensor
    """[L-1, D] of the context"""
    covariance: Tensor
    """[L-1, D, D] of the context"""
    edge_shares: Tensor
    """[T] of the edge types"""

    def __init__(self, kind: str, variance: float, num_levels: int, num_edge_types: int, told_width: int) -> None:
        super().__init__()
        self.two_hops, self.variance = kind == "two_hops", variance
        self.width = told_width * (2 if self.two_hops else 1)
        self.register_buffer("mean", torch.zeros(num_levels - 1, self.width))
        self.register_buffer("covariance", torch.zeros(num_levels - 1, self.width, self.width))
        self.register_buffer("edge_shares", torch.full((num_edge_types,), 1 / num_edge_types))

    def whole(self, mean: Tensor, told: Expectations, batch: Batch, level: int) -> Tensor:
        """[N, D] the context of all vertices at a level from the neighbours' mean; the usual where there is none."""
        usual = self.mean[level - 1].to(mean)
        if not self.two_hops:
            return torch.where((batch.in_degree > 0)[:, None], mean, usual)
        further, present = two_hops(told.mean, batch)
        one, two = usual.chunk(2)
        near = torch.where((batch.in_degree > 0)[:, None], mean, one)
        return torch.cat([near, torch.where(present[:, None], further, two)], dim=1)

    def context(
        self, mean: Tensor, told: Expectations, batch: Batch, level: int, weight: Tensor | None = None
    ) -> Context:
        """The context relative to what is usual, and how uncertain it is, as far as it counts.

        `weight` [N] is what each sender's message weighs in the mean; None: the same.
        """
        present = batch.in_degree > 0
        relative = self.whole(mean, told, batch, level) - self.mean[level - 1].to(mean)
        if told.covariance is None:
            return Context(relative, present)
        own = neighbour_covariance(told.covariance, batch, weight)
        if self.two_hops:  # what is two hops away is plugged in as if it were certain
            size = own.shape[1]
            own = nn.functional.pad(own, (0, size, 0, size))
        usual = self.covariance[level - 1].to(own)
        return Context(relative, present, self.variance * torch.where(present[:, None, None], own, usual))

    def prior(self, level: int, prior: Tensor, transitions: Tensor) -> Tensor:
        """[S, C] the prior at a level of vertices that receive nothing: the usual way up from that of level 0."""
        for transition in transitions[:level]:
            prior = torch.einsum("t,tski,sk->si", self.edge_shares.to(prior), transition, prior)
        return prior

    @torch.no_grad()
    def settle(self, level: int, contexts: Tensor) -> None:
        """Take what is usual at a level from the contexts [n, D] of training vertices with an incoming edge."""
        rows = contexts.double()
        if not len(rows):
            return
        mean = rows.mean(0)
        self.mean[level - 1] = mean.to(self.mean)
        self.covariance[level - 1] = ((rows - mean).mT @ (rows - mean) / len(rows)).to(self.covariance)

    @torch.no_grad()
    def settle_shares(self, counts: Tensor) -> None:
        """Take the shares of edge types from their numbers [T] among training edges."""
        if int(counts.sum()):
            self.edge_shares.copy_(counts / counts.sum())

    def export(self) -> dict[str, Tensor]:
        return {name: value.detach().double().clone() for name, value in self.named_buffers()}

    def assign(self, exported: Any) -> None:
        own: Mapping[str, Tensor] = self.export()
        for name, value in check_like("the context", exported, own).items():
            getattr(self, name).copy_(value)
