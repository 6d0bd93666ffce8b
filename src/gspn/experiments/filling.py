"""The questions "fill" and "impute": how well missing entries are filled, with their probabilities.

"fill" is the paper's: how likely a model of many graphs finds what its mask has taken. "impute" is the yardstick's: how
well any method fills what is hidden of a real set.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from gspn.errors import InputError
from gspn.experiments import systems
from gspn.experiments.measures import judge_missing
from gspn.experiments.records import Record
from gspn.experiments.runs import ASSESSMENT, Run
from gspn.experiments.systems import curve_of
from gspn.experiments.yardstick.masks import hidden_entries
from gspn.experiments.yardstick.methods import METHODS
from gspn.experiments.yardstick.scores import judge
from gspn.experiments.yardstick.sets import SETS
from gspn.graphs import GraphDataset
from gspn.graphs.missing import gamma_mask, with_missing


def fill(runs: Sequence[Run], place: Path) -> list[Record]:
    """The only run's scores on the missing values of validation graphs, and of test graphs when it is assessed."""
    (run,) = runs
    truth = run.source.load()
    observed = with_missing(truth, gamma_mask(truth, seed=run.asked["mask_seed"]))
    fold = run.fold(truth)
    start = time.perf_counter()
    model = systems.build(run.model, run.settings, truth, run.seed)
    model = systems.fit(run.model, model, observed[fold.train], observed[fold.validation], place / "model.safetensors")
    seconds = {"model": time.perf_counter() - start}
    asked = {"validation": fold.validation} | ({"test": fold.test} if run.stage == ASSESSMENT else {})
    scores = {name: judge_missing(model.log_prob_missing, observed[ids], truth[ids]) for name, ids in asked.items()}
    return [{"scores": scores, "curves": {"model": curve_of(model)}, "seconds": seconds}]


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
