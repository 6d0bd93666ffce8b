"""The question "impute": how well a method fills what is hidden of a real set, with its probabilities."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from gspn.errors import InputError
from gspn.experiments.records import Record
from gspn.experiments.runs import Run
from gspn.experiments.yardstick.masks import hidden_entries
from gspn.experiments.yardstick.methods import METHODS
from gspn.experiments.yardstick.scores import judge
from gspn.experiments.yardstick.sets import SETS
from gspn.graphs import GraphDataset
from gspn.graphs.missing import with_missing

_VERTICES = 100_000
"""At a time."""


def impute(runs: Sequence[Run], place: Path) -> list[Record]:
    """The only run's scores on the hidden entries."""
    (run,) = runs
    truth = run.source.load()
    if run.source.digest() != run.digests[0]:
        raise InputError(f"the set {run.source.name} is another one here than where the run was planned")
    asked = run.asked
    mask = hidden_entries(truth, asked["mechanism"], asked["rate"], run.seed, SETS[run.source.name].visible)
    start = time.perf_counter()
    gappy = with_missing(truth, mask)
    answers = list(METHODS[run.model](gappy, run.seed, **run.settings))
    seconds = {"model": time.perf_counter() - start}
    found = judge(truth.entries(), truth.schema, answers, _alone(gappy))
    pit = found.pop("pit")
    scores = {name: score for name, score in found.items() if score is not None}
    return [{"scores": {"hidden": scores}, "pit": pit, "curves": {}, "seconds": seconds}]


def _alone(dataset: GraphDataset) -> Tensor | None:
    """[N] whether nobody that a vertex receives from has observed anything; None where there are no edges at all."""
    if not int(dataset.num_edges_per_graph().sum()):
        return None
    found = []
    for batch in dataset.chunks(_VERTICES):
        told = batch.observed.any(1)[batch.source]
        found.append(torch.zeros(batch.num_vertices).index_add(0, batch.target, told.float()) == 0)
    return torch.cat(found)
