"""Several roots that behave like any other roots: mixtures of them, and rows that are answered by one of them each.

`Mixed` answers row by row by the mixture Σ w P over the same evidence. The weights are constant for what is asked,
whatever evidence the rows have: they say how good the members' answers are. Inside an answer everything is a ratio or
a marginal of the one joint that was asked for, so what becomes known there shifts weight between the members, by
Bayes' rule. `Assorted` is for answers to which different rows come in different ways, such as vertices for which
another level answers. Which row is whose is decided by whoever puts them together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gspn.attributes import Attribute
from gspn.circuits.components import Components
from gspn.circuits.evidence import Evidence
from gspn.circuits.given import Roots
from gspn.circuits.leaves import Rows


@dataclass(frozen=True, eq=False)
class Assorted:
    """n rows, dealt to several roots over the same attributes."""

    parts: tuple[tuple[Tensor, Roots], ...]
    """Positions of rows, which no two parts share, and the roots that answer for them"""

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        return self.parts[0][1].attributes

    @property
    def evidence(self) -> Evidence:
        given = [roots.evidence for _, roots in self.parts]
        x, hidden = self._put([one.x for one in given]), self._put([one.hidden for one in given])
        return Evidence(x, hidden, self._put([one.missing for one in given]))

    @property
    def numbers_per_row(self) -> int:
        return max(roots.numbers_per_row for _, roots in self.parts)

    def __len__(self) -> int:
        return sum(len(rows) for rows, _ in self.parts)

    def __getitem__(self, rows: slice | Tensor) -> Assorted:
        chosen = torch.arange(len(self))[rows]
        parts = []
        for own, roots in self.parts:
            place = torch.full((len(self),), -1)
            place[own] = torch.arange(len(own))
            found = place[chosen]
            at = (found >= 0).nonzero().squeeze(1)
            parts.append((at, roots[found[at]]))
        return Assorted(tuple(parts))

    def having(self, evidence: Evidence) -> Assorted:
        return self._each(lambda rows, roots: roots.having(evidence[rows]))

    def given(self, evidence: Evidence) -> Assorted:
        return self._each(lambda rows, roots: roots.given(evidence[rows]))

    def log_value(self) -> Tensor:
        return self._put([roots.log_value() for _, roots in self.parts])

    def log_prob(self, evidence: Evidence) -> Tensor:
        return self._put([roots.log_prob(evidence[rows]) for rows, roots in self.parts])

    def components(self, columns: Sequence[int]) -> list[tuple[Components, Tensor]]:
        answers = [roots.components(columns) for _, roots in self.parts]
        return [self._together([of_part[i] for of_part in answers]) for i in range(len(columns))]

    def draw(self, wanted: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return self._put([roots.draw(wanted[rows], generator) for rows, roots in self.parts])

    def _together(self, answers: list[tuple[Components, Tensor]]) -> tuple[Components, Tensor]:
        """The same leaves with the parameters that each row's own part gives them."""
        leaves = []
        for alike in zip(*(components.parts for components, _ in answers), strict=True):
            names = set.intersection(*(set(part.natural) for part in alike))
            leaves.append(Rows(alike[0].family, {name: self._spread(alike, name) for name in sorted(names)}))
        return Components(leaves), self._put([weights for _, weights in answers])

    def _spread(self, alike: Sequence[Rows], name: str) -> Tensor:
        """A parameter [n, leaves, …], with a row for each row where a part's rows have it in common."""
        values = [part.natural[name] for part in alike]
        return self._put(
            [value.expand(len(rows), *value.shape[1:]) for (rows, _), value in zip(self.parts, values, strict=True)]
        )

    def _put(self, values: Sequence[Tensor]) -> Tensor:
        """Rows of all parts in their places."""
        whole = values[0].new_zeros(len(self), *values[0].shape[1:])
        for (rows, _), value in zip(self.parts, values, strict=True):
            whole[rows] = value
        return whole

    def _each(self, change: Callable[[Tensor, Roots], Roots]) -> Assorted:
        return Assorted(tuple((rows, change(rows, roots)) for rows, roots in self.parts))


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
