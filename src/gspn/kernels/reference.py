"""The naive Bayes kernel in plain torch: what it computes can be read here, and `fast` has to agree with it.

Differentiable as often as one likes, on any device; it can be traced and compiled by torch.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gspn.circuits.numerics import log_weight
from gspn.graphs.batch import Batch
from gspn.kernels.contract import Levels
from gspn.kernels.levels import climb


def reference(log_density: Tensor, evidence: Tensor | None, prior: Tensor, transitions: Tensor, batch: Batch) -> Levels:
    """See `contract.Kernel`."""
    if evidence is not None:
        log_density = log_density.index_select(1, evidence)
    # Relative to the largest among the states: a log-density of -10⁹ would swallow the logarithm of the prior.
    peak = log_density.detach().amax(-1, keepdim=True)
    relative = (log_density - peak).unsqueeze(2)

    def posterior_at(level: int, log_prior: Tensor) -> Tensor:
        return torch.softmax(log_prior + relative[level], dim=-1)

    priors, posteriors = climb(prior, transitions, batch, posterior_at)
    log_value = torch.logsumexp(log_weight(priors[-1]) + relative[-1], dim=-1).squeeze(1) + peak[-1].squeeze(1)
    return Levels(torch.stack(posteriors, dim=1), priors[-1], log_value)
