"""What `gspn fit` does where targets are those of graphs: a model without labels, then a head on features of graphs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from gspn.cli.console import Console
    from gspn.graph_level.predicting import GraphPredictor
    from gspn.graphs import GraphDataset

_SHOWN = 8


def predicts_graphs(dataset: GraphDataset) -> bool:
    """Whether targets are graphs', and all classes or all numbers; others are learned end to end."""
    from gspn.graph_level.predicting import predictor_for

    if dataset.target_level != "graph" or dataset.target is None or len(dataset) < 2:
        return False
    return predictor_for(dataset.schema, dataset.target) is not None


def fit_predictor(
    dataset: GraphDataset, console: Console, checkpoint: Path | None, said: Mapping[str, Any]
) -> GraphPredictor:
    """The predictor, and what was tried, in words, while people wait."""
    from gspn.graph_level.predicting import learned_features, predictor_for

    assert dataset.target is not None
    start = time.perf_counter()
    features = learned_features(dataset, checkpoint=checkpoint, progress=console.progress, **said)
    history = features.model.history_
    console.note(f"trained without labels: {len(history)} epochs in {time.perf_counter() - start:.0f} s")
    start = time.perf_counter()
    predictor = predictor_for(dataset.schema, dataset.target, features=features, seed=said["seed"])
    assert predictor is not None
    predictor.fit(dataset, progress=console.progress)
    tried = sorted(predictor.tried_, key=lambda one: one["loss"])
    console.note_table(
        [{name: one[name] for name in ("target", "head", "settings", "loss", "score")} for one in tried[:_SHOWN]],
        f"heads on {predictor.features_.n_features_out_} features, judged on graphs not learned from, "
        f"the best {min(len(tried), _SHOWN)} of {len(tried)} ({time.perf_counter() - start:.0f} s):",
    )
    return predictor


def show_predictor(
    console: Console, predictor: GraphPredictor, dataset: GraphDataset, target: list[str], output: Path
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
    )
