"""Several roots over the same evidence that answer as one: row by row the mixture Σ w P with constant weights.

The weights are constant for what is asked, whatever evidence the rows have: they say how good the members' answers are.
Inside an answer everything is a ratio or a marginal of the one joint that was asked for, so what becomes known there
shifts weight between the members, by Bayes' rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gspn.attributes import Attribute
from gspn.circuits.components import Components
from gspn.circuits.evidence import Evidence
from gspn.circuits.given import Roots


def mixed(members: Sequence[Roots], log_weights: Tensor) -> Roots:
    """The mixture of roots over the same evidence, with log-weights [members]; of one member, the member itself."""
    if len(members) == 1:
        return members[0]
    first = tuple(members)
    return Mixed(first, first, log_weights, torch.zeros(len(first[0]), len(first), dtype=torch.float64))


def mixed_log_prob(log_probs: Sequence[Tensor], log_weights: Tensor) -> Tensor:
    """[n] log Σ w P from the members' log P, each [n], in double precision."""
    together = torch.stack([one.detach().cpu().double() for one in log_probs], dim=-1)
    found = torch.logsumexp(together + log_weights, dim=-1)
    # What says nothing has probability exactly 1, which the weights' rounding would miss.
    return found.masked_fill((together == 0).all(-1), 0.0)


@dataclass(frozen=True, eq=False)
class Mixed:
    """n mixtures of several roots' distributions: `Roots` around others."""

    asked: tuple[Roots, ...]
    """The members, given what was known when the answer was asked for"""
    members: tuple[Roots, ...]
    """The same, given all that is known now"""
    constant: Tensor
    """[members] log-weights"""
    log_seen: Tensor
    """[n, members] the members' log-probabilities of what has become known since"""

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        return self.members[0].attributes

    @property
    def evidence(self) -> Evidence:
        return self.members[0].evidence

    @property
    def numbers_per_row(self) -> int:
        return sum(member.numbers_per_row for member in self.members)

    def __len__(self) -> int:
        return len(self.members[0])

    def __getitem__(self, rows: slice | Tensor) -> Mixed:
        asked = tuple(member[rows] for member in self.asked)
        members = asked if self.members is self.asked else tuple(member[rows] for member in self.members)
        return replace(self, asked=asked, members=members, log_seen=self.log_seen[rows])

    def having(self, evidence: Evidence) -> Roots:
        """Another question: the weights are what they were at first."""
        return mixed([member.having(evidence) for member in self.asked], self.constant)

    def given(self, evidence: Evidence) -> Mixed:
        members = tuple(member.given(evidence) for member in self.members)
        return replace(self, members=members, log_seen=self._log_seen_with(evidence))

    def log_value(self) -> Tensor:
        """Of what was known at first, and of what has become known since."""
        return self._mixed([member.log_value() for member in self.asked]) + self._mixed(self.log_seen.unbind(1))

    def log_prob(self, evidence: Evidence) -> Tensor:
        return self._mixed(self._log_seen_with(evidence).unbind(1)) - self._mixed(self.log_seen.unbind(1))

    def components(self, columns: Sequence[int]) -> list[tuple[Components, Tensor]]:
        answers = zip(*(member.components(columns) for member in self.members), strict=True)
        return [self._together(column, answer) for column, answer in zip(columns, answers, strict=True)]

    def _together(self, column: int, answer: Sequence[tuple[Components, Tensor]]) -> tuple[Components, Tensor]:
        weights = self._log_weights()
        own = [torch.log_softmax(log_weights, dim=1) for _, log_weights in answer]
        parts = [part for components, _ in answer for part in components.parts]
        guards = None
        if not all(part.family.has_moments for part in parts):
            # Moments are those of members without their guards, whose weights need not be the same.
            asked = answer if self.asked is self.members else [one.components([column])[0] for one in self.asked]
            shares = [_log_share_with_moments(*one)[:, None] for one in asked]
            guards = torch.cat([share.expand_as(one) for share, one in zip(shares, own, strict=True)], dim=1)
        log_weights = torch.cat([one + weights[:, m : m + 1] for m, one in enumerate(own)], dim=1)
        return Components(parts, guards), log_weights

    def draw(self, wanted: Tensor, generator: torch.Generator | None = None) -> Tensor:
        x = self.evidence.x.clone()
        if not len(self):
            return x
        chosen = torch.multinomial(self._log_weights().exp(), 1, generator=generator).squeeze(1)
        for number, member in enumerate(self.members):
            rows = (chosen == number).nonzero().squeeze(1)
            if len(rows):
                x[rows] = member[rows].draw(wanted[rows], generator)
        return x

    def _mixed(self, log_probs: Sequence[Tensor]) -> Tensor:
        return mixed_log_prob(log_probs, self.constant)

    def _log_weights(self) -> Tensor:
        """[n, members] now."""
        return torch.log_softmax(self.constant + self.log_seen, dim=1)

    def _log_seen_with(self, evidence: Evidence) -> Tensor:
        return self.log_seen + torch.stack([member.log_prob(evidence) for member in self.members], dim=1)


def _log_share_with_moments(components: Components, log_weights: Tensor) -> Tensor:
    """[n] log of the weight of those components that have moments."""
    _, having = components.with_moments(torch.log_softmax(log_weights, dim=1))
    return torch.logsumexp(having, dim=1)
