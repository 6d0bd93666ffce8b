"""The question "predict": how well a model predicts targets, alone or by heads on its embeddings.

What a run may see is decided here: one of the stage "selection" is given graphs in which test labels do not exist.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import gspn
from gspn.errors import InputError
from gspn.experiments import systems
from gspn.experiments.measures import judge_predictions
from gspn.experiments.parts import Parts, labels_of
from gspn.experiments.records import Record
from gspn.experiments.row_heads import is_row_head, judge_row_heads
from gspn.experiments.runs import ASSESSMENT, Run
from gspn.experiments.sources import labelled
from gspn.experiments.systems import curve_of

_KEPT = 24
"""Models without labels that a process keeps, which are small: those of the folds of a dataset, and some more."""

_models: OrderedDict[str, tuple[Any, float]] = OrderedDict()


def predict(runs: Sequence[Run], place: Path) -> list[Record]:
    """What the runs found, which differ in their heads alone."""
    return [_directly(runs[0], place)] if runs[0].head is None else _by_heads(runs, place)


def _directly(run: Run, place: Path) -> Record:
    parts = _parts(run)
    start = time.perf_counter()
    model = systems.build(run.model, run.settings, parts.train, run.seed)
    training = parts.train[parts.labelled]
    model = systems.fit(run.model, model, training, parts.validation, place / "model.safetensors")
    seconds = {"model": time.perf_counter() - start}
    scores = {
        name: judge_predictions(parts.target, model, graphs, labels_of(graphs)) for name, graphs in parts.judged()
    }
    return {"scores": scores, "curves": {"model": curve_of(model)}, "seconds": seconds}


def _by_heads(runs: Sequence[Run], place: Path) -> list[Record]:
    parts = _parts(runs[0])
    model, taken = _without_labels(runs[0], parts, place)
    seconds = {"model": taken}
    on_rows = [run for run in runs if is_row_head(run.head)]
    by_key = dict(zip([run.key for run in on_rows], judge_row_heads(on_rows, model, parts, seconds), strict=True))
    others = [run for run in runs if not is_row_head(run.head)]
    if others:
        found = _by_deep_sets(others, model, parts, seconds)
        by_key |= dict(zip([run.key for run in others], found, strict=True))
    return [by_key[run.key] | {"curves": {"model": curve_of(model)} | by_key[run.key]["curves"]} for run in runs]


def _without_labels(run: Run, parts: Parts, place: Path) -> tuple[Any, float]:
    """A model and the seconds that its training took, which runs with other labels may have been the first to need."""
    key = replace(run, source=run.source.model_copy(update={"labels": None}), head={}).key
    if key not in _models:
        start = time.perf_counter()
        model = systems.build(run.model, run.settings, parts.train, run.seed)
        model = systems.fit(run.model, model, parts.train, parts.validation, place / "model.safetensors")
        _models[key] = model, time.perf_counter() - start
    _models.move_to_end(key)
    while len(_models) > _KEPT:
        _models.popitem(last=False)
    return _models[key]


def _by_deep_sets(runs: Sequence[Run], model: Any, parts: Parts, seconds: dict[str, float]) -> list[Record]:
    training = parts.train[parts.labelled]
    embeddings = {name: model.embed(graphs) for name, graphs in [("train", training), *parts.judged()]}
    start = time.perf_counter()
    heads = [gspn.DeepSets(parts.target, **(run.head or {}), seed=run.seed) for run in runs]
    for batch_size in dict.fromkeys(head.batch_size for head in heads):  # the same batches for all in one pass
        gspn.DeepSets.fit_many(
            [head for head in heads if head.batch_size == batch_size],
            embeddings["train"],
            labels_of(training),
            validation=(embeddings["validation"], labels_of(parts.validation)),
            progress=False,
        )
    seconds = seconds | {"heads": time.perf_counter() - start}
    return [
        {
            "scores": {
                name: judge_predictions(parts.target, head, embeddings[name], labels_of(graphs))
                for name, graphs in parts.judged()
            },
            "curves": {"head": curve_of(head)},
            "seconds": seconds,
        }
        if hasattr(head, "weights_")
        else {"error": "the head's loss became no number", "scores": {}, "curves": {}, "seconds": seconds}
        for head in heads
    ]


def _parts(run: Run) -> Parts:
    dataset = run.source.load()
    if dataset.target is None or dataset.y is None:
        raise InputError(f"{run.source.name} has no target to predict")
    fold = run.fold(dataset)
    seen = dataset
    if run.stage != ASSESSMENT:
        y = dataset.y[dataset.positions].double().clone()
        y[fold.test] = torch.nan
        seen = dataset.with_targets(y, "graph")
    chosen = labelled(fold.train, run.source.labels, run.division.seed)
    return Parts(
        dataset.target,
        seen[fold.train],
        torch.isin(fold.train, chosen).nonzero().squeeze(1),
        seen[fold.validation],
        seen[fold.test] if run.stage == ASSESSMENT else None,
    )
