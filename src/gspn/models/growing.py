"""Models of several levels that start from a trained mixture.

Trained from scratch, the masked objective is slow to get going on continuous attributes: it sees a share of the entries
in each epoch. A mixture is quick to learn, and levels that know what it knows have only their neighbours left to learn.
Here is how levels grow; whether they do is decided in `gspn.policy`.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import torch

from gspn.graphs import GraphDataset
from gspn.models.expectation_maximisation import settle_aggregation
from gspn.models.fitting import Judge
from gspn.models.gspn import GSPN
from gspn.models.questions import Graphs
from gspn.random_streams import keyed_generator
from gspn.training import Epochs, exhaust

_TRANSITIONS = 3
"""Names the stream of random numbers from which first transitions are drawn."""

_NOISE = 0.5
"""Deviation of the logits of the first transitions: states that all lead to the same prior would stay alike."""


def fit_grown(model: GSPN, training: GraphDataset, **arguments: Any) -> GSPN:
    """Train the model for its number of epochs, the first half of them as a mixture; the arguments are `growing`'s."""
    exhaust(growing(model, training, **arguments))
    return model


def growing(
    model: GSPN,
    training: GraphDataset,
    *,
    validation: Graphs | Judge | None = None,
    checkpoint: str | Path | None = None,
    progress: bool = True,
    keep_scores: bool | Graphs = True,
    seconds: float = math.inf,
) -> Epochs:
    """`fit_grown` epoch by epoch: gives the records of the mixture's epochs, then of the model's, numbered in one go.

    Both are stopped by `validation`; the mixture takes at most half of the epochs, and of the `seconds`. The model is
    as it was until the mixture is learned; its `history_` has the epochs from then on. A mixture is checkpointed in a
    file of its own beside the model's.
    """
    start, first = time.monotonic(), model.epochs // 2
    mixture = mixture_for(model, first)
    yield from mixture.fitting(
        training,
        validation=validation,
        checkpoint=None if checkpoint is None else _beside(Path(checkpoint)),
        progress=progress,
        keep_scores=False,
        seconds=seconds / 2,
    )
    grow(model, mixture)
    epochs = model.fitting(
        training,
        validation=validation,
        checkpoint=checkpoint,
        progress=progress,
        warm_start=True,
        keep_scores=keep_scores,
        seconds=max(seconds - (time.monotonic() - start), seconds / 4),
        epochs=model.epochs - first,
    )
    for record in epochs:
        yield record | {"epoch": first + record["epoch"]}


def mixture_for(model: GSPN, epochs: int) -> GSPN:
    """An untrained mixture from which the model can grow."""
    settings = model.arguments() | {"num_layers": 1, "objective": "pseudo", "shortcut": None, "epochs": epochs}
    like = model.hierarchy.raw_prior
    return GSPN(**settings).to(device=like.device, dtype=like.dtype)


def grow(model: GSPN, mixture: GSPN) -> GSPN:
    """Let the model know what the mixture (one level, as many states) knows, and nothing of edges."""
    known, fresh = mixture.get_parameters(), model.set_params(seed=model.seed).get_parameters()  # as when it was built
    levels = model.num_layers - (model.shortcut is not None)  # a shortcut gives the root its leaves
    leaves = {
        name: {key: value.expand(levels, *value.shape[1:]) for key, value in leaf.items()}
        for name, leaf in known["leaves"].items()
    }
    shape = fresh["transitions"].shape
    noise = torch.randn(shape, generator=keyed_generator(model.seed, _TRANSITIONS), dtype=torch.float64)
    transitions = torch.softmax(known["prior"].log()[:, None, :] + _NOISE * noise, dim=-1)
    # What the mixture has none of, or of another size, stays as it was built.
    own = {"shortcut": fresh["shortcut"]} if model.shortcut == "learned" else {}
    own |= {"aggregation": fresh["aggregation"]} if "aggregation" in fresh else {}
    of_mixture = {"prior": known["prior"], "units": known["units"]}
    model.set_parameters({**of_mixture, **own, "leaves": leaves, "transitions": transitions})
    settle_aggregation(model.hierarchy, torch.full((model.num_edge_types,), 1 / model.num_edge_types))
    return model


def _beside(checkpoint: Path) -> Path:
    """Where the mixture of a run is kept; a folder holds both."""
    if checkpoint.is_dir():
        return checkpoint / "mixture.safetensors"
    return checkpoint.with_name(f"{checkpoint.stem}-mixture{checkpoint.suffix}")
