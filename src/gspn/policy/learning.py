"""How one model learns by gradient descent where nobody says: its size, how long, what is held out, whether it grows.

What is said explicitly always stays. How these things are done belongs to `models` and `training`; which models fill
gaps together is chosen in `selection`.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from gspn.arguments import check_integer
from gspn.graphs import GraphDataset
from gspn.graphs.splits import holdout
from gspn.models.growing import growing
from gspn.models.gspn import GSPN
from gspn.policy.held_out import SHARE, HeldOutEntries, held_out_mask, within_reach
from gspn.training import Epochs, exhaust

_STEPS, _FEWEST_EPOCHS, _MOST_EPOCHS = 1_500, 30, 200
_VERTICES_A_STATE = 40
"""Fewer would leave a state with too little to learn from."""
_FEWEST_STATES, _MOST_STATES, _LEVELS = 4, 20, 3
"""Of 30 rows, two states missed what four found; held-out entries stop what would be learned by heart."""
_BATCH_SIZE = 32
_GRAPHS_FROM = 100
"""Graphs from which on a tenth is held out; fewer are all needed, and judge badly."""
_ENTRIES_FROM = 200
"""Entries from which on a tenth of them is held out, where there are fewer graphs."""


def model_for(dataset: GraphDataset, **given: Any) -> GSPN:
    """An untrained model for filling gaps and answering questions; arguments of `GSPN` that are given stay."""
    return GSPN(dataset.schema, **settings_for(dataset, **given))


def settings_for(dataset: GraphDataset, **given: Any) -> dict[str, Any]:
    """Arguments of a model that suit the data; those that are given, and not None, stay as they are."""
    said = {name: value for name, value in given.items() if value is not None}
    for name, least in (("epochs", 0), ("batch_size", 1)):
        if name in said:
            check_integer(name, said[name], least)
    vertices, edges = len(dataset.entries()), int(dataset.num_edges_per_graph().sum())
    steps = math.ceil(len(dataset) / said.get("batch_size", _BATCH_SIZE))
    epochs = said.get("epochs", min(max(_STEPS // max(steps, 1), _FEWEST_EPOCHS), _MOST_EPOCHS))
    return {
        "num_layers": _LEVELS if edges else 1,
        "num_states": min(max(vertices // _VERTICES_A_STATE, _FEWEST_STATES), _MOST_STATES),
        "num_edge_types": edge_types_of(dataset),
        "objective": "masked",
        "epochs": epochs,
        "batch_size": _BATCH_SIZE,
        "patience": max(5, epochs // 4),
    } | said


def fit(
    model: GSPN,
    dataset: GraphDataset,
    *,
    grow: bool = False,
    checkpoint: str | Path | None = None,
    progress: bool = True,
) -> GSPN:
    """Train the model until what is held out gets no more likely, at most for its `epochs`; the best weights stay.

    With `grow` the levels of a model without targets grow from a mixture, which takes the first half of the epochs. As
    a rule they do not: on thirteen real sets it was no better at equal epochs (see the developers' notes).
    """
    exhaust(fitting(model, dataset, grow=grow, checkpoint=checkpoint, progress=progress))
    return model


def fitting(
    model: GSPN,
    dataset: GraphDataset,
    *,
    grow: bool = False,
    checkpoint: str | Path | None = None,
    progress: bool = True,
    seconds: float = math.inf,
) -> Epochs:
    """`fit` epoch by epoch, for at most about so many `seconds`: gives the records, numbered up to `model.epochs`.

    Of a model that grows, the first half are the mixture's, and `history_` has the second. Scores are kept once, at the
    end, of all that was learned from: where entries are held out, of the dataset with these entries.
    """
    training, held_out = hold_out(model, dataset)
    has_levels_to_grow = model.num_layers > 1 and model.goal.kind == "entries"
    learn = growing if grow and has_levels_to_grow else _from_scratch
    return learn(
        model,
        training,
        validation=held_out,
        checkpoint=checkpoint,
        progress=progress,
        keep_scores=dataset if isinstance(held_out, HeldOutEntries) else True,
        seconds=seconds,
    )


def hold_out(model: GSPN, dataset: GraphDataset) -> tuple[GraphDataset, GraphDataset | HeldOutEntries | None]:
    """What to learn from, and what to stop by: a tenth of many graphs, a tenth of the entries of few, or nothing.

    A model with targets is judged by these, so it has no entries held out; where labels are evidence it holds out some
    of them itself.
    """
    learns = model.goal.kind
    if learns == "labels":
        return dataset, None
    if len(dataset) >= _GRAPHS_FROM:
        fold = holdout(len(dataset), test=0.0, validation=SHARE, seed=model.seed)
        training, validation = dataset[fold.train], dataset[fold.validation]
        if learns == "targets" or within_reach(training.entries(), validation.entries()).all():
            return training, validation
    if learns == "targets" or int((~dataset.entries().isnan()).sum()) < _ENTRIES_FROM:
        return dataset, None
    if not held_out_mask(dataset, model.seed, SHARE).any():
        return dataset, None
    entries = HeldOutEntries(dataset, model.seed)
    return entries.training, entries


def _from_scratch(model: GSPN, training: GraphDataset, **arguments: Any) -> Epochs:
    return model.fitting(training, **arguments)


def edge_types_of(dataset: GraphDataset) -> int:
    """How many edge types a model of the dataset has to know; at least one."""
    if dataset.edge_types:
        return len(dataset.edge_types)
    types = dataset.edge_type
    return 1 if types is None or not len(types) else int(types.max()) + 1
