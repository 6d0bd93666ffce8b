"""How large a model is and how long it learns where nobody says; and what is held out to know when to stop."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from gspn.cli.screen import Screen
    from gspn.graphs import GraphDataset
    from gspn.models.gspn import GSPN

_STEPS, _FEWEST_EPOCHS, _MOST_EPOCHS = 1_500, 30, 200
_VERTICES_A_STATE = 40
"""Fewer would leave a state with too little to learn from."""
_FEWEST_STATES, _MOST_STATES, _LEVELS = 4, 20, 3
"""Of 30 rows, two states missed what four found; held-out entries stop what would be learned by heart."""
_HELD_OUT_FROM = 100
"""Graphs from which on a tenth is held out to stop early; fewer are all needed, and judge badly."""
_ENTRIES_HELD_OUT_FROM = 200
"""Entries from which on a tenth of them is held out, where there are fewer graphs."""


def sizes_for(dataset: GraphDataset, layers: int | None, states: int | None, epochs: int | None) -> dict[str, Any]:
    """Arguments of a model that suit the data: what is given stays."""
    vertices, edges = len(dataset.entries()), int(dataset.num_edges_per_graph().sum())
    steps = math.ceil(len(dataset) / 32)
    chosen = min(max(_STEPS // steps, _FEWEST_EPOCHS), _MOST_EPOCHS)
    return {
        "num_layers": layers or (_LEVELS if edges else 1),
        "num_states": states or min(max(vertices // _VERTICES_A_STATE, _FEWEST_STATES), _MOST_STATES),
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


def train(model: GSPN, dataset: GraphDataset, screen: Screen, checkpoint: Path | None = None) -> float | None:
    """Fit until held-out graphs get no more likely or, of a few graphs, held-out entries.

    Of entries, gives what they would cost if every column stood by itself, in nats.
    """
    training, validation = hold_out(dataset, model.seed)
    entries = int((~dataset.entries().isnan()).sum())
    if validation is not None or entries < _ENTRIES_HELD_OUT_FROM or checkpoint is not None or hasattr(model, "target"):
        model.fit(training, validation=validation, checkpoint=checkpoint, progress=screen.progress)
        return None
    from gspn.models.stopping import fit_holding_out_entries

    fit_holding_out_entries(model, dataset, progress=screen.progress)
    return loss_of_columns(dataset, model.seed)


def loss_of_columns(dataset: GraphDataset, seed: int) -> float:
    """Nats a held-out entry where every column stands by itself, as a yardstick: one state learns nothing else."""
    from gspn.baselines import Mixture
    from gspn.models.stopping import SHARE, held_out_loss, without_some_entries

    training = without_some_entries(dataset, SHARE, seed)
    alone = Mixture(dataset.schema, num_states=1, seed=seed).fit(training).model_
    return held_out_loss(alone.float(), training, dataset)  # float32: what is compiled already will do


def show_graphs(screen: Screen, dataset: GraphDataset, inferred: bool = False) -> None:
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
        elif inferred and attribute.kind == "categorical" and all(isinstance(c, int) for c in attribute.categories):  # type: ignore[union-attr]
            screen.note(
                f"the whole numbers of {attribute.name!r} are taken for categories; amounts are counts: "
                f"--types {attribute.name}=count"
            )


def show_training(screen: Screen, model: Any, seconds: float, of_columns: float | None = None) -> None:
    """How training went, in a line; beside the loss on held-out entries that of columns by themselves."""
    history = model.history_
    last = min((epoch for epoch in history if "validation" in epoch), key=_validation, default=history[-1])
    judged = f", {last['validation']:.4f} on what was held out" if "validation" in last else ""
    judged += "" if of_columns is None else f" ({of_columns:.4f} if every column stood by itself)"
    sizes = f"{model.num_layers} levels, {model.num_states} states"
    screen.note(f"trained {sizes}: {len(history)} epochs in {seconds:.0f} s, loss {last['train']:.4f}{judged}")
    if of_columns is not None and last["validation"] >= of_columns:
        screen.note(
            "warning: held-out entries are filled no better than by every column's mean or commonest value; there may "
            "be too few rows, or --types or --states may help"
        )


def _validation(epoch: dict[str, Any]) -> float:
    return float(epoch["validation"])


def _codes(dataset: GraphDataset) -> int:
    types = dataset.edge_type
    return 1 if types is None or not len(types) else int(types.max()) + 1
