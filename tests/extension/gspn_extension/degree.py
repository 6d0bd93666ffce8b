"""An aggregation that knows degrees: busy senders count less, and receivers that hear little stay near the start.

A sender's weight is its number of outgoing edges to the power of −½, divided by the sum over all messages. With n
incoming edges the prior is n / (n + κ) of what the messages say and κ / (n + κ) of the prior of level 0; κ is learned.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from gspn.circuits import Context
from gspn.hierarchy.aggregation import Aggregation, Messages
from gspn.kernels import Received


class ByDegree(Aggregation):
    """One number κ ≥ 0 for all levels."""

    reads_out_degree = True

    def __init__(self, num_levels: int, num_edge_types: int, num_sum_units: int, num_states: int) -> None:
        super().__init__(num_levels, num_edge_types, num_sum_units, num_states)
        self.raw_pull = nn.Parameter(torch.zeros(()))

    def start(self, generator: torch.Generator) -> None:
        with torch.no_grad():
            self.raw_pull.zero_()

    @property
    def pull(self) -> Tensor:
        """κ"""
        return softplus(self.raw_pull)

    def forward(self, messages: Messages) -> Received:
        batch, dtype = messages.batch, messages.posterior.dtype
        source, target = batch.source.long(), messages.target.long()
        weight = messages.out_degree.to(dtype).clamp_min(1).rsqrt()[source]
        total = torch.zeros(batch.num_vertices, dtype=dtype).index_add(0, target, weight)
        weight = weight / total[target]
        types = torch.zeros_like(source) if batch.edge_type is None else batch.edge_type.long()
        if len(messages.transition) == 1:
            types = torch.zeros_like(types)
        # One edge type after another: nothing has the size of all edges times all pairs of states.
        said = torch.zeros_like(messages.posterior)
        for kind, transition in enumerate(messages.transition):
            own = types == kind
            sent = torch.einsum("nsk,ski->nsi", messages.posterior, transition)[source[own]]
            said = said.index_add(0, target[own], weight[own, None, None] * sent)
        number = messages.in_degree.to(dtype)[:, None, None]
        prior = (number * said + self.pull * messages.start) / (number + self.pull)
        alone = messages.in_degree == 0
        prior = torch.where(alone[:, None, None], messages.start, prior)
        context = None
        if messages.expectation is not None:
            mean = torch.zeros_like(messages.expectation)
            context = Context(mean.index_add(0, target, weight[:, None] * messages.expectation[source]), ~alone)
        return Received(prior, context)
