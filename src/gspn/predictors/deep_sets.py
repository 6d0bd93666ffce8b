"""DeepSets: a small network on vertex embeddings as a scikit-learn estimator, alone or many in one pass."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import ClassifierTags, RegressorTags, Tags

from gspn.arguments import check_choice, check_integer, check_real
from gspn.attributes import Attribute, Binary, Categorical, FloatArray, Schema
from gspn.columns import shorten
from gspn.errors import InputError, NotFittedError
from gspn.files import digest
from gspn.predictors import saving
from gspn.predictors.embeddings import Embeddings, read_embeddings
from gspn.predictors.heads import INPUTS, Head, HeadStack, Weights, split_inputs, starting_weights
from gspn.predictors.outputs import Outputs, outputs_for
from gspn.predictors.training import LabelledEmbeddings, Lesson, Member, train_alone, train_together
from gspn.targets import Target, class_values, decode_predictions, encode_labels, target_schema
from gspn.training import Checkpoint, Progress, Settings

_log = logging.getLogger(__name__)

_SECONDS_BETWEEN = 1.0
"""Of training, between two writings of a checkpoint: epochs of a head may take milliseconds."""


@dataclass(eq=False, repr=False)
class DeepSets(BaseEstimator):
    """A network on sets of vertex embeddings: vertex layer, pooling, graph layer, output.

    It takes the output of `GSPN.embed` for a list of graphs: one [N, D] tensor (or numpy array) per graph. It computes
    in float32, or in float64 if the training embeddings are float64. Every column of the embeddings is standardised by
    its mean and deviation over all training vertices.

    Parameters
    ----------
    target:
        What is predicted: a Categorical (cross entropy), Binary (logistic loss), Continuous (absolute error on labels
        standardised by their training mean and deviation: it predicts a conditional median) or Count (Poisson
        log-likelihood without its constant), or a Schema of several. The loss is the mean over all labelled entries;
        missing labels contribute nothing.
    hidden:
        Width of the vertex layer and of the graph layer, each a linear map and a ReLU.
    pooling:
        "sum" or "mean" over a graph's vertices; a graph without vertices pools to 0.
    epochs:
        Passes over the training graphs, at most.
    batch_size:
        Graphs in a minibatch.
    lr:
        Learning rate of Adam.
    weight_decay:
        Weight decay of Adam.
    patience:
        With validation graphs, training ends when `monitor` has not improved for this many epochs, and the best weights
        are kept.
    monitor:
        "loss" is the validation loss, "score" the score (equal scores: the lower loss).
    seed:
        Fixes the starting weights. The order of the graphs is fixed by `order_seed` of `fit`, so that heads that differ
        in their seed can share their batches.

    Attributes
    ----------
    history_:
        One dict per epoch: epoch, train, and with validation graphs validation and score; seconds. For several binary
        targets the score (mean average precision) is included only if monitored: it takes longer than training.
    weights_:
        The learned tensors by name, and with them `input.mean` and `input.deviation` of the training embeddings.
    classes_:
        The values of a single categorical or binary target, by code, which is the order of `predict_proba`.
        Scikit-learn's own metrics of probabilities assume sorted categories.
    n_features_in_:
        Number of columns D of the embeddings.
    """

    target: Target
    hidden: int = 32
    pooling: str = "sum"
    epochs: int = 1000
    batch_size: int = 32
    lr: float = 0.001
    weight_decay: float = 0.0
    patience: int = 200
    monitor: str = "loss"
    seed: int = 0

    def __post_init__(self) -> None:
        self._check()

    def _check(self) -> None:
        target_schema(self.target)
        check_integer("hidden", self.hidden, 1)
        check_choice("pooling", self.pooling, ("sum", "mean"))
        check_integer("epochs", self.epochs, 0)
        check_integer("batch_size", self.batch_size, 1)
        check_real("lr", self.lr, 0.0, math.inf, low_open=True)
        check_real("weight_decay", self.weight_decay, 0.0, math.inf)
        check_integer("patience", self.patience, 1)
        check_choice("monitor", self.monitor, ("loss", "score"))
        check_integer("seed", self.seed, 0, 2**63 - 1)

    def set_params(self, **params: Any) -> Self:
        """Set constructor arguments by name; the estimator is unfitted afterwards."""
        if not params:
            return self
        before = self.get_params(deep=False)
        try:
            super().set_params(**params)
            self._check()
        except BaseException:
            # Refused arguments leave the estimator as it was.
            self.__dict__.update(before)
            raise
        for name in [name for name in vars(self) if name.endswith("_") and not name.endswith("__")]:
            delattr(self, name)
        return self

    # Training.

    def fit(
        self,
        embeddings: Embeddings,
        y: Any = None,
        *,
        validation: tuple[Embeddings, Any] | None = None,
        checkpoint: str | Path | None = None,
        progress: bool = True,
        order_seed: int = 0,
    ) -> Self:
        """Train on one [N, D] matrix and one label (or row of labels) per graph.

        Ctrl-C after some epochs leaves the best weights so far in the estimator.

        embeddings: one [N, D] matrix per graph.
        y: labels; a tensor holds codes or values, anything else the values themselves.
        validation: a pair (embeddings, y), which chooses the best epoch and ends the training early.
        checkpoint: a file from which this very run continues, also with larger `epochs`; otherwise it starts afresh.
        progress: whether a progress bar is shown.
        order_seed: fixes the order of the graphs.
        """
        fitting = _Fitting([self], embeddings, y, validation, order_seed)
        (head,), (settings,), done = fitting.heads(), fitting.settings(), Progress()
        kept = None if checkpoint is None else Checkpoint.at(checkpoint, fitting.identity, _SECONDS_BETWEEN)
        whole = False
        try:
            train_alone(head, settings, fitting.lesson, done, kept, progress)
            whole = True
        finally:
            # Also on Ctrl-C: what whole epochs have taught is not lost. Before that, a head is what it was.
            if whole or done.epoch:
                fitting.keep(self, head.weights(), done)
        return self

    @classmethod
    def fit_many(
        cls,
        configurations: Sequence[Mapping[str, Any] | DeepSets],
        embeddings: Embeddings,
        y: Any = None,
        *,
        validation: tuple[Embeddings, Any] | None = None,
        progress: bool = True,
        order_seed: int = 0,
        **shared: Any,
    ) -> list[DeepSets]:
        """Train many heads in one pass over the data; each ends as if it were trained alone, only sooner.

        A head whose loss becomes non-finite stops with its best weights so far, or as it was if there are none, and a
        warning is logged. `seconds` in the histories are those of all heads together. Returns the heads in order.

        configurations: for each head a mapping of constructor arguments, or a DeepSets, which is fitted in place. All
            must agree in target and batch_size.
        embeddings, y, validation, progress, order_seed: as in `fit`.
        shared: constructor arguments that are the same for all heads.
        """
        heads = _heads(cls, configurations, shared)
        fitting = _Fitting(heads, embeddings, y, validation, order_seed)
        members = [Member(*own) for own in zip(fitting.heads(), fitting.settings(), strict=True)]
        try:
            train_together(members, fitting.lesson, progress)
        finally:
            for head, member in zip(heads, members, strict=True):
                if member.best is not None:
                    fitting.keep(head, member.best, member.progress)
        for number, member in enumerate(members):
            if member.diverged:
                _log.warning(
                    "configuration %d: the loss became non-finite in epoch %d; it is left %s",
                    number,
                    len(member.progress.history) - 1,
                    "as it was" if member.best is None else "with its best weights so far",
                )
        return heads

    # Questions.

    def predict(self, embeddings: Embeddings) -> NDArray[Any]:
        """[G] category values, booleans, medians or rates; [G, T] for a Schema."""
        outputs = self._learned()
        return decode_predictions(outputs.target, outputs.predictions(self.outputs(embeddings)))

    def predict_proba(self, embeddings: Embeddings) -> FloatArray:
        """[G, K] in the order of `classes_` for a categorical target, [G, 2] for a binary one.

        For several binary targets [G, T], the probability that each is true.
        """
        outputs = self._learned()
        return outputs.probabilities(self.outputs(embeddings))

    def score(self, embeddings: Embeddings, y: Any) -> float:
        """Accuracy, R² or mean average precision (`gspn.scores.score`); rows without a label are left out."""
        outputs = self._learned()
        found = self.outputs(embeddings)
        return outputs.score(found, encode_labels(outputs.target, y, len(found)))

    def outputs(self, embeddings: Embeddings) -> FloatArray:
        """[G, O] the head's outputs, whose meaning is in `outputs_`."""
        self._learned()
        mean, deviation, weights = split_inputs(self.weights_)
        rows = read_embeddings(embeddings, width=len(mean), dtype=mean.dtype)
        rows.standardise(mean, deviation)
        found: FloatArray = HeadStack([Head(weights, self.pooling_)]).outputs(rows)[0].double().numpy()
        return found

    def _learned(self) -> Outputs:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("this DeepSets is not fitted yet; call fit or load first")
        return self.outputs_

    def _keep(self, weights: Weights, pooling: str, outputs: Outputs, history: list[dict[str, Any]]) -> None:
        """Take over the learned weights."""
        self.weights_, self.pooling_, self.outputs_, self.history_ = weights, pooling, outputs, history
        self.n_features_in_ = len(weights["input.mean"])
        self.__dict__.pop("classes_", None)
        if isinstance(outputs.target, Categorical | Binary):
            self.classes_ = class_values(outputs.target)

    # Conventions of scikit-learn.

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "weights_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = isinstance(self.target, Schema)
        if isinstance(self.target, Categorical | Binary):
            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        elif isinstance(self.target, Attribute):
            tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        return tags

    # Files.

    def save(self, folder: str | Path) -> None:
        """Write the fitted head into a folder as one safetensors file; `load` reads it back."""
        self._learned()
        saving.save(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> DeepSets:
        """A head that `save` wrote. Runs no code from the file and refuses what it does not know."""
        return saving.load(Path(folder))


def _heads(cls: type[DeepSets], configurations: Any, shared: Mapping[str, Any]) -> list[DeepSets]:
    """One estimator a configuration; they agree in what one pass has in common."""
    if isinstance(configurations, str | Mapping | DeepSets) or not isinstance(configurations, Sequence):
        raise InputError(f"configurations must be a list of mappings or DeepSets, got {shorten(configurations)}")
    heads: list[DeepSets] = []
    for number, configuration in enumerate(configurations):
        if isinstance(configuration, Mapping):
            try:
                heads.append(cls(**dict(shared) | dict(configuration)))
            except (InputError, TypeError) as error:
                raise InputError(f"configuration {number}: {error}") from error
        elif not isinstance(configuration, DeepSets):
            raise InputError(f"configuration {number} must be a mapping or a DeepSets, got {shorten(configuration)}")
        elif shared:
            raise InputError(
                f"configuration {number} is a DeepSets, which has its own arguments; leave out {', '.join(shared)}"
            )
        elif any(configuration is other for other in heads):
            raise InputError(f"configuration {number} is the same object as an earlier one; give each its own")
        else:
            heads.append(configuration)
    if not heads:
        raise InputError("configurations is empty; give at least one")
    for number, head in enumerate(heads):
        for name in ("target", "batch_size"):
            if getattr(head, name) != getattr(heads[0], name):
                raise InputError(
                    f"configuration {number}: {name} is {shorten(getattr(head, name))}, but "
                    f"{shorten(getattr(heads[0], name))} in configuration 0; heads that are trained together share it"
                )
    return heads


class _Fitting:
    """Checked arguments of one call: what is learned from, and the heads that are to learn from it."""

    def __init__(
        self,
        estimators: Sequence[DeepSets],
        embeddings: Embeddings,
        y: Any,
        validation: tuple[Embeddings, Any] | None,
        order_seed: int,
    ) -> None:
        for estimator in estimators:
            estimator._check()
        check_integer("order_seed", order_seed, 0, 2**63 - 1)
        self._estimators, self._order_seed, target = estimators, int(order_seed), estimators[0].target
        rows = read_embeddings(embeddings)
        labels = encode_labels(target, y, len(rows))
        self._outputs = outputs_for(target, labels)
        training = LabelledEmbeddings(rows, torch.from_numpy(labels))
        held_out = None if validation is None else _held_out(validation, target, rows.width, rows.values.dtype)
        self.mean, self.deviation = rows.units()
        for labelled in (training, held_out):
            if labelled is not None:
                labelled.rows.standardise(self.mean, self.deviation)
        self.lesson = Lesson(self._outputs, training, held_out, [estimator.monitor for estimator in estimators])

    def heads(self) -> list[Head]:
        """With their starting weights."""
        rows, outputs = self.lesson.training.rows, int(self._outputs.ends[-1])
        return [
            Head(starting_weights(rows.width, int(e.hidden), outputs, int(e.seed), rows.values.dtype), e.pooling)
            for e in self._estimators
        ]

    def settings(self) -> list[Settings]:
        return [
            Settings(
                epochs=int(e.epochs),
                batch_size=int(e.batch_size),
                lr=float(e.lr),
                weight_decay=float(e.weight_decay),
                clip=None,
                patience=int(e.patience),
                seed=self._order_seed,
                monitor=e.monitor,
            )
            for e in self._estimators
        ]

    @property
    def identity(self) -> dict[str, Any]:
        """What makes the run of a single head that run: everything but `epochs`, which may grow."""
        (head,), lesson = self._estimators, self.lesson
        identity = saving.settings_to_json(head)
        del identity["epochs"]
        return identity | {
            "model": "DeepSets",
            "order_seed": self._order_seed,
            "input units": digest(dict(zip(INPUTS, (self.mean, self.deviation), strict=True))),
            "training data": lesson.training.digest(),
            "validation data": None if lesson.validation is None else lesson.validation.digest(),
        }

    def keep(self, estimator: DeepSets, weights: Weights, progress: Progress) -> None:
        """Put into an estimator what its head has learned."""
        inputs = dict(zip(INPUTS, (self.mean, self.deviation), strict=True))
        estimator._keep(inputs | weights, estimator.pooling, self._outputs, progress.history)


def _held_out(validation: Any, target: Target, width: int, dtype: Any) -> LabelledEmbeddings:
    if not isinstance(validation, tuple | list) or len(validation) != 2:
        raise InputError("validation must be a pair (embeddings, y)")
    rows = read_embeddings(validation[0], width=width, dtype=dtype, name="validation embeddings")
    try:
        labels = encode_labels(target, validation[1], len(rows))
    except InputError as error:
        raise InputError(f"validation: {error}") from error
    if np.isnan(labels).all():
        raise InputError("validation: all labels are missing, so there is nothing to stop by; leave validation out")
    return LabelledEmbeddings(rows, torch.from_numpy(labels))
