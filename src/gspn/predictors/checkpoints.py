"""The training of one head kept in a file, from which it goes on as if it had never stopped.

Epochs of a head may take milliseconds, so not every one of them is written: what was done since the last writing is
done again, with the same result. However training ends, its last whole epoch is written.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor

from gspn.errors import CheckpointError
from gspn.files import misfits
from gspn.predictors.heads import Head
from gspn.predictors.runs import HeadRun, LabelledEmbeddings
from gspn.training import Checkpoint

SECONDS_BETWEEN = 1.0
"""Of training, between two writings."""

_PARTS = ("now", "first", "second", "best")
"""The weights of the last epoch, Adam's moments and the best weights."""

_PROGRESS: dict[str, Any] = {"step": int, "history": list, "best": list | None, "best_epoch": int}


class HeadCheckpoint:
    """Keeps a run in a checkpoint, as a context in which it is trained."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._unwritten: tuple[dict[str, Tensor], dict[str, Any]] | None = None
        self._written_at = time.monotonic()

    def resume(self, run: HeadRun, start: Head) -> Head:
        """The head to go on from, the run being brought up to it; `start` where nothing is kept yet."""
        kept = self._checkpoint.read()
        if kept is None:
            return start
        tensors, progress = kept
        self._check(tensors, progress, start)
        # In the order in which a stack lays them out: at other places in memory, products may round otherwise.
        now, first, second, best = ({name: tensors[f"{part}/{name}"] for name in start.weights} for part in _PARTS)
        run.history, run.best_epoch, run.weights = progress["history"], progress["best_epoch"], best
        run.best = None if progress["best"] is None else tuple(progress["best"])
        return replace(start, weights=now, moments=(first, second), step=progress["step"])

    def note(self, run: HeadRun, head: Head) -> None:
        """A whole epoch is done; of one that came to no number there is nothing to keep."""
        if run.diverged or run.weights is None:
            return
        parts = zip(_PARTS, (head.weights, *(head.moments or ()), run.weights), strict=True)
        tensors = {f"{part}/{name}": value for part, weights in parts for name, value in weights.items()}
        progress = {"step": head.step, "history": list(run.history), "best": run.best, "best_epoch": run.best_epoch}
        self._unwritten = tensors, progress
        if time.monotonic() - self._written_at >= SECONDS_BETWEEN:
            self._write()

    def _write(self) -> None:
        if self._unwritten is not None:
            self._checkpoint.write(*self._unwritten)
            self._unwritten, self._written_at = None, time.monotonic()

    def _check(self, tensors: dict[str, Tensor], progress: dict[str, Any], start: Head) -> None:
        wanted = {f"{part}/{n}": w for part in _PARTS for n, w in start.weights.items()}
        wrong = misfits(tensors, wanted) + sorted(set(progress) ^ set(_PROGRESS))
        wrong += [name for name, kind in _PROGRESS.items() if name in progress and not isinstance(progress[name], kind)]
        if wrong:
            raise CheckpointError(f"{self._checkpoint.path} is damaged: {', '.join(wrong)} is not understood")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._write()


def digest_data(data: LabelledEmbeddings) -> str:
    """A fingerprint of embeddings and labels."""
    found = hashlib.blake2b(digest_size=16)
    for values in (data.rows.values, data.rows.ptr, torch.from_numpy(data.labels)):
        found.update(f"{values.dtype} {list(values.shape)}".encode())
        found.update(values.contiguous().numpy().data)
    return found.hexdigest()
