"""The fit loop: minibatches, early stopping, checkpoints, several processes, progress.

Knows modules and objectives, not models: whatever has parameters and yields losses on a batch can be trained.
"""

from gspn.training.checkpoint import Checkpoint
from gspn.training.loop import Progress, Settings, Validate, mean_loss, train
from gspn.training.processes import Processes, join_processes

__all__ = ["Checkpoint", "Processes", "Progress", "Settings", "Validate", "join_processes", "mean_loss", "train"]
