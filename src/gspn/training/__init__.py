"""The fit loop: minibatches, early stopping, checkpoints, several processes, progress.

Knows modules and objectives, not models: whatever has parameters and yields losses on a batch can be trained.
"""

from gspn.training.checkpoint import Checkpoint
from gspn.training.loop import (
    Epochs,
    Examples,
    Progress,
    Settings,
    Validate,
    exhaust,
    mean_loss,
    pause,
    pausing,
    train_by_epochs,
)
from gspn.training.processes import Processes, join_processes

__all__ = [
    "Checkpoint",
    "Epochs",
    "Examples",
    "Processes",
    "Progress",
    "Settings",
    "Validate",
    "exhaust",
    "join_processes",
    "mean_loss",
    "pause",
    "pausing",
    "train_by_epochs",
]
