"""Contexts, on which leaves may depend: sums over two hops, how uncertain means of neighbours are, and what is usual.

A vertex must not receive its own value, so every edge u → v needs the sum over the senders of u without v. These sums
are never differences: where one entry is a million deviations away, rounding in float32 would leave a trace of the
vertex's own value. Instead the senders of u are sorted, and the sum before v is added to the sum after it.

What is usual is stored with the model, one row for each level from 1 on: the mean and the covariance of the context
over the training vertices with an incoming edge, fixed once the level below is; and the shares of the edge types. A
vertex without an incoming edge is taken to have received the usual, as uncertain as it is, and its prior is what edges
would usually make of the prior of level 0. How messages are averaged is the aggregation's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gspn.circuits.evidence import Context
from gspn.graphs.batch import Batch
from gspn.hierarchy.parameters import check_like
from gspn.kernels.contract import LONG_SUM, Expectations

CONTEXTS = (None, "neighbours", "two_hops")


@dataclass(frozen=True, eq=False)
class TwoSteps:
    """The paths w → u → v of a batch with w ≠ v, never listed one by one: O(E) numbers, the same for every level.

    A run is all edges into u that come from the same vertex, which may stand in several rows (`Batch.identity`); runs
    are sorted by u. A sum over the senders of u leaves out one run, or none where v sends nothing to u.
    """

    run: Tensor
    """[E] the run of every edge"""
    place: Tensor
    """[R] how many runs into the same vertex come before each"""
    behind: Tensor
    """[R] how many come after it"""
    last: Tensor
    """[N] the last run into every vertex; of no meaning where there is none"""
    taken: Tensor
    """[P] for every edge u → v with senders of u other than v: the run into u to leave out, or R + u for none"""
    others: Tensor
    """[P] how many edges into u are left, n_u − a_uv"""
    edge: Tensor
    """[P] which edge of the batch it is"""
    receiver: Tensor
    """[P] v"""
    number: Tensor
    """[N] k_v: how many such edges every vertex has"""

    @classmethod
    def of(cls, batch: Batch) -> TwoSteps:
        """Of a batch with edges."""
        n, source, target = batch.num_vertices, batch.source.long(), batch.target.long()
        identity = torch.arange(n, device=source.device) if batch.identity is None else batch.identity.long()
        span = int(identity.max()) + 1
        runs, run, length = torch.unique(target * span + identity[source], return_inverse=True, return_counts=True)
        runs_into = torch.bincount(runs // span, minlength=n)
        last = runs_into.cumsum(0) - 1
        order, of_run = torch.arange(len(runs), device=runs.device), runs // span
        place = order - (last - runs_into + 1)[of_run]
        behind = last[of_run] - order
        # The run of v among the edges into u, for every edge u → v.
        sought = source * span + identity[target]
        at = torch.searchsorted(runs, sought).clamp_(max=len(runs) - 1)
        answers = runs[at] == sought
        others = batch.in_degree[source] - torch.where(answers, length[at], 0)
        open_edges = (others > 0).nonzero().squeeze(1)
        return cls(
            run=run,
            place=place,
            behind=behind,
            last=last,
            taken=torch.where(answers, at, len(runs) + source)[open_edges],
            others=others[open_edges],
            edge=open_edges,
            receiver=target[open_edges],
            number=torch.bincount(target[open_edges], minlength=n),
        )


def two_hops(told: Tensor, batch: Batch, steps: TwoSteps | None = None) -> tuple[Tensor, Tensor]:
    """At every vertex v, the mean over neighbours u of the mean of what u receives from vertices other than v.

    m²_v = k_v⁻¹ Σ over edges u → v of (n_u − a_uv)⁻¹ Σ over edges w → u, w ≠ v, of told[w]: n_u edges come into u, a_uv
    of them from v, and k_v edges into v have a non-empty inner sum. Gives m² [N, D], 0 where k_v is 0, and whether k_v
    is positive [N]. `steps` are those of the batch, for callers at several levels.
    """
    if not batch.num_edges:
        return torch.zeros_like(told), torch.zeros(len(told), dtype=torch.bool, device=told.device)
    steps = TwoSteps.of(batch) if steps is None else steps
    dtype = torch.float64 if batch.max_in_degree > LONG_SUM else told.dtype
    without = sums_without_receiver(told.index_select(0, batch.source).to(dtype), steps)
    total = told.new_zeros(told.shape, dtype=dtype)
    total = total.index_add(0, steps.receiver, without / steps.others.to(dtype).unsqueeze(1))
    mean = total / steps.number.clamp_min(1).to(dtype).unsqueeze(1)
    return mean.to(told.dtype), steps.number > 0


def sums_without_receiver(carried: Tensor, steps: TwoSteps) -> Tensor:
    """[P, D] for every edge u → v that has any, the sum of what the edges w → u, w ≠ v, carry [E, D]."""
    by_run = carried.new_zeros(len(steps.place), carried.shape[1]).index_add(0, steps.run, carried)
    before = _summed(by_run, steps.place, -1)
    whole = (before + by_run).index_select(0, steps.last.clamp_min(0))
    return torch.cat([before + _summed(by_run, steps.behind, 1), whole]).index_select(0, steps.taken)


def _summed(values: Tensor, beside: Tensor, direction: int) -> Tensor:
    """Σ of the rows of the same segment before each (direction −1) or behind it (1); `beside` [R] counts them.

    Doubling: after k rounds a row has the sum of the 2^k rows nearest to it on that side, or of all where there are
    fewer. No row ever holds a number from another segment or from itself, which a running sum over everything would.
    """
    rows = (beside >= 1).nonzero().squeeze(1)
    sums = torch.zeros_like(values).index_add(0, rows, values.index_select(0, rows + direction))
    step = 1
    while len(rows := rows[beside[rows] > step]):
        sums.index_add_(0, rows, sums.index_select(0, rows + direction * step))
        step *= 2
    return sums


def neighbour_covariance(covariance: Tensor, batch: Batch, sender_weight: Tensor | None = None) -> Tensor:
    """[N, D, D] covariance of the mean over incoming edges, from the senders' covariances [N, D, D].

    V_v = Σ over distinct u of (a_vu / n_v)² Cov_u, where a_vu of the n_v edges into v come from u: repeating a
    message does not make it more certain. With weights of senders [N], edges count by these. 0 without incoming edges.
    """
    if not batch.num_edges:
        return torch.zeros_like(covariance)
    n, width = batch.num_vertices, covariance.shape[1:].numel()
    # Rows, not identities: all edges from one vertex into one row come from the same row.
    pairs, edges = torch.unique(batch.target.long() * n + batch.source.long(), return_counts=True)
    dtype = torch.float64 if batch.max_in_degree > LONG_SUM else covariance.dtype
    receiver, sender = pairs // n, pairs % n
    if sender_weight is None:
        weight = (edges.to(dtype) / batch.in_degree[receiver].to(dtype)).square()
    else:
        weighted = edges * sender_weight[sender]
        weight = (
            (weighted / torch.zeros_like(sender_weight).index_add(0, receiver, weighted)[receiver]).square().to(dtype)
        )
    # As a product with a sparse matrix nothing of size E · D² is ever in memory, not for the gradient either.
    ends = torch.stack([receiver, sender])
    weights = torch.sparse_coo_tensor(ends, weight, (n, n), check_invariants=False, is_coalesced=True)
    mixed: Tensor = torch.sparse.mm(weights, covariance.reshape(n, width).to(dtype))
    return mixed.to(covariance.dtype).reshape(covariance.shape)


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
