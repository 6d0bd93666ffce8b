"""Bivariate Gaussian leaves: two continuous attributes that vary together within a state.

Gaps select what is left: nothing, one of the two, or both. Conditionals of one given the other are Gaussian again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from gspn.circuits import Context, Evidence, Leaves, Rows
from gspn.circuits.leaves import GaussianLeaves

FLOOR = 1e-3
_LOG_TWO_PI = math.log(2 * math.pi)


class BivariateGaussianLeaves(Leaves):
    """`natural` holds mean and scale [levels, leaves, 2], in units of the data, and correlation [levels, leaves]."""

    exported = ("mean", "std", "correlation")

    def __init__(self, scope: Any, num_levels: int, num_leaves: int) -> None:
        super().__init__(scope, num_levels, num_leaves)
        self.center, self.spread = [0.0, 0.0], [1.0, 1.0]
        self.raw_mean = nn.Parameter(torch.randn(num_levels, num_leaves, 2))
        self.raw_scale = nn.Parameter(torch.zeros(num_levels, num_leaves, 2))
        self.raw_correlation = nn.Parameter(torch.zeros(num_levels, num_leaves))

    def get_extra_state(self) -> Tensor:
        return torch.tensor([self.center, self.spread], dtype=torch.float64)

    def set_extra_state(self, state: Tensor) -> None:
        self.center, self.spread = state.tolist()

    def standardised(self, x: Tensor) -> Tensor:
        return (x - torch.tensor(self.center, dtype=x.dtype)) / torch.tensor(self.spread, dtype=x.dtype)

    # Densities and conditionals.

    def natural(self) -> dict[str, Tensor]:
        correlation = torch.tanh(self.raw_correlation)
        return {"mean": self.raw_mean, "scale": FLOOR + softplus(self.raw_scale), "correlation": correlation}

    def log_prob(self, natural: dict[str, Tensor], evidence: Evidence, context: Context | None = None) -> Tensor:
        mean, scale, correlation = (natural[key].unsqueeze(1) for key in ("mean", "scale", "correlation"))
        known = evidence.known
        x = self.standardised(evidence.x.masked_fill(~known, 0.0)).to(mean.dtype)
        z = (x[None, :, None, :] - mean) / scale
        jacobian = torch.tensor(self.spread, dtype=mean.dtype).log()
        alone = -0.5 * z.square() - scale.log() - 0.5 * _LOG_TWO_PI - jacobian
        first, second = z.unbind(-1)
        rest = 1 - correlation.square()
        distance = (first.square() - 2 * correlation * first * second + second.square()) / rest
        both = -0.5 * distance - 0.5 * rest.log() - (scale.log() + jacobian).sum(-1) - _LOG_TWO_PI
        in_part = alone.masked_fill(~known[None, :, None, :], 0.0).sum(-1)
        return torch.where(known.all(1)[None, :, None], both, in_part)

    def conditional(
        self, natural: dict[str, Tensor], column: int, evidence: Evidence, context: Context | None = None
    ) -> Rows:
        mean, scale = self._given_other(natural, column, evidence)
        family = GaussianLeaves(self.scope[column], 1, self.num_leaves)
        family.center, family.spread = self.center[column], self.spread[column]
        return Rows(family, {"mean": mean, "scale": scale})

    def _given_other(self, natural: dict[str, Tensor], column: int, evidence: Evidence) -> tuple[Tensor, Tensor]:
        """[n, leaves] mean and scale, in units, of one attribute given the other where that is known."""
        mean, scale, correlation = natural["mean"][0], natural["scale"][0], natural["correlation"][0]
        known = evidence.known[:, 1 - column]
        other = self.standardised(evidence.x)[:, 1 - column].masked_fill(~known, 0.0).to(mean.dtype)
        slope = torch.where(known[:, None], correlation, 0.0)
        z = (other[:, None] - mean[:, 1 - column]) / scale[:, 1 - column]
        return mean[:, column] + slope * scale[:, column] * z, scale[:, column] * (1 - slope.square()).sqrt()

    def draw(
        self,
        natural: dict[str, Tensor],
        leaf: Tensor,
        wanted: Tensor,
        evidence: Evidence,
        context: Context | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        x = evidence.x.clone()
        for column in range(2):  # the second given the first, if that is known by now
            mean, scale = self._given_other(natural, column, evidence.having(x))
            own = torch.stack([mean.gather(1, leaf[:, None]), scale.gather(1, leaf[:, None])]).squeeze(-1)
            noise = torch.randn(len(x), generator=generator, dtype=torch.float64)
            drawn = self.center[column] + self.spread[column] * (own[0] + own[1] * noise)
            x[:, column] = torch.where(wanted[:, column], drawn.detach().double(), x[:, column])
        return x

    def expectation(
        self, natural: dict[str, Tensor], evidence: Evidence, context: Context | None = None
    ) -> list[Tensor]:
        told = []
        for column in range(2):
            mean, _ = self._given_other(natural, column, evidence)
            known = evidence.known[:, column : column + 1]
            value = self.standardised(evidence.x)[:, column : column + 1].masked_fill(~known, 0.0)
            told.append(torch.where(known, value.to(mean.dtype), mean).unsqueeze(-1))
        return told

    # Learning.

    def start(self, groups: Sequence[Tensor], generator: torch.Generator) -> None:
        with torch.no_grad():
            for m, group in enumerate(groups):
                z = self.standardised(group)
                z = z[~torch.isnan(z).any(1)]
                noise = torch.randn(2, generator=generator, dtype=torch.float64)
                self.raw_mean[:, m] = z.mean(0) if len(z) else noise
                std = z.std(0, correction=0).clamp(0.05, 3.0) if len(z) else torch.ones(2)
                self.raw_scale[:, m] = torch.log(torch.expm1(std - FLOOR))
                self.raw_correlation[:, m] = 0.0

    def estimate(
        self,
        evidence: Evidence,
        weights: Tensor,
        *,
        level: int = 0,
        context: Context | None = None,
        prior: float = 0.0,
    ) -> None:
        raise NotImplementedError("bivariate Gaussian leaves are learned by gradients")

    def features(self, x: Tensor) -> Tensor | None:
        return self.standardised(x)

    # Units and parameters.

    def set_units(self, x: Tensor) -> None:
        for column, values in enumerate(x.unbind(1)):
            known = values[~torch.isnan(values)]
            if len(known):
                spread = known.std(correction=0).item()
                self.center[column], self.spread[column] = known.mean().item(), spread if spread > 0 else 1.0

    def units(self) -> dict[str, Tensor]:
        pairs = zip(self.scope, self.center, self.spread, strict=True)
        return {a.name: torch.tensor([center, spread], dtype=torch.float64) for a, center, spread in pairs}

    def assign_units(self, units: Mapping[str, Any], given: dict[str, Tensor], fitted: bool) -> None:
        for column, attribute in enumerate(self.scope):
            if attribute.name in units:
                self.center[column], self.spread[column] = (float(number) for number in units[attribute.name])
            elif not fitted:
                self.center[column] = given["mean"][..., column].mean().item()
                self.spread[column] = given["std"][..., column].min().item()

    def deviations(self, x: Tensor) -> Tensor | None:
        return self.standardised(x).abs()

    def export(self, natural: dict[str, Tensor]) -> dict[str, Tensor]:
        center, spread = (torch.tensor(numbers, dtype=torch.float64) for numbers in (self.center, self.spread))
        mean, std = center + spread * natural["mean"].double(), spread * natural["scale"].double()
        return {"mean": mean, "std": std, "correlation": natural["correlation"].double()}

    def assign(self, exported: Mapping[str, Tensor]) -> None:
        center, spread = (torch.tensor(numbers, dtype=torch.float64) for numbers in (self.center, self.spread))
        scale = exported["std"] / spread
        if bool((scale < FLOOR * (1 - 1e-6)).any()):
            raise self.refuse("std", f"at least {FLOOR:g} of the unit of the data")
        if bool((exported["correlation"].abs() >= 1).any()):
            raise self.refuse("correlation", "between -1 and 1")
        with torch.no_grad():
            self.raw_mean.copy_((exported["mean"] - center) / spread)
            self.raw_scale.copy_(torch.log(torch.expm1((scale - FLOOR).clamp_min(1e-30))))
            self.raw_correlation.copy_(torch.atanh(exported["correlation"]))
