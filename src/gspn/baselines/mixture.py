"""Mixture: vertices as independent draws of one mixture of products, learned by exact EM on rows with gaps.

The same model by gradient is a GSPN with one level, whose leaves the E-step asks for densities and the M-step for their
weighted estimates. With one state it is the independent Gaussian (categorical, Poisson) of every attribute.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, Self, overload

import torch
from sklearn.base import BaseEstimator
from torch import Tensor
from torch_geometric.data import Data

from gspn.arguments import check_integer, check_real
from gspn.attributes import Schema
from gspn.circuits.evidence import Evidence
from gspn.circuits.numerics import log_weight
from gspn.circuits.templates import inputs_of
from gspn.errors import NotFittedError
from gspn.graphs import GraphDataset, OneGraph, SeveralGraphs, pack
from gspn.hierarchy.parameters import assign_probabilities
from gspn.models.gspn import GSPN
from gspn.models.questions import Graphs
from gspn.random_streams import keyed_generator

_START = 13
"""Names the stream of random numbers from which the starting point is drawn."""

_AT_ONCE = 200_000
"""Vertices and edges of one chunk."""


@dataclass(eq=False, repr=False)
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

    schema: Schema
    num_states: int = 20
    epochs: int = 200
    tolerance: float = 1e-6
    seed: int = 0

    def fit(self, graphs: Graphs, y: object = None, *, validation: object = None, progress: bool = True) -> Self:
        """EM on all vertices; `y`, `validation` and `progress` are there for those who treat all models alike."""
        check_integer("epochs", self.epochs, 0)
        check_integer("seed", self.seed, 0, 2**63 - 1)
        check_real("tolerance", self.tolerance, 0.0, math.inf)
        dataset = pack(graphs, self.schema)
        model = GSPN(self.schema, num_layers=1, num_states=self.num_states).double()
        model.hierarchy.set_units(dataset.entries())
        model.hierarchy.initialise(dataset.entries(), keyed_generator(self.seed, _START))
        history: list[dict[str, Any]] = []
        for epoch in range(self.epochs):
            start = time.perf_counter()
            loss, shares = _responsibilities(model, dataset)
            history.append({"epoch": epoch, "train": loss, "seconds": time.perf_counter() - start})
            if epoch and history[-2]["train"] - loss <= self.tolerance:
                break
            _maximise(model, dataset.entries(), shares)
        # Also where no step was taken.
        self.model_, self.history_ = model.set_parameters(model.get_parameters()), history
        return self

    @overload
    def log_likelihood(self, graphs: SeveralGraphs) -> list[Tensor]: ...
    @overload
    def log_likelihood(self, graphs: OneGraph) -> Tensor: ...
    def log_likelihood(self, graphs: Graphs) -> Tensor | list[Tensor]:
        """[N] log-density of the observed entries of every vertex; a list for a sequence of graphs."""
        return self._model().log_likelihood(graphs)

    @overload
    def log_prob_missing(self, graphs: SeveralGraphs, truth: Any) -> list[Tensor]: ...
    @overload
    def log_prob_missing(self, graphs: OneGraph, truth: Any) -> Tensor: ...
    def log_prob_missing(self, graphs: Graphs, truth: Any) -> Tensor | list[Tensor]:
        """As `GSPN.log_prob_missing`."""
        return self._model().log_prob_missing(graphs, truth)

    @overload
    def impute(
        self, graphs: SeveralGraphs, how: str = "mean", generator: torch.Generator | None = None
    ) -> list[Data]: ...
    @overload
    def impute(self, graphs: OneGraph, how: str = "mean", generator: torch.Generator | None = None) -> Data: ...
    def impute(self, graphs: Graphs, how: str = "mean", generator: torch.Generator | None = None) -> Data | list[Data]:
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
def _responsibilities(model: GSPN, dataset: GraphDataset) -> tuple[float, Tensor]:
    """Negative mean log-likelihood, and [N, C] the probability of every state given a vertex's entries."""
    hierarchy = model.hierarchy
    naturals, log_prior = hierarchy.naturals(), log_weight(hierarchy.prior().squeeze(0))
    total, shares = 0.0, [torch.zeros(0, model.num_states, dtype=torch.float64)]
    for batch in dataset.chunks(_AT_ONCE):
        joint = inputs_of(hierarchy.template, hierarchy.families, naturals, Evidence(batch.x))[0] + log_prior
        total += float(joint.logsumexp(1).sum())
        shares.append(joint.softmax(1))
    return -total / max(sum(map(len, shares)), 1), torch.cat(shares)


@torch.no_grad()
def _maximise(model: GSPN, x: Tensor, shares: Tensor) -> None:
    """Put the likeliest parameters given the responsibilities in place of the present ones."""
    hierarchy, states = model.hierarchy, shares.sum(0)
    assign_probabilities(hierarchy.raw_prior, "'prior'", (states / states.sum())[None])
    for family, scope in zip(hierarchy.families, hierarchy.template.scopes, strict=True):
        family.estimate(Evidence(x).columns(scope), shares)
