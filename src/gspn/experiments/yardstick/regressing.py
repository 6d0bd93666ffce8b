"""The GSPN that is compared: correlated leaves that regress on neighbours, by EM; held-out entries choose.

One fixed configuration for all sets: at most two levels, one structure of covariances. The number of states is chosen
for a mixture, then what is done with edges, each by the log-density of entries that were not learned from; then all
entries are learned from. What the doors of the library choose is the business of `gspn.policy`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from gspn import policy
from gspn.graphs import GraphDataset
from gspn.models.gspn import GSPN

_STATES = (1, 2, 4, 8, 12)
_SHARE = 0.15
"""Of the observed entries that choose."""
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
        best, loss = _best(held, list(_with_edges(best["num_states"], dataset)), settings, best, loss)
    return _fitted(dataset, settings | best)


def _with_edges(states: int, dataset: GraphDataset) -> Iterator[dict[str, Any]]:
    types = policy.settings_for(dataset)["num_edge_types"]
    for context in (None, "neighbours", "two_hops"):
        for number in dict.fromkeys((states, max(1, states // 2))):
            if context is None and number == 1:
                continue  # with one state nothing is told
            yield {"num_layers": 2, "num_states": number, "context": context, "num_edge_types": types}


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


def _fitted(dataset: GraphDataset, settings: dict[str, Any]) -> GSPN:
    model = GSPN(dataset.schema, start="em", epochs=0, n_init=3, **settings)
    with torch.no_grad():
        return model.fit(dataset, progress=False, keep_scores=False)
