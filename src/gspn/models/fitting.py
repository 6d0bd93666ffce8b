"""Training of a model, from graphs to weights, history and results.

The loop itself is in `gspn.training`; here belongs what a model brings to it: a starting point, what makes a run that
run, who judges it, what is kept at its end. What is learned is a `Goal`: here the entries of vertices, in `goals` what
has targets. Sizes, what is held out and what is worth judging by are the caller's choice, or that of `gspn.policy`.

A judge, which `fit` may be given as `validation` in place of graphs, looks at the model after every epoch and says how
good it is; the best epoch is kept, and training ends when there is none for `patience` epochs.
"""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np
import torch
from torch_geometric.data import Data

from gspn.circuits.templates import gaps_are_evidence
from gspn.columns import shorten
from gspn.errors import InputError
from gspn.files import digest
from gspn.graphs import GraphDataset
from gspn.hierarchy import Hierarchy
from gspn.hierarchy.objectives import Objective, objective_for, with_prior
from gspn.models import saving
from gspn.models.checks import TRAINING, check_magnitudes, check_training
from gspn.models.expectation_maximisation import learn_by_em, learn_on_by_em, settle
from gspn.queries.scoring import is_cheap, leave_one_out_nll, training_scores
from gspn.random_streams import keyed_generator
from gspn.training import (
    Checkpoint,
    Epochs,
    Processes,
    Progress,
    Settings,
    Validate,
    exhaust,
    join_processes,
    mean_loss,
    train_by_epochs,
)

if TYPE_CHECKING:
    from gspn.models.gspn import GSPN

_log = logging.getLogger(__name__)

VALIDATION_ROOTS = 2_000
"""Vertices on which the leave-one-out NLL is computed at the end of training."""

SCORED_VERTICES = 1_000
"""Training vertices whose scores are kept at the end of training, and as many again in whole graphs."""

_INITIAL_SCORE_GRAPHS = 1_000
"""Graphs on which several initialisations are compared."""

_PRETRAINING = {"lr": 0.1, "weight_decay": 0.0, "clip": None, "patience": 1, "monitor": "loss"}
"""How a model learns without labels, whatever its settings say of learning with them; the rate is halved half-way"""

_START = 2
"""Names the stream of random numbers from which starting points are drawn."""


Callback: TypeAlias = Callable[[Any, dict[str, Any]], object]
"""Called with the model and the record of an epoch; True ends the training."""

_GIVEN = ("validation", "score")


class Goal(Protocol):
    """What is learned, beside how: what a run asks of it. Settings are a model's arguments as they hold for the run."""

    kind: ClassVar[str]
    """"entries" of vertices, "targets" of graphs or vertices, or "labels" of vertices that say something of others"""
    arguments: ClassVar[tuple[str, ...]]
    """Those that `fit` may override for one call: they shape the training, not the model."""

    def checked(self, settings: dict[str, Any]) -> dict[str, Any]:
        """The settings as they are used, once those that only this goal has are checked."""

    def prepare(self, dataset: GraphDataset, y: Any) -> GraphDataset:
        """Graphs to train or validate on, with checked labels where labels are learned."""

    def objective(self, settings: Mapping[str, Any]) -> Objective: ...

    def judge(
        self, objective: Objective, validation: GraphDataset, processes: Processes, settings: Mapping[str, Any]
    ) -> Validate:
        """How good the network is on prepared graphs."""

    def pretraining(self, settings: Mapping[str, Any]) -> int:
        """Epochs in which the hierarchy learns the entries of vertices first, without anything on top of it."""

    def learns_vertices(self, settings: Mapping[str, Any]) -> bool:
        """Whether the vertices are part of the training: otherwise their likelihood says nothing."""

    def set_units(self, training: GraphDataset) -> None:
        """Take the units of what is on top of the hierarchy from the training graphs."""

    def start(self, training: GraphDataset, generator: torch.Generator) -> None:
        """Set all parameters on top of the hierarchy from the training graphs and the generator alone."""

    def learn_at_once(
        self, training: GraphDataset, validation: GraphDataset | None, settings: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Learn what takes no epochs, for the hierarchy as it is; gives results, by the model's attributes."""


class Entries:
    """The goal of a model without targets: the entries of vertices, and nothing on top of the hierarchy."""

    kind: ClassVar[str] = "entries"
    arguments: ClassVar[tuple[str, ...]] = TRAINING

    def __init__(self, hierarchy: Hierarchy) -> None:
        self.hierarchy = hierarchy

    def checked(self, settings: dict[str, Any]) -> dict[str, Any]:
        return settings

    def prepare(self, dataset: GraphDataset, y: Any) -> GraphDataset:
        return dataset

    def objective(self, settings: Mapping[str, Any]) -> Objective:
        return objective_for(self.hierarchy, settings["objective"], settings["mask_rate"], settings["seed"])

    def judge(
        self, objective: Objective, validation: GraphDataset, processes: Processes, settings: Mapping[str, Any]
    ) -> Validate:
        return lambda: {"validation": mean_loss(objective, validation, processes)}

    def pretraining(self, settings: Mapping[str, Any]) -> int:
        return 0

    def learns_vertices(self, settings: Mapping[str, Any]) -> bool:
        return True

    def set_units(self, training: GraphDataset) -> None: ...

    def start(self, training: GraphDataset, generator: torch.Generator) -> None: ...

    def learn_at_once(
        self, training: GraphDataset, validation: GraphDataset | None, settings: Mapping[str, Any]
    ) -> dict[str, Any]:
        return {}


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """What one call of `fit` is to do, with what it was given checked and prepared."""

    model: GSPN
    goal: Goal
    settings: dict[str, Any]
    training: GraphDataset
    validation: GraphDataset | Judge | None
    scored: GraphDataset | None
    """Graphs whose scores are kept as what is usual"""
    checkpoint: str | Path | None
    warm_start: bool
    callbacks: tuple[Callback, ...] = ()

    @property
    def held_out(self) -> GraphDataset | None:
        return self.validation if isinstance(self.validation, GraphDataset) else None


def settings_for(goal: Goal, arguments: dict[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """A model's arguments with those of one call of `fit`."""
    unknown = sorted(set(overrides) - set(goal.arguments))
    if unknown:
        raise InputError(f"fit cannot override {', '.join(unknown)}; it takes {', '.join(goal.arguments)}")
    settings = arguments | dict(overrides)
    check_training(settings)
    # Plain numbers: a numpy float32 as lr would otherwise train differently from the number it is saved as.
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in settings.items()}
    return goal.checked(plain)


def checked_callbacks(callbacks: Any) -> tuple[Callback, ...]:
    listed = tuple(callbacks) if isinstance(callbacks, Iterable) else (None,)
    if not all(map(callable, listed)):
        raise InputError(f"callbacks must be a list of functions of the model and a record, got {shorten(callbacks)}")
    return listed


def with_labels(validation: Any) -> tuple[Any, Any]:
    """(graphs, y) from graphs that carry their labels, or from such a pair."""
    if isinstance(validation, tuple) and len(validation) == 2 and not isinstance(validation[1], Data):
        return validation
    return validation, None


def train(run: TrainingRun, show_progress: bool, seconds: float) -> Epochs:
    """The run, epoch by epoch. An exception after some epochs leaves the model what they taught, as the end does."""
    model, goal, settings = run.model, run.goal, run.settings
    before, done = copy.deepcopy(model.state_dict()), Progress()
    try:
        objective, processes = goal.objective(settings), join_processes()
        kept = _set_out(run, objective, processes, show_progress)
        for data in (run.training, run.held_out, run.scored):
            if data is not None:
                check_magnitudes(model.hierarchy, data)
        model._fitted.fill_(True)  # it has weights and units, so judges may ask it
        yield from train_by_epochs(
            model.network,
            with_prior(objective, model.hierarchy, settings["prior"], lambda: _terms(run)),
            run.training,
            _validate(run, objective, processes),
            Settings(**{name: settings[name] for name in Settings.__dataclass_fields__ if name in settings}),
            processes,
            done,
            checkpoint=kept,
            show_progress=show_progress,
            at_end=lambda: _results(run) if goal.learns_vertices(settings) else {},
            seconds=seconds,
            is_enough=(lambda record: _called(run, record)) if run.callbacks else None,
        )
    except BaseException:
        # Ctrl-C after some epochs leaves what they taught; before that, the model is what it was.
        if done.epoch:
            _keep(model, done, settings)
        else:
            model.load_state_dict(before)
        raise
    _keep(model, done, settings)
    _learn_at_once(run)


def _called(run: TrainingRun, record: dict[str, Any]) -> bool:
    """Whether one of the callbacks, all of which are called, wants to end the training."""
    answers = [callback(run.model, record) for callback in run.callbacks]
    return any(answer is True for answer in answers)


def _keep(model: GSPN, done: Progress, settings: Mapping[str, Any]) -> None:
    model._fitted.fill_(True)
    model.history_ = done.history
    model._trained_with, model._told = settings["objective"], False
    results: dict[str, Any] = dict(done.results or {})
    model.leave_one_out_nll_ = results.get("leave_one_out_nll")
    model.training_scores_ = results.get("training_scores")


def _learn_at_once(run: TrainingRun) -> None:
    for name, result in run.goal.learn_at_once(run.training, run.held_out, run.settings).items():
        setattr(run.model, name, result)


def _set_out(run: TrainingRun, objective: Objective, processes: Processes, show_progress: bool) -> Checkpoint | None:
    """Bring the weights to where the run starts, unless a checkpoint has them; gives where it is kept, if it is."""
    model, settings = run.model, run.settings
    if run.warm_start:
        model._require_fitted()
    kept = None if run.checkpoint is None else Checkpoint.at(run.checkpoint, _identity(run))
    if not run.warm_start:
        model.hierarchy.set_units(run.training.entries(), run.training.missing())
        run.goal.set_units(run.training)
        if kept is None or not kept.path.exists():  # else the weights come from there
            _initialise(run, objective, processes, show_progress)
            if settings["epochs"]:
                _learn_at_once(run)
    elif settings["start"] == "em" and settings["epochs"] == 0:  # then EM is all there is, and it goes on
        model.em_history_ = learn_on_by_em(model.hierarchy, run.training, settings["prior"])
    return kept


def _initialise(run: TrainingRun, objective: Objective, processes: Processes, show_progress: bool) -> None:
    """Draw `n_init` starting points and keep the one with the lowest loss on a sample of the graphs."""
    model, training, n_init, seed = run.model, run.training, run.settings["n_init"], run.settings["seed"]
    if run.settings["start"] == "em":
        generators = [keyed_generator(seed, _START, number) for number in range(n_init)]
        model.em_history_ = learn_by_em(model.hierarchy, training, run.settings["prior"], generators)
        _pretrain(run, processes, show_progress)
        run.goal.start(training, keyed_generator(seed, _START, n_init))
        return
    sample = training
    if len(training) > _INITIAL_SCORE_GRAPHS:
        order = torch.randperm(len(training), generator=keyed_generator(seed, _START))
        sample = training[order[:_INITIAL_SCORE_GRAPHS]]
    best, best_score = None, float("inf")
    for number in range(n_init):
        generator = keyed_generator(seed, _START, number)
        model.hierarchy.initialise(training.entries(), generator)
        settle(model.hierarchy, training)
        _pretrain(run, processes, show_progress)
        run.goal.start(training, generator)
        if n_init > 1 and (loss := mean_loss(objective, sample, processes)) < best_score:
            best, best_score = copy.deepcopy(model.network.state_dict()), loss
    if best is not None:
        model.network.load_state_dict(best)


def _pretrain(run: TrainingRun, processes: Processes, show_progress: bool) -> None:
    """Some epochs without labels, for goals that have them: what is on top of the hierarchy begins from what it says.

    They are no epochs of the run: nothing of them is recorded or checkpointed, and nothing held out judges them.
    """
    number = run.goal.pretraining(run.settings) if run.settings["epochs"] else 0
    if not number:
        return
    model, settings = run.model, run.settings | _PRETRAINING | {"epochs": number, "halve_every": number / 2}
    objective = Entries(model.hierarchy).objective(settings)
    epochs = train_by_epochs(
        model.hierarchy,
        with_prior(objective, model.hierarchy, settings["prior"], lambda: _terms(run)),
        run.training,
        None,
        Settings(**{name: settings[name] for name in Settings.__dataclass_fields__ if name in settings}),
        processes,
        Progress(),
        show_progress=show_progress,
    )
    exhaust(epochs)


def _validate(run: TrainingRun, objective: Objective, processes: Processes) -> Validate | None:
    if run.validation is None:
        return None
    if isinstance(run.validation, GraphDataset):
        return run.goal.judge(objective, run.validation, processes, run.settings)
    return asked(run.validation, run.model, run.settings.get("monitor", Settings.monitor))


def _identity(run: TrainingRun) -> dict[str, Any]:
    """What makes a run that run: everything but `epochs`, which may grow."""
    identity = saving.settings_to_json(run.settings)
    del identity["epochs"]
    return identity | {
        "model": type(run.model).__name__,
        "dtype": str(run.model.hierarchy.raw_prior.dtype),
        "training data": run.training.digest(),
        "validation data": None if run.validation is None else run.validation.digest(),
        "starting weights": digest(run.model.network.state_dict()) if run.warm_start else None,
    }


def _results(run: TrainingRun) -> dict[str, Any]:
    """How well vertices are predicted at the end, and what is usual in the training data, to compare others with."""
    hierarchy, seed, found = run.model.hierarchy, run.settings["seed"], dict[str, Any]()
    if run.held_out is not None:
        if is_cheap(run.held_out, hierarchy.longest_closed_walk, VALIDATION_ROOTS, seed):
            nll = leave_one_out_nll(hierarchy, run.held_out, VALIDATION_ROOTS, seed)
            found |= {} if math.isnan(nll) else {"leave_one_out_nll": nll}
        else:
            _log.info("the leave-one-out NLL of the validation graphs is not computed, it would take long")
    if run.scored is not None:
        if is_cheap(run.scored, hierarchy.longest_closed_walk, SCORED_VERTICES, seed):
            found["training_scores"] = training_scores(hierarchy, run.scored, SCORED_VERTICES, seed)
        else:
            _log.info("scores of the training data are not kept, they would take long; keep_scores makes them")
    return found


def _terms(run: TrainingRun) -> int:
    """How many terms the objective has in a dataset: entries that may be masked, or vertices."""
    if run.settings["objective"] == "masked":
        entries = run.training.entries()
        return entries.numel() if gaps_are_evidence(run.model.hierarchy.families) else int((~entries.isnan()).sum())
    return int(run.training.num_vertices_per_graph().sum())


@runtime_checkable
class Judge(Protocol):
    """Evaluates the model after every epoch of a training."""

    def __call__(self, model: Any, /) -> Mapping[str, float]:
        """A loss as "validation" and, if `monitor="score"` is to choose by it, a "score" (higher is better).

        The model has the weights of the epoch and can be asked anything; it must be left as it is.
        """

    def digest(self) -> str:
        """A fingerprint of what it judges by: a checkpoint is continued only under the same judge."""


def as_judge(validation: Any) -> Judge | None:
    """What judges by itself; None for graphs to judge by. PyG's Data happen to be callable."""
    if not callable(validation) or isinstance(validation, Data):
        return None
    if not isinstance(validation, Judge):
        raise InputError(
            "validation must be graphs or a judge, which is called with the model and has digest(); got "
            f"{shorten(validation)}"
        )
    return validation


def asked(judge: Judge, model: Any, monitor: str) -> Validate:
    """The judge of this model, as the fit loop calls it: its answers are checked."""
    needed = _GIVEN if monitor == "score" else _GIVEN[:1]

    def validate() -> dict[str, float]:
        found = judge(model)
        if not isinstance(found, Mapping) or not set(needed) <= set(found) <= set(_GIVEN):
            raise InputError(f"a judge must give {' and '.join(map(repr, needed))} by name, got {shorten(found)}")
        for name, value in found.items():
            if not isinstance(value, Real):
                raise InputError(f"a judge must give numbers, got {shorten(value)} as {name!r}")
        return {name: float(found[name]) for name in _GIVEN if name in found}

    return validate
