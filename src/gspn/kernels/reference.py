"""The reference kernel, in plain torch: what is computed can be read here, and all other kernels have to agree with it.

For any template, any leaves and any aggregation. Differentiable as often as one likes, on any device; it can be traced
and compiled by torch.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from gspn.circuits.leaves import at_level
from gspn.circuits.numerics import log_weight
from gspn.circuits.templates import NaiveBayes, Template, inputs_of
from gspn.errors import InputError
from gspn.kernels.contract import Aggregate, Climb, Expectations, Kernel, Levels, Received
from gspn.kernels.expectations import expected_entries


def climb_reference(climb: Climb) -> Levels:
    """Level after level. Leaves without a context are evaluated for all levels at once."""
    if climb.has_context:
        return _with_context(climb)
    inputs = inputs_of(climb.template, climb.families, climb.naturals, climb.evidence)
    return climb_inputs(climb.template, inputs, climb.aggregate)


def climb_inputs(template: Template, inputs: Tensor, aggregate: Aggregate) -> Levels:
    """The loop from a template's inputs [L, N, K]."""
    inputs, peak = relative(template, inputs)
    posteriors: list[Tensor] = []
    for level, own in enumerate(inputs):
        received = aggregate(level, posteriors[-1] if level else None, None)
        posteriors.append(template.posterior(own, log_prior_of(received)))
    return _levels(template, inputs[-1], None if peak is None else peak[-1], posteriors, received)


def _with_context(climb: Climb) -> Levels:
    """The loop where the densities of a level depend on what came from the level below."""
    template, families = climb.template, climb.families
    posteriors: list[Tensor] = []
    told: Expectations | None = None
    for level in range(climb.num_levels):
        naturals = [at_level(natural, level) for natural in climb.naturals]
        received = climb.aggregate(level, posteriors[-1] if level else None, told)
        if level and received.context is None:
            lacking = next(family.named() for family in families if family.context_width)
            raise InputError(
                f"the aggregation '{climb.aggregation}' gives no context, which the leaves of {lacking} depend on"
            )
        whole = inputs_of(template, families, naturals, climb.evidence, received.context)[0]
        inputs, peak = relative(template, whole)
        log_prior = log_prior_of(received)
        posteriors.append(template.posterior(inputs, log_prior))
        if level == 0:
            lowest = _levels(template, inputs, peak, posteriors, received)
        if level < climb.num_levels - 1:
            told = expected_entries(climb, naturals, template.leaf_log_weights(inputs, log_prior), received.context)
    levels = _levels(template, inputs, peak, posteriors, received)
    return levels if climb.alone is None else _answered_by(lowest, levels, climb.alone)


def _answered_by(lowest: Levels, levels: Levels, alone: Tensor) -> Levels:
    """Level 0 answers for vertices that are alone; their posteriors are those that they send."""
    prior = torch.where(alone[:, None, None], lowest.root_prior, levels.root_prior)
    log_prior = levels.root_log_prior
    if log_prior is not None:
        log_prior = torch.where(alone[:, None, None], log_weight(lowest.root_prior), log_prior)
    log_value = torch.where(alone, lowest.log_value, levels.log_value)
    return replace(levels, root_prior=prior, root_log_prior=log_prior, log_value=log_value)


def log_prior_of(received: Received) -> Tensor:
    return log_weight(received.prior) if received.log_prior is None else received.log_prior


def relative(template: Template, inputs: Tensor) -> tuple[Tensor, Tensor | None]:
    """Inputs [..., N, K] relative to the largest among the states, and the largest [..., N, 1], for naive Bayes.

    A log-density of -10⁹ would swallow the logarithm of the prior. A circuit's inputs have no largest in common.
    """
    if not isinstance(template, NaiveBayes):
        return inputs, None
    peak = inputs.detach().amax(-1, keepdim=True)
    return inputs - peak, peak


def _levels(
    template: Template, inputs: Tensor, peak: Tensor | None, posteriors: list[Tensor], received: Received
) -> Levels:
    log_value = template.log_value(inputs, log_prior_of(received))
    return Levels(
        torch.stack(posteriors, dim=1),
        received.prior,
        log_value if peak is None else log_value + peak.squeeze(1),
        root_log_prior=received.log_prior,
        root_context=received.context,
    )


REFERENCE = Kernel("reference", climb_reference, lambda climb: None)
