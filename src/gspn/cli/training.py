"""How large a model is and how long it learns where nobody says; and what is held out to know when to stop."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gspn.cli.screen import Screen
    from gspn.graphs import GraphDataset

_STEPS, _FEWEST_EPOCHS, _MOST_EPOCHS = 1_500, 30, 200
_VERTICES_A_STATE = 20
"""Fewer would leave a state with too little to learn from."""
_MOST_STATES, _LEVELS = 20, 3
_HELD_OUT_FROM = 100
"""Graphs from which on a tenth is held out to stop early; fewer are all needed, and judge badly."""


def sizes_for(dataset: GraphDataset, layers: int | None, states: int | None, epochs: int | None) -> dict[str, Any]:
    """Arguments of a model that suit the data: what is given stays."""
    vertices, edges = len(dataset.entries()), int(dataset.num_edges_per_graph().sum())
    steps = math.ceil(len(dataset) / 32)
    chosen = min(max(_STEPS // steps, _FEWEST_EPOCHS), _MOST_EPOCHS)
    return {
        "num_layers": layers or (_LEVELS if edges else 1),
        "num_states": states or min(max(vertices // _VERTICES_A_STATE, 2), _MOST_STATES),
        "num_edge_types": max(1, len(dataset.edge_types or ()) or _codes(dataset)),
        "epochs": epochs or chosen,
        "patience": max(5, (epochs or chosen) // 4),
    }


def hold_out(dataset: GraphDataset, seed: int) -> tuple[GraphDataset, GraphDataset | None]:
    """Graphs to train on, and a tenth to stop by where there are many."""
    if len(dataset) < _HELD_OUT_FROM:
        return dataset, None
    from gspn.graphs.splits import holdout

    fold = holdout(len(dataset), test=0.0, validation=0.1, seed=seed)
    return dataset[fold.train], dataset[fold.validation]


def show_graphs(screen: Screen, dataset: GraphDataset) -> None:
    """What was read: how much of it, and the attributes with their kinds."""
    import torch

    entries = dataset.entries()
    missing = torch.isnan(entries).sum(0).tolist()
    graphs, vertices, edges = len(dataset), len(entries), int(dataset.num_edges_per_graph().sum())
    screen.note(f"{graphs:,} {'graph' if graphs == 1 else 'graphs'}, {vertices:,} vertices, {edges:,} edges")
    if dataset.edge_types:
        screen.note(f"edge types: {', '.join(map(str, dataset.edge_types))}")
    screen.note_table(
        [
            {
                "attribute": attribute.name,
                "kind": attribute.kind,
                "missing": f"{count:,} ({count / max(vertices, 1):.0%})",
                "detail": attribute.detail if attribute.kind == "categorical" else "",
            }
            for attribute, count in zip(dataset.schema, missing, strict=True)
        ]
    )
    for attribute, count in zip(dataset.schema, missing, strict=True):
        if attribute.kind == "categorical" and len(attribute.categories) > max(20, (vertices - count) // 2):  # type: ignore[union-attr]
            screen.note(f"warning: nearly every value of {attribute.name!r} is different; --ignore it if it is a name")


def show_training(screen: Screen, model: Any, seconds: float) -> None:
    """How training went, in a line."""
    history = model.history_
    last = min(history, key=lambda epoch: epoch.get("validation", 0.0)) if "validation" in history[-1] else history[-1]
    judged = f", {last['validation']:.4f} on held-out graphs" if "validation" in last else ""
    sizes = f"{model.num_layers} levels, {model.num_states} states"
    screen.note(f"trained {sizes}: {len(history)} epochs in {seconds:.0f} s, loss {last['train']:.4f}{judged}")


def _codes(dataset: GraphDataset) -> int:
    types = dataset.edge_type
    return 1 if types is None or not len(types) else int(types.max()) + 1
