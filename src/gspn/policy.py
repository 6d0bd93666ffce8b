"""How a model learns from a dataset where nobody says: one policy for the table imputer, the commands and the page.

Here is decided how large a model is, how long it learns, what is held out to know when to stop (graphs, or entries
where there are few graphs), and whether levels grow from a mixture. What is said explicitly always stays. How these
things are done belongs to `models` and `training`; experiments, which say everything, do not come here.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gspn.errors import InputError
from gspn.graphs import GraphDataset
from gspn.graphs.draws import keyed_uniform
from gspn.graphs.missing import with_missing
from gspn.graphs.splits import holdout
from gspn.models.arguments import check_integer
from gspn.models.compatibility import MAX_DEVIATIONS
from gspn.models.growing import growing
from gspn.models.gspn import GSPN
from gspn.models.supervised import SupervisedGSPN
from gspn.training import Epochs, exhaust

SHARE = 0.1
"""Of the graphs, or of the observed entries, that are held out."""

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
_HELD_OUT = -4
"""Names the stream of random numbers that chooses entries; masks of epochs have those from 0 on, and -1."""


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
        "num_edge_types": max(1, len(dataset.edge_types or ()) or _codes(dataset)),
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
    has_levels_to_grow = model.num_layers > 1 and not isinstance(model, SupervisedGSPN)
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

    A model with targets is judged by these, so it has no entries held out.
    """
    if len(dataset) >= _GRAPHS_FROM:
        fold = holdout(len(dataset), test=0.0, validation=SHARE, seed=model.seed)
        training, validation = dataset[fold.train], dataset[fold.validation]
        if isinstance(model, SupervisedGSPN) or _within_reach(training.entries(), validation.entries()).all():
            return training, validation
    if isinstance(model, SupervisedGSPN) or int((~dataset.entries().isnan()).sum()) < _ENTRIES_FROM:
        return dataset, None
    if not held_out_mask(dataset, model.seed, SHARE).any():
        return dataset, None
    entries = HeldOutEntries(dataset, model.seed)
    return entries.training, entries


class HeldOutEntries:
    """A judge by entries that training does not see, for where there are no graphs to spare, above all one graph.

    A share of the observed entries is missing in `training`; the judge asks a model for them, and gives their loss in
    nats an entry. Without it a model of a small graph learns the graph by heart, and is far too sure of what it fills
    in.
    """

    def __init__(self, dataset: GraphDataset, seed: int, share: float = SHARE) -> None:
        mask = held_out_mask(dataset, seed, share)
        if not mask.any():
            raise InputError("no entry can be held out: there are too few, or their columns would be empty")
        self.training = with_missing(dataset, mask)
        """The dataset without the held-out entries"""
        self.count = int(mask.sum())
        self._dataset, self._truth = dataset, list(dataset)

    def __call__(self, model: Any, /) -> dict[str, float]:
        log_probs = torch.cat(model.log_prob_missing(self.training, self._truth))
        return {"validation": -float(log_probs.double().sum()) / self.count}

    def digest(self) -> str:
        # What is learned from has a digest of its own; together they tell what is held out.
        return self._dataset.digest()


def held_out_mask(dataset: GraphDataset, seed: int, share: float) -> Tensor:
    """[N, d] True for a share of the observed entries, but for those that training could not do without."""
    entries, (graph, vertex) = dataset.entries(), dataset.vertex_keys()
    drawn = keyed_uniform(seed, _HELD_OUT, graph[:, None], vertex[:, None], torch.arange(entries.shape[1]))
    mask = (drawn < share) & ~entries.isnan()
    return mask & _within_reach(entries.masked_fill(mask, torch.nan), entries)


def _within_reach(training: Tensor, entries: Tensor) -> Tensor:
    """[N, d] whether a model of the training entries [M, d] can be asked for these: models refuse what is too far.

    False in columns of which nothing is left; such a column could not even be learned.
    """
    known = ~training.isnan()
    values, count = training.nan_to_num(0.0), known.sum(0).clamp_min(1)
    center = values.sum(0) / count
    spread = (((values - center) * known).square().sum(0) / count).sqrt()
    spread = torch.where(spread > 0, spread, 1.0)
    far = (entries.nan_to_num(0.0) - center).abs() > MAX_DEVIATIONS / 2 * spread
    return known.any(0) & ~(far & ~entries.isnan())


def _from_scratch(model: GSPN, training: GraphDataset, **arguments: Any) -> Epochs:
    return model.fitting(training, **arguments)


def _codes(dataset: GraphDataset) -> int:
    types = dataset.edge_type
    return 1 if types is None or not len(types) else int(types.max()) + 1
