"""Training heads on labelled embeddings by the common loop: one head, or many on the same batches.

Among many, each ends after its own number of epochs, or when its validation has not improved for its own patience; it
then leaves the products that the others still need. One whose numbers are none any more leaves the others alone. What
a step computes belongs to `heads`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gspn.attributes import FloatArray
from gspn.errors import GSPNError, InputError
from gspn.predictors.embeddings import PackedEmbeddings, Space
from gspn.predictors.heads import Head, HeadStack, Weights, stacks
from gspn.predictors.outputs import Outputs
from gspn.targets import all_binary
from gspn.training import Checkpoint, Processes, Progress, Settings, exhaust, train_by_epochs

_COLUMNS_WORTH_A_THREAD = 64
"""Narrower products are not made faster by one more thread, and are slower where other processes want it."""


@dataclass(frozen=True)
class LabelledEmbeddings:
    """Graphs with labels [G, T] as they were encoded, NaN where missing."""

    rows: PackedEmbeddings
    labels: Tensor

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, graph_ids: Tensor) -> LabelledEmbeddings:
        """The chosen graphs; they stand where the batch before stood, so there is one at a time."""
        return LabelledEmbeddings(self.rows.batch(graph_ids, self._space), self.labels.index_select(0, graph_ids))

    @cached_property
    def _space(self) -> Space:
        return Space()

    @property
    def entries(self) -> int:
        """Labels that are not missing."""
        return int(np.count_nonzero(~np.isnan(self.labels.numpy())))

    def digest(self) -> str:
        """A fingerprint of embeddings and labels."""
        found = hashlib.blake2b(digest_size=16)
        for values in (self.rows.values, self.rows.ptr, self.labels):
            found.update(f"{values.dtype} {list(values.shape)}".encode())
            found.update(values.contiguous().numpy().data)
        return found.hexdigest()


class Lesson:
    """What all heads learn from and are examined in."""

    def __init__(
        self,
        outputs: Outputs,
        training: LabelledEmbeddings,
        validation: LabelledEmbeddings | None,
        monitors: Sequence[str],
    ) -> None:
        self.outputs, self.training, self.validation = outputs, training, validation
        self._scored = validation is not None and _worth_scoring(outputs, validation.labels.numpy(), monitors)

    def examine(self, stack: HeadStack) -> list[dict[str, float]]:
        """Every head's validation loss and, where wanted, score; nothing where there are no validation graphs."""
        if self.validation is None:
            return [{} for _ in stack.heads]
        found = stack.outputs(self.validation.rows)
        losses = (self.outputs.losses(found, self.validation.labels) / self.validation.entries).tolist()
        records = [{"validation": loss} for loss in losses]
        if self._scored:
            labels = self.validation.labels.numpy()
            for record, own in zip(records, found.numpy(), strict=True):
                finite = math.isfinite(record["validation"])
                record["score"] = self.outputs.score(own, labels) if finite else math.nan
        return records


def train_alone(
    head: Head,
    settings: Settings,
    lesson: Lesson,
    progress: Progress,
    checkpoint: Checkpoint | None = None,
    show_progress: bool = True,
) -> None:
    """Train one head, which ends with its best weights; `progress` is brought up to date after every epoch."""
    stack = HeadStack([head])

    def objective(batch: LabelledEmbeddings, epoch: int) -> Iterator[tuple[Tensor, int]]:
        if entries := batch.entries:
            yield lesson.outputs.losses(stack(batch.rows), batch.labels).squeeze(0), entries

    def examine() -> dict[str, float]:
        if not bool(head.numbers.isfinite().all()):
            raise GSPNError(f"weights became non-finite in epoch {progress.epoch}; try a smaller lr")
        return lesson.examine(stack)[0]

    with _threads_for(stack.columns):
        exhaust(
            train_by_epochs(
                head,
                objective,
                lesson.training,
                examine,
                settings,
                Processes(),
                progress,
                checkpoint=checkpoint,
                show_progress=show_progress,
            )
        )


@dataclass(eq=False)
class Member:
    """A head among many: how it learns, and how far it has come."""

    head: Head
    settings: Settings
    progress: Progress = field(default_factory=Progress)
    best: Weights | None = None
    """The best weights after whole epochs (without validation, the last); None before there are any."""
    diverged: bool = False
    total: float = 0.0
    """The sum of the losses of this epoch's batches."""

    @property
    def finished(self) -> bool:
        return self.diverged or self.progress.stopped_early or self.progress.epoch >= self.settings.epochs

    def note(self, record: dict[str, Any]) -> None:
        """Take down an epoch, and its weights if they are the best so far."""
        self.diverged = not (math.isfinite(record["train"]) and bool(self.head.numbers.isfinite().all()))
        if self.diverged:
            self.progress.history.append(record)
        elif self.progress.note(record, self.settings):
            self.best = self.head.weights()
        self.total = 0.0


def train_together(members: Sequence[Member], lesson: Lesson, show_progress: bool = True) -> None:
    """Train all heads, each to its own end; they are up to date after every epoch, also when an exception ends it."""
    for member in members:
        if member.finished:
            member.best = member.head.weights()
    learning = [member for member in members if not member.finished]
    if not learning:
        return
    together = _Together(learning, lesson)
    epochs = train_by_epochs(
        nn.ModuleList(member.head for member in learning),
        together.objective,
        lesson.training,
        together.examine,
        max((member.settings for member in learning), key=lambda settings: settings.epochs),
        Processes(),
        Progress(),
        show_progress=show_progress,
        optimizer=together.optimizer,
    )
    with _threads_for(max(stack.columns for stack, _ in together.stacks)), closing(epochs):
        for record in epochs:
            for member in members:
                if len(member.progress.history) > record["epoch"]:
                    member.progress.history[-1]["seconds"] = record["seconds"]
            if not together.left:
                break


class _Together:
    """The members that still learn, as the common loop takes them."""

    def __init__(self, members: Sequence[Member], lesson: Lesson) -> None:
        self._lesson, self._entries = lesson, 0
        self.left: list[Member] = sorted(members, key=lambda member: member.head.hidden)
        # Heads with the same settings are moved in one operation.
        groups: dict[tuple[float, float], list[Tensor]] = {}
        for member in self.left:
            groups.setdefault((member.settings.lr, member.settings.weight_decay), []).append(member.head.numbers)
        settings = [{"params": own, "lr": lr, "weight_decay": decay} for (lr, decay), own in groups.items()]
        self.optimizer = torch.optim.Adam(settings, fused=True)
        self.stacks = self._stacked()

    def _stacked(self) -> list[tuple[HeadStack, list[Member]]]:
        members = iter(self.left)
        return [(stack, list(islice(members, len(stack.heads)))) for stack in stacks(m.head for m in self.left)]

    def objective(self, batch: LabelledEmbeddings, epoch: int) -> Iterator[tuple[Tensor, int]]:
        terms = entries = batch.entries
        self._entries += entries
        for stack, members in self.stacks if entries else ():
            losses = self._lesson.outputs.losses(stack(batch.rows), batch.labels)
            yield losses.where(losses.isfinite(), 0.0).sum(), terms
            terms = 0
            # The loop has differentiated this part by now. A head without numbers stands still, so that others go on.
            gradients = [head.numbers.grad for head in stack.heads if head.numbers.grad is not None]
            finite = torch.stack(torch._foreach_norm(gradients)).isfinite().tolist()
            for member, loss, gradient, whole in zip(members, losses.tolist(), gradients, finite, strict=True):
                member.total += loss if whole else math.nan
                if not whole:
                    gradient.zero_()

    def examine(self) -> dict[str, Any]:
        """Note what every head has reached, and let those leave that have come to their end."""
        for stack, members in self.stacks:
            for member, found in zip(members, self._lesson.examine(stack), strict=True):
                member.note({"epoch": member.progress.epoch, "train": member.total / self._entries} | found)
        self._entries, learned = 0, [member.progress.history[-1]["train"] for member in self.left]
        left = [member for member in self.left if not member.finished]
        if len(left) < len(self.left):
            staying = {member.head.numbers for member in left}
            for group in self.optimizer.param_groups:
                group["params"] = [numbers for numbers in group["params"] if numbers in staying]
            self.left = left
            self.stacks = self._stacked()
        return {"train": sum(learned) / len(learned), "heads left": len(left)}


def _worth_scoring(outputs: Outputs, labels: FloatArray, monitors: Sequence[str]) -> bool:
    """Whether scores are computed after every epoch: if they exist, and are cheap or somebody waits for them."""
    monitored = "score" in monitors
    try:
        outputs.score(np.zeros((len(labels), int(outputs.ends[-1]))), labels)
    except InputError as error:
        if monitored:
            raise InputError(f"monitor='score' needs a score of the validation graphs: {error}") from error
        return False
    # Average precisions of many tasks take longer than the training itself.
    return monitored or not all_binary(outputs.target)


@contextmanager
def _threads_for(columns: int) -> Iterator[None]:
    """Torch's threads for products that are so wide."""
    before = torch.get_num_threads()
    torch.set_num_threads(max(1, min(before, columns // _COLUMNS_WORTH_A_THREAD)))
    try:
        yield
    finally:
        torch.set_num_threads(before)
