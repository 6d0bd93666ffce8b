"""Templates given evidence: n of them, one per row, each with mixing weights and observed entries of its own.

From here come the distributions of entries that are not in the evidence, alone (`distribution`) or several together
(`Joint`), for any template. Where the mixing weights come from is up to the caller.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, overload

import torch
from torch import Tensor

from gspn.attributes import Attribute, Binary, Categorical
from gspn.circuits.components import Components, frozen
from gspn.circuits.distributions import Distribution, check_draws, encoded, mix, several
from gspn.circuits.evidence import Context, Evidence
from gspn.circuits.leaves import Leaves, Natural
from gspn.circuits.templates import Template, inputs_of, silent
from gspn.errors import InputError

_NUMBERS_AT_ONCE = 10_000_000
"""Bounds the memory of one step; the answers do not depend on it."""

_LARGEST_TABLE = 10_000
"""Combinations of values that a joint mode is searched among."""


class Roots(Protocol):
    """n distributions over the attributes of a vertex, one per row, each given evidence of its own.

    `Given` is a template with its mixing weights; several models that answer as one are another.
    """

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """In the order of the evidence's columns."""

    @property
    def evidence(self) -> Evidence: ...

    @property
    def numbers_per_row(self) -> int:
        """How much a row takes, to bound the memory of many draws."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: slice | Tensor) -> Roots: ...

    def having(self, evidence: Evidence) -> Roots:
        """The same rows with other evidence in place of their own."""

    def given(self, evidence: Evidence) -> Roots:
        """The rows conditioned on more evidence: their own, and what else `evidence` holds."""

    def log_value(self) -> Tensor:
        """[n] log-probability of the evidence."""

    def log_prob(self, evidence: Evidence) -> Tensor:
        """[n] log-probability of what `evidence` adds, given the rows' own evidence."""

    def components(self, columns: Sequence[int]) -> list[tuple[Components, Tensor]]:
        """Components of each attribute and their log-weights [n, C] given the evidence, which must not hold it."""

    def draw(self, wanted: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """[n, d] the evidence with the `wanted` entries [n, d] drawn, jointly within a row."""


@dataclass(frozen=True, eq=False)
class Given:
    """n templates with evidence, in double precision, on the CPU; copies, which no later training changes."""

    template: Template
    families: tuple[Leaves, ...]
    naturals: tuple[Natural, ...]
    """One level of leaves for every scope."""
    log_prior: Tensor
    """[n, S, C] mixing weights"""
    evidence: Evidence
    """[n, d]"""
    context: Context | None = None
    """What the rows have received, where leaves ask for it"""

    @classmethod
    def of(
        cls,
        template: Template,
        families: Sequence[Leaves],
        naturals: Sequence[Natural],
        log_prior: Tensor,
        evidence: Evidence,
        context: Context | None = None,
    ) -> Given:
        doubles = [{name: value.detach().cpu().double().clone() for name, value in one.items()} for one in naturals]
        kept = tuple(frozen(family) for family in families)
        received = None if context is None else context.to(dtype=torch.float64)
        given = evidence.to(dtype=torch.float64)
        return cls(template, kept, tuple(doubles), log_prior.detach().cpu().double(), given, received)

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        found: dict[int, Attribute] = {}
        for family, scope in zip(self.families, self.template.scopes, strict=True):
            found.update(zip(scope, family.scope, strict=True))
        return tuple(found[column] for column in sorted(found))

    @property
    def numbers_per_row(self) -> int:
        return self.log_prior[0:1].numel()

    def __len__(self) -> int:
        return len(self.evidence)

    def __getitem__(self, rows: slice | Tensor) -> Given:
        received = None if self.context is None else self.context[rows]
        return replace(self, log_prior=self.log_prior[rows], evidence=self.evidence[rows], context=received)

    def having(self, evidence: Evidence) -> Given:
        return replace(self, evidence=evidence)

    def given(self, evidence: Evidence) -> Given:
        return self.having(evidence)

    def log_prob(self, evidence: Evidence) -> Tensor:
        return self.having(evidence).log_value() - self.log_value()

    def log_value(self) -> Tensor:
        parts = [part.template.log_value(part._inputs(), part.log_prior) for part in self._parts()]
        return torch.cat(parts).masked_fill(silent(self.families, self.evidence), 0.0)

    def components(self, columns: Sequence[int]) -> list[tuple[Components, Tensor]]:
        weights = self._leaf_log_weights()
        return [self._components(column, weights) for column in columns]

    def _leaf_log_weights(self) -> list[Tensor]:
        """By scope [n, leaves]."""
        parts = [part.template.leaf_log_weights(part._inputs(), part.log_prior) for part in self._parts()]
        return [torch.cat(of_scope) for of_scope in zip(*parts, strict=True)]

    def _components(self, column: int, weights: list[Tensor]) -> tuple[Components, Tensor]:
        parts, log_weights = [], []
        for family, natural, scope, own in zip(
            self.families, self.naturals, self.template.scopes, weights, strict=True
        ):
            if column in scope:
                columns = self.evidence.columns(scope)
                parts.append(family.conditional(natural, scope.index(column), columns, self.context))
                log_weights.append(own)
        return Components(parts), torch.cat(log_weights, dim=-1)

    def draw(self, wanted: Tensor, generator: torch.Generator | None = None) -> Tensor:
        parts, start = [], 0
        for part in self._parts(max(self.template.leaf_counts)):
            x, mask = part.evidence.x.clone(), wanted[start : start + len(part)]
            leaves = part.template.draw_leaves(part._inputs(), part.log_prior, generator)
            for family, natural, scope, leaf in zip(
                self.families, self.naturals, self.template.scopes, leaves, strict=True
            ):
                own = mask[:, scope] & (leaf >= 0)[:, None]  # another scope may have the attribute in this row
                evidence = part.evidence.columns(scope)
                found = family.draw(natural, leaf.clamp_min(0), own, evidence, part.context, generator)
                x[:, scope] = torch.where(own, found, x[:, scope])
            parts.append(x)
            start += len(part)
        return torch.cat(parts)

    def _inputs(self) -> Tensor:
        return inputs_of(self.template, self.families, self.naturals, self.evidence, self.context)[0]

    def _parts(self, more: int = 0) -> Iterator[Given]:
        """Rows in pieces; at least one, so that an answer about no rows has a shape."""
        step = max(1, _NUMBERS_AT_ONCE // (self.log_prior[0:1].numel() + sum(self.template.leaf_counts) + more))
        return (self[start : start + step] for start in range(0, max(len(self), 1), step))


def distribution(roots: Roots, column: int) -> Distribution:
    """The distribution of an attribute given the evidence, which must not hold it."""
    return mix(*roots.components([column])[0])


def distributions(roots: Roots, wanted: Tensor) -> Iterator[tuple[int, Tensor, Distribution]]:
    """Of every `wanted` entry [n, d] given the evidence, which must not hold it: column, rows, distributions."""
    columns = wanted.any(0).nonzero().squeeze(1).tolist()
    for column, (components, log_weights) in zip(columns, roots.components(columns), strict=True):
        rows = wanted[:, column].nonzero().squeeze(1)
        yield column, rows, mix(components[rows], log_weights[rows])


class Joint:
    """n joint distributions of several attributes, one per row; their order is that of `names`."""

    def __init__(self, given: Roots, names: Sequence[str]) -> None:
        self._given = given
        attributes = given.attributes
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

    def _repr_html_(self) -> str:
        return "".join(self.marginal(name)._repr_html_() for name in self.names)

    def log_prob(self, values: Mapping[str, Any] | Tensor) -> Tensor:
        """[n] joint log-density of values by name, or of encoded ones [n, k] in the order of `names`.

        Each value is one per row, or one for all rows. What is missing, or not named, is summed out.
        """
        filled = self._filled(values)
        # Exactly 0 where nothing is asked.
        asked = filled.known[:, self._columns].any(1)
        return self._given.log_prob(filled).where(asked, 0.0)

    @overload
    def marginal(self, name: str) -> Distribution: ...  # type: ignore[overload-overlap]
    @overload
    def marginal(self, name: Sequence[str]) -> Joint: ...
    def marginal(self, name: str | Sequence[str]) -> Distribution | Joint:
        """The distribution of one of the attributes; a list of names gives their joint."""
        if isinstance(name, str):
            return distribution(self._given, self._column(name))
        for one in name:
            self._column(one)
        return Joint(self._given, name)

    def condition(self, values: Mapping[str, Any]) -> Joint:
        """The joint of the other attributes, given values of these; a missing value is no condition."""
        left = [name for name in self.names if name not in values]
        filled = self._filled(values)
        if not left:
            raise InputError(f"all of {', '.join(self.names)} are given; nothing is left to be distributed")
        return Joint(self._given.given(filled), left)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """[n, rows, k] joint draws, encoded, in the order of `names`."""
        check_draws(n)
        wanted = torch.zeros(self._given.evidence.x.shape, dtype=torch.bool)
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

    def _filled(self, values: Mapping[str, Any] | Tensor) -> Evidence:
        evidence = self._given.evidence
        x = evidence.x.clone()
        if isinstance(values, Mapping):
            for name, value in values.items():
                column = self._column(name)
                x[:, column] = encoded(self._given.attributes[column], value, len(self))
            return evidence.having(x)
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


def draw_many(given: Roots, wanted: Tensor, n: int, generator: torch.Generator | None = None) -> Tensor:
    """[n, rows, d] the evidence with the wanted entries drawn n times."""
    x = given.evidence.x
    if not n or not len(given):
        return x.expand(n, *x.shape).clone()
    rows, draws = torch.arange(len(given)), []
    at_once = max(1, _NUMBERS_AT_ONCE // (len(given) * given.numbers_per_row))
    for first in range(0, n, at_once):
        again = rows.repeat(min(at_once, n - first))
        draws.append(given[again].draw(wanted[again], generator).reshape(-1, *x.shape))
    return torch.cat(draws)
