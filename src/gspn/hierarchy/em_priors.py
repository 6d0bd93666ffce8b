"""How EM learns what makes the priors of a level, given the level below and responsibilities.

A weighted mean of messages is a switching parent, whose estimate is a formula. For a product there is none: generalised
EM climbs the expected log-prior by its gradient. Leaves, and when to stop, are the business of `em`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from gspn.circuits.numerics import log_positive, log_weight
from gspn.hierarchy.hierarchy import Hierarchy
from gspn.hierarchy.product import MessageProduct

_CLIMB = 10
"""Of L-BFGS in one step of generalised EM: the next step has other responsibilities anyway."""


class LearnedPriors(Protocol):
    """The priors of n vertices of a level, and what is learned of them."""

    def log_shares(self) -> Tensor:
        """[n, C] log-priors."""

    def update(self, responsibilities: Tensor) -> None:
        """Raise (or keep) Σ r · log-prior + penalty, for responsibilities [n, C]."""

    def penalty(self) -> float:
        """The log-density of what is learned."""


@dataclass(frozen=True, eq=False)
class SharedPrior:
    """Of level 0: the same for all."""

    hierarchy: Hierarchy
    prior: float

    def log_shares(self) -> Tensor:
        return log_weight(self.hierarchy.prior()[:1])[0]

    def update(self, responsibilities: Tensor) -> None:
        weight = responsibilities.sum(0) + self.prior / self.hierarchy.num_states
        self.hierarchy.raw_prior[0] = log_positive(weight / weight.sum())

    def penalty(self) -> float:
        return self.prior / self.hierarchy.num_states * float(log_weight(self.hierarchy.prior()).sum())


@dataclass(frozen=True, eq=False)
class SwitchingPriors:
    """A mean of messages: which edge, and which of its sender's states, has the vertex's state come from?"""

    hierarchy: Hierarchy
    level: int
    mean: Tensor
    """[n, T, C] mean posteriors of the senders, by edge type"""
    prior: float

    def log_shares(self) -> Tensor:
        return log_weight(self._shares())

    def update(self, responsibilities: Tensor) -> None:
        old = self._transition()
        ratio = responsibilities / self._shares().clamp_min(torch.finfo(responsibilities.dtype).tiny)
        counts = old * torch.einsum("ntk,ni->tki", self.mean, ratio) + self.prior / self.hierarchy.num_states
        total = counts.sum(-1, keepdim=True)
        new = torch.where(total > 0, counts / total.clamp_min(torch.finfo(total.dtype).tiny), old)
        self.hierarchy.raw_transitions[self.level - 1, :, 0] = log_positive(new)

    def penalty(self) -> float:
        transition = torch.softmax(self.hierarchy.raw_transitions[self.level - 1], dim=-1)
        return self.prior / self.hierarchy.num_states * float(log_weight(transition).sum())

    def _transition(self) -> Tensor:
        return torch.softmax(self.hierarchy.raw_transitions[self.level - 1, :, 0], dim=-1)

    def _shares(self) -> Tensor:
        return torch.einsum("ntk,tki->ni", self.mean, self._transition())


@dataclass(frozen=True, eq=False)
class ProductPriors:
    """A product of messages, by quasi-Newton steps; a climb that ends lower than it began is undone."""

    hierarchy: Hierarchy
    level: int
    product: MessageProduct
    aggregated: Callable[[], Tensor]
    """[n, C] log-priors from the present transitions and parameters of the product, differentiable"""
    prior: float

    def log_shares(self) -> Tensor:
        return self.aggregated()

    def update(self, responsibilities: Tensor) -> None:
        learned = [self.hierarchy.raw_transitions, *self.product.parameters()]
        before, reached = [one.detach().clone() for one in learned], float(self._objective(responsibilities))
        optimizer = torch.optim.LBFGS(learned, max_iter=_CLIMB, line_search_fn="strong_wolfe")

        def closure() -> Tensor:
            self.hierarchy.zero_grad()
            # The mean, as tolerances are meant for numbers about 1.
            loss = -self._objective(responsibilities) / max(len(responsibilities), 1)
            loss.backward()
            return loss.detach()

        with torch.enable_grad():
            optimizer.step(closure)
        self.hierarchy.zero_grad()
        if not float(self._objective(responsibilities)) >= reached:
            for parameter, value in zip(learned, before, strict=True):
                parameter.copy_(value)

    def penalty(self) -> float:
        return float(self._penalty())

    def _objective(self, responsibilities: Tensor) -> Tensor:
        return (responsibilities * self.aggregated()).sum() + self._penalty()

    def _penalty(self) -> Tensor:
        transitions = torch.log_softmax(self.hierarchy.raw_transitions[self.level - 1], dim=-1).sum()
        own = torch.log_softmax(self.product.raw_prior[self.level - 1], dim=-1).sum()
        return self.prior / self.hierarchy.num_states * (transitions + own)
