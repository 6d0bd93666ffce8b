"""Which models are tried for filling gaps: settings of `GSPN`, in stages, of which each builds on what won before.

What is tried depends on the size of the data and on how much effort is wanted, never on the clock: the same data and
the same effort give the same candidates on every machine. How candidates are judged is in `selection`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from gspn.attributes import Continuous, Count
from gspn.graphs import GraphDataset

Effort: TypeAlias = Literal["quick", "normal", "thorough"]
EFFORTS = ("quick", "normal", "thorough")

_ROWS_A_STATE = 8
"""Fewer would leave a state with too little to learn from, whatever its prior."""


@dataclass(frozen=True)
class Candidate:
    """Settings of a model that learns by EM, and how it is called in what people read."""

    num_states: int
    covariance: str
    edges: str = "no edges"
    """"no edges", "states", "neighbours" or "two_hops": what a vertex receives"""
    context_variance: float = 0.0
    seed: int = 0
    leaves: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Families of single attributes"""

    def settings(self, num_edge_types: int) -> dict[str, Any]:
        """Arguments of `GSPN`."""
        own: dict[str, Any] = {"num_layers": 1}
        if self.edges != "no edges":
            context = None if self.edges == "states" else self.edges
            own = {"num_layers": 2, "num_edge_types": num_edge_types, "context": context}
            own["context_variance"] = self.context_variance if context else 0.0
        return own | {
            "num_states": self.num_states,
            "covariance": self.covariance,
            "seed": self.seed,
            "leaves": dict(self.leaves) or None,
            "start": "em",
            "epochs": 0,
            "prior": PRIOR,
            "guard": GUARD,
        }

    def __str__(self) -> str:
        states = "1 state" if self.num_states == 1 else f"{self.num_states} states"
        told = {
            "no edges": "no edges",
            "states": "neighbours' states",
            "neighbours": "neighbours",
            "two_hops": "two hops",
        }
        uncertain = ", uncertain" if self.context_variance else ""
        return f"{states}, {self.covariance}, {told[self.edges]}{uncertain}, seed {self.seed}"


PRIOR, GUARD = 1.0, 1e-3
"""Pseudo-observations of every state, and the weight of the heavy-tailed component of answers."""

_STATES = {"quick": (1, 4, 10), "normal": (1, 2, 4, 8, 14, 20), "thorough": (1, 2, 3, 4, 6, 8, 11, 14, 20, 28)}
_COVARIANCES = {
    "quick": ("shrunk",),
    "normal": ("shrunk", "tied", "diagonal"),
    "thorough": ("shrunk", "tied", "diagonal", "low_rank"),
}
_CONTEXTS = {
    "quick": ("states", "neighbours"),
    "normal": ("states", "neighbours", "two_hops"),
    "thorough": ("states", "neighbours", "two_hops"),
}
SEEDS = {"quick": 1, "normal": 3, "thorough": 5}
"""Starting points of what has won."""
MOST = {"quick": 3, "normal": 5, "thorough": 5}
"""Models in a stack."""


def without_edges(dataset: GraphDataset, effort: Effort, seed: int) -> list[Candidate]:
    """The first stage: mixtures of vertices."""
    rows, numbers = len(dataset.entries()), sum(isinstance(one, Continuous) for one in dataset.schema)
    states = [number for number in _STATES[effort] if number == 1 or number * _ROWS_A_STATE <= rows]
    structures = _COVARIANCES[effort] if numbers > 1 else ("diagonal",)
    if numbers <= 3:
        structures = tuple(name for name in structures if name != "low_rank")
    families = tuple((one.name, "negative_binomial") for one in dataset.schema if isinstance(one, Count))
    return [
        Candidate(number, structure, seed=seed, leaves=families)
        for structure in structures
        for number in states
        if number > 1 or structure == structures[0]
    ]


def with_edges(best: Sequence[Candidate], effort: Effort) -> list[Candidate]:
    """The second stage: the best mixtures, and one of few states, told of their neighbours."""
    contexts, found = _CONTEXTS[effort], []
    for one in best:
        fewer = sorted({one.num_states, min(one.num_states, 4), 1} if effort != "quick" else {one.num_states, 1})
        for number in fewer:
            for edges in contexts:
                if edges == "states" and number == 1:
                    continue  # a single state tells nothing
                found.append(replace(one, num_states=number, edges=edges))
    return list(dict.fromkeys(found))


def started_anew(chosen: Sequence[Candidate], effort: Effort) -> list[Candidate]:
    """The last stage: what has won, from other starting points."""
    found = []
    for one in chosen:
        if one.num_states == 1:
            continue  # one state has one answer wherever it starts
        found += [replace(one, seed=one.seed + number) for number in range(1, SEEDS[effort])]
    return list(dict.fromkeys(found))
