"""One piece of work: train a model, judge it, write the records. It runs anywhere and needs nobody.

What a run may see is decided here: a run of the stage "selection" is given graphs in which test labels do not exist.
"""

from __future__ import annotations

import os
import platform
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import gspn
from gspn.errors import GSPNError, InputError
from gspn.experiments import systems
from gspn.experiments.measures import judge_missing, judge_predictions
from gspn.experiments.records import Record, Records
from gspn.experiments.runs import ASSESSMENT, Piece, Run
from gspn.experiments.sources import fold_digest, labelled
from gspn.graphs import GraphDataset
from gspn.graphs.missing import gamma_mask, with_missing
from gspn.targets import Target

_CURVE_POINTS = 40
"""Points of a training curve that are kept; more cannot be seen."""


@dataclass(frozen=True)
class Parts:
    """The graphs of one run, and which of the training graphs have labels; `test` is None during selection."""

    target: Target
    train: GraphDataset
    labelled: Tensor
    validation: GraphDataset
    test: GraphDataset | None

    def judged(self) -> Iterator[tuple[str, GraphDataset]]:
        yield "validation", self.validation
        if self.test is not None:
            yield "test", self.test


def perform(piece: Piece, folder: str | os.PathLike[str], commit: str | None = None) -> list[Record] | None:
    """The records of a piece's runs, made if they are not there; None while another process is making them."""
    records = Records(folder)
    with records.claim(piece.key) as place:
        if place is None:
            return None
        missing = [run for run in piece.runs if records.get(run.key) is None]
        if missing:
            about = {"commit": commit, "versions": _versions(), "threads": torch.get_num_threads()}
            for run, found in zip(missing, _found(missing, place), strict=True):
                finished = datetime.now(UTC).isoformat(timespec="seconds")
                records.put({"key": run.key, "run": run.identity(), **found, **about, "finished": finished})
        records.clear(piece.key)
        return [record for run in piece.runs if (record := records.get(run.key)) is not None]


def attempt(piece: Piece, folder: Path, commit: str | None) -> tuple[list[Record] | None, str | None]:
    """The records of a piece, or what went wrong."""
    try:
        return perform(piece, folder, commit), None
    except Exception:
        return None, traceback.format_exc()


def memory_of(piece: Piece) -> int:
    """Bytes that a piece may need, reckoned generously: the libraries, the graphs, posteriors and embeddings."""
    run = piece.runs[0]
    dataset = run.source.load()
    vertices, edges = int(dataset.num_vertices_per_graph().sum()), int(dataset.num_edges_per_graph().sum())
    width = run.settings.get("num_layers", 5) * run.settings.get("num_states", 20)
    return 2**30 + 32 * (vertices + edges) + (12 * vertices * width if run.head is not None else 0)


def _found(runs: Sequence[Run], place: Path) -> list[Record]:
    """What the runs found. Training that fails in a way we know (it diverged, say) is a finding too."""
    try:
        if runs[0].question == "fill":
            return [_fill(runs[0], place)]
        return _predict(runs[0], place) if runs[0].head is None else _embed(runs, place)
    except GSPNError as error:
        if isinstance(error, InputError):
            raise  # the grid or the data is wrong, which no other configuration mends
        return [{"error": str(error), "scores": {}, "curves": {}, "seconds": {}} for _ in runs]


def _predict(run: Run, place: Path) -> list[Record]:
    parts = _parts(run)
    start = time.perf_counter()
    model = systems.build(run.model, run.settings, parts.train, run.seed)
    training = parts.train[parts.labelled]
    model = systems.fit(run.model, model, training, parts.validation, place / "model.safetensors")
    seconds = {"model": time.perf_counter() - start}
    scores = {name: judge_predictions(parts.target, model, graphs, _labels(graphs)) for name, graphs in parts.judged()}
    return [{"scores": scores, "curves": {"model": _curve(model)}, "seconds": seconds}]


def _embed(runs: Sequence[Run], place: Path) -> list[Record]:
    parts = _parts(runs[0])
    start = time.perf_counter()
    model = systems.build(runs[0].model, runs[0].settings, parts.train, runs[0].seed)
    model = systems.fit(runs[0].model, model, parts.train, parts.validation, place / "model.safetensors")
    seconds = {"model": time.perf_counter() - start}
    training = parts.train[parts.labelled]
    embeddings = {name: model.embed(graphs) for name, graphs in [("train", training), *parts.judged()]}
    start = time.perf_counter()
    heads = gspn.DeepSets.fit_many(
        [{**(run.head or {}), "seed": run.seed} for run in runs],
        embeddings["train"],
        _labels(training),
        validation=(embeddings["validation"], _labels(parts.validation)),
        target=parts.target,
        progress=False,
    )
    seconds["heads"] = time.perf_counter() - start
    return [
        {
            "scores": {
                name: judge_predictions(parts.target, head, embeddings[name], _labels(graphs))
                for name, graphs in parts.judged()
            },
            "curves": {"model": _curve(model), "head": _curve(head)},
            "seconds": seconds,
        }
        if hasattr(head, "weights_")
        else {"error": "the head's loss became no number", "scores": {}, "curves": {}, "seconds": seconds}
        for head in heads
    ]


def _fill(run: Run, place: Path) -> Record:
    truth = run.source.load()
    assert run.mask_seed is not None
    observed = with_missing(truth, gamma_mask(truth, seed=run.mask_seed))
    fold = _fold(run, truth)
    start = time.perf_counter()
    model = systems.build(run.model, run.settings, truth, run.seed)
    model = systems.fit(run.model, model, observed[fold.train], observed[fold.validation], place / "model.safetensors")
    seconds = {"model": time.perf_counter() - start}
    asked = {"validation": fold.validation} | ({"test": fold.test} if run.stage == ASSESSMENT else {})
    scores = {name: judge_missing(model.log_prob_missing, observed[ids], truth[ids]) for name, ids in asked.items()}
    return {"scores": scores, "curves": {"model": _curve(model)}, "seconds": seconds}


def _parts(run: Run) -> Parts:
    dataset = run.source.load()
    if dataset.target is None or dataset.y is None:
        raise InputError(f"{run.source.name} has no target to predict")
    fold = _fold(run, dataset)
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


def _fold(run: Run, dataset: GraphDataset) -> Any:
    fold = run.division.of(dataset)
    if fold_digest(fold) != run.digests[1]:
        raise InputError(f"{run.source.name} is divided differently here than where the run was planned")
    return fold


def _labels(graphs: GraphDataset) -> Tensor:
    assert graphs.y is not None
    return graphs.y[graphs.positions]


def _curve(model: Any) -> dict[str, list[float]]:
    """Losses and scores over the epochs, thinned out."""
    history: Sequence[Mapping[str, float]] = getattr(model, "history_", ())
    if not history:
        return {}
    steps = min(len(history), _CURVE_POINTS)
    picked = [history[i] for i in torch.linspace(0, len(history) - 1, steps).round().long().tolist()]
    names = [name for name in ("epoch", "train", "validation", "score") if name in picked[0]]
    return {name: [float(f"{entry[name]:.6g}") for entry in picked] for name in names}


@lru_cache(maxsize=1)
def _versions() -> dict[str, str]:
    packages = ("gspn", "numpy", "torch", "torch-geometric", "numba", "scikit-learn")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}
