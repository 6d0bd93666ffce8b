"""The fit loop: Adam on minibatches of graphs, early stopping with the best weights kept, one checkpoint an epoch.

What is random in an epoch depends on the seed and the epoch's number alone, so a run that continues from a checkpoint
does exactly what it would have done without the interruption. The loop is a generator: whoever has something else to
do between epochs takes them one by one, everybody else all at once (`exhaust`). What is trained, and what is held out
to judge it, is decided elsewhere.

After every step something else may be done in the same thread (`pausing`): a server that computes in one thread
answers questions in these pauses, and ends what nobody waits for any more, by an exception.
"""

from __future__ import annotations

import copy
import logging
import math
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor, nn
from tqdm import tqdm

from gspn.errors import CheckpointError, GSPNError
from gspn.graphs.dataset import GraphDataset
from gspn.graphs.masks import FIXED
from gspn.hierarchy.objectives import Objective
from gspn.random_streams import keyed_generator
from gspn.training.checkpoint import Checkpoint
from gspn.training.processes import Processes

_log = logging.getLogger(__name__)

_ORDER = 1
"""Names the stream of random numbers that orders the graphs of an epoch."""

_EVALUATED_AT_ONCE = 200_000
"""Vertices and edges of one evaluation chunk."""

_IN_VAIN = 5
"""Epochs after which it is worth a word that none was better than the first."""


class Examples(Protocol):
    """What is learned from, in batches: a GraphDataset, or anything else that gives what the objective takes."""

    def __len__(self) -> int: ...

    def batch(self, graph_ids: Tensor, /) -> Any: ...


Learn: TypeAlias = Callable[[Any, int], Iterator[tuple[Tensor, int]]]
"""An objective, which takes a batch of the examples and the epoch. It is asked for a part of the loss when the one
before has been differentiated."""

Validate: TypeAlias = Callable[[], dict[str, float]]
"""Gives the loss on the validation set as "validation", and where there is one a "score" (higher is better)."""

Epochs: TypeAlias = Generator[dict[str, Any], None, None]
"""Records of finished epochs, each given as soon as it is there."""


@dataclass(frozen=True)
class Settings:
    """How to train; the names are those of the models' arguments."""

    epochs: int
    batch_size: int
    lr: float
    weight_decay: float
    clip: float | None
    patience: int
    seed: int
    monitor: str = "loss"
    """What chooses the best epoch: the validation "loss", or the validation "score" (ties: the loss)."""
    halve_every: float | None = None
    """Epochs after which the learning rate is halved, again and again; None leaves it as it is."""


@dataclass
class Progress:
    """How far a run has come; written into every checkpoint."""

    epoch: int = 0
    best_validation: float | None = None
    best_epoch: int = 0
    stopped_early: bool = False
    history: list[dict[str, Any]] = field(default_factory=list)
    results: dict[str, float] | None = None
    """What is computed once at the end; None while the run is not finished."""

    def note(self, record: dict[str, Any], settings: Settings) -> bool:
        """Take down an epoch; whether its weights are the best so far."""
        best = self.history[self.best_epoch] if self.history else None
        self.history.append(record)
        self.epoch += 1
        if best is not None and not _improves(record, best, settings.monitor):
            self.stopped_early = record["epoch"] - self.best_epoch >= settings.patience
            return False
        self.best_validation, self.best_epoch = record.get("validation"), record["epoch"]
        return True

    def restore(self, kept: dict[str, Any], path: Path) -> None:
        """Take over what `asdict` gave when it was kept in the file."""
        if set(kept) != set(_KEPT):
            raise CheckpointError(f"{path} is damaged: {sorted(set(kept) ^ set(_KEPT))} is not understood")
        for name, kind in _KEPT.items():
            if not isinstance(kept[name], kind):
                raise CheckpointError(f"{path} is damaged: its {name} is {kept[name]!r}")
        if len(kept["history"]) != kept["epoch"] or not 0 <= kept["best_epoch"] <= max(kept["epoch"] - 1, 0):
            raise CheckpointError(f"{path} is damaged: its epochs do not fit its history")
        for number, record in enumerate(kept["history"]):
            numbers = record.values() if isinstance(record, dict) else ["no record"]
            if not all(type(one) in (int, float) for one in numbers) or not {"epoch", "train", "seconds"} <= {*record}:
                raise CheckpointError(f"{path} is damaged: epoch {number} of its history is {record!r}")
            if record["epoch"] != number or {*record} != {*kept["history"][0]}:
                raise CheckpointError(f"{path} is damaged: its history has {record!r} in place of epoch {number}")
        vars(self).update(kept)


_KEPT: dict[str, Any] = {
    "epoch": int,
    "best_validation": float | None,
    "best_epoch": int,
    "stopped_early": bool,
    "history": list,
    "results": dict | None,
}
"""What a kept Progress consists of."""


def exhaust(epochs: Epochs) -> None:
    """Take every epoch; whatever happens, the run is over afterwards."""
    with closing(epochs):
        for _ in epochs:
            pass


def train_by_epochs(
    module: nn.Module,
    objective: Learn,
    training: Examples,
    validate: Validate | None,
    settings: Settings,
    processes: Processes,
    progress: Progress,
    *,
    checkpoint: Checkpoint | None = None,
    show_progress: bool = True,
    at_end: Callable[[], dict[str, float]] = dict,
    seconds: float = math.inf,
    is_enough: Callable[[dict[str, Any]], bool] | None = None,
    optimizer: torch.optim.Optimizer | None = None,
) -> Epochs:
    """Train until `epochs`, or until validation has not improved for `patience` of them; then keep the best weights.

    Gives the record of every epoch once it is in the checkpoint, if it is time to write one. In between, the module has
    the weights of that epoch; after the last one, or when the generator is closed or ends by an exception, the best.
    `validate` is asked after every epoch, where there is something to validate on. `progress` is brought up to date
    after every epoch, so that it is right also when training ends by an exception. `at_end` is called once, with the
    final weights, unless the generator is closed before; what it gives stands in `progress.results`. After so many
    `seconds` the epoch that is under way is the last one of this call, and so is one whose record `is_enough`. Without
    an `optimizer`, Adam moves all parameters by the settings.
    """
    start = time.monotonic()
    run = _Run(
        module, objective, training, validate, settings, processes, progress, optimizer or adam(module, settings)
    )
    if checkpoint and (kept := checkpoint.load(module, run.optimizer)):
        run.best = kept[0]
        progress.restore(kept[1], checkpoint.path)
        _log.info("continuing after epoch %d", progress.epoch)
    if progress.epoch > settings.epochs:
        _log.warning("the checkpoint holds %d epochs, more than the %d asked for", progress.epoch, settings.epochs)

    def save() -> None:
        if checkpoint and processes.rank == 0:
            checkpoint.save(module, run.optimizer, run.best, asdict(progress))

    saved = -math.inf
    bar = _Bar(training, settings, progress, show_progress and processes.rank == 0)
    try:
        while progress.epoch < settings.epochs and not progress.stopped_early:
            progress.results = None
            record = run.epoch(bar.step)
            bar.show(record)
            if checkpoint and time.monotonic() - saved >= checkpoint.seconds_between:
                save()
                saved = time.monotonic()
            yield record
            if is_enough is not None and processes.any(is_enough(record)):
                _log.info("a callback has ended the training after %d epochs", progress.epoch)
                break
            if math.isfinite(seconds) and processes.any(time.monotonic() - start >= seconds):
                _log.info("the time is up after %d of %d epochs", progress.epoch, settings.epochs)
                break
    finally:
        # Also on Ctrl-C, an error or when nobody wants more epochs: the best of what has been learned stays.
        bar.close()
        last = copy.deepcopy(module.state_dict())
        if progress.epoch:
            module.load_state_dict(run.best)
    if progress.results is None:
        _say_if_in_vain(progress, settings)
        progress.results = at_end()
        # A later call with more epochs goes on from the last weights, not from the best.
        module.load_state_dict(last)
        save()
        if progress.epoch:
            module.load_state_dict(run.best)
    # No process may look for the checkpoint again before it is written.
    processes.wait()


def adam(module: nn.Module, settings: Settings) -> torch.optim.Adam:
    """All of Adam in one operation: with few and small parameters, the number of operations is what takes time."""
    parameters = list(module.parameters())
    fused = all(p.device.type in ("cpu", "cuda") for p in parameters)
    return torch.optim.Adam(parameters, lr=settings.lr, weight_decay=settings.weight_decay, fused=fused)


def _say_if_in_vain(progress: Progress, settings: Settings) -> None:
    """Weights of the first epoch are kept in silence otherwise, and look like a trained model."""
    if progress.best_validation is not None and progress.best_epoch == 0 and progress.epoch >= _IN_VAIN:
        _log.warning(
            "validation was best after the first of %d epochs, whose weights are kept; try a smaller lr than %g",
            progress.epoch,
            settings.lr,
        )


@dataclass
class _Run:
    """A run in progress: what is trained, on what, and how far it has come."""

    module: nn.Module
    objective: Learn
    training: Examples
    validate: Validate | None
    settings: Settings
    processes: Processes
    progress: Progress
    optimizer: torch.optim.Optimizer

    def __post_init__(self) -> None:
        self.best: dict[str, Tensor] = copy.deepcopy(self.module.state_dict())

    def epoch(self, after_batch: Callable[[], None]) -> dict[str, Any]:
        """One pass over the training graphs and, where there is one, over the validation set; gives its record."""
        start, epoch = time.perf_counter(), self.progress.epoch
        order = torch.randperm(len(self.training), generator=keyed_generator(self.settings.seed, _ORDER, epoch))
        if self.settings.halve_every is not None:
            for group in self.optimizer.param_groups:
                group["lr"] = self.settings.lr * 0.5 ** (epoch // self.settings.halve_every)
        total, terms = 0.0, 0
        for number, graph_ids in enumerate(order.split(self.settings.batch_size)):
            loss, count = self.step(graph_ids)
            if not math.isfinite(loss):
                raise GSPNError(f"the loss became {loss} in epoch {epoch}, batch {number}; try a smaller lr, or clip")
            total, terms = total + loss, terms + count
            after_batch()
            pause()
        record: dict[str, Any] = {"epoch": epoch, "train": total / max(terms, 1)}
        if self.validate is not None:
            record |= self.validate()
        record["seconds"] = time.perf_counter() - start
        _log.debug("%s", record)
        if self.progress.note(record, self.settings):
            self.best = copy.deepcopy(self.module.state_dict())
        return record

    @property
    def parameters(self) -> list[Tensor]:
        """Whatever the optimizer moves now."""
        return [p for group in self.optimizer.param_groups for p in group["params"]]

    def step(self, graph_ids: Tensor) -> tuple[float, int]:
        """One update from a batch of graphs; gives the sum of losses and the number of terms over all processes."""
        parameters = self.parameters
        for p in parameters:
            p.grad = None
        loss, terms = 0.0, 0
        share = self.processes.share(graph_ids)
        if len(share):
            for part, part_terms in self.objective(self.training.batch(share), self.progress.epoch):
                part.backward()
                loss, terms = loss + part.item(), terms + part_terms
        loss, all_terms = self.processes.sum(loss, terms)
        # Nothing to predict in this batch: no step, or Adam's momentum would move the weights all the same.
        if all_terms and math.isfinite(loss):
            for p in parameters:
                if p.grad is None:
                    p.grad = torch.zeros_like(p)
            self.processes.sum_gradients(parameters)
            gradients = [p.grad for p in parameters if p.grad is not None and p.numel()]
            torch._foreach_div_(gradients, all_terms)
            if not _are_finite(gradients):
                raise GSPNError(
                    f"a gradient is non-finite in epoch {self.progress.epoch}; try a smaller lr, or another seed"
                )
            if self.settings.clip is not None:
                nn.utils.clip_grad_norm_(parameters, self.settings.clip)
            self.optimizer.step()
        return loss, int(all_terms)


def _are_finite(gradients: list[Tensor]) -> bool:
    """Whether all are numbers: told by their quick Euclidean norms, unless these overflow, as squares may."""
    norms = torch._foreach_norm(gradients)
    return all(map(math.isfinite, norms)) or math.isfinite(nn.utils.get_total_norm(gradients, math.inf))


def _improves(record: dict[str, Any], best: dict[str, Any], monitor: str) -> bool:
    if "validation" not in record:
        return True
    if monitor == "score" and record["score"] != best["score"]:
        return _is_below(-record["score"], -best["score"])
    return _is_below(record["validation"], best["validation"])


def _is_below(value: float, best: float) -> bool:
    """Any number is below what is none."""
    return value < best or (math.isnan(best) and not math.isnan(value))


@torch.no_grad()
def mean_loss(objective: Objective, dataset: GraphDataset, processes: Processes) -> float:
    """The mean loss over all terms of a dataset, with the masks that never change."""
    loss, count = 0.0, 0
    for number, batch in enumerate(dataset.chunks(_EVALUATED_AT_ONCE)):
        if number % processes.number == processes.rank:
            for part, terms in objective(batch, FIXED):
                loss, count = loss + part.item(), count + terms
    loss, total = processes.sum(loss, count)
    return loss / max(total, 1)


class _Bar:
    """A progress bar over all batches of a run, with the remaining time and the latest losses."""

    def __init__(self, training: Examples, settings: Settings, progress: Progress, shown: bool) -> None:
        batches = math.ceil(len(training) / settings.batch_size)
        # disable=None: shown on a terminal only; a log file gets no bar.
        self._bar = tqdm(
            total=settings.epochs * batches,
            initial=progress.epoch * batches,
            desc="fit",
            unit="batch",
            disable=None if shown else True,
            dynamic_ncols=True,
        )
        self._epochs = settings.epochs

    def step(self) -> None:
        self._bar.update()

    def show(self, record: dict[str, Any]) -> None:
        losses = {
            name: f"{value:.4f}" if isinstance(value, float) else str(value)
            for name, value in record.items()
            if name not in ("epoch", "seconds")
        }
        self._bar.set_description(f"fit, epoch {record['epoch'] + 1}/{self._epochs}", refresh=False)
        self._bar.set_postfix(losses)

    def close(self) -> None:
        self._bar.close()


Pause = Callable[[], None]

_asked: ContextVar[Pause | None] = ContextVar("gspn_pause", default=None)


@contextmanager
def pausing(call: Pause) -> Iterator[None]:
    """Whatever learns in this thread meanwhile calls `call` after every step."""
    token = _asked.set(call)
    try:
        yield
    finally:
        _asked.reset(token)


def pause() -> None:
    """Let others have a turn, if there are any."""
    call = _asked.get()
    if call is not None:
        call()
