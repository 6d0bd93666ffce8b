"""Templates given evidence: n of them, one a row, each with mixing weights and observed entries of its own.

From here come the distributions of entries that are not in the evidence, alone (`Given.distribution`) or several
together (`Joint`), for any template. Where the mixing weights come from is the business of whoever asks.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from gspn.attributes import Attribute, Binary, Categorical
from gspn.circuits.distributions import Distribution, check_draws, encoded, mix, several
from gspn.circuits.leaves import Leaves, Natural
from gspn.circuits.templates import Template, inputs_of
from gspn.errors import InputError

_NUMBERS_AT_ONCE = 10_000_000
"""Bounds the memory of one step; the answers do not depend on it."""

_LARGEST_TABLE = 10_000
"""Combinations of values that a joint mode is searched among."""


@dataclass(frozen=True, eq=False)
class Given:
    """n templates with evidence, in double precision, on the CPU; copies, which no later training changes."""

    template: Template
    families: tuple[Leaves, ...]
    naturals: tuple[Natural, ...]
    """One level of leaves for every attribute."""
    log_prior: Tensor
    """[n, S, C] mixing weights"""
    x: Tensor
    """[n, d] evidence in users' units, NaN where there is none"""

    @classmethod
    def of(
        cls, template: Template, families: Sequence[Leaves], naturals: Sequence[Natural], log_prior: Tensor, x: Tensor
    ) -> Given:
        doubles = [{name: value.detach().cpu().double().clone() for name, value in one.items()} for one in naturals]
        frozen = tuple(copy.copy(family) for family in families)
        return cls(template, frozen, tuple(doubles), log_prior.detach().cpu().double(), x.detach().cpu().double())

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, rows: slice | Tensor) -> Given:
        return replace(self, log_prior=self.log_prior[rows], x=self.x[rows])

    def having(self, x: Tensor) -> Given:
        """The same templates with other evidence."""
        return replace(self, x=x)

    def log_value(self) -> Tensor:
        """[n] log-probability of the evidence."""
        parts = [part.template.log_value(part._inputs(), part.log_prior) for part in self._parts()]
        return torch.cat(parts).masked_fill(torch.isnan(self.x).all(1), 0.0)

    def distribution(self, column: int) -> Distribution:
        """The distribution of an attribute given the evidence, which must not hold it."""
        return self._mixed(column, self._leaf_log_weights())

    def distributions(self, wanted: Tensor) -> Iterator[tuple[int, Tensor, Distribution]]:
        """Of every `wanted` entry [n, d] given the evidence, which must not hold it: column, rows, distributions."""
        weights = self._leaf_log_weights()
        for column in range(len(self.families)):
            rows = wanted[:, column].nonzero().squeeze(1)
            if len(rows):
                yield column, rows, self._mixed(column, weights)[rows]

    def _leaf_log_weights(self) -> list[list[Tensor]]:
        return [part.template.leaf_log_weights(part._inputs(), part.log_prior) for part in self._parts()]

    def _mixed(self, column: int, weights: list[list[Tensor]]) -> Distribution:
        return mix(self.families[column], self.naturals[column], torch.cat([part[column] for part in weights]))

    def draw(self, wanted: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """[n, d] the evidence with the `wanted` entries [n, d] drawn, jointly within a row."""
        parts, start = [], 0
        for part in self._parts(max(self.template.leaf_counts)):
            x, mask = part.x.clone(), wanted[start : start + len(part)]
            leaves = part.template.draw_leaves(part._inputs(), part.log_prior, generator)
            for column, (family, natural, leaf) in enumerate(zip(self.families, self.naturals, leaves, strict=True)):
                rows = mask[:, column].nonzero().squeeze(1)
                if len(rows):
                    draws = family.sample(natural, len(rows), generator)[:, 0]
                    x[rows, column] = draws.gather(1, leaf[rows, None]).squeeze(1)
            parts.append(x)
            start += len(part)
        return torch.cat(parts)

    def _inputs(self) -> Tensor:
        return inputs_of(self.template, self.families, self.naturals, self.x)[0]

    def _parts(self, more: int = 0) -> Iterator[Given]:
        """Rows in pieces; at least one, so that an answer about no rows has a shape."""
        step = max(1, _NUMBERS_AT_ONCE // (self.log_prior[0:1].numel() + sum(self.template.leaf_counts) + more))
        return (self[start : start + step] for start in range(0, max(len(self), 1), step))


class Joint:
    """n joint distributions of several attributes, one a row; their order is that of `names`."""

    def __init__(self, given: Given, names: Sequence[str]) -> None:
        self._given = given
        attributes = [family.attribute for family in given.families]
        known = [attribute.name for attribute in attributes]
        self.names = tuple(names)
        self._columns = [known.index(name) for name in names]
        self.attributes: tuple[Attribute, ...] = tuple(attributes[column] for column in self._columns)

    def __len__(self) -> int:
        return len(self._given)

    def __getitem__(self, rows: int | slice | Tensor) -> Joint:
        return Joint(self._given[several(rows, len(self))], self.names)

    def __repr__(self) -> str:
        return f"Joint({len(self)} distributions of {', '.join(self.names)})"

    def log_prob(self, values: Mapping[str, Any] | Tensor) -> Tensor:
        """[n] joint log-density of values by name, or of encoded ones [n, k] in the order of `names`.

        Each value is one a row, or one for all rows. What is missing, or not named, is summed out.
        """
        filled = self._filled(values)
        # Differences of logarithms; exactly 0 where nothing is asked.
        asked = ~torch.isnan(filled[:, self._columns]).all(1)
        return (self._given.having(filled).log_value() - self._given.log_value()).where(asked, 0.0)

    def marginal(self, name: str | Sequence[str]) -> Distribution | Joint:
        """The distribution of one of the attributes; a list of names gives their joint."""
        if isinstance(name, str):
            return self._given.distribution(self._column(name))
        for one in name:
            self._column(one)
        return Joint(self._given, name)

    def condition(self, values: Mapping[str, Any]) -> Joint:
        """The joint of the other attributes, given values of these; a missing value gives nothing."""
        left = [name for name in self.names if name not in values]
        filled = self._filled(values)
        if not left:
            raise InputError(f"all of {', '.join(self.names)} are given; nothing is left to be distributed")
        return Joint(self._given.having(filled), left)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """[n, rows, k] joint draws, encoded, in the order of `names`."""
        check_draws(n)
        wanted = torch.zeros(self._given.x.shape, dtype=torch.bool)
        wanted[:, self._columns] = True
        return draw_many(self._given, wanted, n, generator)[..., self._columns]

    @property
    def mode(self) -> Tensor:
        """[n, k] a most likely combination of codes, found among all of them; for categorical and binary attributes."""
        sizes = []
        for attribute in self.attributes:
            if not isinstance(attribute, Categorical | Binary):
                raise InputError(
                    f"a joint mode is searched among all combinations of values, but '{attribute.name}' is "
                    f"{attribute.kind}; ask marginal('{attribute.name}').mode"
                )
            sizes.append(len(attribute.categories) if isinstance(attribute, Categorical) else 2)
        if math.prod(sizes) > _LARGEST_TABLE:
            raise InputError(
                f"{math.prod(sizes)} combinations of {', '.join(self.names)} are too many to find a joint mode "
                f"(at most {_LARGEST_TABLE}); ask for fewer attributes"
            )
        best = torch.full((len(self),), -torch.inf, dtype=torch.float64)
        mode = torch.zeros(len(self), len(sizes), dtype=torch.float64)
        for codes in itertools.product(*map(range, sizes)):
            values = torch.tensor(codes, dtype=torch.float64).expand(len(self), -1)
            log_prob = self.log_prob(values)
            better = log_prob > best
            best, mode = torch.where(better, log_prob, best), torch.where(better[:, None], values, mode)
        return mode

    def _filled(self, values: Mapping[str, Any] | Tensor) -> Tensor:
        x = self._given.x.clone()
        if isinstance(values, Mapping):
            for name, value in values.items():
                column = self._column(name)
                x[:, column] = encoded(self._given.families[column].attribute, value, len(self))
            return x
        if not isinstance(values, Tensor) or values.shape != (len(self), len(self.names)):
            found = list(values.shape) if isinstance(values, Tensor) else type(values).__name__
            raise InputError(
                f"values must be given by name, or as a tensor of shape {[len(self), len(self.names)]} for "
                f"{', '.join(self.names)}; got {found}"
            )
        return self._filled(dict(zip(self.names, values.unbind(1), strict=True)))

    def _column(self, name: str) -> int:
        if name not in self.names:
            raise InputError(f"'{name}' is not among the attributes of this distribution: {', '.join(self.names)}")
        return self._columns[self.names.index(name)]


def draw_many(given: Given, wanted: Tensor, n: int, generator: torch.Generator | None = None) -> Tensor:
    """[n, rows, d] the evidence with the wanted entries drawn n times."""
    if not n or not len(given):
        return given.x.expand(n, *given.x.shape).clone()
    rows, draws = torch.arange(len(given)), []
    at_once = max(1, _NUMBERS_AT_ONCE // given.log_prior.numel())
    for first in range(0, n, at_once):
        again = rows.repeat(min(at_once, n - first))
        draws.append(given[again].draw(wanted[again], generator).reshape(-1, *given.x.shape))
    return torch.cat(draws)
