"""One attribute with atoms: values that have a mass of their own, beside the density of another family.

A distribution in the measure "counting at the atoms + Lebesgue": at an atom `log_density_of` is the logarithm of a
mass, elsewhere that of a density. Here is what such distributions answer; how masses are learned is in `atoms`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NoReturn

import torch
from torch import Tensor

from gspn.circuits.leaves.contract import Natural, Rows
from gspn.circuits.leaves.univariate import UnivariateLeaves
from gspn.errors import InputError

LOG_SHARES = "log_shares"
"""Natural parameter [levels, leaves, …]: log-probabilities of being elsewhere, then of each atom."""

_HALVINGS = 100


class UnivariateAtomLeaves(UnivariateLeaves):
    """Atoms at `values` [K], ascending, beside the leaves of `rest`; `natural` has shares [.., leaves, K + 1]."""

    def __init__(self, rest: UnivariateLeaves, values: Tensor) -> None:
        super().__init__(rest.scope, rest.num_levels, rest.num_leaves)
        self.rest, self.values = rest, values
        self.has_moments = rest.has_moments

    def natural(self) -> Natural:
        """The rest's; as nothing has been learned of the atoms, all of them and elsewhere are as likely."""
        rest = self.rest.natural()
        like = next(iter(rest.values()))
        shares = like.new_full((*like.shape[:2], len(self.values) + 1), -math.log(len(self.values) + 1))
        return {**rest, LOG_SHARES: shares}

    def atoms(self) -> dict[str, Tensor]:
        return {self.attribute.name: self.values}

    def elsewhere(self, natural: Natural) -> tuple[Rows, Tensor]:
        return Rows(self.rest, without_shares(natural)), natural[LOG_SHARES][..., 0]

    def log_density_of(self, natural: Natural, x: Tensor) -> Tensor:
        shares = natural[LOG_SHARES]
        found = self.rest.log_density_of(without_shares(natural), x) + shares[..., 0]
        for k, value in enumerate(self.values.tolist(), start=1):
            found = torch.where(x == value, shares[..., k], found)
        return found

    def cumulative_of(self, natural: Natural, x: Tensor) -> Tensor:
        shares = natural[LOG_SHARES].double().exp()
        below = shares[..., 0] * self.rest.cumulative_of(without_shares(natural), x)
        for k, value in enumerate(self.values.tolist(), start=1):
            below = below + shares[..., k] * (x >= value)
        return below

    def mean(self, natural: Natural) -> Tensor:
        shares = natural[LOG_SHARES].double().exp()
        return shares[..., 0] * self.rest.mean(without_shares(natural)) + shares[..., 1:] @ self.values

    def variance(self, natural: Natural) -> Tensor:
        shares, rest, mean = natural[LOG_SHARES].double().exp(), without_shares(natural), self.mean(natural)
        within = self.rest.variance(rest) + (self.rest.mean(rest) - mean).square()
        return shares[..., 0] * within + (shares[..., 1:] * (self.values - mean[..., None]).square()).sum(-1)

    def mode(self, natural: Natural) -> Tensor:
        """The likeliest of the atoms and "elsewhere"; elsewhere, the mode of the density."""
        place = natural[LOG_SHARES].argmax(-1)
        return torch.where(place > 0, self.values[place - 1], self.rest.mode(without_shares(natural)))

    def quantile(self, natural: Natural, q: float) -> Tensor:
        # It lies between that of the density alone and the atoms.
        alone = self.rest.quantile(without_shares(natural), q)
        low, high = alone.clamp_max(self.values[0]), alone.clamp_min(self.values[-1])
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            enough = self.cumulative_of(natural, middle) >= q
            low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
        shares = natural[LOG_SHARES].double().exp()
        for k, value in enumerate(self.values, start=1):
            at = self.cumulative_of(natural, value)
            high = torch.where((at - shares[..., k] < q) & (q <= at), value, high)
        return high

    def sample(self, natural: Natural, n: int, generator: torch.Generator | None = None) -> Tensor:
        drawn = self.rest.sample(without_shares(natural), n, generator)
        place = draw_places(natural[LOG_SHARES].double().exp().expand(n, *[-1] * natural[LOG_SHARES].ndim), generator)
        return torch.where(place > 0, self.values[place - 1], drawn)

    def breakpoints(self, natural: Natural) -> Tensor:
        return self.rest.breakpoints(without_shares(natural))

    def export(self, natural: Natural) -> Natural:
        return dict(natural)

    def initialise(self, groups: Sequence[Tensor], generator: torch.Generator) -> None:
        self._not_learned()

    def weighted_estimate(self, x: Tensor, weights: Tensor) -> Natural:
        self._not_learned()

    def assign(self, exported: Mapping[str, Tensor]) -> None:
        self._not_learned()

    def _not_learned(self) -> NoReturn:
        raise InputError(f"the distributions of {self.named()} are answers and cannot be learned")


def without_shares(natural: Natural) -> Natural:
    """What belongs to the density."""
    return {name: value for name, value in natural.items() if name != LOG_SHARES}


def draw_places(shares: Tensor, generator: torch.Generator | None) -> Tensor:
    """[…] 0 for elsewhere and k for the k-th atom, drawn with the given shares […, K + 1]."""
    ends = shares.cumsum(-1)[..., :-1]
    level = torch.rand(shares.shape[:-1], generator=generator, dtype=torch.float64)
    return (level[..., None] >= ends).sum(-1)
