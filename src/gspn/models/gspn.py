"""GSPN: the unsupervised model: what it is made of, how graphs get in, its parameters and files.

How it learns is in `fitting`, what it can be asked in `questions`, `changes` and `representations`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from sklearn.base import BaseEstimator, TransformerMixin
from torch import Tensor, nn

from gspn.attributes import Schema
from gspn.circuits.structure import Unit
from gspn.errors import NotFittedError
from gspn.files import digest
from gspn.graphs import Batch, GraphDataset, pack
from gspn.graphs.stored import StoredGraph
from gspn.hierarchy import Evaluation, Hierarchy
from gspn.models import saving
from gspn.models.arguments import (
    check_context,
    check_seams,
    check_structure,
    check_training,
    chosen_atoms,
    chosen_leaves,
)
from gspn.models.bounded import evaluate_stored
from gspn.models.changes import WhatIfQuestions
from gspn.models.compatibility import check_edge_types, check_magnitudes
from gspn.models.fitting import Fitting
from gspn.models.questions import Graphs as Graphs
from gspn.models.representations import Representations
from gspn.models.shards import Shards

_log = logging.getLogger(__name__)


class GSPN(Fitting, WhatIfQuestions, Representations, TransformerMixin, BaseEstimator, nn.Module):
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
        How neighbours' messages become a vertex's prior: "mean" (the paper's), "symmetric" (a mean in which senders
        with many outgoing edges count for less), "product" (messages are multiplied, as evidence; how much their number
        counts is learned), or one that was registered with `gspn.register_aggregation`.
    leaves:
        Leaf families by attribute, or by a tuple of attributes that have leaves in common, for those that shall not
        have the family that the attribute names itself: {"charge": NAME, ("x", "y"): NAME}.
    covariance:
        Of the continuous attributes of a vertex given a state: "diagonal" (independent, the paper's), "full", "shrunk"
        (drawn towards what the states have in common), "tied" (the same for all states) or "low_rank".
    context:
        None, or what the leaves of all attributes regress on, beside the state: "neighbours", the mean of what is known
        or expected of the neighbours' entries, or "two_hops", also that of their other neighbours.
    context_variance:
        How far it counts, from 0 to 1, that what is expected of neighbours is uncertain; for continuous attributes.
    slopes:
        Whether all states share how they depend on the context ("tied") or each has its own ("free").
    prior:
        Pseudo-observations that every state has seen before any data, in EM and in gradient descent.
    guard:
        Weight of a heavy-tailed component in the densities of answers, for values that no state expects.
    start:
        Where gradient descent starts: from "clusters" of the entries, or where "em" has led, level by level. With
        `epochs=0` EM is all there is.
    halve_every:
        Epochs after which the learning rate is halved, again and again; None leaves it as it is.
    atoms:
        Values of continuous attributes that have a probability of their own beside the density, for zeros, caps and
        sentinels that occur again and again: {"income": [0.0, 99999.0]}. Each state learns how likely they are; an
        entry at an atom says nothing else about the others of its vertex. `gspn.find_atoms` finds some.
    """

    _fitted: Tensor
    _trained_with: str | None = None
    """The objective of the last fit, where it is known"""
    _told = False

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
        leaves: Mapping[Any, str] | None = None,
        covariance: str = "diagonal",
        context: str | None = None,
        context_variance: float = 0.0,
        slopes: str = "tied",
        prior: float = 0.0,
        guard: float = 0.0,
        start: str = "clusters",
        halve_every: float | None = None,
        atoms: Mapping[str, Sequence[float]] | None = None,
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
        self.covariance = covariance
        self.context = context
        self.context_variance = context_variance
        self.slopes = slopes
        self.prior = prior
        self.guard = guard
        self.start = start
        self.halve_every = halve_every
        self.atoms = atoms
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
        check_context(self.num_layers, self.covariance, self.context, self.context_variance, self.slopes, self.guard)
        check_seams(self.schema, self.template, self.aggregation, self.leaves, self.covariance, self.context)
        chosen_atoms(self.schema, self.atoms)
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
            self.covariance,
            self.context,
            self.context_variance,
            self.slopes,
            self.guard,
            chosen_atoms(self.schema, self.atoms),
        )

    @property
    def network(self) -> nn.Module:
        """What is trained, checkpointed and saved: all parameters, and nothing else."""
        return self.hierarchy

    @property
    def answering(self) -> Hierarchy:
        """What the functions of `gspn.queries` are put to."""
        return self.hierarchy

    @property
    def _hierarchies(self) -> Sequence[Hierarchy]:
        return (self.hierarchy,)

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
        for result in ("history_", "em_history_", "leave_one_out_nll_", "training_scores_"):
            self.__dict__.pop(result, None)
        return self

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
        identity |= {name: settings[name] for name in ("leaves", "atoms") if name in settings}
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

    def _tell_objective(self) -> None:
        """Say once what a model that was trained with the paper's objective is not made for."""
        trained_with = self._trained_with or self.objective
        if getattr(self, "history_", None) and trained_with == "pseudo" and self.num_layers > 1 and not self._told:
            self._told = True
            _log.warning(
                "this model was trained with objective='pseudo', which hears a vertex's own echo; "
                "objective='masked' answers questions about hidden entries better"
            )

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
        (Poisson), "mean", "dispersion" (negative binomial), "atoms" (their probabilities, attribute after attribute,
        values ascending); "units" by continuous attribute [centre, spread]; "shortcut" [L-1] where there is one.
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
