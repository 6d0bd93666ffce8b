"""Early stopping where there are no graphs to spare, above all on one graph: entries are held out instead.

A share of the observed entries is taken out of the training data. Training goes in rounds, and after each the model is
asked for these entries; it ends when the answers get no better, and keeps the weights that answered best. Without it a
model of a small graph learns the graph by heart, and is far too sure of what it fills in.
"""

from __future__ import annotations

import copy
import itertools

import torch
from tqdm import tqdm

from gspn.errors import InputError
from gspn.graphs import GraphDataset
from gspn.graphs.missing import uniform_mask, with_missing
from gspn.models.gspn import GSPN

SHARE = 0.1
"""Of the observed entries that are held out."""


def fit_holding_out_entries(
    model: GSPN,
    dataset: GraphDataset,
    *,
    share: float = SHARE,
    rounds: int = 20,
    patience: int = 3,
    progress: bool = True,
) -> GSPN:
    """Train for at most the model's `epochs`, in `rounds`, until held-out entries get no more likely for `patience`.

    `history_` has all epochs, and after each round the loss on held-out entries, in nats an entry, as "validation".
    """
    training = without_some_entries(dataset, share, model.seed)
    a_round = max(1, model.epochs // rounds)
    history: list[dict[str, object]] = []
    best, best_loss, best_round = copy.deepcopy(model.state_dict()), float("inf"), 0
    number = 0
    # disable=None: shown on a terminal only; a log file gets no bar.
    with tqdm(total=model.epochs, desc="fit", unit="epoch", disable=None if progress else True) as bar:
        for number in itertools.count():
            done = len(history)
            if done >= model.epochs or number - best_round > patience:
                break
            epochs = min(a_round, model.epochs - done)
            # Every round has masks of its own; they depend on the seed and the epoch's number.
            model.fit(training, progress=False, warm_start=number > 0, epochs=epochs, seed=model.seed + number)
            history += [epoch | {"epoch": done + epoch["epoch"]} for epoch in model.history_]
            loss = held_out_loss(model, training, dataset)
            history[-1]["validation"] = loss
            if loss < best_loss:
                best, best_loss, best_round = copy.deepcopy(model.state_dict()), loss, number
            bar.update(epochs)
            bar.set_postfix(held_out=f"{loss:.4f}")
    model.load_state_dict(best)
    model.history_ = history
    if model.training_scores_ is not None:
        model.keep_scores(dataset, seed=model.seed)
    return model


def without_some_entries(dataset: GraphDataset, share: float, seed: int) -> GraphDataset:
    """The dataset with a share of its observed entries missing."""
    held_out = uniform_mask(dataset, share, seed) & ~torch.isnan(dataset.entries())
    if not held_out.any():
        raise InputError("there are too few observed entries to hold some out")
    return with_missing(dataset, held_out)


def held_out_loss(model: GSPN, training: GraphDataset, dataset: GraphDataset) -> float:
    """Nats for each entry that is missing in `training` and observed in `dataset`, given what `training` shows."""
    count = int((training.entries().isnan() & ~dataset.entries().isnan()).sum())
    return -float(torch.cat(model.log_prob_missing(training, list(dataset))).sum()) / count
