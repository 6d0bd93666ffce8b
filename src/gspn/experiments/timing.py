"""The question "time": a training step of GSPN beside one of GIN, as `gspn.benchmarks.step` measures it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from gspn.benchmarks import step
from gspn.experiments.records import Record
from gspn.experiments.runs import Run


def measure_time(runs: Sequence[Run], place: Path) -> list[Record]:
    """The only run's times in milliseconds. Nothing else should be running."""
    (run,) = runs
    threads = torch.get_num_threads()
    torch.set_num_threads(step.THREADS)
    try:
        times = step.compare(run.source.name, run.source.load(), step.rates(), step.ModelSizes(**run.settings))
    finally:
        torch.set_num_threads(threads)
    return [{"times": times, "scores": {}, "curves": {}, "seconds": {}, "threads": step.THREADS}]
