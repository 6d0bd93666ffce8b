"""Gibbs sampling of a hierarchical Dirichlet process mixture, direct assignment: states, and what they are drawn from.

    β ~ stick breaking with Beta(1, γ)          weights of the states, shared by all groups
    π_j ~ DP(α, β)                              weights within group j, integrated out
    z_u ~ π_j(u),   x_u ~ f(· | θ_z)            θ integrated out: categorical–Dirichlet, Gaussian–normal–gamma

so that P(z_u = k | rest) ∝ (α β_k + n_jk) f(x_u | the other members of k), with α β_new f(x_u) for a new state. A state
that loses all its members stays eligible until the end of the sweep and is dropped then, when β is drawn anew from the
table counts. A missing entry takes no part: it is integrated out.

Here belongs the sampler alone; what the groups are, and what is done with the states, is iCGMM's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gspn.attributes import FloatArray
from gspn.baselines.evidence import Column
from gspn.compiling import compiled

Integers = NDArray[np.int64]

SHAPE, RATE = 1.0, 0.01
"""Of the Gamma priors of α and γ."""


@dataclass(frozen=True)
class Priors:
    """Of the emissions: Dirichlet(`pseudo_count`) for categories; for numbers (standard units) precision
    Gamma(`shape`, `rate`) and mean Normal(0, 1 / (`strength` · precision))."""

    pseudo_count: float = 1.0
    strength: float = 0.1
    shape: float = 2.0
    rate: float = 0.2


@dataclass
class ChainState:
    """The sampler's present state."""

    states: Integers
    """[n] z; -1 before the first sweep"""
    beta: FloatArray
    """[K + 1] the last is what is left for new states"""
    alpha: float
    gamma: float

    @property
    def num_states(self) -> int:
        return len(self.beta) - 1


class Statistics(NamedTuple):
    """What a state's members have in common; arrays have room for more states than there are."""

    members: FloatArray
    """[J, K] by group"""
    seen: FloatArray
    """[d, K] members with the entry observed"""
    cells: FloatArray
    """[d, K, V] counts by category; of numbers the sum and the sum of squares"""


@compiled
def _change(
    by: float,
    k: int,
    j: int,
    row: FloatArray,
    sizes: Integers,
    members: FloatArray,
    seen: FloatArray,
    cells: FloatArray,
) -> None:
    """Let a row join (+1) or leave (−1) state k."""
    members[j, k] += by
    for a in range(len(row)):
        if not np.isnan(row[a]):
            seen[a, k] += by
            if sizes[a] > 0:
                cells[a, k, int(row[a])] += by
            else:
                cells[a, k, 0] += by * row[a]
                cells[a, k, 1] += by * row[a] ** 2


@compiled
def _log_predictive(
    k: int,
    row: FloatArray,
    sizes: Integers,
    priors: FloatArray,
    ratios: FloatArray,
    seen: FloatArray,
    cells: FloatArray,
) -> float:
    """log f(row | members of state k); for numbers a Student t, whose Gamma functions are looked up in `ratios`."""
    pseudo_count, strength, shape, rate = priors[0], priors[1], priors[2], priors[3]
    total = 0.0
    for a in range(len(row)):
        if np.isnan(row[a]):
            continue
        count = seen[a, k]
        if sizes[a] > 0:
            total += math.log((cells[a, k, int(row[a])] + pseudo_count) / (count + sizes[a] * pseudo_count))
        else:
            kappa, half = strength + count, shape + 0.5 * count
            mean = cells[a, k, 0] / kappa
            # Σx² − (Σx)²/κ is positive; rounding may say otherwise.
            spread = rate + 0.5 * max(cells[a, k, 1] - cells[a, k, 0] * mean, 0.0)
            scale = 2.0 * spread * (kappa + 1.0) / kappa
            total += ratios[int(count)] - 0.5 * math.log(math.pi * scale)
            total -= (half + 0.5) * math.log1p((row[a] - mean) ** 2 / scale)
    return total


@compiled
def _sweep(
    first: int,
    num_states: int,
    states: Integers,
    groups: Integers,
    evidence: FloatArray,
    sizes: Integers,
    priors: FloatArray,
    ratios: FloatArray,
    alpha: float,
    beta: FloatArray,
    members: FloatArray,
    seen: FloatArray,
    cells: FloatArray,
    uniforms: FloatArray,
    sticks: FloatArray,
) -> tuple[int, int]:
    """Draw the states of the rows from `first` on; gives the row at which room for new states ended, and K."""
    scores = np.empty(len(beta))
    for u in range(first, len(states)):
        if num_states + 1 >= len(beta):
            return u, num_states
        j, row = groups[u], evidence[u]
        if states[u] >= 0:
            _change(-1.0, states[u], j, row, sizes, members, seen, cells)
        top = -np.inf
        for k in range(num_states + 1):  # the last is new: nobody is in it
            weight = alpha * beta[k] + members[j, k]
            if weight > 0.0:
                scores[k] = math.log(weight) + _log_predictive(k, row, sizes, priors, ratios, seen, cells)
            else:
                scores[k] = -np.inf
            top = max(top, scores[k])
        total = 0.0
        for k in range(num_states + 1):
            total += math.exp(scores[k] - top)
            scores[k] = total
        chosen = 0
        while chosen < num_states and scores[chosen] <= uniforms[u] * total:
            chosen += 1
        if chosen == num_states:
            rest = beta[num_states]
            beta[num_states] = rest * (1.0 - sticks[u])
            beta[num_states + 1] = rest * sticks[u]
            num_states += 1
        states[u] = chosen
        _change(1.0, chosen, j, row, sizes, members, seen, cells)
    return len(states), num_states


@compiled
def _count(
    states: Integers,
    groups: Integers,
    evidence: FloatArray,
    sizes: Integers,
    members: FloatArray,
    seen: FloatArray,
    cells: FloatArray,
) -> None:
    for u in range(len(states)):
        if states[u] >= 0:
            _change(1.0, states[u], groups[u], evidence[u], sizes, members, seen, cells)


@compiled
def _tables(members: FloatArray, alpha: float, beta: FloatArray, uniforms: FloatArray) -> FloatArray:
    """[K] tables that serve each state: the i-th member of a group opens one with probability αβ / (αβ + i)."""
    tables = np.zeros(members.shape[1])
    drawn = 0
    for j in range(members.shape[0]):
        for k in range(members.shape[1]):
            weight = alpha * beta[k]
            for i in range(int(members[j, k])):
                if i == 0 or uniforms[drawn] * (weight + i) < weight:
                    tables[k] += 1.0
                drawn += 1
    return tables


@compiled
def _posteriors(
    groups: Integers,
    evidence: FloatArray,
    sizes: Integers,
    priors: FloatArray,
    ratios: FloatArray,
    weights: FloatArray,
    seen: FloatArray,
    cells: FloatArray,
) -> FloatArray:
    num_states = weights.shape[1]
    found = np.empty((len(groups), num_states))
    for u in range(len(groups)):
        top = -np.inf
        for k in range(num_states):
            log_weight = math.log(weights[groups[u], k])
            found[u, k] = log_weight + _log_predictive(k, evidence[u], sizes, priors, ratios, seen, cells)
            top = max(top, found[u, k])
        total = 0.0
        for k in range(num_states):
            found[u, k] = math.exp(found[u, k] - top)
            total += found[u, k]
        for k in range(num_states):
            found[u, k] /= total
    return found


class Sampler:
    """Rows of evidence in groups, ready to be swept over; `mixture` is the present state."""

    def __init__(
        self,
        evidence: FloatArray,
        groups: Integers,
        num_groups: int,
        columns: tuple[Column, ...],
        priors: Priors,
        rng: np.random.Generator,
    ) -> None:
        self.evidence, self.groups, self.num_groups, self.rng = np.ascontiguousarray(evidence), groups, num_groups, rng
        self.sizes = np.array([column.size for column in columns])
        self.priors = np.array([priors.pseudo_count, priors.strength, priors.shape, priors.rate])
        half = priors.shape + 0.5 * np.arange(len(evidence) + 1)
        self.ratios = np.array([math.lgamma(h + 0.5) - math.lgamma(h) for h in half])
        self.mixture = ChainState(np.full(len(evidence), -1), np.ones(1), 1.0, 1.0)

    def deal(self, num_states: int) -> None:
        """Start from so many states: rows of the same group and evidence go to the same one, at random."""
        rows = np.column_stack([self.groups, np.nan_to_num(self.evidence, nan=np.inf)])
        alike = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
        self.mixture.states = self.rng.integers(num_states, size=len(alike))[alike]
        self.mixture.beta = np.full(num_states + 1, 1.0 / (num_states + 1))
        self.draw_weights()

    def statistics(self, room: int) -> Statistics:
        """Counted afresh, with room for so many states."""
        width = max(2, int(self.sizes.max(initial=0)))
        dimensions = len(self.sizes)
        counted = Statistics(
            np.zeros((self.num_groups, room)), np.zeros((dimensions, room)), np.zeros((dimensions, room, width))
        )
        _count(self.mixture.states, self.groups, self.evidence, self.sizes, *counted)
        return counted

    def sweep(self) -> None:
        """New states, then all that they depend on."""
        self.draw_states()
        self.draw_weights()

    def draw_states(self) -> None:
        """Every row's state given all others; rows without one are let in one after the other."""
        mixture, size = self.mixture, len(self.evidence)
        uniforms = self.rng.random(size)
        # The share of the stick that is left after a Beta(1, γ) part of it is broken off.
        sticks = self.rng.random(size) ** (1.0 / mixture.gamma)
        row = 0
        while row < size:
            room = 2 * mixture.num_states + 16
            beta = np.zeros(room)
            beta[: len(mixture.beta)] = mixture.beta
            row, num_states = _sweep(
                row,
                mixture.num_states,
                mixture.states,
                self.groups,
                self.evidence,
                self.sizes,
                self.priors,
                self.ratios,
                mixture.alpha,
                beta,
                *self.statistics(room),
                uniforms,
                sticks,
            )
            mixture.beta = beta[: num_states + 1]

    def draw_weights(self) -> None:
        """Drop empty states, then table counts, α, γ and β."""
        mixture, rng = self.mixture, self.rng
        used, mixture.states = np.unique(mixture.states, return_inverse=True)
        members = self.statistics(len(used)).members
        tables = _tables(members, mixture.alpha, mixture.beta[used], rng.random(len(self.evidence)))
        in_group = members.sum(1)
        mixture.alpha = _concentration(mixture.alpha, in_group[in_group > 0], tables.sum(), rng)
        mixture.gamma = _concentration(mixture.gamma, tables.sum(keepdims=True), len(used), rng)
        mixture.beta = rng.dirichlet([*tables, mixture.gamma])

    def sample(self) -> Sample:
        """The present state, to be kept."""
        counted = self.statistics(self.mixture.num_states)
        weights = self.mixture.alpha * self.mixture.beta[:-1] + counted.members
        return Sample(weights, counted, self.sizes, self.priors, self.ratios)


@dataclass(frozen=True, eq=False)
class Sample:
    """One state of the chain, as what it says of rows outside of it; new states are left out."""

    weights: FloatArray
    """[J, K] α β_k + n_jk"""
    statistics: Statistics
    sizes: Integers
    priors: FloatArray
    ratios: FloatArray

    def posteriors(self, groups: Integers, evidence: FloatArray) -> FloatArray:
        """[n, K] of the rows' states."""
        counted, given = self.statistics, np.ascontiguousarray(evidence)
        found: FloatArray = _posteriors(
            groups, given, self.sizes, self.priors, self.ratios, self.weights, counted.seen, counted.cells
        )
        return found


def _concentration(old: float, customers: FloatArray, tables: float, rng: np.random.Generator) -> float:
    """A new concentration of Dirichlet processes that seat so many customers each, at so many tables in all."""
    fractions = rng.beta(old + 1.0, customers)
    fewer = (rng.random(len(customers)) * (customers + old) < customers).sum()
    shape, rate = SHAPE + tables - fewer, RATE - np.log(fractions).sum()
    # Below this the concentration is 0 for every purpose, and a stick could not be broken.
    return max(float(rng.gamma(shape, 1.0 / rate)), 1e-8)
