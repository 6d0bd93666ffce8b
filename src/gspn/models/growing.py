"""Models of several levels that start from a trained mixture.

Trained from scratch, the masked objective is slow to get going on continuous attributes: it sees a share of the entries
in each epoch. A mixture is quick to learn, and levels that know what it knows have only their neighbours left to learn.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from gspn.graphs import GraphDataset
from gspn.graphs.draws import keyed_generator
from gspn.models.gspn import GSPN

_TRANSITIONS = 3
"""Names the stream of random numbers from which first transitions are drawn."""

_NOISE = 0.5
"""Deviation of the logits of the first transitions: states that all lead to the same prior would stay alike."""


def grown(mixture: GSPN, **settings: Any) -> GSPN:
    """A model with `settings` that knows what the mixture (one level, as many states) knows, and nothing of edges."""
    model = GSPN(mixture.schema, **settings)
    known = mixture.get_parameters()
    levels = model.num_layers - (model.shortcut is not None)  # a shortcut gives the root its leaves
    leaves = {
        name: {key: value.expand(levels, *value.shape[1:]) for key, value in leaf.items()}
        for name, leaf in known["leaves"].items()
    }
    shape = model.get_parameters()["transitions"].shape
    noise = torch.randn(shape, generator=keyed_generator(model.seed, _TRANSITIONS), dtype=torch.float64)
    transitions = torch.softmax(known["prior"].log()[:, None, :] + _NOISE * noise, dim=-1)
    return model.set_parameters({**known, "leaves": leaves, "transitions": transitions})


def fit_grown(
    model: GSPN,
    training: GraphDataset,
    *,
    validation: GraphDataset | None = None,
    checkpoint: Path | None = None,
    progress: bool = True,
) -> GSPN:
    """Train a model of these settings for the same number of epochs, the first half of them as a mixture."""
    settings = model.arguments()
    del settings["schema"]
    first = settings["epochs"] // 2
    rest = settings | {"epochs": settings["epochs"] - first}
    before = None if checkpoint is None else checkpoint.with_name(f"{checkpoint.stem}-mixture{checkpoint.suffix}")
    mixture = GSPN(
        model.schema, **settings | {"num_layers": 1, "objective": "pseudo", "shortcut": None, "epochs": first}
    )
    mixture.fit(training, validation=validation, checkpoint=before, progress=progress)
    return grown(mixture, **rest).fit(
        training, validation=validation, checkpoint=checkpoint, progress=progress, warm_start=True
    )
