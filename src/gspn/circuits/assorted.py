"""Rows that are answered by several roots, each row by one of them: the whole behaves like any other roots.

For answers to which different rows come in different ways, such as vertices for which another level answers. Which row
is whose is decided by whoever puts them together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
