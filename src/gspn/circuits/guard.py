"""The guard: answers that keep a little of their probability for values that the model holds to be impossible.

An answer with the density f becomes (1 − ε) f + ε · Π Cauchy · p_f: every continuous attribute by itself, at the centre
of its unit and five spreads wide, and what is discrete (counts too) as f has it. Both parts are given what was known
when the answer was asked for. Inside an answer everything is a ratio or a marginal of this one joint: what becomes
known there shifts weight between the parts, and never adds a new guard.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gspn.attributes import Attribute
from gspn.circuits.components import Components
from gspn.circuits.evidence import Evidence
from gspn.circuits.given import Roots
from gspn.circuits.leaves.cauchy import heavy_tailed
from gspn.circuits.leaves.contract import Rows
from gspn.circuits.leaves.univariate import UnivariateLeaves, sample_rows
from gspn.columns import is_number, shorten
from gspn.errors import InputError

SPREADS = 5.0
"""The scale of the guard's Cauchy distributions, in spreads of the attribute's unit."""


def guarded(
    roots: Roots,
    epsilon: float,
    units: Mapping[str, Tensor | Sequence[float]],
    atoms: Mapping[str, Tensor] | None = None,
) -> Roots:
    """The roots with a guard of weight `epsilon`; with 0 the roots themselves.

    `units` has [centre, spread] of every continuous attribute by name (`Leaves.units`), `atoms` the values that have
    a mass of their own (`Leaves.atoms`): the K of an attribute share K parts in K + 1 of the guard, Cauchy has the
    other.
    """
    if not is_number(epsilon) or not 0 <= epsilon < 1:
        raise InputError(f"the weight of a guard must be at least 0 and below 1, got {shorten(epsilon)}")
    heavy: dict[int, UnivariateLeaves] = {}
    if epsilon == 0:
        return roots
    for column, attribute in enumerate(roots.attributes):
        if attribute.kind == "continuous":
            if attribute.name not in units:
                raise InputError(f"a guard needs the unit of '{attribute.name}', which is not known")
            center, spread = (float(number) for number in units[attribute.name])
            heavy[column] = heavy_tailed(attribute, center, SPREADS * spread, (atoms or {}).get(attribute.name))
    if not heavy:
        return roots
    log_weights = torch.tensor([[math.log1p(-epsilon), math.log(epsilon)]], dtype=torch.float64)
    return Guarded(roots, roots, roots, heavy, log_weights.expand(len(roots), -1), epsilon)


@dataclass(frozen=True, eq=False)
class Guarded:
    """n guarded distributions: `Roots` around others."""

    asked: Roots
    """f, given what was known when the answer was asked for"""
    body: Roots
    """f, given all that is known now"""
    tail: Roots
    """Where p_f of the guard's part comes from: f, given all that is known now but continuous values known later"""
    heavy: Mapping[int, UnivariateLeaves]
    """By column"""
    log_weights: Tensor
    """[n, 2] of both parts, with the log-probability of what has become known since"""
    epsilon: float

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        return self.body.attributes

    @property
    def evidence(self) -> Evidence:
        return self.body.evidence

    @property
    def numbers_per_row(self) -> int:
        return self.body.numbers_per_row + (0 if self.tail is self.body else self.tail.numbers_per_row)

    def __len__(self) -> int:
        return len(self.body)

    def __getitem__(self, rows: slice | Tensor) -> Guarded:
        asked = self.asked[rows]
        body = asked if self.body is self.asked else self.body[rows]
        tail = asked if self.tail is self.asked else self.tail[rows]
        return replace(self, asked=asked, body=body, tail=tail, log_weights=self.log_weights[rows])

    def having(self, evidence: Evidence) -> Guarded:
        """Another question: the guard's weight is what it was at first."""
        roots = self.asked.having(evidence)
        log_weights = torch.tensor([[math.log1p(-self.epsilon), math.log(self.epsilon)]], dtype=torch.float64)
        return replace(self, asked=roots, body=roots, tail=roots, log_weights=log_weights.expand(len(roots), -1))

    def given(self, evidence: Evidence) -> Guarded:
        both, discrete = self._joined(evidence), self._joined(evidence, self._discrete)
        body = self.body.given(both)
        alike = self.tail is self.body and torch.equal(both.known, discrete.known)
        tail = body if alike else self.tail.given(discrete)
        return replace(self, body=body, tail=tail, log_weights=self._log_weights_with(both, discrete))

    def log_value(self) -> Tensor:
        """Of what was known at first, as f has it, and of what has become known since, guarded."""
        return self.asked.log_value() + torch.logsumexp(self.log_weights, dim=1)

    def log_prob(self, evidence: Evidence) -> Tensor:
        both, discrete = self._joined(evidence), self._joined(evidence, self._discrete)
        after = torch.logsumexp(self._log_weights_with(both, discrete), dim=1)
        return after - torch.logsumexp(self.log_weights, dim=1)

    def components(self, columns: Sequence[int]) -> list[tuple[Components, Tensor]]:
        weights = torch.log_softmax(self.log_weights, dim=1)
        found, others = self.body.components(columns), {}
        discrete = [column for column in columns if column not in self.heavy]
        if self.tail is not self.body and discrete:
            others = dict(zip(discrete, self.tail.components(discrete), strict=True))
        return [
            self._with_guard(column, *own, others.get(column), weights)
            for column, own in zip(columns, found, strict=True)
        ]

    def _with_guard(
        self,
        column: int,
        components: Components,
        log_weights: Tensor,
        other: tuple[Components, Tensor] | None,
        weights: Tensor,
    ) -> tuple[Components, Tensor]:
        own = torch.log_softmax(log_weights, dim=1) + weights[:, :1]
        if column in self.heavy:
            cauchy = self._rows(column)
            return Components([*components.parts, cauchy]), torch.cat([own, weights[:, 1:]], dim=1)
        if other is None:  # both parts are the same
            return components, log_weights
        shares = torch.log_softmax(other[1], dim=1) + weights[:, 1:]
        return Components([*components.parts, *other[0].parts]), torch.cat([own, shares], dim=1)

    def draw(self, wanted: Tensor, generator: torch.Generator | None = None) -> Tensor:
        share = torch.softmax(self.log_weights, dim=1)[:, 1]
        outside = torch.rand(len(self), generator=generator, dtype=torch.float64) < share
        x = self.evidence.x.clone()
        inside_rows, outside_rows = (rows.nonzero().squeeze(1) for rows in (~outside, outside))
        if len(inside_rows):
            x[inside_rows] = self.body[inside_rows].draw(wanted[inside_rows], generator)
        if len(outside_rows):
            own = wanted[outside_rows]
            drawn = self.tail[outside_rows].draw(own & self._discrete, generator)
            for column in self.heavy:
                drawn[:, column] = sample_rows(self._rows(column), len(outside_rows), generator)[:, 0]
            x[outside_rows] = torch.where(own, drawn, x[outside_rows])
        return x

    @property
    def _discrete(self) -> Tensor:
        """[d] True where an attribute is not continuous."""
        return torch.tensor([column not in self.heavy for column in range(len(self.attributes))])

    def _rows(self, column: int) -> Rows:
        return Rows(self.heavy[column], self.heavy[column].natural())

    def _joined(self, evidence: Evidence, columns: Tensor | None = None) -> Evidence:
        """What is known already and, of these columns, what else the evidence knows."""
        own = (self.body if columns is None else self.tail).evidence
        more = evidence.x.to(own.x) if columns is None else evidence.x.to(own.x).masked_fill(~columns, torch.nan)
        return own.having(torch.where(own.known, own.x, more))

    def _log_weights_with(self, both: Evidence, discrete: Evidence) -> Tensor:
        """[n, 2] the weights of both parts, given more evidence."""
        of_body = self.body.log_prob(both)
        of_tail = self.tail.log_prob(discrete)
        known = both.known & ~self.evidence.known
        for column in self.heavy:
            x = both.x[:, column].masked_fill(~known[:, column], torch.nan)
            of_tail = of_tail + Components([self._rows(column)]).log_density(x)[:, 0]
        return self.log_weights + torch.stack([of_body, of_tail], dim=1)
