"""The GSPN that is compared: correlated leaves that regress on neighbours, by EM; held-out entries choose.

One fixed configuration for all sets: at most two levels, one structure of covariances. The number of states is chosen
for a mixture, then what is done with edges, each by the log-density of entries that were not learned from; then all
entries are learned from. What the doors of the library choose is the business of `gspn.policy`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gspn import policy
from gspn.graphs import GraphDataset
from gspn.models.gspn import GSPN

_STATES = (1, 2, 4, 8, 12)
_SHARE = 0.15
"""Of the observed entries that choose."""
_STARTS = 3
"""Of EM, when all is chosen."""
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
    held = policy.HeldOutEntries(dataset, seed, _SHARE)
    settings: dict[str, Any] = {"covariance": covariance, "prior": prior, "guard": guard, "seed": seed}
    most = max(1, len(dataset.entries()) // _FEWEST)
    tried = [{"num_layers": 1, "num_states": number} for number in states if number <= most]
    best, loss = _best(held, tried, settings)
    if int(dataset.num_edges_per_graph().sum()):
        best, loss = _best(held, _with_edges(best["num_states"], dataset), settings, best, loss)
    return _fitted(dataset, settings | best, _STARTS)


def _with_edges(states: int, dataset: GraphDataset) -> list[dict[str, Any]]:
    """Two levels that tell each other their states, or also what they expect, one hop or two."""
    types = policy.settings_for(dataset)["num_edge_types"]
    known = {"num_layers": 2, "num_states": states, "num_edge_types": types}
    contexts = ["neighbours", "two_hops"] if states == 1 else [None, "neighbours", "two_hops"]
    return [{**known, "context": context} for context in contexts]


def _best(
    held: policy.HeldOutEntries,
    tried: Sequence[dict[str, Any]],
    settings: dict[str, Any],
    best: dict[str, Any] | None = None,
    loss: float = float("inf"),
) -> tuple[dict[str, Any], float]:
    """The settings, of those tried and what was best before, under which held-out entries are likeliest."""
    for own in tried:
        found = held(_fitted(held.training, settings | own))["validation"]
        if best is None or found < loss:
            best, loss = own, found
    assert best is not None
    return best, loss


def _fitted(dataset: GraphDataset, settings: dict[str, Any], starts: int = 1) -> GSPN:
    model = GSPN(dataset.schema, start="em", epochs=0, n_init=starts, **settings)
    with torch.no_grad():
        return model.fit(dataset, progress=False, keep_scores=False)
