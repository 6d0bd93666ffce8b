"""A stack: several fitted models that answer as one, with constant weights.

Every member answers, and the answers are mixed (`hierarchy.stacked`). Which models are stacked, and with which weights,
is up to the caller; `circuits.mixing_weights` finds weights from held-out scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from gspn.attributes import Attribute
from gspn.columns import is_number, shorten
from gspn.errors import InputError, NotFittedError
from gspn.hierarchy import Hierarchy
from gspn.hierarchy.stacked import Stacked, tells_types_apart
from gspn.models import saving
from gspn.models.changes import WhatIfQuestions
from gspn.models.checks import chosen_atoms
from gspn.models.gspn import GSPN
from gspn.models.sketching import stack_html

_ROUNDING = 1e-6
"""How far the sum of weights may be from 1."""

_OF_ONE_MODEL = {
    "fit": "is not fitted itself: fit its models and stack them",
    **dict.fromkeys(
        ("posteriors", "embed", "transform", "posterior_entropy"),
        "has no states of its own, as those of its models mean different things: ask one of its `models`",
    ),
}


class Stack(WhatIfQuestions):
    """Several fitted models over the same schema that answer as one: P = Σ w P_m with constant weights w.

    A stack answers all questions about entries and vertices that a `GSPN` answers: `log_likelihood` is
    log Σ w P_m(x_v), a conditional is the mixture of the models' conditionals. The weights do not depend on what is
    observed; only conditioning within an answer (`Joint.condition`) updates them, by Bayes' rule. Questions about
    states (`embed`, `posteriors`) go to the `models`. A stack has no `fit`; its models do.

    The models may differ in anything but the schema, the atoms and what gaps mean: levels, states, contexts, guards,
    edge types. One with a single edge type ignores the types of graphs.

    Parameters
    ----------
    models:
        Fitted models, `GSPN` or `SupervisedGSPN`. They are not copied.
    weights:
        One number per model, at least 0; together 1. None gives all the same weight.
    spread:
        The factor by which the deviations of the models' continuous attributes were multiplied after training. It
        changes no answer; it has to be applied again after further EM, which loses it.
    """

    def __init__(
        self, models: Sequence[GSPN], weights: Sequence[float] | Tensor | None = None, *, spread: float = 1.0
    ) -> None:
        self.models = _checked_models(models)
        self.weights = _checked_weights(weights, len(self.models))
        if not is_number(spread) or not 0 < spread < math.inf:
            raise InputError(f"spread must be a positive number, got {shorten(spread)}")
        self.spread = float(spread)
        self.schema = self.models[0].schema
        # A graph has to suit all models: the strictest decides which edge types it may have.
        strict = [one.num_edge_types for one in self._hierarchies if tells_types_apart(one)]
        self.num_edge_types = min(strict, default=1)
        self.training_scores_ = None

    @property
    def answering(self) -> Stacked:
        """What the functions of `gspn.queries` ask."""
        return Stacked(self._hierarchies, self.weights)

    def save(self, folder: str | Path) -> None:
        """Write all models and their weights into one folder; `gspn.load` reads them back."""
        self._require_fitted()
        saving.save_stack(self, Path(folder))

    def __repr__(self) -> str:
        return f"Stack({len(self.models)} models, weights {', '.join(f'{weight:.3g}' for weight in self.weights)})"

    def _repr_html_(self) -> str:
        return stack_html(self)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            told = _OF_ONE_MODEL.get(name, f"has no attribute '{name}'")
            raise AttributeError(f"a Stack {told}")

    # What questions need.

    @property
    def _hierarchies(self) -> Sequence[Hierarchy]:
        return tuple(model.hierarchy for model in self.models)

    def _require_fitted(self) -> None:
        for number, model in enumerate(self.models):
            _require_fitted(model, number)

    def _tell_objective(self, hidden: bool = True) -> None:
        for model in self.models:
            model._tell_objective(hidden)


def _checked_models(models: Any) -> tuple[GSPN, ...]:
    if isinstance(models, GSPN) or not isinstance(models, Sequence):
        raise InputError(f"models must be a list of fitted models, got {shorten(models)}")
    if not models:
        raise InputError("a stack needs at least one model, got none")
    for number, model in enumerate(models):
        if not isinstance(model, GSPN):
            raise InputError(f"model {number} must be a GSPN, got {shorten(model)}")
        _require_fitted(model, number)
        if model.schema != models[0].schema:
            raise InputError(f"the schema of model {number} is not that of model 0: {_difference(models[0], model)}")
        first, own = (chosen_atoms(model.schema, one.atoms) for one in (models[0], model))
        if own != first:
            raise InputError(
                f"model {number} has the atoms {own}, model 0 has {first}: what is a mass in one would be a density in "
                "the other, and these cannot be added"
            )
        if model.gaps != models[0].gaps:
            raise InputError(
                f"model {number} has gaps='{model.gaps}', model 0 has '{models[0].gaps}': the likelihood of one is "
                "that of values, of the other that of values and gaps, and these cannot be added"
            )
    return tuple(models)


def _require_fitted(model: GSPN, number: int) -> None:
    if not model.__sklearn_is_fitted__():
        raise NotFittedError(f"model {number} of the stack is not fitted yet; call its fit first")


def _difference(one: GSPN, other: GSPN) -> str:
    """The first attribute in which two models' schemas differ."""

    def named(attribute: Attribute | None) -> str:
        return "no attribute" if attribute is None else repr(attribute)

    pairs = enumerate(zip_longest(one.schema, other.schema))
    column, (first, second) = next((column, pair) for column, pair in pairs if pair[0] != pair[1])
    return f"column {column} is {named(second)}, there it is {named(first)}"


def _checked_weights(weights: Any, models: int) -> tuple[float, ...]:
    if weights is None:
        return (1 / models,) * models
    given = weights.tolist() if hasattr(weights, "tolist") else weights
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InputError(f"weights must be one number per model, got {shorten(weights)}")
    if len(given) != models:
        raise InputError(f"there are {models} models, but {len(given)} weights")
    for number, weight in enumerate(given):
        if not is_number(weight) or not 0 <= weight < math.inf:
            raise InputError(f"the weight of model {number} must be a number of at least 0, got {shorten(weight)}")
    if abs(math.fsum(given) - 1) > _ROUNDING:
        raise InputError(f"weights must sum to 1, got {shorten(given)}, together {math.fsum(given):g}")
    return tuple(float(weight) for weight in given)
