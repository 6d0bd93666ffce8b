"""The single GSPN that is compared: correlated leaves that regress on neighbours, by EM; held-out entries choose.

One fixed configuration for all sets: at most two levels, one structure of covariances. The number of states is chosen
for a mixture, then what is done with edges, by the same contest that chooses for the doors of the library
(`gspn.policy.selection`), which let several models answer as one and try more structures.
"""

from __future__ import annotations

from dataclasses import replace

from gspn.graphs import GraphDataset
from gspn.models.gspn import GSPN
from gspn.policy.candidates import Candidate, with_edges, without_edges
from gspn.policy.selection import Contest, held_out

_STATES = (1, 2, 4, 8, 16)
_FEWEST = 15
"""Vertices a state must have for so many states to be tried."""


def chosen_model(dataset: GraphDataset, seed: int, covariance: str = "shrunk") -> GSPN:
    """Fitted to all that is observed."""
    contest = Contest(dataset, held_out(dataset, seed))
    contest.enter(_mixtures(dataset, seed, covariance))
    if int(dataset.num_edges_per_graph().sum()):
        contest.enter(with_edges(contest.best(1), "normal"))
    return contest.best_model()


def _mixtures(dataset: GraphDataset, seed: int, covariance: str) -> list[Candidate]:
    like = replace(without_edges(dataset, "quick", seed)[0], covariance=covariance)
    most = max(1, len(dataset.entries()) // _FEWEST)
    return [replace(like, num_states=number) for number in _STATES if number <= most]
