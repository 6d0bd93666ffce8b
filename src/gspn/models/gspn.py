"""GSPN: the composition of a model, how graphs get in, its training, parameters and files.

How it learns is in `fitting`, what it can be asked in `questions`, `changes` and `representations`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from inspect import signature
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from sklearn.base import BaseEstimator, TransformerMixin
from torch import Tensor, nn

from gspn.attributes import Schema
from gspn.circuits.structure import Unit
from gspn.errors import InputError, NotFittedError
from gspn.graphs import Batch, GraphDataset, is_single_graph
from gspn.graphs.stored import StoredGraph
from gspn.hierarchy import Evaluation, Hierarchy
from gspn.models import saving
from gspn.models.bounded import evaluate_stored
from gspn.models.changes import WhatIfQuestions
from gspn.models.checks import check_magnitudes, check_model, chosen_atoms, chosen_leaves
from gspn.models.devices import check_device
from gspn.models.fitting import (
    Callback,
    Entries,
    Goal,
    Judge,
    TrainingRun,
    as_judge,
    checked_callbacks,
    settings_for,
    train,
    with_labels,
)
from gspn.models.questions import Graphs as Graphs
from gspn.models.questions import listed
from gspn.models.representations import Representations
from gspn.models.shards import Shards
from gspn.models.sketching import model_html
from gspn.training import Epochs, exhaust

_log = logging.getLogger(__name__)

_PARTS = ("hierarchy", "supervised", "readout", "network", "goal", "answering", "_hierarchies")
"""What a model without a schema does not have."""


class GSPN(WhatIfQuestions, Representations, TransformerMixin, BaseEstimator, nn.Module):
    """Graph-Induced Sum-Product Network over typed vertex attributes, trained without labels.

    Parameters
    ----------
    schema:
        The typed attributes of a vertex; None takes those of the graphs at `fit`: of a `GraphDataset` its schema, of
        others what `Schema.infer` finds. Until then there are no parameters.
    num_layers:
        Number of levels L; one level is a plain mixture model that ignores the edges.
    num_states:
        States C of every sum unit.
    template:
        None for naive Bayes, or a circuit of `gspn.circuits` units whose sums all have `num_states` children.
    shortcut:
        None, or how the root's leaves are combined from the levels below: "mean" or "learned".
    num_edge_types:
        Number of edge types; 1 treats all edges alike, whatever their `edge_type`.
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
        Training ends early when the validation loss has not improved for this many epochs.
    n_init:
        Number of initialisations to draw; the one with the best objective before training is trained.
    seed:
        Fixes everything random.
    aggregation:
        How neighbours' messages become a vertex's prior: "mean" (the paper's), "symmetric" (a mean in which senders
        with many outgoing edges count for less), "product" (messages are multiplied, as evidence; how much their number
        counts is learned), or one that was registered with `gspn.register_aggregation`.
    leaves:
        Leaf families by attribute, or by a tuple of attributes with a joint leaf, in place of the family that the
        attribute itself names: {"charge": NAME, ("x", "y"): NAME}.
    covariance:
        Of the continuous attributes of a vertex given a state: "diagonal" (independent, the paper's), "full", "shrunk"
        (towards the pooled covariance), "tied" (the same for all states) or "low_rank".
    context:
        None, or what the leaves of all attributes regress on, beside the state: "neighbours", the mean of the
        neighbours' observed or expected entries, or "two_hops", also that of their other neighbours.
    context_variance:
        How much the uncertainty of the neighbours' expected entries counts, from 0 to 1; for continuous attributes.
    slopes:
        Whether all states share how they depend on the context ("tied") or each has its own ("free").
    prior:
        Pseudo-observations per state, in EM and in gradient descent.
    guard:
        Weight of a heavy-tailed component in the densities of answers, for values that no state expects.
    start:
        Where gradient descent starts: from "clusters" of the entries, or from the result of "em", level by level. With
        `epochs=0` only EM is run.
    halve_every:
        Number of epochs after which the learning rate is halved, repeatedly; None keeps it constant.
    atoms:
        Values of continuous attributes that have a probability of their own beside the density, for zeros, caps and
        sentinels that occur often: {"income": [0.0, 99999.0]}. Each state learns how likely they are; beyond that, an
        entry at an atom is not informative about the others of its vertex. `gspn.find_atoms` finds some.
    gaps:
        "ignorable" (a missing entry says nothing), or "informative": every state learns how likely an entry of each
        attribute is missing, so that gaps are evidence of the state, and through it of everything else. Dependence on
        the missing value itself, beyond the state, is not modelled.
    """

    history_: list[dict[str, Any]]
    """One record per epoch of the last `fit`"""
    em_history_: list[dict[str, Any]]
    leave_one_out_nll_: Any
    _fitted: Tensor
    _trained_with: str | None = None
    """The objective of the last fit, where it is known"""
    _told = False

    def __init__(
        self,
        schema: Schema | None = None,
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
        gaps: str = "ignorable",
    ) -> None:
        super().__init__()
        self.schema = schema  # type: ignore[assignment]  # None until `fit`
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
        self.gaps = gaps
        self._infers = schema is None
        self._build()

    def _build(self) -> None:
        """All parameters, at random values that depend on the seed alone; none while there is no schema."""
        if self.schema is None:
            self._modules.clear()
            self.register_buffer("_blank", torch.zeros(()), persistent=False)
        else:
            arguments = self.arguments()
            check_model(arguments)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(self.seed)
                self._make(arguments)
        self.register_buffer("_fitted", torch.tensor(False))

    def _learn_schema(self, graphs: Graphs) -> Graphs:
        """The schema of the graphs, and parameters for it, where there was none; gives the graphs."""
        if isinstance(graphs, Iterator):
            graphs = list(graphs)
        if isinstance(graphs, GraphDataset):
            found = graphs.schema
        else:
            found = Schema.infer(graphs if is_single_graph(graphs) else listed(graphs))
        if found != self.schema:
            like = self._like
            self.schema = found
            self._build()
            self.to(device=like.device, dtype=like.dtype)
        return graphs

    @property
    def _like(self) -> Tensor:
        """A tensor of the model's device and dtype."""
        found: Tensor = self._blank if self.schema is None else self.hierarchy.raw_prior
        return found

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in _PARTS and self.__dict__.get("schema", ...) is None:
                raise NotFittedError(f"this {type(self).__name__} has no schema yet, so no parameters; fit infers it")
            return nn.Module.__getattr__(self, name)

    def _make(self, arguments: Mapping[str, Any]) -> None:
        self.hierarchy = hierarchy_for(arguments)

    @property
    def network(self) -> nn.Module:
        """The module that is trained, checkpointed and saved: all parameters, and nothing else."""
        return self.hierarchy

    @property
    def goal(self) -> Goal:
        """What training learns: the entries of vertices."""
        return Entries(self.hierarchy)

    @property
    def answering(self) -> Hierarchy:
        """What the functions of `gspn.queries` ask."""
        return self.hierarchy

    @property
    def _hierarchies(self) -> Sequence[Hierarchy]:
        return (self.hierarchy,)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments as they were given: a schema that `fit` has inferred is none of them."""
        given: dict[str, Any] = BaseEstimator.get_params(self, deep)
        return given | {"schema": None} if self._infers else given

    def set_params(self, **params: Any) -> Self:
        """Set constructor arguments by name; parameters are drawn anew, so the model is unfitted afterwards."""
        if not params:
            return self
        before, like = self.arguments(), self._like
        try:
            BaseEstimator.set_params(self, **params)
            self._build()
        except BaseException:
            # Refused arguments leave the model as it was.
            self.__dict__.update(before)
            raise
        if "schema" in params:
            self._infers = self.schema is None
        self.to(device=like.device, dtype=like.dtype)
        for result in ("history_", "em_history_", "leave_one_out_nll_", "training_scores_"):
            self.__dict__.pop(result, None)
        return self

    # Training.

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
        callbacks: Sequence[Callback] = (),
        **overrides: Any,
    ) -> Self:
        """Train on graphs.

        Starts afresh unless there is a checkpoint of this very run, or `warm_start`. Returns the model.

        graphs: the training graphs, one or a sequence.
        y: labels for a model with targets (`SupervisedGSPN`); None takes those of the graphs. Without targets it is
            ignored; scikit-learn's pipelines pass it.
        validation: chooses the best epoch and ends the training early: graphs, a pair (graphs, y), or a judge that is
            called with the model after every epoch and returns its loss, {"validation": …} (see
            `gspn.models.fitting.Judge`).
        checkpoint: a file from which an interrupted run continues.
        progress: whether a progress bar is shown.
        warm_start: whether to continue from the present weights: by gradient descent, or by EM if there are no epochs
            (`start="em"`, `epochs=0`).
        keep_scores: the graphs whose scores are kept, to compare others with: True for the training graphs, False for
            none.
        seconds: after this time the current epoch is the last one.
        callbacks: functions that are called after every epoch with the model and the epoch's record (`history_` has
            them all). The model has the weights of that epoch and may be asked, not changed. If one returns True, the
            training ends as after its last epoch: the best weights stay. EM has no epochs.
        overrides: training arguments of the constructor, for this call only.
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
            callbacks=callbacks,
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
        callbacks: Sequence[Callback] = (),
        **overrides: Any,
    ) -> Epochs:
        """`fit` epoch by epoch, for callers with other work in between: yields the record of each epoch.

        The arguments are those of `fit`. Between epochs the model has the weights of the last one and can be asked; it
        must not be changed. When the generator is exhausted the model is the same as after `fit`, bit for bit; when it
        is closed before, the model has the best weights so far, as after Ctrl-C.
        """
        if not isinstance(seconds, Real) or not seconds > 0:
            raise InputError(f"seconds must be a number above 0, got {seconds!r}")
        if self._infers and not warm_start:
            graphs = self._learn_schema(graphs)
        goal = self.goal
        settings = settings_for(goal, self.arguments(), overrides)
        training, held_out = goal.prepare(self._pack(graphs), y), None
        if validation is not None and (held_out := as_judge(validation)) is None:
            judging, labels = with_labels(validation)
            held_out = goal.prepare(self._pack(judging), labels)
        scored = training if keep_scores is True else None
        if not isinstance(keep_scores, bool):
            scored = self._pack(keep_scores)
        called = checked_callbacks(callbacks)
        run = TrainingRun(self, goal, settings, training, held_out, scored, checkpoint, warm_start, called)
        return train(run, progress, float(seconds))

    # From graphs to batches and evaluations: the differentiable way.

    def collate(self, graphs: Graphs) -> Batch:
        """All graphs (one or a sequence) as one checked batch, on the model's device."""
        dataset = self._pack(graphs)
        if self.__sklearn_is_fitted__():  # before, there is no mean to be far from
            check_magnitudes(self.hierarchy, dataset)
        return dataset.batch(torch.arange(len(dataset))).to(self.hierarchy.raw_prior.device)

    def forward(self, batch: Batch) -> Evaluation:
        """All that is computed of a batch of graphs, with derivatives; questions have methods of their own."""
        if not isinstance(batch, Batch):
            given = type(batch).__name__
            raise InputError(f"a model is called with a batch, got {given}; pass model.collate(graphs)")
        evaluation: Evaluation = self.network(batch)
        return evaluation

    def to(self, *arguments: Any, **named: Any) -> Self:
        """The model on a device, or of a dtype, as torch's modules do it; a device has to be there."""
        check_device(arguments[0] if arguments else named.get("device"))
        return super().to(*arguments, **named)

    def cuda(self, device: Any = None) -> Self:
        return self.to(torch.device("cuda") if device is None else torch.device("cuda", device))

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

        Works level by level over ranges of vertices. A run that was stopped continues when it is called again; a
        finished one returns at once.

        graph: a stored graph, or its folder.
        folder: where one shard per range is written.
        embeddings: whether embeddings are computed, too.
        memory: bound on anonymous memory, in bytes or as text.
        format: of the shards, "npy" or "parquet".
        progress: whether a progress bar is shown.
        """
        self._require_fitted()
        stored = graph if isinstance(graph, StoredGraph) else StoredGraph.open(graph)
        return evaluate_stored(
            self.hierarchy,
            saving.settings_to_json(self.arguments()),
            stored,
            Path(folder),
            embeddings=embeddings,
            memory=memory,
            format=format,
            progress=progress,
        )

    def _pack(self, graphs: Graphs) -> GraphDataset:
        if self.schema is None:
            self._require_fitted()
        return super()._pack(graphs)

    def _require_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            name = type(self).__name__
            raise NotFittedError(f"this {name} is not fitted yet; call fit, load or set_parameters first")

    def _tell_objective(self, hidden: bool = True) -> None:
        """Warn once that a model trained with the paper's objective is not meant for questions about hidden entries."""
        self._require_fitted()
        trained_with = self._trained_with or self.objective
        learned = bool(getattr(self, "history_", None)) and self.num_layers > 1
        if hidden and learned and trained_with == "pseudo" and not self._told:
            self._told = True
            _log.warning(
                "this model was trained with objective='pseudo', the paper's, in which a vertex sees its own value "
                "through its neighbours: good for embeddings; for questions about hidden entries, fit it again with "
                "objective='masked'"
            )

    def __sklearn_is_fitted__(self) -> bool:
        # On torch's meta device there are shapes but no values, so nothing that could have been learned.
        return not self._fitted.is_meta and bool(self._fitted)

    def arguments(self) -> dict[str, Any]:
        """The constructor's arguments by name, with the schema as it is now."""
        arguments: dict[str, Any] = BaseEstimator.get_params(self, deep=False)
        return arguments

    # Parameters and files.

    def get_parameters(self) -> dict[str, Any]:
        """All parameters in the users' units, by name (float64 copies).

        "prior" [S, C]; "transitions" [L-1, T, S, C, C]; "leaves" by attribute, each [L, leaves, …] (the root's row is
        the combined one where there is a shortcut): "mean", "std" (continuous), "probs" (categorical, binary), "rate"
        (Poisson), "mean", "dispersion" (negative binomial), "atoms" (their probabilities, attribute after attribute,
        values ascending), "gaps" (probabilities of a missing entry; of several attributes that have leaves in common
        [L, leaves, attributes]); "units" by continuous attribute [centre, spread]; "shortcut" [L-1] where there is one.
        """
        return self.hierarchy.export()

    def set_parameters(self, parameters: Mapping[str, Any]) -> Self:
        """Set all parameters from what `get_parameters` returns; the model counts as fitted afterwards.

        "units" may be left out, as may the root's row of leaves that a shortcut determines. Nothing is set if anything
        is wrong.
        """
        self.hierarchy.assign(parameters, fitted=self.__sklearn_is_fitted__())
        self._fitted.fill_(True)
        self.training_scores_ = None  # those of other parameters
        return self

    def _repr_html_(self) -> str:
        return model_html(self)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": model_html(self)}  # before scikit-learn's

    def save(self, folder: str | Path) -> None:
        """Write `model.safetensors` and `model.json` into a folder; `gspn.load` reads them."""
        saving.save(self, Path(folder))


def hierarchy_for(arguments: Mapping[str, Any]) -> Hierarchy:
    """An untrained hierarchy, from a model's arguments by name: its own are called the same."""
    own = {name: arguments[name] for name in signature(Hierarchy).parameters}
    own["leaves"] = chosen_leaves(own["schema"], own["leaves"])
    own["atoms"] = chosen_atoms(own["schema"], own["atoms"])
    return Hierarchy(**own)
