"""From level 0 to the root: every level's prior is a learned transformation of the neighbours' posteriors.

Plain torch, differentiable, for any template: what happens inside a tree node is handed in as a function.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gspn.circuits.numerics import log_weight
from gspn.circuits.templates import Template
from gspn.graphs.batch import Batch
from gspn.kernels.contract import Levels

LONG_SUM = 1024
"""In-degree beyond which float32 sums of posteriors would lose digits: a sum of a million terms of 0.05 stalls."""


def climb_circuit(template: Template, inputs: Tensor, prior: Tensor, transitions: Tensor, batch: Batch) -> Levels:
    """The loop for any template, from its inputs [L, N, K]."""
    priors, posteriors = climb(
        prior, transitions, batch, lambda level, log_prior: template.posterior(inputs[level], log_prior)
    )
    log_value = template.log_value(inputs[-1], log_weight(priors[-1]))
    return Levels(torch.stack(posteriors, dim=1), priors[-1], log_value)


def climb(
    prior: Tensor, transitions: Tensor, batch: Batch, posterior_at: Callable[[int, Tensor], Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Priors and posteriors [N, S, C] of every level.

    `prior` [S, C] is the learned prior of level 0 and of vertices without incoming edges, `transitions`
    [L-1, T, S, C, C] the row-stochastic maps, `posterior_at(level, log_prior)` the template at work.
    """
    at_start = prior.expand(batch.num_vertices, *prior.shape)
    in_degree, target = batch.in_degree, batch.target
    alone = (in_degree == 0)[:, None, None]
    priors = [at_start]
    posteriors = [posterior_at(0, log_weight(at_start))]
    for level, transition in enumerate(transitions, start=1):
        from_neighbours = _neighbour_mean(posteriors[-1], transition, batch, in_degree, target)
        priors.append(torch.where(alone, at_start, from_neighbours))
        posteriors.append(posterior_at(level, log_weight(priors[-1])))
    return priors, posteriors


def _neighbour_mean(posterior: Tensor, transition: Tensor, batch: Batch, in_degree: Tensor, target: Tensor) -> Tensor:
    """[N, S, C] mean over incoming edges, with multiplicity, of θ[t]ᵀ h; 0 for vertices without any.

    Summing first and transforming once per vertex and edge type is the same thing and never costs more per edge than
    the message itself.
    """
    num_vertices, num_types = batch.num_vertices, transition.shape[0]
    row = target
    if num_types > 1 and batch.edge_type is not None:
        row = row.long() * num_types + batch.edge_type
    messages = posterior.index_select(0, batch.source)
    dtype = torch.float64 if batch.max_in_degree > LONG_SUM else posterior.dtype
    total = posterior.new_zeros(num_vertices * num_types, *posterior.shape[1:], dtype=dtype)
    total = total.index_add(0, row, messages.to(dtype))
    degree = in_degree.clamp_min(1).to(dtype).repeat_interleave(num_types)[:, None, None]
    mean = (total / degree).to(posterior.dtype).reshape(num_vertices, num_types, *posterior.shape[1:])
    return torch.einsum("ntsk,tski->nsi", mean, transition)
