"""How much there is still to do while models are chosen, and how long it takes: for bars and pages, not for choices.

The time of a model depends mostly on what it uses of its neighbours, and on the data; so the time of those to come is
estimated from those of the same kind that have learned already.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from gspn.policy.candidates import Candidate

_AT_FIRST = {"no edges": 1.0, "states": 2.0, "neighbours": 10.0, "two_hops": 12.0, "descent": 20.0}
"""How long models of these kinds take, relative to each other, before any has been seen to learn."""

_LEARNS_ON = 0.3
"""What learning on takes, as a share of learning from the beginning: fewer steps."""


@dataclass(frozen=True)
class Work:
    """One model's learning."""

    kind: str
    """What it uses of neighbours: times of the same kind are compared"""
    amount: float

    @classmethod
    def of(cls, candidate: Candidate, rows: float, *, learns_on: bool = False) -> Work:
        """Learning from so many rows, all folds together."""
        kind = "descent" if candidate.descends else candidate.edges
        return cls(kind, candidate.num_states * rows * (_LEARNS_ON if learns_on else 1.0))


@dataclass
class Stopwatch:
    """Takes the time of what has been done, and says how long the rest takes."""

    began: float = field(default_factory=time.monotonic)
    _now: tuple[Work, float] | None = None
    _done: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    _took: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def begin(self, work: Work) -> None:
        """The work before has ended, and this one begins."""
        now = time.monotonic()
        if self._now is not None:
            before, since = self._now
            self._done[before.kind] += before.amount
            self._took[before.kind] += now - since
        self._now = work, now

    def elapsed(self) -> float:
        return time.monotonic() - self.began

    def remaining(self, ahead: Sequence[Work]) -> float | None:
        """Seconds for the work ahead, what has just begun included; None as long as nothing is known."""
        if not self._done:
            return None
        left = sum(work.amount * self._rate(work.kind) for work in ahead)
        return max(0.0, left - (0.0 if self._now is None else time.monotonic() - self._now[1]))

    def _rate(self, kind: str) -> float:
        """Seconds per unit of such work."""
        if kind in self._done:
            return self._took[kind] / self._done[kind]
        expected = sum(amount * _AT_FIRST[other] for other, amount in self._done.items())
        return _AT_FIRST[kind] * sum(self._took.values()) / expected
