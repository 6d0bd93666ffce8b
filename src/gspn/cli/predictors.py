"""What `gspn fit --target` does: learn, hold labels out, and say how good predictions of these are.

Targets of graphs: a model without labels, then a head on features of graphs. Others are learned within the circuit.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from gspn.cli.console import Console
    from gspn.graph_level.predicting import GraphPredictor
    from gspn.graphs import GraphDataset
    from gspn.reports.targets import HeldOut, ScoreRange, Split

_SHOWN = 8


def predicts_graphs(dataset: GraphDataset) -> bool:
    """Whether targets are graphs', and all classes or all numbers; others are learned end to end."""
    from gspn.graph_level.predicting import predictor_for

    if dataset.target_level != "graph" or dataset.target is None or len(dataset) < 2:
        return False
    return predictor_for(dataset.schema, dataset.target) is not None


def fit_predictor(
    dataset: GraphDataset, console: Console, checkpoint: Path | None, said: Mapping[str, Any], score: bool = True
) -> tuple[GraphPredictor, HeldOut | None]:
    """The predictor, what was tried, in words, while people wait, and how good it is on held-out graphs.

    The model without labels learns once, and never from graphs that are held out; heads learn first without these, to
    be judged, and then with them.
    """
    from gspn.graph_level.predicting import learned_features, predictor_for
    from gspn.reports.targets import split, too_few

    assert dataset.target is not None
    start, seed = time.perf_counter(), said["seed"]
    parts = split(dataset, seed) if score else None
    training = dataset if parts is None else dataset[_others(len(dataset), parts.held)]
    features = learned_features(training, checkpoint=checkpoint, progress=console.progress, **said)
    history = features.model.history_
    console.note(f"trained without labels: {len(history)} epochs in {time.perf_counter() - start:.0f} s")
    held_out = None
    if parts is not None:
        console.note(f"judge on {len(parts.held):,} held-out graphs, beside baselines")
        held_out = _judged(
            dataset, training, parts, predictor_for(dataset.schema, dataset.target, features=features, seed=seed), seed
        )
    elif score:
        held_out = too_few(dataset)
    start = time.perf_counter()
    predictor = predictor_for(dataset.schema, dataset.target, features=features, seed=seed)
    assert predictor is not None
    predictor.fit(dataset, progress=console.progress)
    tried = sorted(predictor.tried_, key=lambda one: one["loss"])
    console.note_table(
        [{name: one[name] for name in ("target", "head", "settings", "loss", "score")} for one in tried[:_SHOWN]],
        f"heads on {predictor.features_.n_features_out_} features, judged on graphs not learned from, "
        f"the best {min(len(tried), _SHOWN)} of {len(tried)} ({time.perf_counter() - start:.0f} s):",
    )
    return predictor, held_out


def _judged(dataset: GraphDataset, training: GraphDataset, parts: Split, predictor: Any, seed: int) -> HeldOut:
    from gspn.reports.baselines import for_graphs
    from gspn.reports.targets import OURS, judge, labels_of

    assert dataset.target is not None
    held = dataset[parts.held]
    predictor.fit(training, progress=False)
    baselines, explained = for_graphs(training, held, seed)
    explained = {OURS: "a model without labels, and heads on its features", **explained}
    return judge(
        labels_of(held),
        dataset.target,
        [predictor.predictive(held)],
        baselines,
        explained,
        learned_from=len(parts.known),
        what="graphs",
        seed=seed,
    )


def judge_again(model: Any, dataset: GraphDataset, console: Console) -> HeldOut:
    """How good a model is whose target is within the circuit: it learns once more, without what is held out."""
    import numpy as np
    import torch
    from sklearn.base import clone

    from gspn import policy
    from gspn.reports.baselines import for_graphs, for_vertices
    from gspn.reports.targets import OURS, judge, labels_of, split, too_few

    parts = split(dataset, model.seed)
    if parts is None:
        return too_few(dataset)
    assert dataset.target is not None
    of_vertices = dataset.target_level == "vertex"
    what = "vertices" if of_vertices else "graphs"
    console.note(f"judge: {len(parts.held):,} labelled {what} are held out, and the model learns again without them")
    truth = labels_of(dataset)
    if not of_vertices:
        training, held = dataset[_others(len(dataset), parts.held)], dataset[parts.held]
        again: Any = policy.fit(clone(model), training, progress=console.progress)
        said = [again.predictive(held)]
        baselines, explained = for_graphs(training, held, model.seed)
    else:
        visible = torch.from_numpy(np.where(np.isin(np.arange(len(truth)), parts.held)[:, None], np.nan, truth))
        several = dataset.y is not None and dataset.y.ndim > 1
        training = dataset.with_targets(visible if several else visible[:, 0], "vertex")
        again = policy.fit(clone(model), training, progress=console.progress)
        said = _of_held(again.predictive(training), training, parts)
        baselines, explained = for_vertices(dataset, parts.known, parts.held, model.seed)
    return judge(
        truth[parts.held],
        dataset.target,
        said,
        baselines,
        {OURS: "the model that was asked for", **explained},
        learned_from=len(parts.known),
        what=what,
        seed=model.seed,
    )


def _of_held(answers: Any, dataset: GraphDataset, parts: Split) -> list[Any]:
    """Of what is said graph by graph, what concerns held-out vertices, in their order."""
    graph, vertex = dataset.vertex_keys()
    per_graph = answers if isinstance(answers, list) else [answers]
    if isinstance(answers, dict):
        per_graph = [
            dict(zip(answers, each, strict=True)) for each in zip(*map(_listed, answers.values()), strict=True)
        ]
    found = []
    for number, said in enumerate(per_graph):
        own = vertex[parts.held[graph[parts.held] == number]]
        if len(own):
            found.append({name: one[own] for name, one in said.items()} if isinstance(said, dict) else said[own])
    return found


def _listed(answers: Any) -> list[Any]:
    return answers if isinstance(answers, list) else [answers]


def _others(count: int, held: Tensor) -> Tensor:
    import torch

    kept = torch.ones(count, dtype=torch.bool)
    kept[held] = False
    return kept.nonzero().squeeze(1)


def show_held_out(console: Console, held_out: HeldOut | None) -> dict[str, Any]:
    """The scores, for people and for machines; whoever is best."""
    if held_out is None:
        return {"held_out": None}
    for one in held_out.targets:
        console.table(
            [
                {"method": method} | {name: _with_range(measure) for name, measure in found.items()}
                for method, found in one.scores.items()
            ],
            f"{one.attribute.name} on held-out {held_out.what}, with 95 % ranges:",
        )
    console.say(held_out.verdict())
    return {
        "held_out": {
            "count": held_out.held_out,
            "learned_from": held_out.learned_from,
            "what": held_out.what,
            "scores": held_out.rows(),
            "why_not": held_out.why_not or None,
        }
    }


def _with_range(measure: ScoreRange) -> str:
    return f"{measure.value:.3f} ({measure.low:.3f} … {measure.high:.3f})"


def show_predictor(
    console: Console,
    predictor: GraphPredictor,
    dataset: GraphDataset,
    target: list[str],
    output: Path,
    further: dict[str, Any],
) -> None:
    """What was trained and where it is, for people and for machines."""
    (model,) = predictor.features_.learned_.models
    heads = [", ".join(part.family for part in head.parts) or "constant" for head in predictor.chosen_.heads]
    console.table(
        [
            {"what": "model", "value": type(predictor).__name__},
            {"what": "levels, states", "value": f"{model.num_layers}, {model.num_states}"},
            {"what": "graphs", "value": len(dataset)},
            {"what": "attributes", "value": ", ".join(dataset.schema.names)},
            {"what": "target", "value": ", ".join(target)},
            {"what": "head", "value": "; ".join(heads)},
            {"what": "saved in", "value": str(output)},
        ]
    )
    console.result(
        {
            "model": str(output),
            "kind": type(predictor).__name__,
            "graphs": len(dataset),
            "schema": dataset.schema.to_json(),
            "target": target,
            "history": model.history_,
            "features": predictor.features_.n_features_out_,
            "heads": heads,
            "tried": predictor.tried_,
        }
        | further
    )
