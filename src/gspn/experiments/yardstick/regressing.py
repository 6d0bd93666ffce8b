"""The GSPN that is compared: correlated leaves that regress on neighbours, by EM; held-out entries choose.

One fixed configuration for all sets: at most two levels, one structure of covariances. The number of states is chosen
for a mixture, then what is done with edges, each by the log-density of entries that were not learned from; then all
entries are learned from. What the doors of the library choose is the business of `gspn.policy`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gspn import policy
from gspn.graphs import GraphDataset
from gspn.graphs.missing import with_missing
from gspn.models.gspn import GSPN

_STATES = (1, 2, 4, 8, 12)
_SHARE = 0.15
"""Of the observed entries that choose."""
_STARTS = 3
"""Of EM, when all is chosen."""
_ERRORS = 0.5
"""Standard errors by which what is simpler may be worse on few held-out entries."""
_FEWEST = 15
"""Vertices a state must have for so many states to be tried."""


def chosen_model(
    dataset: GraphDataset,
    seed: int,
    covariance: str = "shrunk",
    states: Sequence[int] = _STATES,
    prior: float = 1.0,
    guard: float = 1e-3,
) -> GSPN:
    """Fitted to all that is observed."""
    mask = policy.held_out_mask(dataset, seed, _SHARE)
    training, truth = with_missing(dataset, mask), list(dataset)
    settings: dict[str, Any] = {"covariance": covariance, "prior": prior, "guard": guard, "seed": seed}

    def losses(own: dict[str, Any]) -> Tensor:
        found = _fitted(training, settings | own).log_prob_missing(training, truth)
        return -torch.cat(found).double()[mask.any(1)]

    most = max(1, len(dataset.entries()) // _FEWEST)
    tried = [{"num_layers": 1, "num_states": number} for number in states if number <= most]
    best = _simplest({number: losses(own) for number, own in enumerate(tried)})
    own = tried[best]
    if int(dataset.num_edges_per_graph().sum()):
        further = [own, *_with_edges(own["num_states"], dataset)]
        own = further[_simplest({number: losses(one) for number, one in enumerate(further)})]
    return _fitted(dataset, settings | own, _STARTS)


def _simplest(losses: dict[int, Tensor]) -> int:
    """The first that is not worse than the best by more than a standard error of the difference, vertex by vertex."""
    best = min(losses, key=lambda number: float(losses[number].mean()))
    for number, own in losses.items():
        away = own - losses[best]
        if float(away.mean()) <= float(away.std() / max(len(away), 1) ** 0.5) * _ERRORS:
            return number
    return best


def _with_edges(states: int, dataset: GraphDataset) -> list[dict[str, Any]]:
    """Two levels that tell each other their states, or also what they expect, one hop or two."""
    types = policy.settings_for(dataset)["num_edge_types"]
    known = {"num_layers": 2, "num_states": states, "num_edge_types": types}
    contexts = ["neighbours", "two_hops"] if states == 1 else [None, "neighbours", "two_hops"]
    return [{**known, "context": context} for context in contexts]


def _fitted(dataset: GraphDataset, settings: dict[str, Any], starts: int = 1) -> GSPN:
    model = GSPN(dataset.schema, start="em", epochs=0, n_init=starts, **settings)
    with torch.no_grad():
        return model.fit(dataset, progress=False, keep_scores=False)
