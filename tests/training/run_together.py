"""Training runs that one process, or several started by `torchrun`, can do.

    python -m torch.distributed.run --nproc-per-node 2 run_together.py FOLDER

saves every rank's models to FOLDER/CASE/RANK.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from small_graphs import EVERY_KIND, draw_graphs

from gspn import GSPN
from gspn.training import Checkpoint, loop

EPOCHS = 5

EVALUATED_AT_ONCE = 100
"""Several chunks of validation graphs, so that every process gets some."""

CASES: dict[str, dict[str, Any]] = {
    "pseudo": {"objective": "pseudo", "n_init": 2},
    "masked": {"objective": "masked", "clip": 0.1},
    "leave_one_out": {"objective": "leave_one_out"},
    # Fewer graphs in a batch than processes: some have nothing to do.
    "single graphs": {"objective": "masked", "batch_size": 1},
    "more processes than graphs in the last batch": {"objective": "leave_one_out", "batch_size": 10},
}
"""The arguments in which the runs differ."""


def fit(arguments: dict[str, Any], **more: Any) -> GSPN:
    """A run on 21 graphs: with the usual batch size of 5 the processes' shares are never equal."""
    settings = {"mask_rate": 0.3, "batch_size": 5, "epochs": EPOCHS, "seed": 5} | arguments | more
    model = GSPN(EVERY_KIND, num_layers=3, num_states=4).double()
    return model.fit(draw_graphs(21, seed=0), validation=draw_graphs(9, seed=1), **settings)


def fit_again(checkpoint: Path) -> GSPN:
    """Three epochs, then five with the same checkpoint, whose writing takes long."""
    save = Checkpoint.save

    def slow_save(*arguments: Any) -> None:
        time.sleep(0.5)
        save(*arguments)

    setattr(Checkpoint, "save", slow_save)  # noqa: B010 (an assignment would be an error of types)
    fit(CASES["masked"], epochs=3, checkpoint=checkpoint)
    return fit(CASES["masked"], checkpoint=checkpoint)


if __name__ == "__main__":
    folder, rank = Path(sys.argv[1]), os.environ["RANK"]
    loop._EVALUATED_AT_ONCE = EVALUATED_AT_ONCE
    for name, arguments in CASES.items():
        fit(arguments).save(folder / name / rank)
    fit(CASES["masked"], epochs=2, checkpoint=folder / "two epochs.safetensors").save(folder / "two epochs" / rank)
    fit_again(folder / "again.safetensors").save(folder / "again" / rank)
