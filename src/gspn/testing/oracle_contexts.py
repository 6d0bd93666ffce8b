"""What the oracle's nodes receive where leaves regress on neighbours: sums over edges, written out for one node.

Vectors and matrices of the senders come in, what the receiver makes of them goes out. Trees, templates and leaves do
not belong here, nor does anything of the library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gspn.testing.oracle_leaves import Array, NodeContext


@dataclass(frozen=True)
class Regression:
    """What a model that regresses on neighbours has beside its leaves; W numbers are told of a vertex.

    `mean` and `covariance` have D = W columns or, with two hops, D = 2 W: what comes from neighbours, then what comes
    from theirs.
    """

    mean: Array  # [L-1, D] what is usual at the levels 1 … L-1
    covariance: Array  # [L-1, D, D] how it varies
    edge_shares: Array  # [T] of the edge types
    hops: int = 1
    variance: float = 0.0  # κ: how much of a context's uncertainty is taken into account
    across: bool = True  # whether what is told of different attributes covaries; in naive Bayes, through the states

    def __post_init__(self) -> None:
        assert all(a.dtype == np.float64 for a in (self.mean, self.covariance, self.edge_shares))
        assert self.hops in (1, 2)

    def received(self, level: int, near: Array, far: Array | None, uncertainty: Array) -> NodeContext:
        """At a node with children; `far` is None where nothing arrives through them."""
        usual = self.mean[level - 1]
        covariance = np.zeros((len(usual), len(usual)))
        covariance[: len(near), : len(near)] = self.variance * uncertainty
        if self.hops == 1:
            return NodeContext(near - usual, covariance, True)
        far = usual[len(near) :] if far is None else far
        return NodeContext(np.concatenate([near, far]) - usual, covariance, True)

    def nothing(self, level: int) -> NodeContext:
        """At a node without children: what is usual, as uncertain as it usually is."""
        usual = self.mean[level - 1]
        return NodeContext(np.zeros_like(usual), self.variance * self.covariance[level - 1], False)


def priors_without_edges(prior: Array, transitions: Array, edge_shares: Array) -> list[Array]:
    """b_0 … b_{L-1}, each [S, C]: the prior of level 0 carried up by the edge types in their shares."""
    found = [prior]
    for thetas in transitions:
        following = np.zeros_like(prior)
        for share, theta in zip(edge_shares, thetas, strict=True):
            for j, below in enumerate(found[-1]):
                following[j] += share * theta[j].T @ below
        found.append(following)
    return found


def from_neighbours(told: Sequence[Array], weights: Sequence[float]) -> Array:
    """m: what the sender of each incoming edge tells, weighted."""
    total = np.zeros_like(told[0])
    for weight, own in zip(weights, told, strict=True):
        total += weight * own
    return total


def from_their_neighbours(told: Sequence[Sequence[Array]]) -> Array | None:
    """m²: for each incoming edge (u, v) what the senders of the edges (w, u), w ≠ v, tell; None where there are none.

    The mean over them for every edge by itself, then over those edges that have any.
    """
    means = [sum(of_edge[1:], start=of_edge[0]) / len(of_edge) for of_edge in told if of_edge]
    return sum(means[1:], start=means[0]) / len(means) if means else None


def uncertainty(senders: Sequence[int], covariances: Sequence[Array], weights: Sequence[float]) -> Array:
    """V: senders err independently of each other, but along all their edges alike."""
    total = np.zeros_like(covariances[0])
    for sender in dict.fromkeys(senders):
        weight = sum(w for u, w in zip(senders, weights, strict=True) if u == sender)
        total += weight**2 * covariances[list(senders).index(sender)]
    return total
