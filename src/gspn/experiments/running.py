"""The way through an experiment: hand out what can be done, take in what was found, until nothing is left.

What is to be done follows from the contests and the records alone, so a killed run goes on by being started again, and
two runs at once share the work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from gspn.experiments.protocols import ModelSelection
from gspn.experiments.records import Record, Records
from gspn.experiments.runs import Piece, Run, pieces_of

_PAUSE = 2.0
"""Seconds after which pieces that others are working on are looked at again."""


@dataclass(frozen=True)
class Outcome:
    """What became of a piece: records, or None while another process is making them, or what went wrong."""

    piece: Piece
    records: list[Record] | None = None
    failure: str | None = None


class Runner(Protocol):
    """Works on several pieces at once."""

    @property
    def capacity(self) -> int:
        """How many pieces it takes at once."""

    def submit(self, piece: Piece) -> None:
        """Begin to work on a piece."""

    def wait(self, seconds: float) -> list[Outcome]:
        """What has been finished by now, after waiting at most so long for the first."""

    def close(self) -> None:
        """Stop all work at once; what is under way goes on from its checkpoints the next time."""


@dataclass(frozen=True)
class State:
    """How far it is: training runs made and planned, and what is being worked on."""

    done: int
    planned: int
    under_way: tuple[str, ...]


def run(
    contests: Sequence[ModelSelection],
    records: Records,
    runner: Runner,
    show: Callable[[State], None] = lambda state: None,
) -> list[Outcome]:
    """Make all runs that are not there yet. Returns the pieces that failed; all others have been made nevertheless."""
    under_way: dict[str, Piece] = {}
    elsewhere: dict[str, float] = {}  # pieces that another process is making, and when to look at them again
    failed: dict[str, Outcome] = {}
    while True:
        now = survey(contests, records)
        show(State(now.made, now.planned, tuple(piece.label for piece in under_way.values())))
        open_pieces = [piece for piece in pieces_of(now.todo) if piece.key not in under_way and piece.key not in failed]
        ready = [piece for piece in open_pieces if elsewhere.get(piece.key, 0.0) <= time.monotonic()]
        for piece in ready[: max(0, runner.capacity - len(under_way))]:
            runner.submit(piece)
            under_way[piece.key] = piece
        if not open_pieces and not under_way:
            return list(failed.values())
        if not under_way:
            time.sleep(_PAUSE)
            continue
        for outcome in runner.wait(_PAUSE):
            del under_way[outcome.piece.key]
            for record in outcome.records or ():
                if records.get(record["key"]) is None:  # made on a machine that does not share this folder
                    records.put(record)
            if outcome.failure is not None:
                failed[outcome.piece.key] = outcome
            elif outcome.records is None:
                elsewhere[outcome.piece.key] = time.monotonic() + _PAUSE


@dataclass(frozen=True)
class Survey:
    """What can be done now, and how far it is: runs made and planned in all.

    A run that several rows share counts once; one that will never be, as its selection failed, does not count.
    """

    todo: list[Run]
    made: int
    planned: int


def survey(contests: Iterable[ModelSelection], records: Records) -> Survey:
    """Final runs are known once their selection is complete; until then they are planned and not yet to be done."""
    find = records.at_once()
    known: dict[str, Run] = {}
    to_come = 0
    for contest in contests:
        own = {run.key: run for run in contest.known(find)}
        known |= own
        if not contest.is_hopeless(find):
            to_come += contest.planned - len(own)
    todo = [run for key, run in known.items() if find(key) is None]
    return Survey(todo, len(known) - len(todo), len(known) + to_come)


def forget_failed(contests: Iterable[ModelSelection], records: Records) -> None:
    """Remove the records of runs whose training failed, so that they are made again."""
    for contest in contests:
        for run in list(contest.known(records.get)):
            record = records.get(run.key)
            if record is not None and "error" in record:
                records.forget(run.key)
