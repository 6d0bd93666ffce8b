"""Heads on rows of graphs in grids: a model's features, with or without blocks of the controls, and heads by name.

    head = { heads = ["extra trees", "together"], monitor = "score", pairs = 4, attributes = true, subtrees = 3 }

`heads` makes a head one of this kind, `monitor`, `refit` and `judged_by` mean what they mean for the controls
(`gspn.baselines.PooledAttributes`); `descriptors` adds RDKit's to the rows; further keys are arguments of
`GraphFeatures`. Rows are computed once for all heads that have the same, and for all numbers of labels.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gspn.arguments import check_choice
from gspn.attributes import FloatArray
from gspn.baselines.molecule_rows import descriptors
from gspn.baselines.on_rows import JUDGES, check_heads, standardised
from gspn.convert.rebuilding import rebuild_molecule
from gspn.errors import InputError
from gspn.experiments.measures import measure_of
from gspn.experiments.parts import Parts, labels_of
from gspn.experiments.records import Record
from gspn.experiments.runs import Run
from gspn.graph_level.features import GraphFeatures
from gspn.graphs import GraphDataset
from gspn.predictors.outputs import outputs_for
from gspn.predictors.vectors import MONITORS, choose_heads
from gspn.scores import mean_absolute_error

_OF_HEADS = {"heads", "monitor", "refit", "judged_by"}
_KEPT, _LARGEST = 32, 4_000_000
"""Rows of so many models are kept in a process, if they are of so few numbers: those of the folds of a small dataset"""

_rows_of: OrderedDict[str, dict[str, Any]] = OrderedDict()


def is_row_head(head: Mapping[str, Any] | None) -> bool:
    return head is not None and "heads" in head


def check_row_head(head: Mapping[str, Any]) -> None:
    """Refuse what heads or features do not have, before anything is trained."""
    check_heads(head["heads"])
    check_choice("monitor", head.get("monitor", "loss"), MONITORS)
    if not isinstance(head.get("refit", False), bool):
        raise InputError(f"refit must be true or false, got {head['refit']!r}")
    check_choice("judged_by", head.get("judged_by", "validation"), JUDGES)
    if not isinstance(head.get("descriptors", False), bool):
        raise InputError(f"descriptors must be true or false, got {head['descriptors']!r}")
    arguments = _of_features(head)
    arguments.pop("descriptors", None)
    GraphFeatures(**arguments)


def judge_row_heads(runs: Sequence[Run], model: Any, parts: Parts, seconds: Mapping[str, float]) -> list[Record]:
    """What heads on rows of a fitted model found, in the order of the runs."""
    rows: dict[str, dict[str, Any]] = {}
    found = []
    for run in runs:
        assert run.head is not None
        start = time.perf_counter()
        arguments = _of_features(run.head)
        key = replace(run, source=run.source.model_copy(update={"labels": None}), head=arguments).key
        if key not in rows:
            rows = {key: _rows_of.get(key) or _rows(arguments, model, parts)}  # those of one kind follow each other
            if sum(part.size for part in rows[key].values() if isinstance(part, np.ndarray)) <= _LARGEST:
                _rows_of[key] = rows[key]
            while len(_rows_of) > _KEPT:
                _rows_of.popitem(last=False)
        found.append(_judge(run, rows[key], parts))
        found[-1]["seconds"] = {**seconds, "heads": time.perf_counter() - start}
    return found


def _of_features(head: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in head.items() if key not in _OF_HEADS}


def _rows(arguments: Mapping[str, Any], model: Any, parts: Parts) -> dict[str, Any]:
    """Standardised rows of training graphs and of those that judge; columns are chosen by training graphs."""
    described = arguments.get("descriptors", False)
    features = GraphFeatures(model, **{name: value for name, value in arguments.items() if name != "descriptors"})
    everything = features.fit_transform(parts.train, extra=_descriptors(parts.train, described), progress=False)
    units = features.centre_, features.scale_
    found: dict[str, Any] = {
        name: standardised(features.rows(graphs, _descriptors(graphs, described)), *units)
        for name, graphs in parts.judged()
    }
    return found | {"train": standardised(np.asarray(everything), *units), "views": features.views()}


def _descriptors(graphs: GraphDataset, wanted: bool) -> FloatArray | None:
    """[G, D] of molecules rebuilt from graphs."""
    if not wanted:
        return None
    return descriptors([rebuild_molecule(graph, graphs.schema) for graph in graphs])[1]


def _judge(run: Run, rows: Mapping[str, Any], parts: Parts) -> Record:
    head = run.head or {}
    by_validation = head.get("judged_by", "validation") == "validation"
    labels = {name: _labels(graphs) for name, graphs in [("train", parts.train[parts.labelled]), *parts.judged()]}
    chosen = choose_heads(
        rows["train"][parts.labelled.numpy()],
        labels["train"],
        parts.target,
        validation=(rows["validation"], labels["validation"]) if by_validation else None,
        families=check_heads(head["heads"]),
        monitor=head.get("monitor", "loss"),
        refit=head.get("refit", False),
        seed=run.seed,
        views=rows["views"],
    )
    meaning = outputs_for(parts.target, labels["train"])
    measure, scores = measure_of(parts.target), {}
    for name, _ in parts.judged():
        outputs = chosen.outputs(rows[name], meaning)
        score = meaning.score(outputs, labels[name])
        scores[name] = {measure: score}
        if measure == "mean absolute error":
            scores[name] = {measure: mean_absolute_error(labels[name], meaning.predictions(outputs)), "R²": score}
    return {
        "scores": scores,
        "curves": {},
        "columns": rows["train"].shape[1],
        "chosen": [[part.family for part in one.parts] for one in chosen.heads],
    }


def _labels(graphs: Any) -> Any:
    labels = labels_of(graphs).double().numpy()
    return labels.reshape(len(labels), -1)
