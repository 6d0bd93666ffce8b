"""The question "label": how well a method predicts the labels of vertices, with its probabilities."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from gspn.errors import InputError
from gspn.experiments.records import Record
from gspn.experiments.runs import Run
from gspn.experiments.vertices.gaps import gaps
from gspn.experiments.vertices.methods import VertexTask, method_named
from gspn.experiments.vertices.scores import judge
from gspn.experiments.vertices.sets import load, parts
from gspn.graphs.missing import with_missing


def label(runs: Sequence[Run], place: Path) -> list[Record]:
    """The only run's scores on the vertices to be predicted."""
    (run,) = runs
    found = load(run.source.name)
    if run.source.digest() != run.digests[0]:
        raise InputError(f"the set {run.source.name} is another one here than where the run was planned")
    train, validation, test = parts(found, run.seed)
    dataset = with_missing(found.dataset, gaps(found, run.asked["mechanism"], run.asked["rate"], run.seed))
    # Labels to be predicted are not given to anyone.
    seen = found.labels.masked_fill(~(train | validation), float("nan"))
    task = VertexTask(dataset, seen, found.target, train, validation, found.new_graphs)
    start = time.perf_counter()
    probs = method_named(run.model)(task, run.seed, **run.settings)
    seconds = {"model": time.perf_counter() - start}
    scores = judge(probs[test.numpy()], found.labels[test].long().numpy())
    return [{"scores": {"hidden": scores}, "curves": {}, "seconds": seconds}]
