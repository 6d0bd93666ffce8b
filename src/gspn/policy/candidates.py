"""Which models are tried for filling gaps: settings of `GSPN`, in stages, of which each builds on what won before.

They learn by EM; those of more than two levels, by gradient descent.

What is tried depends on the size of the data and on how much effort is wanted, never on the clock: the same data and
the same effort give the same candidates on every machine. How candidates are judged is in `selection`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from gspn.atoms import find_atoms
from gspn.attributes import Continuous, Count, Schema
from gspn.circuits.leaves.count_tables import TABULATED
from gspn.circuits.leaves.registry import context_width
from gspn.graphs import GraphDataset

Effort: TypeAlias = Literal["quick", "normal", "thorough"]
EFFORTS: tuple[Effort, ...] = ("quick", "normal", "thorough")

_SHARE_OF_ATOM = 0.1
"""Of a column's observed values. Of smaller heaps (cars, 3 to 6 %) the likelihood gained, and the error lost."""

_ROWS_A_STATE = 8
"""Fewer would leave a state with too little to learn from, whatever its prior."""
_MANY, _ROWS_OF_MANY = 20, 30
"""More states than these are slow, and are only tried where there are as many rows for each."""


PRIOR, WEAK_PRIOR, GUARD = 1.0, 0.1, 1e-3
"""Pseudo-observations of every state, as a rule and where less is better; the weight of the heavy-tailed component."""

_BATCH, _RATE, _RATE_ON = 32, 0.1, 0.03
"""Of gradient descent: graphs in a step, and learning rates, halved four times."""
_STEPS, _EPOCHS, _VISITS = 400, 20, 4_000_000
"""So many steps, at least so many passes over the data, and in any case no more vertices than these."""


@dataclass(frozen=True)
class Candidate:
    """Settings of a model, and its name in messages."""

    num_states: int
    covariance: str
    edges: str = "no edges"
    """"no edges", "states", "neighbours" or "two_hops": what a vertex receives"""
    context_variance: float = 0.0
    slopes: str = "tied"
    """How leaves depend on a context: all states alike, or each in its own way ("free")"""
    prior: float = PRIOR
    """Pseudo-observations of every state"""
    levels: int = 2
    """Of models with edges; those of more than two learn by gradient descent"""
    start: str = "em"
    """Where gradient descent starts: "em" or "clusters\""""
    seed: int = 0
    leaves: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Families of single attributes"""
    atoms: tuple[tuple[str, tuple[float, ...]], ...] = field(default=(), repr=False)
    """Values that repeat far too often for a density, by attribute"""

    def settings(self, num_edge_types: int) -> dict[str, Any]:
        """Arguments of `GSPN`."""
        own: dict[str, Any] = {"num_layers": 1}
        if self.edges != "no edges":
            context = None if self.edges == "states" else self.edges
            own = {"num_layers": self.levels, "num_edge_types": num_edge_types, "context": context}
            own |= {"context_variance": self.context_variance if context else 0.0, "slopes": self.slopes}
        return own | {
            "num_states": self.num_states,
            "covariance": self.covariance,
            "seed": self.seed,
            "leaves": dict(self.leaves) or None,
            "atoms": {name: list(values) for name, values in self.atoms} or None,
            "start": self.start,
            "epochs": 0,
            "objective": "masked" if self.descends else "pseudo",
            "prior": self.prior,
            "guard": GUARD,
        }

    @property
    def descends(self) -> bool:
        """Whether it learns by gradient descent: with levels above the second, where vertices see their own values."""
        return self.edges != "no edges" and self.levels > 2

    def learning(self, dataset: GraphDataset, on: bool = False) -> dict[str, Any]:
        """Arguments of `fit` for a dataset of this size; to learn `on`, fewer and smaller steps."""
        if not self.descends:
            return {}
        vertices, steps = len(dataset.entries()), math.ceil(len(dataset) / _BATCH)
        epochs = min(max(math.ceil(_STEPS / max(steps, 1)), _EPOCHS), max(_VISITS // max(vertices, 1), 1))
        epochs = math.ceil(epochs / 3) if on else epochs
        return {"epochs": epochs, "batch_size": _BATCH, "lr": _RATE_ON if on else _RATE, "halve_every": epochs / 4}

    def __str__(self) -> str:
        states = "1 state" if self.num_states == 1 else f"{self.num_states} states"
        told = {
            "no edges": "no edges",
            "states": "neighbours' states",
            "neighbours": "neighbours",
            "two_hops": "two hops",
        }
        how = ", free slopes" * (self.slopes == "free") + ", uncertain" * bool(self.context_variance)
        how += f", {self.levels} levels from {self.start}" * self.descends + ", weak prior" * (self.prior < PRIOR)
        return f"{states}, {self.covariance}, {told[self.edges]}{how}, seed {self.seed}"


_STATES: Mapping[str, Mapping[str, Sequence[int]]] = {
    "quick": {"shrunk": (1, 4, 10)},
    "normal": {"shrunk": (1, 4, 8, 16, 28), "tied": (4, 12), "diagonal": (8, 20)},
    "thorough": {
        "shrunk": (1, 2, 3, 4, 6, 8, 12, 16, 24),
        "tied": (2, 4, 8, 12, 20),
        "diagonal": (4, 8, 12, 20, 30),
        "low_rank": (2, 4, 8),
    },
}
"""By structure of covariance, numbers of states"""
_DISCRETE_STATES = {"quick": (1, 6, 20), "normal": (1, 4, 8, 16, 30), "thorough": (1, 2, 4, 6, 8, 12, 16, 24, 40)}
"""Where there is nothing to covary"""
_FEWER = {"quick": (1,), "normal": (1, 4), "thorough": (1, 2, 4, 8)}
"""States of models with edges, beside as many as the best without edges has."""
_CONTEXTS = {
    "quick": ("states", "neighbours"),
    "normal": ("states", "neighbours", "two_hops"),
    "thorough": ("states", "neighbours", "two_hops"),
}
_MOST_REGRESSING = {"quick": 4, "normal": 12, "thorough": 20}
"""States of models whose leaves regress on neighbours: discrete ones take their time for each."""
_MOST_CURVATURE = 20_000_000
"""Numbers: 270 categories in all"""
_LEVELS: Mapping[str, Sequence[int]] = {"quick": (), "normal": (), "thorough": (3, 4, 5)}
"""Of models that learn by gradient descent: much time, and on the sets for choosing they rarely won."""
_FEWEST_DESCENDING = 12
"""Their states, by which alone anything beyond the neighbours is known."""
SEEDS = {"quick": 1, "normal": 2, "thorough": 5}
"""Starting points of what has won."""
MOST = {"quick": 3, "normal": 5, "thorough": 5}
"""Models in a stack."""


def without_edges(dataset: GraphDataset, effort: Effort, seed: int) -> list[Candidate]:
    """The first stage: mixtures of vertices."""
    rows, numbers = len(dataset.entries()), sum(isinstance(one, Continuous) for one in dataset.schema)
    sizes: Mapping[str, Sequence[int]] = _STATES[effort] if numbers > 1 else {"diagonal": _DISCRETE_STATES[effort]}
    alone = by_columns(dataset, seed)
    return [
        replace(alone, num_states=number, covariance=structure)
        for structure, states in sizes.items()
        for number in states
        if (number == 1 or number * _rows_a_state(number) <= rows) and (structure != "low_rank" or numbers > 3)
    ]


def by_columns(dataset: GraphDataset, seed: int) -> Candidate:
    """Independent columns: one state learns nothing else."""
    return Candidate(1, "diagonal", seed=seed, leaves=_families_of_counts(dataset), atoms=_atoms(dataset))


def _families_of_counts(dataset: GraphDataset) -> tuple[tuple[str, str], ...]:
    """Tables where all counts are small: a negative binomial cannot be certain of these."""
    largest = dataset.entries().nan_to_num(0.0).amax(0).tolist()
    return tuple(
        (one.name, "count_table" if most < TABULATED else "negative_binomial")
        for one, most in zip(dataset.schema, largest, strict=True)
        if isinstance(one, Count)
    )


def _rows_a_state(number: int) -> int:
    return _ROWS_A_STATE if number <= _MANY else _ROWS_OF_MANY


def _atoms(dataset: GraphDataset) -> tuple[tuple[str, tuple[float, ...]], ...]:
    """The atoms of continuous columns that hold many entries: an entry at an atom no longer enters linearly."""
    entries, chosen = dataset.entries(), []
    for column, (attribute, values) in enumerate(zip(dataset.schema, find_atoms(entries), strict=True)):
        known = entries[:, column][~entries[:, column].isnan()]
        large = tuple(value for value in values if float((known == value).double().mean()) >= _SHARE_OF_ATOM)
        if large and isinstance(attribute, Continuous):
            chosen.append((attribute.name, large))
    return tuple(chosen)


def with_weaker_priors(best: Sequence[Candidate], effort: Effort) -> list[Candidate]:
    """The best mixtures, less drawn towards what all rows have in common: where columns follow from each other."""
    if effort == "quick":
        return []
    found = [replace(one, prior=WEAK_PRIOR) for one in best]
    return found + [replace(one, covariance="full") for one in found if one.covariance == "shrunk"]


def with_edges(best: Sequence[Candidate], effort: Effort, rows: int = 0) -> list[Candidate]:
    """The second stage: the best mixtures, with edges; the very best also with fewer states.

    Models that use only their neighbours' states gain from many states, and are cheap where nothing covaries: there the
    very best is also tried with twice as many, if there are enough `rows`.
    """
    found = []
    for place, one in enumerate(best):
        for edges in _CONTEXTS[effort]:
            most = one.num_states if edges == "states" else min(one.num_states, _MOST_REGRESSING[effort])
            fewer = _FEWER[effort] if place == 0 else ()
            # A single state carries no information.
            sizes = {size for size in (most, *fewer) if size <= most} - ({1} if edges == "states" else set())
            many = 2 * one.num_states
            if place == 0 and edges == "states" and one.covariance == "diagonal" and many * _ROWS_OF_MANY <= rows:
                sizes.add(many)
            found += [replace(one, num_states=size, edges=edges) for size in sorted(sizes)]
    return list(dict.fromkeys(found))


def can_be_held(candidate: Candidate, schema: Schema) -> bool:
    """Whether there is memory for it: where discrete leaves regress on neighbours, for the curvature of each slope."""
    if candidate.edges not in ("neighbours", "two_hops"):
        return True
    discrete = context_width([one for one in schema if not isinstance(one, Continuous)])
    return discrete * context_width(list(schema)) ** 2 <= _MOST_CURVATURE


def with_more_levels(best: Candidate, dataset: GraphDataset, effort: Effort) -> list[Candidate]:
    """Models that see beyond their neighbours, for discrete columns: with regression they gained nothing."""
    discrete = sum(not isinstance(one, Continuous) for one in dataset.schema)
    if 2 * discrete <= len(dataset.schema):
        return []
    size = min(max(best.num_states, _FEWEST_DESCENDING), _MANY)
    one = replace(best, num_states=size, edges="states", slopes="tied", context_variance=0.0)
    return [replace(one, levels=levels, start=start) for levels in _LEVELS[effort] for start in ("em", "clusters")]


def started_anew(chosen: Sequence[Candidate], effort: Effort) -> list[Candidate]:
    """The last stage: what has won, from other starting points."""
    found = []
    for one in chosen:
        if one.num_states == 1:
            continue  # one state has one answer wherever it starts
        found += [replace(one, seed=one.seed + number) for number in range(1, SEEDS[effort])]
    return list(dict.fromkeys(found))
