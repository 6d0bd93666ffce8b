"""Gaussian leaves for continuous attributes, computed in standardised units and reported in the users'.

The density is computed centred, ((x−μ)/σ)²: the expanded form loses up to a nat in float32 for sharp states.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from gspn.attributes import Attribute, Continuous
from gspn.circuits.leaves.contract import Natural, as_numbers
from gspn.circuits.leaves.univariate import UnivariateLeaves
from gspn.circuits.mixture_shape import ENTROPY_STEPS, gaussian_entropy, gaussian_mode
from gspn.circuits.numerics import inverse_softplus
from gspn.errors import InputError

MAX_INITIAL_VARIANCE = 10.0


class GaussianLeaves(UnivariateLeaves):
    """Normal distributions; `natural` holds mean and scale in units of `spread` around `center`."""

    exported: tuple[str, ...] = ("mean", "std")
    attribute: Continuous

    def __init__(self, attribute: Attribute | Sequence[Attribute], num_levels: int, num_leaves: int) -> None:
        super().__init__(attribute, num_levels, num_leaves)
        # Plain floats, not buffers: `.float()` must not round the units of the data.
        self.center = 0.0
        self.spread = 1.0
        self.raw_mean = nn.Parameter(torch.randn(num_levels, num_leaves))
        self.raw_scale = nn.Parameter(torch.zeros(num_levels, num_leaves))

    def get_extra_state(self) -> Tensor:
        return torch.tensor([self.center, self.spread], dtype=torch.float64)

    def set_extra_state(self, state: Tensor) -> None:
        self.center, self.spread = state.tolist()

    def standardise(self, values: Tensor) -> None:
        """Take the units from observed values: their mean and deviation (1 for a constant column)."""
        self.center = values.mean().item()
        spread = values.std(correction=0).item()
        # A constant column may have a deviation of pure rounding; that is no unit to measure in.
        constant = spread <= 1e-14 * max(abs(self.center), values.abs().max().item()) or spread == 0.0
        self.spread = 1.0 if constant else spread

    def standardised(self, x: Tensor) -> Tensor:
        return (x - self.center) / self.spread

    def natural(self) -> Natural:
        return {"mean": self.raw_mean, "scale": self.attribute.floor + softplus(self.raw_scale)}

    def combine(self, natural: Natural, weights: Tensor) -> Natural:
        w = weights[:, None]
        mean = (w * natural["mean"]).sum(0, keepdim=True)
        # √Σ(wσ)²: the deviation of the weighted sum of independent Gaussians.
        scale = (w * natural["scale"]).square().sum(0, keepdim=True).sqrt()
        return {"mean": mean, "scale": scale}

    def log_density_of(self, natural: Natural, x: Tensor) -> Tensor:
        mean, scale = natural["mean"], natural["scale"]
        z = self.standardised(x).to(mean.dtype)
        constant = 0.5 * math.log(2 * math.pi) + math.log(self.spread)
        return -0.5 * ((z - mean) / scale).square() - (scale.log() + constant)

    def mean(self, natural: Natural) -> Tensor:
        return self.center + self.spread * natural["mean"].double()

    def variance(self, natural: Natural) -> Tensor:
        return (self.spread * natural["scale"].double()).square()

    def mode(self, natural: Natural) -> Tensor:
        return self.mean(natural)

    def quantile(self, natural: Natural, q: float) -> Tensor:
        normal_quantile: Tensor = torch.special.ndtri(torch.tensor(q, dtype=torch.float64))
        return self.mean(natural) + self.variance(natural).sqrt() * normal_quantile

    def cumulative_of(self, natural: Natural, x: Tensor) -> Tensor:
        below: Tensor = torch.special.ndtr((x.double() - self.mean(natural)) / self.variance(natural).sqrt())
        return below

    def sample(self, natural: Natural, n: int, generator: torch.Generator | None = None) -> Tensor:
        mean, std = self.mean(natural), self.variance(natural).sqrt()
        return mean + std * torch.randn(n, *mean.shape, generator=generator, dtype=torch.float64)

    def initialise(self, groups: Sequence[Tensor], generator: torch.Generator) -> None:
        with torch.no_grad():
            for m, group in enumerate(groups):
                z = self.standardised(group)
                if len(z) == 0:
                    mean, std = torch.randn((), generator=generator, dtype=torch.float64), torch.tensor(1.0).double()
                else:
                    mean, std = z.mean(), z.std(correction=0)
                # Well above the floor: at the floor the gradient of the scale vanishes and the state would be stuck.
                least = min(10 * self.attribute.floor, 1 + self.attribute.floor)
                std = std.clamp(least, math.sqrt(MAX_INITIAL_VARIANCE))
                self.raw_mean[:, m] = mean
                self.raw_scale[:, m] = inverse_softplus(std - self.attribute.floor)

    def widen(self, factor: float) -> None:
        scale = factor * self.natural()["scale"].detach() - self.attribute.floor
        with torch.no_grad():
            self.raw_scale.copy_(inverse_softplus(scale))

    def mixture_mode(self, natural: Natural, weights: Tensor) -> Tensor | None:
        return gaussian_mode(weights, self.mean(natural)[0], self.variance(natural)[0].sqrt())

    def mixture_entropy(self, natural: Natural, weights: Tensor) -> Tensor | None:
        return gaussian_entropy(weights, self.mean(natural)[0], self.variance(natural)[0].sqrt())

    def breakpoints(self, natural: Natural) -> Tensor:
        mean, std = self.mean(natural), self.variance(natural).sqrt()
        return mean[..., None] + std[..., None] * ENTROPY_STEPS

    def weighted_estimate(self, x: Tensor, weights: Tensor) -> Natural:
        z = self.standardised(x)
        mass = weights.sum(0).clamp_min(torch.finfo(weights.dtype).tiny)
        mean = weights.T @ z / mass
        variance = (weights * (z[:, None] - mean).square()).sum(0) / mass
        # The likelihood falls on both sides of its maximum, so the floor is the best of what is allowed.
        std = variance.sqrt().clamp_min(self.attribute.floor)
        return {"mean": self.center + self.spread * mean, "std": self.spread * std}

    def pseudo_observations(self) -> tuple[Tensor, Tensor]:
        """Of mean 0 and deviation 1 in units of the data."""
        rows = torch.tensor([[self.center - self.spread], [self.center + self.spread]], dtype=torch.float64)
        return rows, torch.tensor([0.5, 0.5], dtype=torch.float64)

    def features(self, x: Tensor) -> Tensor | None:
        return self.standardised(x)

    # Units.

    def set_units(self, x: Tensor) -> None:
        known = x[~torch.isnan(x)]
        if not len(known):
            return
        self.standardise(known)
        if not math.isfinite(self.spread):
            largest = known[known.abs().argmax()].item()
            raise InputError(f"'{self.attribute.name}': values as large as {largest:g} cannot be squared")

    def units(self) -> dict[str, Tensor]:
        return {self.attribute.name: torch.tensor([self.center, self.spread], dtype=torch.float64)}

    def assign_units(self, units: Mapping[str, Any], given: Natural, fitted: bool) -> None:
        name = self.attribute.name
        if name in units:
            numbers = as_numbers(f"units of '{name}'", units[name])
            center, spread = numbers.tolist() if numbers.shape == (2,) else (math.nan, math.nan)
            if not (math.isfinite(center) and math.isfinite(spread) and spread > 0):
                raise InputError(
                    f"units of '{name}' must be a finite centre and a positive spread, got {numbers.tolist()}"
                )
            self.center, self.spread = center, spread
        elif not fitted:
            # No data seen: measure in the sharpest given state, so that no given deviation falls below the floor.
            if bool((given["std"] <= 0).any()):
                raise self.refuse("std", "positive")
            self.center, self.spread = given["mean"].mean().item(), given["std"].min().item()

    def deviations(self, x: Tensor) -> Tensor | None:
        return self.standardised(x).abs()

    def unlike(self, one: Natural, other: Natural) -> str | None:
        # Compared in units of the data: nothing is near or far by itself.
        sides = [
            {"mean": (side["mean"] - self.center) / self.spread, "std": side["std"] / self.spread}
            for side in (one, other)
        ]
        return super().unlike(*sides)

    # Parameters as people read them.

    def export(self, natural: Natural) -> Natural:
        return {"mean": self.mean(natural), "std": self.spread * natural["scale"].double()}

    def assign(self, exported: Mapping[str, Tensor]) -> None:
        std = exported["std"] / self.spread
        if bool((std < self.attribute.floor * (1 - 1e-6)).any()):
            least = self.attribute.floor * self.spread
            raise self.refuse(
                "std", f"at least {least:g} (the floor, {self.attribute.floor:g} of the unit of the data)"
            )
        with torch.no_grad():
            self.raw_mean.copy_((exported["mean"] - self.center) / self.spread)
            self.raw_scale.copy_(inverse_softplus(std - self.attribute.floor))
