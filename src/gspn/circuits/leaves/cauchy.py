"""Cauchy leaves: one fixed distribution of a continuous attribute, wide and without moments; for the guard alone.

Nothing here is learned, and the family is not registered: models do not choose it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NoReturn

import torch
from torch import Tensor

from gspn.attributes import Attribute
from gspn.circuits.leaves.contract import Natural
from gspn.circuits.leaves.univariate import UnivariateLeaves
from gspn.circuits.leaves.univariate_atoms import UnivariateAtomLeaves
from gspn.errors import InputError

_REACH = 4.0 ** torch.arange(-1, 18, dtype=torch.float64)
"""In scales: the density is a power between two neighbours, and what lies beyond the last has a share of 4·10⁻¹¹."""

BREAKPOINTS = torch.cat([-_REACH.flip(0), torch.zeros(1, dtype=torch.float64), _REACH])


class CauchyLeaves(UnivariateLeaves):
    """A single level with a single leaf; `natural` holds center and scale in users' units."""

    exported: tuple[str, ...] = ("center", "scale")
    has_moments = False

    def __init__(self, attribute: Attribute, center: float, scale: float) -> None:
        super().__init__(attribute, 1, 1)
        self.center, self.scale = center, scale

    def natural(self) -> Natural:
        numbers = {"center": self.center, "scale": self.scale}
        return {name: torch.tensor([[value]], dtype=torch.float64) for name, value in numbers.items()}

    def _deviation(self, natural: Natural, x: Tensor) -> Tensor:
        return (x.double() - natural["center"]) / natural["scale"]

    def log_density_of(self, natural: Natural, x: Tensor) -> Tensor:
        z = self._deviation(natural, x)
        # log(1 + z²) without squaring what may be huge.
        return -2 * torch.hypot(z, torch.ones_like(z)).log() - (math.pi * natural["scale"]).log()

    def cumulative_of(self, natural: Natural, x: Tensor) -> Tensor:
        z = self._deviation(natural, x)
        # ½ + arctan(z) / π, with all digits also where little lies below.
        return torch.atan2(torch.ones_like(z), -z) / math.pi

    def mode(self, natural: Natural) -> Tensor:
        return natural["center"]

    def quantile(self, natural: Natural, q: float) -> Tensor:
        side = -1 / math.tan(math.pi * q) if q < 0.5 else 1 / math.tan(math.pi * (1 - q))
        return natural["center"] + natural["scale"] * side

    def sample(self, natural: Natural, n: int, generator: torch.Generator | None = None) -> Tensor:
        center = natural["center"]
        share = torch.rand(n, *center.shape, generator=generator, dtype=torch.float64)
        return center + natural["scale"] * torch.tan(math.pi * (share - 0.5))

    def breakpoints(self, natural: Natural) -> Tensor:
        return natural["center"][..., None] + natural["scale"][..., None] * BREAKPOINTS

    def export(self, natural: Natural) -> Natural:
        return dict(natural)

    def mean(self, natural: Natural) -> Tensor:
        raise InputError(f"a Cauchy distribution of {self.named()} has no mean")

    def variance(self, natural: Natural) -> Tensor:
        raise InputError(f"a Cauchy distribution of {self.named()} has no variance")

    def initialise(self, groups: Sequence[Tensor], generator: torch.Generator) -> None:
        self._not_learned()

    def weighted_estimate(self, x: Tensor, weights: Tensor) -> Natural:
        self._not_learned()

    def assign(self, exported: Mapping[str, Tensor]) -> None:
        self._not_learned()

    def _not_learned(self) -> NoReturn:
        raise InputError(f"the Cauchy distribution of {self.named()} is fixed and cannot be learned")


def heavy_tailed(attribute: Attribute, center: float, scale: float, atoms: Tensor | None = None) -> UnivariateLeaves:
    """A single leaf that holds nothing to be impossible: each of the atoms is as likely as anything elsewhere."""
    alone = CauchyLeaves(attribute, center, scale)
    return alone if atoms is None else UnivariateAtomLeaves(alone, atoms)
