"""A training run, known by its content; runs that can share the training of one model make a piece of work.

The key of a run is a digest of what decides its numbers: data, division, configuration, seed and `RESULTS_VERSION`.
The commit and the number of threads are recorded, not keyed: most commits change no number, threads the last bits.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from gspn.errors import InputError
from gspn.experiments.sources import Division, Source, fold_digest
from gspn.graphs import GraphDataset
from gspn.graphs.splits import Fold

RESULTS_VERSION = 1
"""Raised by hand when numbers change though no configuration does; all records of before are then made again."""

SELECTION, ASSESSMENT = "selection", "assessment"


@dataclass(frozen=True)
class Run:
    """One training run: what is trained on what, and who may look at the result.

    A run of the stage "selection" never sees the test graphs. `head` is there for models that embed without labels.
    """

    question: str
    source: Source
    division: Division
    digests: tuple[str, str]
    model: str
    settings: Mapping[str, Any]
    head: Mapping[str, Any] | None
    seed: int
    stage: str
    asked: Mapping[str, Any] = field(default_factory=dict)
    """What the question itself needs to know: the seed of a mask, molecules to be drawn."""

    def identity(self) -> dict[str, Any]:
        """All that decides its numbers, as plain JSON."""
        return {
            "version": RESULTS_VERSION,
            "question": self.question,
            "data": self.source.spec() | {"digest": self.digests[0]},
            "division": self.division.spec() | {"digest": self.digests[1]},
            "model": self.model,
            "settings": dict(self.settings),
            "head": None if self.head is None else dict(self.head),
            "seed": self.seed,
            "stage": self.stage,
            "asked": dict(self.asked),
        }

    def fold(self, dataset: GraphDataset) -> Fold:
        """The division of the dataset; both must be those that were planned, perhaps on another machine."""
        fold = self.division.of(dataset)
        if fold_digest(fold) != self.digests[1]:
            raise InputError(f"{self.source.name} is divided differently here than where the run was planned")
        if self.source.digest() != self.digests[0]:
            raise InputError(f"the graphs of {self.source.name} are other ones here than where the run was planned")
        return fold

    @cached_property
    def key(self) -> str:
        return digest(self.identity())

    @cached_property
    def model_key(self) -> str:
        """The same for runs that differ in their heads alone."""
        return replace(self, head=None if self.head is None else {}).key


@dataclass(frozen=True)
class Piece:
    """Runs that differ in their heads alone: one model is trained for all of them."""

    runs: tuple[Run, ...]

    @property
    def key(self) -> str:
        return self.runs[0].model_key

    @property
    def label(self) -> str:
        run = self.runs[0]
        part = "" if run.division.fold is None else f", fold {run.division.fold}"
        return f"{run.source.name}{part}: {run.model}, {run.stage}"


def pieces_of(runs: Iterable[Run]) -> list[Piece]:
    """Runs grouped by the model they share, in the order in which they come."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.model_key, []).append(run)
    return [Piece(tuple(group)) for group in groups.values()]


def digest(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=10).hexdigest()
