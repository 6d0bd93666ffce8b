"""EM, level by level: a mixture of the vertices at level 0, then the next level given the one below, which is frozen.

With two levels and without self-loops no vertex occurs in its own tree, so that the pseudo-likelihood is the likelihood
of every vertex given the others, and EM maximises it: with the log-density of the parameters (`prior` pseudo-
observations, ridges, pooled covariances) it never falls. At higher levels vertices see their own values; these levels
start as copies of level 1, and are learned by gradient descent on masked entries.

Vertices may have weights, as in a Bayesian bootstrap: a vertex of weight 2 counts as two that are alike. They multiply
its log-likelihood and its responsibilities, so everything that is estimated from these, transitions too; what it tells
its neighbours, and how often, stays.

Every M-step is the leaves' own estimate, and that of `em_priors` for mixing weights and transitions. What happens
before and after (how many starts, which epochs follow) is the business of `models`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch import Tensor

from gspn.circuits.evidence import Context, Evidence
from gspn.circuits.leaves import at_level
from gspn.circuits.numerics import log_positive, log_weight
from gspn.circuits.templates import NaiveBayes, inputs_of
from gspn.errors import GSPNError, InputError
from gspn.graphs.batch import Batch
from gspn.hierarchy.aggregation import mean_by_row, mean_by_type, weight_received
from gspn.hierarchy.em_priors import LearnedPriors, ProductPriors, SharedPrior, SwitchingPriors
from gspn.hierarchy.hierarchy import Hierarchy
from gspn.hierarchy.product import MessageProduct
from gspn.kernels.contract import Expectations
from gspn.kernels.expectations import expected_entries
from gspn.kernels.reference import log_prior_of

_log = logging.getLogger(__name__)

KNOWN = ("mean", "symmetric", "product")
"""Aggregations that have an M-step"""

STEPS = 200
"""Of EM at a level, at most."""

GAIN = 1e-4
"""Nats a vertex that a step must gain for another one to be worth it."""

_FALL = 1e-6
"""Relative to its size, by how much rounding may lower the objective."""

_FLAT = 1e-3
"""Of the first transitions' rows, how much goes to all states alike: what is exactly 0 would stay so."""

Notice: TypeAlias = Callable[[int, int, float], None]
"""Told after every step: level, step and objective a vertex."""


@dataclass(frozen=True, eq=False)
class Frozen:
    """What the vertices with an incoming edge know of the level below, which does not change any more."""

    evidence: Evidence
    """[n, d] their entries"""
    mean: Tensor
    """[n, T, C] mean posteriors of the senders, by edge type"""
    aggregated: Callable[[], Tensor]
    """[n, C] log-priors that the aggregation makes of the senders' posteriors, with the present parameters"""
    context: Context | None
    weights: Tensor | None = None
    """[n] how much they count; None: all alike"""


def check_em(hierarchy: Hierarchy, batch: Batch) -> None:
    """Raise unless EM can learn this hierarchy on these graphs."""
    if not isinstance(hierarchy.template, NaiveBayes):
        raise InputError("start='em' needs the naive Bayes template (template=None)")
    if hierarchy.aggregation_name not in KNOWN:
        known = ", ".join(f"'{name}'" for name in KNOWN)
        raise InputError(f"start='em' knows the aggregations {known}, not '{hierarchy.aggregation_name}'")
    if hierarchy.shortcut is not None:
        raise InputError("start='em' learns leaves level by level; with a shortcut the root has none of its own")
    to_itself = int((batch.source == batch.target).sum())
    if to_itself and hierarchy.num_layers > 1:
        raise InputError(
            f"start='em' needs graphs without self-loops, by which a vertex would explain itself; there are {to_itself}"
        )


def learn_mixture(
    hierarchy: Hierarchy,
    batch: Batch,
    prior: float,
    notice: Notice | None = None,
    steps: int = STEPS,
    *,
    gain: float = GAIN,
    weights: Tensor | None = None,
) -> float:
    """EM of level 0 from where it stands; gives the penalised objective that was reached.

    Vertices count by `weights` [N]. Another step is taken as long as one gains more than `gain` a vertex.
    """
    evidence, priors = Evidence(batch.visible, batch.hidden, batch.missing), SharedPrior(hierarchy, prior)
    return _climb_to_the_top(hierarchy, 0, evidence, None, weights, priors, prior, notice, steps, gain)


def learn_level(
    hierarchy: Hierarchy,
    level: int,
    frozen: Frozen,
    prior: float,
    notice: Notice | None = None,
    steps: int = STEPS,
    *,
    gain: float = GAIN,
) -> float:
    """EM of a level from where it stands, given the level below; gives the penalised objective that was reached."""
    product = hierarchy.aggregation
    priors: LearnedPriors
    if isinstance(product, MessageProduct):
        priors = ProductPriors(hierarchy, level, product, frozen.aggregated, prior)
    else:
        priors = SwitchingPriors(hierarchy, level, frozen.mean, prior)
    return _climb_to_the_top(
        hierarchy, level, frozen.evidence, frozen.context, frozen.weights, priors, prior, notice, steps, gain
    )


@torch.no_grad()
def _climb_to_the_top(
    hierarchy: Hierarchy,
    level: int,
    evidence: Evidence,
    context: Context | None,
    weights: Tensor | None,
    priors: LearnedPriors,
    prior: float,
    notice: Notice | None,
    steps: int,
    gain: float,
) -> float:
    """Steps of EM until they gain little."""
    families = list(zip(hierarchy.families, hierarchy.template.scopes, strict=True))
    counted = evidence.x.new_ones(len(evidence)) if weights is None else weights
    before, count = -math.inf, max(float(counted.sum()), 1.0)
    for step in range(steps):
        joint = priors.log_shares() + _inputs(hierarchy, level, evidence, context)
        total = torch.logsumexp(joint, dim=1)
        objective = float((counted * total).sum()) + priors.penalty() + _log_prior(hierarchy, level, prior)
        if not math.isfinite(objective):
            raise GSPNError(f"EM of level {level} has diverged in step {step}")
        if objective < before - _FALL * max(abs(before), 1.0):
            raise GSPNError(f"EM of level {level} has lowered its objective in step {step}: {objective - before:g}")
        if notice is not None:
            notice(level, step, objective / count)
        if objective - before <= gain * count:
            break
        before = objective
        responsibilities = counted[:, None] * torch.exp(joint - total[:, None])
        priors.update(responsibilities)
        try:
            for family, scope in families:
                family.estimate(evidence.columns(scope), responsibilities, level=level, context=context, prior=prior)
        except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]
            raise GSPNError(f"EM of level {level} has diverged in step {step}: {error}") from error
    _log.info("EM of level %d: %.4f nats per vertex after %d steps", level, objective / count, step)
    return objective


@torch.no_grad()
def start_level(hierarchy: Hierarchy, level: int, batch: Batch) -> Frozen:
    """Let a level start as the one below, and give what it is to be learned from.

    Transitions start from how often states are neighbours.
    """
    for family in hierarchy.families:
        family.copy_from_below(level)
    evidence = Evidence(batch.visible, batch.hidden, batch.missing)
    posterior, told = _below(hierarchy, level, batch, evidence)
    frozen = _frozen(hierarchy, level, batch, evidence, posterior, told)
    together = torch.einsum("ntk,ni->tki", frozen.mean, posterior.flatten(1)[batch.in_degree > 0])
    flat = together.sum(-1, keepdim=True) / hierarchy.num_states
    first = (1 - _FLAT) * together + _FLAT * flat + torch.finfo(together.dtype).eps
    hierarchy.raw_transitions[level - 1, :, 0] = log_positive(first / first.sum(-1, keepdim=True))
    return frozen


@torch.no_grad()
def frozen_below(hierarchy: Hierarchy, level: int, batch: Batch, weights: Tensor | None = None) -> Frozen:
    """What a level that is to learn on, from where it stands, is to be learned from; vertices count by `weights` [N].

    What is usual in a context is not weighted: it is a point of reference.
    """
    evidence = Evidence(batch.visible, batch.hidden, batch.missing)
    frozen = _frozen(hierarchy, level, batch, evidence, *_below(hierarchy, level, batch, evidence))
    return frozen if weights is None else replace(frozen, weights=weights[batch.in_degree > 0])


def _frozen(
    hierarchy: Hierarchy, level: int, batch: Batch, evidence: Evidence, posterior: Tensor, told: Expectations | None
) -> Frozen:
    """What is usual in a context is taken from the vertices that receive."""
    target, weight = batch.target, hierarchy.aggregation.sender_weight(batch)
    whole = batch.in_degree if weight is None else weight_received(weight, batch, target)
    mean = mean_by_type(posterior, batch, target, whole, hierarchy.num_edge_types, weight).flatten(2)
    receives = batch.in_degree > 0
    context = None
    if hierarchy.context is not None and told is not None:
        average = mean_by_row(told.mean, batch, target, whole, weight)
        hierarchy.usual.settle(level, hierarchy.usual.whole(average, told, batch, level)[receives])
        # At κ = 0: how uncertain contexts are is for answers, not for learning.
        context = hierarchy.usual.context(average, Expectations(told.mean), batch, level)[receives]

    def aggregated() -> Tensor:
        climb = hierarchy.climb(evidence, batch, hierarchy.prior(), hierarchy.transitions())
        return log_prior_of(climb.aggregate(level, posterior, None))[receives, 0]

    return Frozen(evidence[receives], mean[receives], aggregated, context)


@torch.no_grad()
def prepare(hierarchy: Hierarchy, level: int, evidence: Evidence, context: Context | None, weights: Tensor) -> None:
    """Let the leaves of a level take from a first fit what their estimates are drawn towards."""
    for family, scope in zip(hierarchy.families, hierarchy.template.scopes, strict=True):
        family.prepare_estimates(evidence.columns(scope), weights, level=level, context=context)


@torch.no_grad()
def responsibilities(hierarchy: Hierarchy, level: int, evidence: Evidence, context: Context | None) -> Tensor:
    """[n, C] posteriors under the prior of level 0, for a first fit."""
    return torch.softmax(log_weight(hierarchy.prior()[0]) + _inputs(hierarchy, level, evidence, context), dim=-1)


def _below(hierarchy: Hierarchy, level: int, batch: Batch, evidence: Evidence) -> tuple[Tensor, Expectations | None]:
    """[N, 1, C] posteriors of the level below, and what its vertices tell, where leaves ask for it."""
    climb = hierarchy.climb(evidence, batch, hierarchy.prior(), hierarchy.transitions())
    posterior: Tensor | None = None
    told: Expectations | None = None
    for below in range(level):
        received = climb.aggregate(below, posterior, told)
        naturals = [at_level(natural, below) for natural in climb.naturals]
        inputs = inputs_of(climb.template, climb.families, naturals, evidence, received.context)[0]
        log_prior = log_prior_of(received)
        posterior = climb.template.posterior(inputs, log_prior)
        if climb.has_context:
            weights = climb.template.leaf_log_weights(inputs, log_prior)
            told = expected_entries(climb._replace(uncertain=False), naturals, weights, received.context)
    assert posterior is not None
    return posterior, told


def _inputs(hierarchy: Hierarchy, level: int, evidence: Evidence, context: Context | None) -> Tensor:
    naturals = [at_level(family.natural(), level) for family in hierarchy.families]
    return inputs_of(hierarchy.template, hierarchy.families, naturals, evidence, context)[0]


def _log_prior(hierarchy: Hierarchy, level: int, prior: float) -> float:
    """The log-density of a level's leaves."""
    if not prior and not any(family.penalised for family in hierarchy.families):
        return 0.0
    own = [family for family in hierarchy.families if prior or family.penalised]
    return sum(float(family.log_prior(family.natural(), prior)[level]) for family in own)
