"""Training heads on labelled embeddings: one pass over the data for all of them, each with an end of its own.

All heads see the same batches. A head ends after its own number of epochs, or when its validation has not improved for
its own patience; it then leaves the products that the others still need. What a step computes belongs to `heads`, how
work is shared among threads to `sharing`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain
from threading import Event
from typing import Any, TypeAlias

import numpy as np
import torch
from tqdm import tqdm

from gspn.attributes import FloatArray
from gspn.errors import InputError
from gspn.predictors.checkpoints import HeadCheckpoint
from gspn.predictors.embeddings import PackedEmbeddings
from gspn.predictors.heads import Head, HeadStack, Weights
from gspn.predictors.loops import Integers, gather_graphs
from gspn.predictors.outputs import Outputs
from gspn.predictors.runs import HeadRun, LabelledEmbeddings
from gspn.predictors.sharing import Workers, share_out
from gspn.random_streams import keyed_generator
from gspn.targets import all_binary

_ORDER = 12
"""Names the stream of random numbers that orders the graphs of an epoch."""


def train(
    runs: Sequence[HeadRun],
    outputs: Outputs,
    training: LabelledEmbeddings,
    validation: LabelledEmbeddings | None,
    *,
    batch_size: int,
    order_seed: int,
    show_progress: bool,
    keeper: HeadCheckpoint | None = None,
) -> None:
    """Train every run to its end; they are up to date after every epoch, also when training ends by an exception.

    A single run can be kept in a file, and goes on from what is kept there.
    """
    rows = training.rows
    scored = validation is not None and _worth_scoring(outputs, validation.labels, runs)
    lesson = _Lesson(outputs, rows, outputs.standardise(training.labels), validation, scored)
    left = [(run, run.start(rows.width, int(outputs.ends[-1]), rows.values.dtype)) for run in runs]
    if keeper is not None:
        ((run, head),) = left
        left = [(run, keeper.resume(run, head))]
    for run, head in left:
        if not run.epochs and run.weights is None:
            run.weights = head.weights
    left = [(run, head) for run, head in left if not run.finished]
    longest, batches_each = max(run.epochs for run in runs), math.ceil(len(rows) / batch_size)
    bar = tqdm(
        total=longest * batches_each,
        initial=len(runs[0].history) * batches_each,
        desc="fit",
        unit="batch",
        # None: shown on a terminal only; a log file gets no bar.
        disable=None if show_progress else True,
        dynamic_ncols=True,
    )
    with bar, keeper or nullcontext(), Workers() as workers:
        shares = _stacked(left, workers.threads)
        while shares:
            start, epoch = time.perf_counter(), len(shares[0][0][1][0].history)
            order = torch.randperm(len(rows), generator=keyed_generator(order_seed, _ORDER, epoch))
            batches = [batch.numpy() for batch in order.split(batch_size)]
            tasks = [partial(_epoch, share, lesson, epoch, batches, workers.stop) for share in shares]
            columns = [max(stack.columns for stack, _ in share) for share in shares]
            found = workers.run([partial(tasks[0], after_batch=bar.update), *tasks[1:]], columns)
            seconds = time.perf_counter() - start
            for run, record, weights in chain.from_iterable(found):
                run.note(record | {"seconds": seconds}, weights)
            if keeper is not None:
                keeper.note(*_at_rest(shares)[0])
            _show(bar, epoch, longest, runs)
            if any(run.finished for run, _, _ in chain.from_iterable(found)):
                left = [(run, head) for run, head in _at_rest(shares) if not run.finished]
                shares = _stacked(left, workers.threads)


@dataclass(frozen=True)
class _Lesson:
    """What all heads learn from and are examined in."""

    outputs: Outputs
    rows: PackedEmbeddings
    labels: FloatArray
    """[G, T], standardised."""
    validation: LabelledEmbeddings | None
    scored: bool


_Share: TypeAlias = list[tuple[HeadStack, list[HeadRun]]]
"""What one thread does: stacks, and the runs of their heads."""


def _stacked(left: Sequence[tuple[HeadRun, Head]], threads: int) -> list[_Share]:
    if not left:
        return []
    return [
        [(HeadStack([left[i][1] for i in stack]), [left[i][0] for i in stack]) for stack in share]
        for share in share_out([run.hidden for run, _ in left], threads)
    ]


def _at_rest(shares: Sequence[_Share]) -> list[tuple[HeadRun, Head]]:
    return [pair for stack, runs in chain.from_iterable(shares) for pair in zip(runs, stack.heads(), strict=True)]


def _epoch(
    share: _Share,
    lesson: _Lesson,
    epoch: int,
    batches: Sequence[Integers],
    stop: Event,
    after_batch: Callable[[], object] = lambda: None,
) -> list[tuple[HeadRun, dict[str, Any], Weights]]:
    """One pass over the training graphs and one over the validation graphs; every run's record and weights."""
    labels, values, ptr = lesson.labels, lesson.rows.values.numpy(), lesson.rows.ptr.numpy()
    labelled, sizes = (~np.isnan(labels)).sum(1), np.diff(ptr)
    totals, entries = [np.zeros(len(runs)) for _, runs in share], 0
    space = np.empty((max(int(sizes[batch].sum()) for batch in batches), values.shape[1]), dtype=values.dtype)
    for batch in batches:
        if stop.is_set():
            return []
        # Nothing to learn from in this batch: no step, or Adam's momentum would move the weights all the same.
        if own_entries := int(labelled[batch].sum()):
            own_ptr = np.empty(len(batch) + 1, dtype=np.int64)
            gather_graphs(batch, ptr, values, own_ptr, space)
            x = torch.from_numpy(space[: own_ptr[-1]])
            for (stack, _), total in zip(share, totals, strict=True):
                total += stack.learn(x, own_ptr, labels[batch], lesson.outputs, own_entries)
            entries += own_entries
        after_batch()
    found = []
    for (stack, runs), total in zip(share, totals, strict=True):
        records = [{"epoch": epoch, "train": loss} for loss in (total / entries).tolist()]
        if lesson.validation is not None:
            _validate(stack, lesson.outputs, lesson.validation, records, lesson.scored)
        found += [(run, record, stack.weights(i)) for i, (run, record) in enumerate(zip(runs, records, strict=True))]
    return found


def _validate(
    stack: HeadStack, outputs: Outputs, validation: LabelledEmbeddings, records: Sequence[dict[str, Any]], scored: bool
) -> None:
    """Add validation loss and, where wanted, score to the heads' records."""
    found = stack.outputs(validation.rows).numpy()
    entries = int((~np.isnan(validation.labels)).sum())
    losses = outputs.losses(found, outputs.standardise(validation.labels), np.empty_like(found), 0.0) / entries
    for record, loss, own in zip(records, losses.tolist(), found, strict=True):
        record["validation"] = loss
        if scored:
            record["score"] = outputs.score(own, validation.labels) if math.isfinite(loss) else math.nan


def _worth_scoring(outputs: Outputs, labels: FloatArray, runs: Sequence[HeadRun]) -> bool:
    """Whether scores are computed after every epoch: if they exist, and are cheap or somebody waits for them."""
    monitored = any(run.monitor == "score" for run in runs)
    try:
        outputs.score(np.zeros((len(labels), int(outputs.ends[-1]))), labels)
    except InputError as error:
        if monitored:
            raise InputError(f"monitor='score' needs a score of the validation graphs: {error}") from error
        return False
    # Average precisions of many tasks take longer than the training itself.
    return monitored or not all_binary(outputs.target)


def _show(bar: Any, epoch: int, epochs: int, runs: Sequence[HeadRun]) -> None:
    bar.set_description(f"fit, epoch {epoch + 1}/{epochs}", refresh=False)
    if len(runs) == 1:
        record = runs[0].history[-1]
        bar.set_postfix({name: f"{record[name]:.4f}" for name in ("train", "validation", "score") if name in record})
    else:
        bar.set_postfix({"heads left": sum(not run.finished for run in runs)})
