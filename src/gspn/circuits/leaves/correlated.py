"""Gaussian leaves over several continuous attributes, which may be correlated and may regress on a context.

x | i ~ N(μ_i + B_i z, Σ_i + B_i V B_iᵀ) with z and V the context's mean and covariance; without one, N(μ_i, Σ_i). Any
gaps are marginalised by taking sub-blocks (`blocks`); what is missing given what is known is exact. Computed in units
of the data, reported in the users'. Structures of Σ are in `covariances`, the estimate of EM in `gaussian_estimates`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gspn.attributes import Attribute
from gspn.circuits.evidence import Context, Evidence
from gspn.circuits.leaves.blocks import Patterns, conditional_covariances, log_density, solve
from gspn.circuits.leaves.contract import RIDGE, Leaves, Natural, Rows, as_numbers
from gspn.circuits.leaves.covariances import LEAST_EIGENVALUE, Scatter, structure_named
from gspn.circuits.leaves.gaussian import MAX_INITIAL_VARIANCE, GaussianLeaves
from gspn.circuits.leaves.gaussian_estimates import Level, estimate_level, spreads
from gspn.circuits.leaves.shared_blocks import shared_log_density
from gspn.errors import InputError

_AT_ONCE = 4_000_000
"""Numbers in the covariances of one step; the answers do not depend on it."""

_JITTER = 1e-9
"""Of conditional covariances that are drawn from, which rounding may leave singular."""


class CorrelatedGaussianLeaves(Leaves):
    """Normal distributions over all attributes of the scope; `natural` is in units of `spread` around `center`."""

    def __init__(
        self,
        scope: Sequence[Attribute],
        num_levels: int,
        num_leaves: int,
        *,
        covariance: str = "full",
        context_width: int = 0,
        tied_slopes: bool = True,
    ) -> None:
        super().__init__(scope, num_levels, num_leaves, context_width=context_width)
        size = len(self.scope)
        # Plain tensors, not buffers: `.float()` must not round the units of the data.
        self.center, self.spread = torch.zeros(size).double(), torch.ones(size).double()
        self.tied_slopes = tied_slopes
        self.raw_mean = nn.Parameter(torch.randn(num_levels, num_leaves, size))
        floor = [float(getattr(attribute, "floor", 0.0)) for attribute in self.scope]
        self.covariances = structure_named(covariance, num_levels, num_leaves, floor)
        self.exported = ("mean", *self.covariances.exported)
        for name in ("pool", "whole"):
            self.register_buffer(name, torch.eye(size).repeat(num_levels, 1, 1))
        if context_width:
            self.exported = (*self.exported, "slope")
            own = 1 if tied_slopes else num_leaves
            self.raw_slope = nn.Parameter(torch.zeros(num_levels, own, size, context_width))
        self.penalised = bool(context_width or self.covariances.pulled)

    pool: Tensor
    """[levels, d, d] covariance within the leaves of a first fit: what estimates and slopes are measured by"""
    whole: Tensor
    """[levels, d, d] covariance of all rows, as the first fit has it: what a prior has seen"""

    def get_extra_state(self) -> Tensor:
        return torch.stack([self.center, self.spread])

    def set_extra_state(self, state: Tensor) -> None:
        self.center, self.spread = state.double().cpu().unbind()

    def natural(self) -> Natural:
        found = {"mean": self.raw_mean, **self.covariances.natural()}
        if self.context_width:
            found["slope"] = self.raw_slope.expand(-1, self.num_leaves, -1, -1)
        return found

    # Densities.

    def log_prob(self, natural: Natural, evidence: Evidence, context: Context | None = None) -> Tensor:
        x, patterns, covariance = self._given(natural, evidence, context)
        known = patterns.known[patterns.of_row]
        unit = torch.where(known, self.spread.log().to(x), 0.0).sum(1)
        mean, shift = natural["mean"], self._shift(natural, context)
        if covariance.shape[1:3] == (1, 1) and (shift is None or shift.shape[1] == 1):
            rows = x if shift is None else x - shift[:, 0]
            return shared_log_density(rows, mean, covariance[:, 0, 0], patterns) - unit[:, None]
        return log_density(x, self._location(natural, context), covariance, patterns) - unit[:, None]

    def _given(self, natural: Natural, evidence: Evidence, context: Context | None) -> tuple[Tensor, Patterns, Tensor]:
        """Rows [n, d] in units of the data, 0 where unknown; their patterns, and covariances [levels, 1 or n, K, d, d].

        K is 1 where all leaves share a covariance.
        """
        x, mean = self.standardised(evidence.x), natural["mean"]
        patterns, covariance = Patterns.of(x), natural["covariance"].unsqueeze(1)
        covariance = covariance[:, :, :1] if self.covariances.shared else covariance
        if context is not None and context.covariance is not None and self.context_width:
            slope = natural["slope"][0, :1] if self.tied_slopes else natural["slope"][0]
            covariance = covariance + slope @ context.covariance.to(slope.dtype).unsqueeze(1) @ slope.mT
            patterns = patterns.every_row_its_own()
        return x.nan_to_num(0.0).to(mean.dtype), patterns, covariance

    def _location(self, natural: Natural, context: Context | None) -> Tensor:
        """[levels, 1 or n, leaves, d] means."""
        mean, shift = natural["mean"].unsqueeze(1), self._shift(natural, context)
        return mean if shift is None else mean + shift

    def _shift(self, natural: Natural, context: Context | None) -> Tensor | None:
        """[n, 1 or leaves, d] what the context adds to means: 1 where all leaves share their slopes."""
        if context is None or not self.context_width:
            return None
        slope = natural["slope"][0, :1] if self.tied_slopes else natural["slope"][0]
        received = torch.where(context.present[:, None], context.mean, 0.0).to(slope.dtype)
        return torch.einsum("nc,kdc->nkd", received, slope)

    def standardised(self, x: Tensor) -> Tensor:
        return (x - self.center.to(x.device)) / self.spread.to(x.device)

    # What is missing, given what is known.

    def completed(self, natural: Natural, evidence: Evidence, context: Context | None = None) -> Tensor:
        """[n, leaves, d] rows in units of the data: known entries as they are, others as expected by each leaf."""
        x, patterns, covariance = self._given(natural, evidence, context)
        known, location = patterns.known[patterns.of_row][:, None], self._location(natural, context)
        solved = solve(x, location, covariance, patterns).rows
        more = (covariance @ solved.to(covariance.dtype).unsqueeze(-1)).squeeze(-1)
        return torch.where(known, x[:, None], location + more.to(location.dtype))[0]

    def _conditional_covariance(self, natural: Natural, evidence: Evidence, context: Context | None) -> Tensor:
        """[n, leaves, d, d] of what is unknown given what is known; 0 elsewhere."""
        _, patterns, covariance = self._given(natural, evidence, context)
        found = conditional_covariances(covariance, patterns)[0]
        return found[patterns.of_row].expand(-1, self.num_leaves, -1, -1)

    def conditional(self, natural: Natural, column: int, evidence: Evidence, context: Context | None = None) -> Rows:
        means, variances = [], []
        for some, received in self._parts(evidence, context):
            means.append(self.completed(natural, some, received)[..., column])
            variances.append(self._conditional_covariance(natural, some, received)[..., column, column])
        scale = torch.cat(variances).clamp_min(torch.finfo(torch.float64).tiny).sqrt()
        return Rows(self._alone(column), {"mean": torch.cat(means), "scale": scale})

    def _parts(self, evidence: Evidence, context: Context | None) -> list[tuple[Evidence, Context | None]]:
        """Rows in pieces whose covariances do not take too much memory; at least one."""
        step = max(1, _AT_ONCE // (self.num_leaves * len(self.scope) ** 2))
        pieces = [slice(start, start + step) for start in range(0, max(len(evidence), 1), step)]
        return [(evidence[piece], None if context is None else context[piece]) for piece in pieces]

    def _alone(self, column: int) -> GaussianLeaves:
        """One attribute's own leaves, in the same units."""
        alone = GaussianLeaves(self.scope[column], 1, self.num_leaves)
        alone.center, alone.spread = self.center[column].item(), self.spread[column].item()
        return alone

    def draw(
        self,
        natural: Natural,
        leaf: Tensor,
        wanted: Tensor,
        evidence: Evidence,
        context: Context | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        drawn, start = [], 0
        for some, received in self._parts(evidence, context):
            own = leaf[start : start + len(some), None]
            rows = torch.arange(len(own))
            mean = self.completed(natural, some, received)[rows, own[:, 0]].double()
            covariance = self._conditional_covariance(natural, some, received)[rows, own[:, 0]].double()
            # 0 outside the unknown block; the jitter there is never seen.
            factor = torch.linalg.cholesky(covariance + _JITTER * torch.eye(len(self.scope)).double())
            noise = torch.randn(*mean.shape, 1, generator=generator, dtype=torch.float64)
            drawn.append(mean + (factor @ noise).squeeze(-1))
            start += len(some)
        return torch.where(wanted, self.center + self.spread * torch.cat(drawn), evidence.x.double())

    def expectation(self, natural: Natural, evidence: Evidence, context: Context | None = None) -> list[Tensor]:
        return list(self.completed(natural, evidence, context).split(1, dim=-1))

    def uncertainty(self, natural: Natural, weights: Tensor, evidence: Evidence, context: Context | None) -> Tensor:
        found, start = [], 0
        for some, received in self._parts(evidence, context):
            own = self._conditional_covariance(natural, some, received)
            found.append(torch.einsum("nk,nkab->nab", weights[start : start + len(some)].to(own.dtype), own))
            start += len(some)
        return torch.cat(found)

    # Learning.

    def start(self, groups: Sequence[Tensor], generator: torch.Generator) -> None:
        """From the means of the groups, with a covariance that all have in common at first."""
        size = len(self.scope)
        rows = [self.standardised(group) for group in groups]
        centred, means = [], torch.randn(self.num_leaves, size, generator=generator, dtype=torch.float64)
        for leaf, group in enumerate(rows):
            some = ~torch.isnan(group).all(0)
            means[leaf, some] = group[:, some].nanmean(0)
            centred.append(group - means[leaf])
        together = torch.cat(centred) if centred else torch.zeros(0, size).double()
        count = (~torch.isnan(together)).double()
        values = together.nan_to_num(0.0)
        # What is known of pairs, and of the diagonal as if one more row had deviation 1.
        scatter = values.mT @ values + torch.eye(size).double()
        pool = scatter / (torch.minimum(count.sum(0)[:, None], count.sum(0)) + 1)
        pool = 0.9 * pool + 0.1 * torch.diag(torch.diagonal(pool).clamp(1e-2, MAX_INITIAL_VARIANCE))
        with torch.no_grad():
            self.raw_mean.copy_(means.expand_as(self.raw_mean))
            self.pool.copy_(_positive(pool).expand_as(self.pool))
            self.whole.copy_(_positive(pool + torch.cov(means.T, correction=0)).expand_as(self.whole))
            if self.context_width:
                self.raw_slope.zero_()
        for level in range(self.num_levels):
            own = _positive(pool).expand(1 if self.covariances.shared else self.num_leaves, -1, -1)
            self.covariances.put(level, torch.arange(len(own)), own)

    def widen(self, factor: float) -> None:
        self.covariances.widen(factor)

    def copy_from_below(self, level: int) -> None:
        super().copy_from_below(level)
        for measured in (self.pool, self.whole):
            measured[level] = measured[level - 1]

    @torch.no_grad()
    def prepare_estimates(
        self, evidence: Evidence, weights: Tensor, *, level: int = 0, context: Context | None = None
    ) -> None:
        within, whole = spreads(self._level(level), self.standardised(evidence.x), weights)
        self.pool[level], self.whole[level] = within.to(self.pool), whole.to(self.whole)

    @torch.no_grad()
    def estimate(
        self,
        evidence: Evidence,
        weights: Tensor,
        *,
        level: int = 0,
        context: Context | None = None,
        prior: float = 0.0,
    ) -> None:
        x, weights = self.standardised(evidence.x.double()), weights.double()
        received = context if self.context_width else None
        if prior > 0:
            rows = pseudo_rows(self.whole[level].double())
            x = torch.cat([x, rows.to(x)])
            weights = torch.cat([weights, weights.new_full((len(rows), self.num_leaves), prior / len(rows))])
            if received is not None:  # what the prior has seen has received the usual
                nothing = received.mean.new_zeros(len(rows), self.context_width)
                present = received.present.new_zeros(len(rows))
                received = Context(torch.cat([received.mean, nothing]), torch.cat([received.present, present]))
        found = estimate_level(self._level(level), x, weights, received)
        own = found.mass > 0
        self.raw_mean[level, own] = found.mean[own].to(self.raw_mean)
        if received is not None:
            chosen = own.any()[None] if self.tied_slopes else own
            self.raw_slope[level, chosen] = found.slope[chosen].to(self.raw_slope)
        least = max(LEAST_EIGENVALUE if prior > 0 else 0.0, float(self.covariances.floor.max()) ** 2)
        seen = self.covariances.seen(self.pool[level].double())
        self.covariances.update(level, Scatter(found.scatter, found.mass), seen, least)

    def _level(self, level: int) -> Level:
        natural = {name: value[level].double() for name, value in self.natural().items()}
        slope = natural.get("slope")
        return Level(natural["mean"], natural["covariance"], slope, self.tied_slopes, self.pool[level].double())

    def log_prior(self, natural: Natural, strength: float) -> Tensor:
        """Pseudo-observations have the mean and covariance of all rows, and have received the usual."""
        mean, covariance, levels = natural["mean"], natural["covariance"], len(natural["mean"])
        pool, whole = self.pool.to(covariance)[:levels], self.whole.to(covariance)[:levels]
        pulls = self.covariances.seen(pool)
        mass = pulls.mass + strength
        total = covariance.new_zeros(levels)
        if float(mass):
            seen = pulls.sums + strength * (whole.unsqueeze(1) + mean.unsqueeze(-1) * mean.unsqueeze(-2))
            trace = torch.diagonal(torch.linalg.solve(covariance, seen), dim1=-2, dim2=-1).sum(-1)
            total = total - 0.5 * (mass * torch.linalg.slogdet(covariance).logabsdet + trace).sum(-1)
        if self.context_width:
            slope = (natural["slope"][:, :1] if self.tied_slopes else natural["slope"]).to(covariance)
            measure = pool.unsqueeze(1) if self.tied_slopes else covariance
            total = total - 0.5 * RIDGE * (slope * torch.linalg.solve(measure, slope)).sum((1, 2, 3))
        return total.to(mean.dtype)

    def combine(self, natural: Natural, weights: Tensor) -> Natural:
        if set(natural) != {"mean", "covariance"}:
            return super().combine(natural, weights)
        w = weights[:, None, None]
        mean = (w * natural["mean"]).sum(0, keepdim=True)
        # The covariance of the weighted sum of independent Gaussians.
        covariance = (w.unsqueeze(-1).square() * natural["covariance"]).sum(0, keepdim=True)
        return {"mean": mean, "covariance": covariance}

    def features(self, x: Tensor) -> Tensor | None:
        return self.standardised(x)

    # Units.

    def set_units(self, x: Tensor) -> None:
        for column, attribute in enumerate(self.scope):
            alone = GaussianLeaves(attribute, 1, 1)
            alone.set_units(x[:, column : column + 1])
            self.center[column], self.spread[column] = alone.center, alone.spread

    def units(self) -> dict[str, Tensor]:
        pairs = torch.stack([self.center, self.spread], dim=1)
        return {attribute.name: pair for attribute, pair in zip(self.scope, pairs, strict=True)}

    def assign_units(self, units: Mapping[str, Any], given: Natural, fitted: bool) -> None:
        for column, attribute in enumerate(self.scope):
            if attribute.name in units:
                numbers = as_numbers(f"units of '{attribute.name}'", units[attribute.name])
                center, spread = numbers.tolist() if numbers.shape == (2,) else (math.nan, math.nan)
                if not (math.isfinite(center) and math.isfinite(spread) and spread > 0):
                    raise InputError(
                        f"units of '{attribute.name}' must be a finite centre and a positive spread, "
                        f"got {numbers.tolist()}"
                    )
                self.center[column], self.spread[column] = center, spread
            elif not fitted:
                # No data seen: measure in the sharpest given leaf, so that no given deviation falls below the floor.
                variance = self.covariances.variances(given)[..., column].min().item()
                if variance <= 0:
                    raise self.refuse(self.covariances.exported[-1], "positive definite")
                self.center[column], self.spread[column] = given["mean"][..., column].mean(), math.sqrt(variance)

    def deviations(self, x: Tensor) -> Tensor | None:
        return self.standardised(x).abs()

    # Parameters as people read them.

    def export(self, natural: Natural) -> Natural:
        found = {"mean": self.center + self.spread * natural["mean"].double()}
        found |= self.covariances.export(natural, self.spread)
        if self.context_width:
            found["slope"] = self.spread[:, None] * natural["slope"].double()
        return found

    def assign(self, exported: Mapping[str, Tensor]) -> None:
        wrong = self.covariances.assign(exported, self.spread)
        if wrong is not None:
            raise self.refuse(self.covariances.exported[-1], wrong)
        with torch.no_grad():
            self.raw_mean.copy_((exported["mean"] - self.center) / self.spread)
            if self.context_width:
                slope = exported["slope"] / self.spread[:, None]
                own = self.raw_slope.shape[1]
                if not torch.allclose(slope, slope[:, :own], rtol=1e-6, atol=1e-9):
                    raise self.refuse("slope", "the same for all leaves of a level, as slopes are tied")
                self.raw_slope.copy_(slope[:, :own])

    def unlike(self, one: Natural, other: Natural) -> str | None:
        # Compared in units of the data: nothing is near or far by itself.
        sides = []
        for side in (one, other):
            own = {"mean": (side["mean"] - self.center) / self.spread}
            sides.append(own | self.covariances.export(side, 1 / self.spread))
        return super().unlike(*sides)

    def bytes_per_vertex(self) -> int:
        size = len(self.scope)
        return 8 * self.num_leaves * (6 * size + 2 * size**2)


def pseudo_rows(whole: Tensor) -> Tensor:
    """[2 d, d] rows of mean 0 and the given covariance."""
    factor = math.sqrt(len(whole)) * torch.linalg.cholesky(whole).mT
    return torch.cat([factor, -factor])


def _positive(covariance: Tensor) -> Tensor:
    """The nearest covariance whose eigenvalues are at least a hundredth."""
    values, vectors = torch.linalg.eigh(covariance)
    found: Tensor = (vectors * values.clamp_min(1e-2)) @ vectors.mT
    return found
