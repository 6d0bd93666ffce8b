"""Leaves of one attribute whose distribution may regress on a context: generalised linear models, one per leaf.

Linear predictors (logits, logarithms of rates) are η = intercept + slope · z with z the context; the slopes are each
leaf's own or, tied, one for all leaves of a level. What families share stands here: the slopes themselves, the ridge
that is held against them, and the weighted estimate by Newton's method. Distributions are the families' business.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from gspn.attributes import Attribute
from gspn.circuits.evidence import Context, Evidence
from gspn.circuits.leaves.contract import RIDGE, Leaves, Natural, at_level
from gspn.circuits.leaves.univariate import UnivariateLeaves, keep_others, learned

_HALVINGS = 30
_SOLVES = 3
"""Conjugate gradients of one Newton step; a single one is exact where predictors are single numbers."""

_ROUNDING = 1e-12
"""Of an objective, relative to its size: what has arrived would else be halved for nothing."""

_LONGEST = 8.0
"""The most that a step changes any linear predictor: beyond, the quadratic model of the objective means nothing."""

_LEAST = -30.0
"""From where a predictor starts at least: e⁻³⁰ is as impossible, and from there it is not far to what is possible."""

_JITTER = 1e-8
"""Curvature in units of a leaf's weight, so that what has become impossible stops moving."""


class RegressingLeaves(UnivariateLeaves):
    """With a context, `natural` holds slope [levels, leaves, P, D] beside what the family has without one.

    P is the number of linear predictors of a leaf: one per category, or a single one.
    """

    def __init__(
        self,
        attribute: Attribute | Sequence[Attribute],
        num_levels: int,
        num_leaves: int,
        *,
        context_width: int = 0,
        tied_slopes: bool = True,
    ) -> None:
        super().__init__(attribute, num_levels, num_leaves, context_width=context_width)
        self.tied_slopes = tied_slopes

    def add_slopes(self, predictors: int = 1) -> None:
        """For the constructor, after the parameters that exist in any case: slopes of 0, where there is a context."""
        if self.context_width:
            shape = (self.num_levels, 1 if self.tied_slopes else self.num_leaves, predictors, self.context_width)
            self.raw_slope = nn.Parameter(torch.zeros(shape))
            self.exported = (*self.exported, "slope")
            self.penalised = True

    # What a family with a context must know.

    @abstractmethod
    def predictors(self, natural: Natural) -> Tensor:
        """[leaves, P] intercepts of the linear predictors, from the parameters of a single level."""

    @abstractmethod
    def terms(self, natural: Natural, predictors: Tensor, x: Tensor) -> Terms:
        """Log-densities of x [n] as a function of the linear predictors [n, leaves, P]."""

    @abstractmethod
    def assign_predictors(self, level: int, predictors: Tensor) -> None:
        """Set a level's learned intercepts from [leaves, P]."""

    def estimate_shape(self, level: int, predictors: Tensor, x: Tensor, weights: Tensor) -> None:
        """Estimate what the linear predictors [n, leaves, P] leave open, if anything; the objective must not fall."""

    # What follows.

    def with_slope(self, natural: Natural) -> Natural:
        """The natural parameters, with the slopes where there is a context."""
        if self.context_width:
            natural["slope"] = self.raw_slope.expand(-1, self.num_leaves, -1, -1)
        return natural

    def shift(self, natural: Natural, context: Context) -> Tensor:
        """[n, leaves or 1, P] what the context adds to the linear predictors of a single level."""
        slope = natural["slope"][0, :1] if self.tied_slopes else natural["slope"][0]
        z = received(context).to(slope.dtype)
        return times(z, slope)

    def refuse_shortcut(self) -> None:
        """A context and a shortcut exclude each other."""
        if self.context_width:
            Leaves.combine(self, {}, torch.empty(0))

    def forget_slopes(self) -> None:
        if self.context_width:
            with torch.no_grad():
                self.raw_slope.zero_()

    def export_slope(self, natural: Natural) -> Natural:
        return {"slope": natural["slope"].double()} if self.context_width else {}

    def check_slope(self, exported: Mapping[str, Tensor]) -> None:
        if self.context_width and self.tied_slopes:
            slope = exported["slope"]
            if not torch.allclose(slope, slope[:, :1].expand_as(slope), rtol=1e-5, atol=1e-7):
                raise self.refuse("slope", "the same for all leaves of a level (they are tied)")

    def assign_slope(self, exported: Mapping[str, Tensor]) -> None:
        if self.context_width:
            with torch.no_grad():
                self.raw_slope.copy_(exported["slope"][:, : self.raw_slope.shape[1]])

    def log_prior(self, natural: Natural, strength: float) -> Tensor:
        if not self.context_width:
            return super().log_prior(natural, strength)
        slope = natural["slope"][:, :1] if self.tied_slopes else natural["slope"]
        ridge = -0.5 * RIDGE * slope.square().sum((1, 2, 3))
        return ridge + super().log_prior(natural, strength) if strength else ridge

    def bytes_per_vertex(self) -> int:
        return super().bytes_per_vertex() * (self.raw_slope.shape[2] if self.context_width else 1)

    def estimate(
        self,
        evidence: Evidence,
        weights: Tensor,
        *,
        level: int = 0,
        context: Context | None = None,
        prior: float = 0.0,
    ) -> None:
        """Without a context by formula; with one by a Newton step that does not lower the objective."""
        if context is None or not self.context_width:
            self.estimate_without_context(evidence, weights, level, prior)
            if self.context_width:
                self._forget_slopes_of(level, self.seen(evidence, weights, prior)[1].sum(0) > 0)
            return
        z = received(context)[evidence.known[:, 0]].double()
        x, weights = self.seen(evidence, weights, prior)
        z = torch.cat([z, z.new_zeros(len(x) - len(z), self.context_width)])  # the prior has seen no neighbours
        before = learned(self)
        natural = {name: value.detach() for name, value in at_level(self.natural(), level).items()}
        start = self.predictors(natural).double().clamp_min(_LEAST), self.raw_slope[level].detach().double()
        intercept, slope = climb(lambda eta: self.terms(natural, eta, x), z, weights, *start)
        with torch.no_grad():
            self.raw_slope[level] = slope
        self.assign_predictors(level, intercept)
        self.estimate_shape(level, linear(z, intercept, slope), x, weights)
        keep_others(self, before, level, weights.sum(0) > 0)

    def _forget_slopes_of(self, level: int, estimated: Tensor) -> None:
        """Where nothing is received, the ridge alone speaks of slopes."""
        own = estimated.any()[None] if self.tied_slopes else estimated
        with torch.no_grad():
            here = self.raw_slope[level]
            here.masked_fill_(own[:, None, None].to(here.device), 0.0)


def received(context: Context) -> Tensor:
    """[n, D] the context, 0 where nothing has been received."""
    return torch.where(context.present[:, None], context.mean, 0.0)


class Terms(NamedTuple):
    """Log-densities of rows as functions of the linear predictors η [n, leaves, P], with their derivatives."""

    value: Tensor
    """[n, leaves] up to a constant"""
    gradient: Tensor
    """[n, leaves, P]"""
    curvature: Tensor
    """[n, leaves, P] the diagonal of minus the second derivative"""
    shares: Tensor | None = None
    """[n, leaves, P] s where minus the second derivative is diag(curvature) − s sᵀ; None: diagonal"""


class _Direction(NamedTuple):
    """A change of all parameters, or a gradient."""

    intercept: Tensor
    """[leaves, P]"""
    slope: Tensor
    """[leaves or 1, P, D]"""

    def plus(self, other: _Direction, share: Tensor) -> _Direction:
        """With shares [leaves or 1]."""
        return _Direction(
            self.intercept + share[:, None] * other.intercept, self.slope + share[:, None, None] * other.slope
        )

    def finite(self) -> _Direction:
        return _Direction(*(torch.nan_to_num(part, 0.0, 0.0, 0.0) for part in self))

    def inner(self, other: _Direction) -> Tensor:
        """[leaves], or [1] where slopes are tied: then all leaves are one problem."""
        own = (self.intercept * other.intercept).sum(1)
        return _grouped(own, self.slope) + (self.slope * other.slope).sum((1, 2))


def climb(
    terms: Callable[[Tensor], Terms], z: Tensor, weights: Tensor, intercept: Tensor, slope: Tensor
) -> tuple[Tensor, Tensor]:
    """A Newton step on Σ weights · value − ½ RIDGE · |slope|² from intercepts [leaves, P], slopes [leaves or 1, P, D].

    It is halved until it does not lower the objective by more than rounding; leaves with slopes of their own are halved
    each for itself. What has no weight stays. One step is enough: EM comes back, and what it gains by more is not worth
    their time.
    """
    weight = weights.unsqueeze(-1)
    own = weights.sum(0) > 0
    active = _grouped(own.to(z), slope) > 0
    eta = linear(z, intercept, slope)
    here = terms(eta)
    value = _objective(weights, here, slope)
    gradient = _Direction((weight * here.gradient).sum(0), _by_slope(weight * here.gradient, z, slope) - RIDGE * slope)
    step = _solve(gradient, weight * here.curvature, here, weight, z).finite()
    change = linear(z, step.intercept, step.slope)
    longest = (change.abs() * own[:, None]).amax((0, 2))
    longest = longest.amax(0, keepdim=True) if len(slope) == 1 else longest
    share = torch.where(active, (_LONGEST / longest.clamp_min(_LONGEST)), 0.0)
    for _ in range(_HALVINGS):
        tried = eta + share[:, None] * change
        found = _objective(weights, terms(tried), slope + share[:, None, None] * step.slope)
        fine = (found >= value - _ROUNDING * value.abs()) | (share == 0)
        if fine.all():
            break
        share = torch.where(fine, share, share / 2)
    else:
        share = torch.where(fine, share, 0.0)
    intercept = intercept + share[:, None] * step.intercept
    slope = slope + share[:, None, None] * step.slope
    return intercept, slope


def linear(z: Tensor, intercept: Tensor, slope: Tensor) -> Tensor:
    """[n, leaves, P]"""
    return intercept + times(z, slope)


def times(z: Tensor, slope: Tensor) -> Tensor:
    """[n, leaves or 1, P] slopes [leaves or 1, P, D] times a context [n, D]."""
    return (z @ slope.flatten(0, 1).T).view(len(z), *slope.shape[:2])


def _objective(weights: Tensor, terms: Terms, slope: Tensor) -> Tensor:
    """[leaves], or [1] where slopes are tied."""
    # 0 · −∞ is 0: what has no weight may be impossible.
    value = torch.where(weights > 0, weights * terms.value, 0.0).sum(0)
    return _grouped(value, slope) - 0.5 * RIDGE * slope.square().sum((1, 2))


def _grouped(by_leaf: Tensor, slope: Tensor) -> Tensor:
    return by_leaf.sum(0, keepdim=True) if len(slope) == 1 else by_leaf


def _by_slope(of_rows: Tensor, z: Tensor, slope: Tensor) -> Tensor:
    """[leaves or 1, P, D] Σ of_rows [n, leaves, P] · z."""
    summed = of_rows.sum(1, keepdim=True) if len(slope) == 1 else of_rows
    return (summed.flatten(1).T @ z).view(*summed.shape[1:], -1)


def _solve(gradient: _Direction, curvature: Tensor, terms: Terms, weight: Tensor, z: Tensor) -> _Direction:
    """The Newton step, by conjugate gradients; `curvature` [n, leaves, P] is weighted.

    They are preconditioned by the second derivatives of each predictor by itself, which is all where there are no
    `shares`; with them P · D unknowns need no matrix of that size.
    """
    jitter = _JITTER * weight.sum(0) + torch.finfo(weight.dtype).tiny
    precondition = _preconditioner(curvature, z, gradient.slope, jitter)
    if terms.shares is None:
        return precondition(gradient)
    shares = terms.shares

    def product(of: _Direction) -> _Direction:
        change = linear(z, of.intercept, of.slope)
        bent = curvature * change - weight * shares * (shares * change).sum(-1, keepdim=True)
        return _Direction(bent.sum(0) + jitter * of.intercept, _by_slope(bent, z, of.slope) + RIDGE * of.slope)

    found = _Direction(torch.zeros_like(gradient.intercept), torch.zeros_like(gradient.slope))
    rest, better = gradient, precondition(gradient)
    way, size = better, rest.inner(better)
    first = size
    for _ in range(_SOLVES):
        along = product(way)
        bend = way.inner(along)
        length = torch.where(bend > 0, size / bend.clamp_min(torch.finfo(bend.dtype).tiny), 0.0)
        found, rest = found.plus(way, length), rest.plus(along, -length)
        better = precondition(rest)
        before, size = size, rest.inner(better)
        if bool((size <= 1e-4 * first).all()):
            break
        ratio = torch.where(before > 0, size / before.clamp_min(torch.finfo(size.dtype).tiny), 0.0)
        way = better.plus(way, ratio)
    return found


def _preconditioner(curvature: Tensor, z: Tensor, slope: Tensor, jitter: Tensor) -> Callable[[_Direction], _Direction]:
    """Solves with the second derivatives of one predictor at a time, the intercepts eliminated.

    For intercepts c (diagonal), mixed derivatives r and slopes S + RIDGE: (S + RIDGE − Σ r rᵀ / c) δ = g − Σ r g₀ / c.
    """
    tied = len(slope) == 1
    own = curvature.sum(0) + jitter
    mixed = (curvature.flatten(1).T @ z).view(*own.shape, -1)
    summed = curvature.sum(1, keepdim=True) if tied else curvature
    # One after another: all at once would need room for n · leaves · P · D numbers.
    outer = torch.stack([(z * of_one[:, None]).T @ z for of_one in summed.flatten(1).T])
    outer = outer.view(*summed.shape[1:], *outer.shape[1:])
    ratio = mixed / own[..., None]
    taken = torch.einsum("lpd,lpe->lpde", mixed, ratio)
    schur = outer - (taken.sum(0, keepdim=True) if tied else taken)
    schur = schur + RIDGE * torch.eye(z.shape[1], dtype=z.dtype, device=z.device)
    factor, failed = torch.linalg.cholesky_ex(schur)
    if bool(failed.any()):  # rounding of huge contexts: any positive definite matrix is an ascent
        bound = outer.diagonal(dim1=-2, dim2=-1).sum(-1) + RIDGE
        factor = torch.where(
            failed[..., None, None] > 0, torch.diag_embed(bound[..., None].sqrt().expand(slope.shape)), factor
        )

    def solve(of: _Direction) -> _Direction:
        taken = ratio * of.intercept[..., None]
        right = of.slope - (taken.sum(0, keepdim=True) if tied else taken)
        found = torch.cholesky_solve(right.unsqueeze(-1), factor).squeeze(-1)
        return _Direction(of.intercept / own - (ratio * found).sum(-1), found)

    return solve
