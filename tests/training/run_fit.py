"""One training run in a process of its own, for tests that kill it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from small_graphs import EVERY_KIND, draw_graphs

from gspn import GSPN, files
from gspn.hierarchy import Hierarchy
from gspn.models import fitting as model_module

MOMENTS: dict[str, tuple[Any, str]] = {
    "initialisation": (Hierarchy, "initialise"),
    "evaluation": (Hierarchy, "forward"),
    "checkpoint half written": (files, "write_through"),
    "checkpoint not yet in place": (os, "replace"),
    "leave-one-out NLL": (model_module, "leave_one_out_nll"),
}


def fit(objective: str, checkpoint: Path) -> GSPN:
    """The run: small, but of 50 to 100 epochs. With "masked" it stops early and its best weights are not its last."""
    model = GSPN(EVERY_KIND, num_layers=3, num_states=4, objective=objective, mask_rate=0.3, batch_size=20, seed=3)
    graphs = draw_graphs(100, seed=0)
    if objective == "masked":
        held_out = draw_graphs(20, seed=1)
        return model.fit(graphs, validation=held_out, checkpoint=checkpoint, epochs=200, patience=12, lr=0.01)
    return model.fit(graphs, checkpoint=checkpoint, epochs=50, n_init=2)


def die_at(moment: str, number: int) -> None:
    """Send this process SIGKILL the given time it comes to the moment."""
    home, name = MOMENTS[moment]
    original: Callable[..., Any] = getattr(home, name)
    calls = count(1)

    def dying(*arguments: Any, **named: Any) -> Any:
        if next(calls) == number:
            if moment == "checkpoint half written":
                path, content = arguments
                original(path, content[: len(content) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments, **named)

    setattr(home, name, dying)


def main(objective: str, moment: str, number: int, *folders: Path) -> None:
    """Fit with a folder's checkpoint.safetensors and save the model in it, folder after folder.

    The process sends itself SIGKILL the given time that it comes to the moment; at "never" it does not.
    """
    if moment != "never":
        die_at(moment, number)
    for folder in folders:
        folder.mkdir(exist_ok=True)
        fit(objective, folder / "checkpoint.safetensors").save(folder / "model")
