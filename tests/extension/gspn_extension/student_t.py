"""Student-t leaves for continuous attributes with outliers: location, scale and degrees of freedom, all learned.

More than two degrees of freedom, so that mean and variance exist.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import scipy.stats
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from gspn import Continuous
from gspn.circuits import UnivariateLeaves

LEAST_FREEDOM, MOST_FREEDOM = 2.1, 200.0
_ROUNDS, _SECTIONS = 80, 30
_GOLDEN = (math.sqrt(5) - 1) / 2


class StudentTLeaves(UnivariateLeaves):
    """`natural` holds location and scale in units of `spread` around `center`, and freedom."""

    exported = ("location", "scale", "freedom")
    attribute: Continuous

    def __init__(self, attribute: Any, num_levels: int, num_leaves: int) -> None:
        super().__init__(attribute, num_levels, num_leaves)
        self.center, self.spread = 0.0, 1.0
        self.raw_location = nn.Parameter(torch.randn(num_levels, num_leaves))
        self.raw_scale = nn.Parameter(torch.zeros(num_levels, num_leaves))
        self.raw_freedom = nn.Parameter(torch.zeros(num_levels, num_leaves))

    def get_extra_state(self) -> Tensor:
        return torch.tensor([self.center, self.spread], dtype=torch.float64)

    def set_extra_state(self, state: Tensor) -> None:
        self.center, self.spread = state.tolist()

    def standardised(self, x: Tensor) -> Tensor:
        return (x - self.center) / self.spread

    # One distribution.

    def natural(self) -> dict[str, Tensor]:
        return {
            "location": self.raw_location,
            "scale": self.attribute.floor + softplus(self.raw_scale),
            "freedom": LEAST_FREEDOM + softplus(self.raw_freedom),
        }

    def log_density_of(self, natural: dict[str, Tensor], x: Tensor) -> Tensor:
        location, scale, freedom = natural["location"], natural["scale"], natural["freedom"]
        z = (self.standardised(x).to(location.dtype) - location) / scale
        constant = torch.lgamma((freedom + 1) / 2) - torch.lgamma(freedom / 2) - 0.5 * torch.log(math.pi * freedom)
        return constant - (freedom + 1) / 2 * torch.log1p(z.square() / freedom) - scale.log() - math.log(self.spread)

    def cumulative_of(self, natural: dict[str, Tensor], x: Tensor) -> Tensor:
        location, scale, freedom = self._plain(natural)
        return torch.as_tensor(scipy.stats.t.cdf(x.double().numpy(), freedom, location, scale))

    def mean(self, natural: dict[str, Tensor]) -> Tensor:
        return self.center + self.spread * natural["location"].double()

    def variance(self, natural: dict[str, Tensor]) -> Tensor:
        freedom = natural["freedom"].double()
        return (self.spread * natural["scale"].double()).square() * freedom / (freedom - 2)

    def mode(self, natural: dict[str, Tensor]) -> Tensor:
        return self.mean(natural)

    def quantile(self, natural: dict[str, Tensor], q: float) -> Tensor:
        location, scale, freedom = self._plain(natural)
        return torch.as_tensor(scipy.stats.t.ppf(q, freedom, location, scale))

    def sample(self, natural: dict[str, Tensor], n: int, generator: torch.Generator | None = None) -> Tensor:
        location, scale, freedom = self._plain(natural)
        share = torch.rand(n, *location.shape, generator=generator, dtype=torch.float64).numpy()
        return torch.as_tensor(scipy.stats.t.ppf(share.clip(1e-15, 1 - 1e-15), freedom, location, scale))

    def _plain(self, natural: dict[str, Tensor]) -> tuple[Any, Any, Any]:
        """Location, scale and freedom of all leaves, in users' units, as arrays of one shape."""
        exported = [value.detach() for value in self.export(natural).values()]
        location, scale, freedom = torch.broadcast_tensors(*exported)
        return location.numpy(), scale.numpy(), freedom.numpy()

    # Learning.

    def initialise(self, groups: Sequence[Tensor], generator: torch.Generator) -> None:
        with torch.no_grad():
            for m, group in enumerate(groups):
                z = self.standardised(group)
                noise = torch.randn((), generator=generator, dtype=torch.float64)
                self.raw_location[:, m] = z.median() if len(z) else noise
                spread = z.std(correction=0).clamp(10 * self.attribute.floor, 3.0) if len(z) else torch.tensor(1.0)
                self.raw_scale[:, m] = _inverse(spread - self.attribute.floor)
                self.raw_freedom[:, m] = 1.0

    def weighted_estimate(self, x: Tensor, weights: Tensor) -> dict[str, Tensor]:
        """EM for location and scale, which sees a t as Gaussians of random width; freedom by golden sections."""
        z, mass = self.standardised(x)[:, None], weights.sum(0).clamp_min(1e-300)
        location = (weights * z).sum(0) / mass
        scale = ((weights * (z - location).square()).sum(0) / mass).sqrt().clamp_min(self.attribute.floor)
        freedom = torch.full_like(location, 5.0)
        for _ in range(_ROUNDS):
            width = (freedom + 1) / (freedom + ((z - location) / scale).square())
            location = (weights * width * z).sum(0) / (weights * width).sum(0).clamp_min(1e-300)
            scale = ((weights * width * (z - location).square()).sum(0) / mass).sqrt().clamp_min(self.attribute.floor)
            freedom = self._best_freedom(x, weights, location, scale)
        return {"location": self.center + self.spread * location, "scale": self.spread * scale, "freedom": freedom}

    def _best_freedom(self, x: Tensor, weights: Tensor, location: Tensor, scale: Tensor) -> Tensor:
        def height(log_freedom: Tensor) -> Tensor:
            natural = {"location": location, "scale": scale, "freedom": log_freedom.exp()}
            return (weights * self.log_density_of(natural, x[:, None])).sum(0)

        low, high = (torch.full_like(location, math.log(bound)) for bound in (LEAST_FREEDOM, MOST_FREEDOM))
        for _ in range(_SECTIONS):
            left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
            better = height(left) > height(right)
            low, high = torch.where(better, low, left), torch.where(better, right, high)
        return ((low + high) / 2).exp()

    def pseudo_observations(self) -> tuple[Tensor, Tensor]:
        rows = torch.tensor([[self.center - self.spread], [self.center + self.spread]], dtype=torch.float64)
        return rows, torch.tensor([0.5, 0.5], dtype=torch.float64)

    def features(self, x: Tensor) -> Tensor | None:
        return self.standardised(x).clamp(-5.0, 5.0)  # outliers are no clusters

    # Units and parameters.

    def set_units(self, x: Tensor) -> None:
        known = x[~torch.isnan(x)]
        if len(known):
            spread = known.std(correction=0).item()
            self.center, self.spread = known.mean().item(), spread if spread > 0 else 1.0

    def units(self) -> dict[str, Tensor]:
        return {self.attribute.name: torch.tensor([self.center, self.spread], dtype=torch.float64)}

    def assign_units(self, units: Mapping[str, Any], given: dict[str, Tensor], fitted: bool) -> None:
        if self.attribute.name in units:
            self.center, self.spread = (float(number) for number in units[self.attribute.name])
        elif not fitted:
            self.center, self.spread = given["location"].mean().item(), given["scale"].min().item()

    def deviations(self, x: Tensor) -> Tensor | None:
        return self.standardised(x).abs()

    def export(self, natural: dict[str, Tensor]) -> dict[str, Tensor]:
        scale = self.spread * natural["scale"].double()
        return {"location": self.mean(natural), "scale": scale, "freedom": natural["freedom"].double()}

    def assign(self, exported: Mapping[str, Tensor]) -> None:
        scale, freedom = exported["scale"] / self.spread, exported["freedom"]
        if bool((scale < self.attribute.floor * (1 - 1e-6)).any()):
            raise self.refuse("scale", f"at least {self.attribute.floor * self.spread:g}")
        if bool((freedom < LEAST_FREEDOM * (1 - 1e-9)).any()):
            raise self.refuse("freedom", f"at least {LEAST_FREEDOM:g}")
        with torch.no_grad():
            self.raw_location.copy_((exported["location"] - self.center) / self.spread)
            self.raw_scale.copy_(_inverse(scale - self.attribute.floor))
            self.raw_freedom.copy_(_inverse(freedom - LEAST_FREEDOM))


def _inverse(value: Tensor) -> Tensor:
    """x with softplus(x) = value."""
    value = value.clamp_min(1e-30)
    return value + torch.log(-torch.expm1(-value))
