"""GSPN: the unsupervised model, from construction over training to questions."""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from torch import Tensor, nn
from torch_geometric.data import Data

from gspn.attributes import Schema
from gspn.circuits.structure import Unit
from gspn.errors import InputError, NotFittedError
from gspn.graphs import Batch, GraphDataset, pack
from gspn.graphs.draws import keyed_generator
from gspn.graphs.stored import StoredGraph
from gspn.hierarchy import Evaluation, Hierarchy
from gspn.hierarchy.objectives import Objective, objective_for
from gspn.models import saving
from gspn.models.arguments import TRAINING, check_seams, check_structure, check_training, chosen_leaves
from gspn.models.bounded import evaluate_stored
from gspn.models.changes import WhatIfQuestions
from gspn.models.compatibility import check_edge_types, check_magnitudes
from gspn.models.questions import Graphs as Graphs
from gspn.models.shards import Shards
from gspn.queries.likelihood import leave_one_out_nll
from gspn.queries.scoring import is_cheap, training_scores
from gspn.training import Checkpoint, Processes, Progress, Settings, Validate, join_processes, mean_loss, train
from gspn.training.files import digest

_log = logging.getLogger(__name__)

VALIDATION_ROOTS = 2_000
"""Vertices on which the leave-one-out NLL is computed at the end of training."""

SCORED_VERTICES = 1_000
"""Training vertices whose scores are kept at the end of training, and as many again in whole graphs."""

_INITIAL_SCORE_GRAPHS = 1_000
"""Graphs on which several initialisations are compared."""

_START = 2
"""Names the stream of random numbers from which starting points are drawn."""


class GSPN(WhatIfQuestions, TransformerMixin, BaseEstimator, nn.Module):
    """Graph-Induced Sum-Product Network over typed vertex attributes, trained without labels.

    Parameters
    ----------
    schema:
        The typed attributes of a vertex.
    num_layers:
        Number of levels L; one level is a plain mixture model that ignores the edges.
    num_states:
        States C of every sum unit.
    template:
        None for naive Bayes, or a circuit of `gspn.circuits` units whose sums all have `num_states` children.
    shortcut:
        None, or how the root's leaves are combined from the levels below: "mean" or "learned".
    num_edge_types:
        Number of edge types told apart; 1 treats all edges alike, whatever their `edge_type`.
    objective:
        "pseudo" (the paper's; good embeddings), "masked" (predict hidden entries; for queries) or "leave_one_out".
    mask_rate:
        Share of vertices that are predicted in a step, for the objectives "masked" and "leave_one_out".
    epochs:
        Passes over the training graphs, at most.
    batch_size:
        Graphs in a minibatch.
    lr:
        Learning rate of Adam.
    weight_decay:
        Weight decay of Adam.
    clip:
        Norm to which gradients are clipped, or None.
    patience:
        Training ends early when the validation loss has not improved for so many epochs.
    n_init:
        Number of initialisations to draw; the one with the best objective before training is trained.
    seed:
        Fixes everything random.
    aggregation:
        How neighbours' messages become a vertex's prior: "mean" (the paper's), or one that was registered with
        `gspn.register_aggregation`.
    leaves:
        Leaf families by attribute, or by a tuple of attributes that have leaves in common, for those that shall not
        have the family that the attribute names itself: {"charge": NAME, ("x", "y"): NAME}.
    """

    _fitted: Tensor
    _training_arguments: tuple[str, ...] = TRAINING
    """Arguments that `fit` may override for one call: they shape the training, not the model."""

    def __init__(
        self,
        schema: Schema,
        num_layers: int = 5,
        num_states: int = 20,
        template: Unit | None = None,
        shortcut: str | None = None,
        num_edge_types: int = 1,
        objective: str = "pseudo",
        mask_rate: float = 0.15,
        epochs: int = 100,
        batch_size: int = 32,
        lr: float = 0.1,
        weight_decay: float = 0.0,
        clip: float | None = None,
        patience: int = 50,
        n_init: int = 1,
        seed: int = 0,
        aggregation: str = "mean",
        leaves: Mapping[str | tuple[str, ...], str] | None = None,
    ) -> None:
        super().__init__()
        self.schema = schema
        self.num_layers = num_layers
        self.num_states = num_states
        self.template = template
        self.shortcut = shortcut
        self.num_edge_types = num_edge_types
        self.objective = objective
        self.mask_rate = mask_rate
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.weight_decay = weight_decay
        self.clip = clip
        self.patience = patience
        self.n_init = n_init
        self.seed = seed
        self.aggregation = aggregation
        self.leaves = leaves
        self._build()

    def _build(self) -> None:
        """All parameters, at random values that depend on the seed alone."""
        self._check()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self._make()
        self.register_buffer("_fitted", torch.tensor(False))

    def _check(self) -> None:
        check_structure(
            self.schema, self.num_layers, self.num_states, self.template, self.shortcut, self.num_edge_types
        )
        check_seams(self.schema, self.template, self.aggregation, self.leaves)
        check_training(self.arguments())

    def _make(self) -> None:
        self.hierarchy = self._make_hierarchy()

    def _make_hierarchy(self) -> Hierarchy:
        return Hierarchy(
            self.schema,
            self.num_layers,
            self.num_states,
            self.template,
            self.shortcut,
            self.num_edge_types,
            self.aggregation,
            chosen_leaves(self.schema, self.leaves),
        )

    @property
    def network(self) -> nn.Module:
        """What is trained, checkpointed and saved: all parameters, and nothing else."""
        return self.hierarchy

    def set_params(self, **params: Any) -> Self:
        """Set constructor arguments; a new structure means new parameters, so the model is unfitted afterwards."""
        if not params:
            return self
        before, like = self.arguments(), self.hierarchy.raw_prior
        try:
            BaseEstimator.set_params(self, **params)
            self._build()
        except BaseException:
            # Refused arguments leave the model as it was.
            self.__dict__.update(before)
            raise
        self.to(device=like.device, dtype=like.dtype)
        for result in ("history_", "leave_one_out_nll_", "training_scores_"):
            self.__dict__.pop(result, None)
        return self

    # Training.

    def fit(
        self,
        graphs: Graphs,
        y: object = None,
        *,
        validation: Graphs | tuple[Graphs, Any] | None = None,
        checkpoint: str | Path | None = None,
        progress: bool = True,
        warm_start: bool = False,
        **overrides: Any,
    ) -> Self:
        """Train on graphs.

        Starts afresh unless `checkpoint` (a file) holds this very run, which it continues, or `warm_start` asks to go
        on from the present weights. `overrides` are training arguments of the constructor, for this call only.

        A model with targets (`SupervisedGSPN`) takes labels from `y`, or from the graphs where it is not given, and a
        pair (graphs, y) as `validation`. Without targets `y` is ignored; scikit-learn's pipelines pass it.
        """
        settings = self._settings(overrides)
        training = self._prepare(graphs, y)
        held_out = None if validation is None else self._prepare(*with_labels(validation))
        before, done = copy.deepcopy(self.state_dict()), Progress()
        try:
            self._train(training, held_out, settings, done, checkpoint, progress, warm_start)
        except BaseException:
            # Ctrl-C after some epochs leaves what they taught; before that, the model is what it was.
            if done.epoch:
                self._keep(done, settings)
            else:
                self.load_state_dict(before)
            raise
        self._keep(done, settings)
        return self

    def _keep(self, done: Progress, settings: Mapping[str, Any]) -> None:
        self._fitted.fill_(True)
        self.history_ = done.history
        self._trained_with, self._told = settings["objective"], False
        results: dict[str, Any] = dict(done.results or {})
        self.leave_one_out_nll_ = results.get("leave_one_out_nll")
        self.training_scores_ = results.get("training_scores")

    def _train(
        self,
        training: GraphDataset,
        validation: GraphDataset | None,
        settings: dict[str, Any],
        done: Progress,
        checkpoint: str | Path | None,
        show_progress: bool,
        warm_start: bool,
    ) -> None:
        processes = join_processes()
        objective = self._objective(settings)
        if warm_start:
            self._require_fitted()
        kept = None
        if checkpoint is not None:
            kept = Checkpoint.at(checkpoint, self._identity(settings, training, validation, warm_start))
        if not warm_start:
            self._set_units(training)
            if kept is None or not kept.path.exists():  # else the weights come from there
                self._initialise(training, settings, lambda data: mean_loss(objective, data, processes))
        for data in (training, validation):
            if data is not None:
                check_magnitudes(self.hierarchy, data)
        train(
            self.network,
            objective,
            training,
            None if validation is None else self._judge(objective, validation, processes, settings),
            Settings(**{name: settings[name] for name in Settings.__dataclass_fields__ if name in settings}),
            processes,
            done,
            checkpoint=kept,
            show_progress=show_progress,
            at_end=lambda: self._final_results(validation, settings) | self._scores_to_keep(training, settings),
        )

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
        self, settings: dict[str, Any], training: GraphDataset, validation: GraphDataset | None, warm_start: bool
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
        if not is_cheap(validation, self.num_layers, VALIDATION_ROOTS, settings["seed"]):
            _log.info("the leave-one-out NLL of the validation graphs is not computed, it would take long")
            return {}
        nll = leave_one_out_nll(self.hierarchy, validation, VALIDATION_ROOTS, settings["seed"])
        return {} if math.isnan(nll) else {"leave_one_out_nll": nll}

    def _scores_to_keep(self, training: GraphDataset, settings: Mapping[str, Any]) -> dict[str, Any]:
        """What is usual in the training data, to rank others by."""
        if settings.get("likelihood_weight", 1.0) == 0:
            return {}  # the vertices were not part of the training
        if not is_cheap(training, self.num_layers, SCORED_VERTICES, settings["seed"]):
            _log.info("scores of the training data are not kept, they would take long; keep_scores makes them")
            return {}
        return {"training_scores": training_scores(self.hierarchy, training, SCORED_VERTICES, settings["seed"])}

    # From graphs to batches and evaluations: the differentiable way.

    def collate(self, graphs: Graphs) -> Batch:
        """All graphs as one checked batch, on the model's device."""
        dataset = self._pack(graphs)
        if self.__sklearn_is_fitted__():  # before, there is no mean to be far from
            check_magnitudes(self.hierarchy, dataset)
        return dataset.batch(torch.arange(len(dataset))).to(self.hierarchy.raw_prior.device)

    def forward(self, batch: Batch) -> Evaluation:
        evaluation: Evaluation = self.network(batch)
        return evaluation

    # A graph that need not fit into memory.

    def evaluate_stored(
        self,
        graph: StoredGraph | str | Path,
        folder: str | Path,
        *,
        embeddings: bool = False,
        memory: str | int = "512 MiB",
        format: str = "npy",
        progress: bool = True,
    ) -> Shards:
        """Log-likelihoods, and embeddings if asked for, of a graph that need not fit into memory (`gspn.store_graph`).

        Works level by level over ranges of vertices, with no more anonymous memory than `memory`, and writes one shard
        a range into `folder`, as "npy" or "parquet". A run that was stopped goes on where it stopped when it is called
        again; a finished one returns at once.
        """
        self._require_fitted()
        stored = graph if isinstance(graph, StoredGraph) else StoredGraph.open(graph)
        settings = saving.settings_to_json(self.arguments())
        identity = {name: settings[name] for name in ("template", "shortcut")}
        identity["weights"] = digest(self.hierarchy.state_dict())
        return evaluate_stored(
            self.hierarchy,
            identity,
            stored,
            Path(folder),
            embeddings=embeddings,
            memory=memory,
            format=format,
            progress=progress,
        )

    def _pack(self, graphs: Graphs) -> GraphDataset:
        dataset = pack(graphs, self.schema)
        check_edge_types(dataset, self.num_edge_types)
        return dataset

    def _require_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            name = type(self).__name__
            raise NotFittedError(f"this {name} is not fitted yet; call fit, load or set_parameters first")

    def __sklearn_is_fitted__(self) -> bool:
        # On torch's meta device there are shapes but no values, so nothing that could have been learned.
        return not self._fitted.is_meta and bool(self._fitted)

    def arguments(self) -> dict[str, Any]:
        """The constructor's arguments by name."""
        arguments: dict[str, Any] = BaseEstimator.get_params(self, deep=False)
        return arguments

    # Parameters and files.

    def get_parameters(self) -> dict[str, Any]:
        """All parameters in the users' units, by name (float64 copies).

        "prior" [S, C]; "transitions" [L-1, T, S, C, C]; "leaves" by attribute, each [L, leaves, …] (the root's row is
        the combined one where there is a shortcut): "mean", "std" (continuous), "probs" (categorical, binary), "rate"
        (Poisson), "mean", "dispersion" (negative binomial); "units" by continuous attribute [centre, spread];
        "shortcut" [L-1] where there is one.
        """
        return self.hierarchy.export()

    def set_parameters(self, parameters: Mapping[str, Any]) -> Self:
        """Set all parameters from the form that `get_parameters` gives; the model counts as fitted afterwards.

        "units" may be left out, as may the root's row of leaves that a shortcut determines. Nothing is set if anything
        is wrong.
        """
        self.hierarchy.assign(parameters, fitted=self.__sklearn_is_fitted__())
        self._fitted.fill_(True)
        self.training_scores_ = None  # those of other parameters
        return self

    def save(self, folder: str | Path) -> None:
        """Write `model.safetensors` and `model.json` into a folder; `gspn.load` reads them back."""
        saving.save(self, Path(folder))


def with_labels(validation: Any) -> tuple[Any, Any]:
    """(graphs, y) from graphs that carry their labels, or from such a pair."""
    if isinstance(validation, tuple) and len(validation) == 2 and not isinstance(validation[1], Data):
        return validation
    return validation, None
