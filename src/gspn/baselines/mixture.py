"""Mixture: vertices as independent draws of one mixture of products, learned by exact EM on rows with gaps.

The same model by gradient is a GSPN with one level, whose leaves the E-step asks. The M-step is new: given the
responsibilities, every parameter has a closed form over the observed entries. With one state it is the independent
Gaussian (categorical, Poisson) of every attribute.
"""

from __future__ import annotations

import math
import time
from typing import Any, Self

import torch
from sklearn.base import BaseEstimator
from torch import Tensor
from torch.nn.functional import one_hot

from gspn.attributes import Attribute, Categorical, Continuous, Count, Schema
from gspn.circuits.leaves import GaussianLeaves
from gspn.circuits.numerics import log_weight
from gspn.errors import InputError, NotFittedError
from gspn.graphs import GraphDataset, pack
from gspn.graphs.draws import keyed_generator
from gspn.models.arguments import check_integer, check_real
from gspn.models.gspn import GSPN
from gspn.models.questions import Graphs

_START = 13
"""Names the stream of random numbers from which the starting point is drawn."""

_AT_ONCE = 200_000
"""Vertices and edges of one chunk."""


class Mixture(BaseEstimator):
    """A mixture over typed attributes that ignores all edges; missing entries are marginalised.

    Parameters
    ----------
    num_states:
        Number of components; 1 makes all attributes independent.
    epochs:
        EM ends after so many steps at most.
    tolerance:
        EM ends when the mean log-likelihood of a vertex has risen by no more than this.
    seed:
        Fixes the clusters from which EM starts.

    Attributes
    ----------
    model_:
        The GSPN of one level with the learned parameters (float64), which answers everything else.
    history_:
        The negative mean log-likelihood before every step, as "train".
    """

    def __init__(
        self, schema: Schema, num_states: int = 20, epochs: int = 200, tolerance: float = 1e-6, seed: int = 0
    ) -> None:
        self.schema = schema
        self.num_states = num_states
        self.epochs = epochs
        self.tolerance = tolerance
        self.seed = seed

    def fit(self, graphs: Graphs, y: object = None, *, validation: object = None, progress: bool = True) -> Self:
        """EM on all vertices; `y`, `validation` and `progress` are there for those who treat all models alike."""
        check_integer("epochs", self.epochs, 0)
        check_integer("seed", self.seed, 0, 2**63 - 1)
        check_real("tolerance", self.tolerance, 0.0, math.inf)
        for attribute in self.schema:
            if isinstance(attribute, Count) and attribute.distribution != "poisson":
                raise InputError(
                    f"attribute '{attribute.name}': the M-step of a negative binomial has no closed form; "
                    "use distribution='poisson', or GSPN with num_layers=1"
                )
        dataset = pack(graphs, self.schema)
        model = GSPN(self.schema, num_layers=1, num_states=self.num_states).double()
        model.hierarchy.set_units(dataset.entries())
        model.hierarchy.initialise(dataset.entries(), keyed_generator(self.seed, _START))
        history: list[dict[str, Any]] = []
        for epoch in range(self.epochs):
            start = time.perf_counter()
            loss, parameters = _step(model, dataset)
            history.append({"epoch": epoch, "train": loss, "seconds": time.perf_counter() - start})
            if epoch and history[-2]["train"] - loss <= self.tolerance:
                break
            model.set_parameters(parameters)
        # Also where no step was taken.
        self.model_, self.history_ = model.set_parameters(model.get_parameters()), history
        return self

    def log_likelihood(self, graphs: Graphs) -> Any:
        """[N] log-density of the observed entries of every vertex; a list for a sequence of graphs."""
        return self._model().log_likelihood(graphs)

    def log_prob_missing(self, graphs: Graphs, truth: Any) -> Any:
        """As `GSPN.log_prob_missing`."""
        return self._model().log_prob_missing(graphs, truth)

    def impute(self, graphs: Graphs, how: str = "mean", generator: torch.Generator | None = None) -> Any:
        """As `GSPN.impute`."""
        return self._model().impute(graphs, how, generator)

    def score(self, graphs: Graphs, y: object = None) -> float:
        """The mean log-likelihood of a vertex."""
        found = self.log_likelihood(graphs)
        return float((found if isinstance(found, Tensor) else torch.cat(found)).mean())

    def _model(self) -> GSPN:
        if not hasattr(self, "model_"):
            raise NotFittedError("this Mixture is not fitted yet; call fit first")
        return self.model_


@torch.no_grad()
def _step(model: GSPN, dataset: GraphDataset) -> tuple[float, dict[str, Any]]:
    """Negative mean log-likelihood of the present parameters, and those that EM puts in their place."""
    parameters, families = model.get_parameters(), model.hierarchy.families
    naturals, log_prior = model.hierarchy.naturals(), log_weight(model.hierarchy.prior().squeeze(0))
    states, total, count = torch.zeros(model.num_states, dtype=torch.float64), 0.0, 0
    mass: list[Any] = [0.0] * len(model.schema)
    sums: list[Any] = [0.0] * len(model.schema)
    for batch in dataset.chunks(_AT_ONCE):
        joint = model.hierarchy.inputs(naturals, batch.x)[0] + log_prior
        shares = joint.softmax(1)
        total, count, states = total + float(joint.logsumexp(1).sum()), count + len(shares), states + shares.sum(0)
        for column, (attribute, family) in enumerate(zip(model.schema, families, strict=True)):
            known = batch.observed[:, column]
            values = batch.x[known, column]
            if isinstance(family, GaussianLeaves):
                values = family.standardised(values)
            mass[column] = mass[column] + shares[known].sum(0)
            sums[column] = sums[column] + shares[known].T @ _statistics(attribute, values)
    parameters["prior"] = (states / states.sum())[None]
    for attribute, family, weight, moments in zip(model.schema, families, mass, sums, strict=True):
        leaves = parameters["leaves"][attribute.name]
        units = (family.center, family.spread) if isinstance(family, GaussianLeaves) else (0.0, 1.0)
        means = moments / weight.clamp_min(torch.finfo(weight.dtype).tiny)[:, None]
        for name, value in _best(attribute, means, *units).items():
            # A state that no observed entry belongs to keeps what it had.
            keep = (weight > 0).view(-1, *[1] * (value.ndim - 1))
            leaves[name] = torch.where(keep, value, leaves[name][0])[None]
    return -total / max(count, 1), parameters


def _statistics(attribute: Attribute, values: Tensor) -> Tensor:
    """[n, k] what the M-step needs the weighted means of."""
    if isinstance(attribute, Continuous):
        return torch.stack([values, values.square()], dim=1)
    if isinstance(attribute, Categorical):
        return one_hot(values.long(), len(attribute.categories)).double()
    return values[:, None]


def _best(attribute: Attribute, means: Tensor, center: float, spread: float) -> dict[str, Tensor]:
    """The likeliest parameters of every state, by name and in the users' units, from the means [C, k]."""
    if isinstance(attribute, Continuous):
        variance = (means[:, 1] - means[:, 0].square()).clamp_min(0.0)
        # The likelihood falls on both sides of its maximum, so the floor is the best of what is allowed.
        deviation = variance.sqrt().clamp_min(attribute.floor)
        return {"mean": center + spread * means[:, 0], "std": spread * deviation}
    if isinstance(attribute, Categorical):
        return {"probs": means / means.sum(1, keepdim=True).clamp_min(torch.finfo(means.dtype).tiny)}
    if isinstance(attribute, Count):
        return {"rate": means[:, 0]}
    return {"probs": means[:, 0].clamp(0.0, 1.0)}  # the mean of many ones may be 1 and a rounding error
