"""The question "fill": how likely the true values of missing entries are."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from gspn.experiments import systems
from gspn.experiments.curves import curve_of
from gspn.experiments.measures import judge_missing
from gspn.experiments.records import Record
from gspn.experiments.runs import ASSESSMENT, Run
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
