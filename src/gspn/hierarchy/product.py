"""Messages multiplied, as belief propagation does: what each neighbour says counts by how far it is from the usual.

With h_u the posterior of a sender at the level below, b_l what is believed of a vertex that receives nothing, and n_v
incoming edges,

    log π_v = log b_l + w_v Σ over edges u → v of log(θ[t]ᵀ h_u / θ[t]ᵀ b_{l-1}) − log-normaliser,    w_v = n_v^(−β_l)

On a star of two levels β = 0 is exact. Where neighbours repeat each other, or the vertex itself, β > 0 counts them for
less; β = 1 is their geometric mean. How priors are learned is not the business of this module.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from gspn.circuits.evidence import Context
from gspn.circuits.numerics import log_positive
from gspn.errors import InputError
from gspn.hierarchy.aggregation import Aggregation, Messages, mean_by_row
from gspn.hierarchy.parameters import assign_probabilities
from gspn.kernels.contract import Received


class MessageProduct(Aggregation):
    """Its parameters are, for the levels from 1 on, the prior b_l of who receives nothing and the exponent β_l."""

    def __init__(self, num_levels: int, num_edge_types: int, num_sum_units: int, num_states: int) -> None:
        super().__init__(num_levels, num_edge_types, num_sum_units, num_states)
        self.raw_prior = nn.Parameter(torch.zeros(num_levels - 1, num_sum_units, num_states))
        self.raw_beta = nn.Parameter(torch.zeros(num_levels - 1))

    def forward(self, messages: Messages) -> Received:
        batch, transition, dtype = messages.batch, messages.transition, messages.posterior.dtype
        num_types, row = len(transition), batch.source
        if num_types > 1:
            row = row.long() * num_types
            row = row if batch.edge_type is None else row + batch.edge_type
        # All in double precision: 10⁵ messages add up what rounding does to each.
        usual = log_mapped(self.prior(messages.level - 1, messages.lowest)[None], transition, dtype)
        said = (log_mapped(messages.posterior, transition, dtype) - usual).flatten(0, 1).index_select(0, row)
        total = said.new_zeros(messages.posterior.shape).index_add(0, messages.target, said)
        exponent = torch.sigmoid(self.raw_beta[messages.level - 1].double())
        weight = messages.in_degree.clamp_min(1).double() ** -exponent
        own = self.raw_prior[messages.level - 1].double()
        log_prior = torch.log_softmax(own + weight[:, None, None] * total, dim=-1)
        context = None
        if messages.expectation is not None:
            mean = mean_by_row(messages.expectation, batch, messages.target, messages.in_degree)
            context = Context(mean, messages.in_degree > 0)
        return Received(log_prior.exp().to(dtype), context, log_prior.to(dtype))

    def prior(self, level: int, lowest: Tensor) -> Tensor:
        """[S, C] b at a level, given that of level 0."""
        return lowest if level == 0 else torch.softmax(self.raw_prior[level - 1].double(), dim=-1)

    @torch.no_grad()
    def start(self, generator: torch.Generator) -> None:
        self.raw_prior.zero_()
        self.raw_beta.zero_()

    @torch.no_grad()
    def settle(self, level: int, prior: Tensor, transition: Tensor, edge_shares: Tensor) -> None:
        """b_l becomes what edges usually make of b_{l-1}; β is that of the level below."""
        below = self.prior(level - 1, prior).to(transition)
        usual = torch.einsum("t,tski,sk->si", edge_shares.to(transition), transition, below)
        self.raw_prior[level - 1] = log_positive(usual)
        if level > 1:
            self.raw_beta[level - 1] = self.raw_beta[level - 2]

    def export(self) -> dict[str, Tensor]:
        with torch.no_grad():
            return {
                "prior": torch.softmax(self.raw_prior.double(), dim=-1),
                "beta": torch.sigmoid(self.raw_beta.double()),
            }

    def assign(self, exported: Mapping[str, Tensor]) -> None:
        beta = exported["beta"].to(self.raw_beta)
        if bool(((beta < 0) | (beta > 1)).any()):
            raise InputError("'beta' of the aggregation must be between 0 and 1")
        assign_probabilities(self.raw_prior, "'prior' of the aggregation", exported["prior"])
        with torch.no_grad():
            self.raw_beta.copy_(log_positive(beta) - log_positive(1 - beta))


def log_mapped(posterior: Tensor, transition: Tensor, dtype: torch.dtype) -> Tensor:
    """[N, T, S, C] log θ[t]ᵀ h in double precision, from posteriors [N, S, C] and transitions [T, S, C, C].

    It is logsumexp(log h + log θ) without [N, C, C] numbers in memory: products are summed relative to the largest θ
    that leads to a state. Where posteriors or transitions have underflowed in their own `dtype`, the floors keep
    logarithms finite in it, and their gradients, also those of 10⁵ messages together.
    """
    theta, tiny = transition.double(), torch.finfo(dtype).tiny
    peak = theta.detach().amax(-2).clamp_min(tiny**0.25)
    mapped = torch.einsum("nsk,tski->ntsi", posterior.double(), theta / peak.unsqueeze(-2))
    return torch.log(mapped + tiny**0.5) + peak.log()
