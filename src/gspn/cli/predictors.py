"""What `gspn fit --target` does: learn, hold labels out, and say how good predictions of these are.

Targets of graphs: a model without labels, then a head on features of graphs. Others are learned within the circuit.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from gspn.cli.console import Console
    from gspn.graph_level.predicting import GraphPredictor
    from gspn.graphs import GraphDataset
    from gspn.reports.targets import HeldOut, ScoreRange

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
    from gspn.reports.learning_again import judge_predictor
    from gspn.reports.targets import split, too_few

    assert dataset.target is not None
    start, seed = time.perf_counter(), said["seed"]
    parts = split(dataset, seed) if score else None
    training = dataset if parts is None else dataset[parts.others(len(dataset))]
    features = learned_features(training, checkpoint=checkpoint, progress=console.progress, **said)
    history = features.model.history_
    console.note(f"trained without labels: {len(history)} epochs in {time.perf_counter() - start:.0f} s")
    held_out = None
    if parts is not None:
        console.note(f"judge on {len(parts.held):,} held-out graphs, beside baselines")
        without = predictor_for(dataset.schema, dataset.target, features=features, seed=seed)
        assert without is not None
        held_out = judge_predictor(without, dataset, training, parts, seed)
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


def judge_again(model: Any, dataset: GraphDataset, console: Console) -> HeldOut:
    """How good a model is whose target is within the circuit."""
    from gspn.reports import learning_again
    from gspn.reports.targets import split, too_few

    parts = split(dataset, model.seed)
    if parts is None:
        return too_few(dataset)
    what = "vertices" if dataset.target_level == "vertex" else "graphs"
    console.note(f"judge: {len(parts.held):,} labelled {what} are held out, and the model learns again without them")
    return learning_again.judge_again(model, dataset, parts, console.progress)


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
