"""Training of models: `fit`, and `fitting` epoch by epoch, from graphs to weights, history and results.

The loop itself is in `gspn.training`; here belongs what a model brings to it: checked graphs, a starting point, what
makes a run that run, who judges it. What a model with targets does otherwise are the methods under that heading. Sizes
and what is held out are the caller's choice, or that of `gspn.policy`.
"""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Callable, Mapping
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from gspn.errors import InputError
from gspn.files import digest
from gspn.graphs import GraphDataset
from gspn.hierarchy import Hierarchy
from gspn.hierarchy.objectives import Objective, objective_for, with_prior
from gspn.models import saving
from gspn.models.arguments import TRAINING, check_training
from gspn.models.compatibility import check_magnitudes
from gspn.models.expectation_maximisation import learn_by_em, learn_on_by_em, settle
from gspn.models.judging import Judge, as_judge, asked
from gspn.models.questions import Graphs
from gspn.queries.likelihood import leave_one_out_nll
from gspn.queries.scoring import is_cheap, training_scores
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

_log = logging.getLogger(__name__)

VALIDATION_ROOTS = 2_000
"""Vertices on which the leave-one-out NLL is computed at the end of training."""

SCORED_VERTICES = 1_000
"""Training vertices whose scores are kept at the end of training, and as many again in whole graphs."""

_INITIAL_SCORE_GRAPHS = 1_000
"""Graphs on which several initialisations are compared."""

_START = 2
"""Names the stream of random numbers from which starting points are drawn."""


class Fitting(nn.Module):
    """How a model learns; what learns is the model that inherits it."""

    num_layers: int
    hierarchy: Hierarchy
    _fitted: Tensor
    _training_arguments: tuple[str, ...] = TRAINING
    """Arguments that `fit` may override for one call: they shape the training, not the model."""

    if TYPE_CHECKING:

        @property
        def network(self) -> nn.Module: ...
        def arguments(self) -> dict[str, Any]: ...
        def _pack(self, graphs: Graphs) -> GraphDataset: ...
        def _require_fitted(self) -> None: ...

    def fit(
        self,
        graphs: Graphs,
        y: object = None,
        *,
        validation: Graphs | tuple[Graphs, Any] | Judge | None = None,
        checkpoint: str | Path | None = None,
        progress: bool = True,
        warm_start: bool = False,
        keep_scores: bool | Graphs = True,
        seconds: float = math.inf,
        **overrides: Any,
    ) -> Self:
        """Train on graphs.

        Starts afresh unless `checkpoint` (a file) holds this very run, which it continues, or `warm_start` asks to go
        on from the present weights: by gradient descent, or by EM where that is all (`start="em"`, `epochs=0`).
        `overrides` are training arguments of the constructor, for this call only.

        `validation` chooses the best epoch and ends the training early: graphs, or a judge that is called with the
        model after every epoch and gives its loss, {"validation": …} (see `gspn.models.judging.Judge`). After so many
        `seconds` the epoch that is under way is the last one.

        A model with targets (`SupervisedGSPN`) takes labels from `y`, or from the graphs where it is not given, and a
        pair (graphs, y) as `validation`. Without targets `y` is ignored; scikit-learn's pipelines pass it.

        At the end the scores of the training graphs are kept as what is usual, to rank others by; `keep_scores` names
        other graphs for that, or none (False).
        """
        epochs = self.fitting(
            graphs,
            y,
            validation=validation,
            checkpoint=checkpoint,
            progress=progress,
            warm_start=warm_start,
            keep_scores=keep_scores,
            seconds=seconds,
            **overrides,
        )
        exhaust(epochs)
        return self

    def fitting(
        self,
        graphs: Graphs,
        y: object = None,
        *,
        validation: Graphs | tuple[Graphs, Any] | Judge | None = None,
        checkpoint: str | Path | None = None,
        progress: bool = True,
        warm_start: bool = False,
        keep_scores: bool | Graphs = True,
        seconds: float = math.inf,
        **overrides: Any,
    ) -> Epochs:
        """`fit` epoch by epoch, for whoever has other things to do in between: gives the record of each one.

        The arguments are those of `fit`. Between epochs the model has the weights of the last one and can be asked; it
        must not be changed. When all epochs are taken it is what `fit` would have made of it, bit for bit; when the
        generator is closed before, it has the best weights so far, as after Ctrl-C.
        """
        settings = self._settings(overrides)
        if not isinstance(seconds, Real) or not seconds > 0:
            raise InputError(f"seconds must be a number above 0, got {seconds!r}")
        training, held_out = self._prepare(graphs, y), None
        if validation is not None:
            held_out = as_judge(validation) or self._prepare(*with_labels(validation))
        scored = training if keep_scores is True else None
        if not isinstance(keep_scores, bool):
            scored = self._pack(keep_scores)
        return self._fitting(training, held_out, scored, settings, checkpoint, progress, warm_start, float(seconds))

    def _fitting(
        self,
        training: GraphDataset,
        validation: GraphDataset | Judge | None,
        scored: GraphDataset | None,
        settings: dict[str, Any],
        checkpoint: str | Path | None,
        show_progress: bool,
        warm_start: bool,
        seconds: float,
    ) -> Epochs:
        before, done = copy.deepcopy(self.state_dict()), Progress()
        try:
            objective, processes = self._objective(settings), join_processes()
            kept = self._set_out(training, validation, objective, processes, settings, checkpoint, warm_start)
            graphs = validation if isinstance(validation, GraphDataset) else None
            for data in (training, graphs, scored):
                if data is not None:
                    check_magnitudes(self.hierarchy, data)
            self._fitted.fill_(True)  # it has weights and units, so judges may ask it
            yield from train_by_epochs(
                self.network,
                with_prior(objective, self.hierarchy, settings["prior"], lambda: _terms(training, settings)),
                training,
                self._validate(objective, validation, processes, settings),
                Settings(**{name: settings[name] for name in Settings.__dataclass_fields__ if name in settings}),
                processes,
                done,
                checkpoint=kept,
                show_progress=show_progress,
                at_end=lambda: self._final_results(graphs, settings) | self._scores_to_keep(scored, settings),
                seconds=seconds,
            )
        except BaseException:
            # Ctrl-C after some epochs leaves what they taught; before that, the model is what it was.
            if done.epoch:
                self._keep(done, settings)
            else:
                self.load_state_dict(before)
            raise
        self._keep(done, settings)

    def _keep(self, done: Progress, settings: Mapping[str, Any]) -> None:
        self._fitted.fill_(True)
        self.history_ = done.history
        self._trained_with, self._told = settings["objective"], False
        results: dict[str, Any] = dict(done.results or {})
        self.leave_one_out_nll_ = results.get("leave_one_out_nll")
        self.training_scores_ = results.get("training_scores")

    def _set_out(
        self,
        training: GraphDataset,
        validation: GraphDataset | Judge | None,
        objective: Objective,
        processes: Processes,
        settings: dict[str, Any],
        checkpoint: str | Path | None,
        warm_start: bool,
    ) -> Checkpoint | None:
        """Bring the weights to where the run starts, unless a checkpoint has them; gives where it is kept, if it is."""
        if warm_start:
            self._require_fitted()
        kept = None
        if checkpoint is not None:
            kept = Checkpoint.at(checkpoint, self._identity(settings, training, validation, warm_start))
        if not warm_start:
            self._set_units(training)
            if kept is None or not kept.path.exists():  # else the weights come from there
                self._initialise(training, settings, lambda data: mean_loss(objective, data, processes))
        elif settings["start"] == "em" and settings["epochs"] == 0:  # then EM is all there is, and it goes on
            self.em_history_ = learn_on_by_em(self.hierarchy, training, settings["prior"])
        return kept

    def _validate(
        self,
        objective: Objective,
        validation: GraphDataset | Judge | None,
        processes: Processes,
        settings: Mapping[str, Any],
    ) -> Validate | None:
        if validation is None:
            return None
        if isinstance(validation, GraphDataset):
            return self._judge(objective, validation, processes, settings)
        return asked(validation, self, self._monitored(settings))

    def _monitored(self, settings: Mapping[str, Any]) -> str:
        """What a judge's answer is looked at for: "loss" or "score"."""
        return "loss"

    # What a model with targets does otherwise.

    def _prepare(self, graphs: Graphs, y: Any) -> GraphDataset:
        """Checked graphs to train or validate on; `y` means nothing here."""
        return self._pack(graphs)

    def _objective(self, settings: Mapping[str, Any]) -> Objective:
        return objective_for(self.hierarchy, settings["objective"], settings["mask_rate"], settings["seed"])

    def _judge(
        self, objective: Objective, validation: GraphDataset, processes: Processes, settings: Mapping[str, Any]
    ) -> Validate:
        return lambda: {"validation": mean_loss(objective, validation, processes)}

    def _start(self, training: GraphDataset, generator: torch.Generator) -> None:
        """Set all parameters from the training graphs and the generator alone."""
        self.hierarchy.initialise(training.entries(), generator)
        settle(self.hierarchy, training)
        self._start_targets(training, generator)

    def _start_targets(self, training: GraphDataset, generator: torch.Generator) -> None:
        """Set what predicts targets, where there are any, from the training graphs and the generator alone."""

    def _set_units(self, training: GraphDataset) -> None:
        self.hierarchy.set_units(training.entries())

    def _settings(self, overrides: Mapping[str, Any]) -> dict[str, Any]:
        unknown = sorted(set(overrides) - set(self._training_arguments))
        if unknown:
            raise InputError(
                f"fit cannot override {', '.join(unknown)}; it takes {', '.join(self._training_arguments)}"
            )
        settings = self.arguments() | dict(overrides)
        check_training(settings)
        # Plain numbers: a numpy float32 as lr would otherwise train differently from the number it is saved as.
        return {name: value.item() if isinstance(value, np.generic) else value for name, value in settings.items()}

    def _initialise(
        self, training: GraphDataset, settings: Mapping[str, Any], score: Callable[[GraphDataset], float]
    ) -> None:
        """Draw `n_init` starting points and keep the one with the lowest loss on a sample of the graphs."""
        n_init, seed = settings["n_init"], settings["seed"]
        if settings["start"] == "em":
            generators = [keyed_generator(seed, _START, number) for number in range(n_init)]
            self.em_history_ = learn_by_em(self.hierarchy, training, settings["prior"], generators)
            self._start_targets(training, keyed_generator(seed, _START, n_init))
            return
        sample = training
        if len(training) > _INITIAL_SCORE_GRAPHS:
            order = torch.randperm(len(training), generator=keyed_generator(seed, _START))
            sample = training[order[:_INITIAL_SCORE_GRAPHS]]
        best, best_score = None, float("inf")
        for number in range(n_init):
            self._start(training, keyed_generator(seed, _START, number))
            if n_init > 1 and (loss := score(sample)) < best_score:
                best, best_score = copy.deepcopy(self.network.state_dict()), loss
        if best is not None:
            self.network.load_state_dict(best)

    def _identity(
        self,
        settings: dict[str, Any],
        training: GraphDataset,
        validation: GraphDataset | Judge | None,
        warm_start: bool,
    ) -> dict[str, Any]:
        """What makes a run that run: everything but `epochs`, which may grow."""
        identity = saving.settings_to_json(settings)
        del identity["epochs"]
        return identity | {
            "model": type(self).__name__,
            "dtype": str(self.hierarchy.raw_prior.dtype),
            "training data": training.digest(),
            "validation data": None if validation is None else validation.digest(),
            "starting weights": digest(self.network.state_dict()) if warm_start else None,
        }

    def _final_results(self, validation: GraphDataset | None, settings: Mapping[str, Any]) -> dict[str, float]:
        if validation is None:
            return {}
        if not is_cheap(validation, self.hierarchy.longest_closed_walk, VALIDATION_ROOTS, settings["seed"]):
            _log.info("the leave-one-out NLL of the validation graphs is not computed, it would take long")
            return {}
        nll = leave_one_out_nll(self.hierarchy, validation, VALIDATION_ROOTS, settings["seed"])
        return {} if math.isnan(nll) else {"leave_one_out_nll": nll}

    def _scores_to_keep(self, usual: GraphDataset | None, settings: Mapping[str, Any]) -> dict[str, Any]:
        """What is usual in the training data, to rank others by."""
        if usual is None:
            return {}  # nobody asked
        if not is_cheap(usual, self.hierarchy.longest_closed_walk, SCORED_VERTICES, settings["seed"]):
            _log.info("scores of the training data are not kept, they would take long; keep_scores makes them")
            return {}
        return {"training_scores": training_scores(self.hierarchy, usual, SCORED_VERTICES, settings["seed"])}


def _terms(training: GraphDataset, settings: Mapping[str, Any]) -> int:
    """How many terms the objective has in a dataset: entries that may be masked, or vertices."""
    if settings["objective"] == "masked":
        return int((~training.entries().isnan()).sum())
    return int(training.num_vertices_per_graph().sum())


def with_labels(validation: Any) -> tuple[Any, Any]:
    """(graphs, y) from graphs that carry their labels, or from such a pair."""
    if isinstance(validation, tuple) and len(validation) == 2 and not isinstance(validation[1], Data):
        return validation
    return validation, None
