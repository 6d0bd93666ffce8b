"""Univariate components of mixtures: the leaves that an attribute may be distributed by, of one family or of several.

The components are the same for all rows, or every row has its own. Whose weights they get is the mixture's business.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from gspn.attributes import Attribute
from gspn.circuits.leaves.contract import Leaves, Natural, Rows, common_length
from gspn.circuits.leaves.univariate import beside_rows, sample_rows
from gspn.circuits.mixture_shape import continuous_entropy, continuous_mode, sum_over_counts

F = TypeVar("F", bound=Leaves)


class Components:
    """C distributions of one attribute for each of n rows, in double precision; copies, which no training changes."""

    def __init__(self, parts: Sequence[Rows], log_unguarded: Tensor | None = None) -> None:
        """`log_unguarded` [n, C]: log of the share that a guard has left of a component's weight, where shares differ;
        moments weigh the components as without."""
        self.parts = [Rows(frozen(part.family), _copied(part.natural)) for part in parts]
        self._log_unguarded = log_unguarded

    @property
    def attribute(self) -> Attribute:
        return self.parts[0].family.attribute

    @property
    def atoms(self) -> Tensor:
        """[A] values that have a mass of their own, ascending."""
        own = [part.family.atoms().get(self.attribute.name) for part in self.parts]
        found = [values.double().cpu() for values in own if values is not None]
        return torch.cat(found).unique() if found else torch.zeros(0, dtype=torch.float64)

    def masses(self, weights: Tensor) -> Tensor:
        """[n, A] probabilities of the atoms in mixtures with weights [n, C]."""
        at = [self.log_density(value.expand(len(weights))).exp() for value in self.atoms]
        found = [(weights * of_value).sum(-1) for of_value in at]
        return torch.stack(found, dim=-1) if found else weights.new_zeros(len(weights), 0)

    def _elsewhere(self, weights: Tensor) -> tuple[Components, Tensor]:
        """Components beside the atoms, and what is left of the weights [n, C]."""
        found = [part.family.elsewhere(part.natural) for part in self.parts]
        shares = _side_by_side([log_share for _, log_share in found]).exp()
        return Components([rows for rows, _ in found]), weights * shares

    def __getitem__(self, rows: slice | Tensor) -> Components:
        taken = copy.copy(self)
        taken.parts = [part[rows] for part in self.parts]
        taken._log_unguarded = None if self._log_unguarded is None else self._log_unguarded[rows]
        return taken

    def log_density(self, x: Tensor) -> Tensor:
        """[n, C] log-densities of x [n]; 0 where it is NaN."""
        missing = torch.isnan(x)[:, None]
        values = x[:, None].masked_fill(missing, 0.0)
        found = [part.family.log_density_of(part.natural, values) for part in self.parts]
        return torch.cat(found, dim=-1).masked_fill(missing, 0.0)

    def log_probs(self, codes: int) -> list[Tensor]:
        """For every code [n or 1, C] its log-probability."""

        def log_prob(part: Rows, code: Tensor) -> Tensor:
            return part.family.log_density_of(part.natural, code[None, None])

        values = torch.arange(codes, dtype=torch.float64)
        return [self._joined(partial(log_prob, code=code)) for code in values]

    def cumulative(self, x: Tensor) -> Tensor:
        """[n, C]"""
        return torch.cat([part.family.cumulative_of(part.natural, x[:, None]) for part in self.parts], dim=-1)

    def with_moments(self, log_weights: Tensor) -> tuple[Components, Tensor]:
        """The components that have moments, with their part of the weights [n, C]."""
        if all(part.family.has_moments for part in self.parts):
            return self, log_weights
        if self._log_unguarded is not None:
            log_weights = log_weights - self._log_unguarded
        taken, chosen = copy.copy(self), []
        taken._log_unguarded = None
        taken.parts = [part for part in self.parts if part.family.has_moments]
        for part in self.parts:
            leaves = next(iter(part.natural.values())).shape[1]
            chosen += [part.family.has_moments] * leaves
        return taken, log_weights[:, torch.tensor(chosen)]

    def mean(self) -> Tensor:
        """[n or 1, C]"""
        return self._joined(lambda part: part.family.mean(part.natural))

    def variance(self) -> Tensor:
        """[n or 1, C]"""
        return self._joined(lambda part: part.family.variance(part.natural))

    def quantile(self, q: float) -> Tensor:
        """[n or 1, C]"""
        return self._joined(lambda part: part.family.quantile(part.natural, q))

    def sample(self, n: int, generator: torch.Generator | None) -> Tensor:
        """[n, C] a draw of every component for each of n rows."""
        return torch.cat([sample_rows(part, n, generator) for part in self.parts], dim=-1)

    def mode(self, weights: Tensor) -> Tensor:
        """[n] a most likely value of the mixtures with weights [n, C].

        Masses and densities do not compare: where there are atoms, the likeliest of them and "elsewhere" is taken, and
        elsewhere the place of the highest density.
        """
        if len(self.atoms):
            masses, (beside, left) = self.masses(weights), self._elsewhere(weights)
            largest, place = masses.max(1)
            return torch.where(largest > left.sum(1), self.atoms[place], beside.mode(_shares(left)))
        first = self.parts[0]
        quick = first.family.mixture_mode(first.natural, weights) if self._one_for_all else None
        if quick is not None:
            return quick
        if self.attribute.kind == "count":
            of_leaves = self._joined(lambda part: part.family.mode(part.natural))
            low, high = (int(end) for end in of_leaves.aminmax()) if of_leaves.numel() else (0, 0)
            return sum_over_counts(weights, self._probs, low, high)[0]
        return continuous_mode(weights, self._log_densities, self._breakpoints())

    def entropy(self, weights: Tensor) -> Tensor:
        """[n] entropy of the mixtures with weights [n, C] in nats; differential where the attribute is continuous.

        With atoms: of which of them it is, if any, and what is left elsewhere.
        """
        if len(self.atoms):
            masses, (beside, left) = self.masses(weights), self._elsewhere(weights)
            outside = left.sum(1)
            of_places = -torch.xlogy(masses, masses).sum(1) - torch.xlogy(outside, outside)
            return of_places + outside * beside.entropy(_shares(left))
        first = self.parts[0]
        quick = first.family.mixture_entropy(first.natural, weights) if self._one_for_all else None
        if quick is not None:
            return quick
        if self.attribute.kind == "count":
            last = self.quantile(1 - 1e-15)
            return sum_over_counts(weights, self._probs, 0, int(last.max()) if last.numel() else 0)[1]
        return continuous_entropy(weights, self._log_densities, self._breakpoints())

    @property
    def _one_for_all(self) -> bool:
        """Whether all rows share the leaves of a single family."""
        return len(self.parts) == 1 and self.parts[0].shared

    def _joined(self, ask: Callable[[Rows], Tensor]) -> Tensor:
        """What every part says, side by side."""
        return _side_by_side([ask(part) for part in self.parts])

    def _probs(self, values: Tensor) -> Tensor:
        found = [part.family.log_density_of(beside_rows(part.natural), values[:, None]).exp() for part in self.parts]
        return _side_by_side(found)

    def _log_densities(self, rows: slice, places: Tensor) -> Tensor:
        own = self[rows].parts
        return torch.cat([p.family.log_density_of(beside_rows(p.natural), places[..., None]) for p in own], dim=-1)

    def _breakpoints(self) -> Tensor:
        return _side_by_side([part.family.breakpoints(part.natural).flatten(1) for part in self.parts]).unsqueeze(1)


def frozen(family: F) -> F:
    """A copy of a family that no later training changes; what is learned is in the natural parameters already."""
    has_more = any(True for _ in family.buffers()) or any(True for _ in family.children())
    return copy.deepcopy(family) if has_more else copy.copy(family)


def _shares(weights: Tensor) -> Tensor:
    """[n, C] as shares of their sum; all alike where that is 0."""
    total = weights.sum(1, keepdim=True)
    alike = torch.full_like(weights, 1 / weights.shape[1])
    return torch.where(total > 0, weights / total.clamp_min(torch.finfo(weights.dtype).tiny), alike)


def _copied(natural: Natural) -> Natural:
    return {name: value.detach().cpu().double().clone() for name, value in natural.items()}


def _side_by_side(found: list[Tensor]) -> Tensor:
    """[n or 1, …, C] of several parts; rows are repeated where another part has its own for each."""
    rows = common_length([len(one) for one in found])
    return torch.cat([one.expand(rows, *one.shape[1:]) for one in found], dim=-1)
