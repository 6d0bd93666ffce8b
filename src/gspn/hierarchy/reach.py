"""How near other vertices are, at any depth: the places where random walks against the edges stop.

A walk from v goes to a vertex that sends to it, and on from there, and stops before every step with the same
probability. What is stored of a vertex leaves the vertex itself out, so that sums over what walks reach hold nothing of
its own, bit for bit, whatever circles a graph has. That is structure: such sums are never differences. Edges from a
vertex to itself do not count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gspn.compiling import compiled
from gspn.graphs.batch import Batch

_LEFT, _SPARE = 3e-4, 10_000
"""Mass that may be left at a vertex, by its edges; the larger, the more a graph exceeds so many vertices."""


@dataclass(frozen=True, eq=False)
class Reach:
    """[N, N] the probabilities that a walk from v stops at u, sparse, without what is hardly ever reached."""

    first: Tensor
    """[N + 1] the entries of vertex v are first[v] … first[v + 1] - 1"""
    other: Tensor
    """[entries] u"""
    probability: Tensor
    """[entries]"""

    @classmethod
    def of(cls, batch: Batch, stopping: float) -> Reach:
        """Of a batch; walks stop with the given probability before every step."""
        sizes = batch.vertex_ptr.diff().cpu().numpy()
        left = np.repeat(_LEFT * np.maximum(sizes / _SPARE, 1.0), sizes)
        identity = np.arange(batch.num_vertices) if batch.identity is None else _array(batch.identity)
        first, other, probability = _walked(_array(batch.row_ptr), _array(batch.source), identity, left, stopping)
        return cls(torch.from_numpy(first), torch.from_numpy(other), torch.from_numpy(probability))

    def sums(self, told: Tensor) -> Tensor:
        """[N, D] Σ_u P(v → u) · told[u], in double precision."""
        found = _summed(self.first.numpy(), self.other.numpy(), self.probability.numpy(), _doubles(told))
        return torch.from_numpy(found).to(told.device)


def _array(tensor: Tensor) -> NDArray[np.int64]:
    return np.ascontiguousarray(tensor.cpu().numpy(), dtype=np.int64)


def _doubles(tensor: Tensor) -> NDArray[np.float64]:
    return np.ascontiguousarray(tensor.detach().cpu().numpy(), dtype=np.float64)


@compiled
def _summed(
    first: NDArray[np.int64], other: NDArray[np.int64], probability: NDArray[np.float64], told: NDArray[np.float64]
) -> NDArray[np.float64]:
    found = np.zeros((len(first) - 1, told.shape[1]))
    for v in range(len(found)):
        for entry in range(first[v], first[v + 1]):
            u = other[entry]
            for k in range(told.shape[1]):
                found[v, k] += probability[entry] * told[u, k]
    return found


@compiled
def _walked(
    row_ptr: NDArray[np.int64],
    source: NDArray[np.int64],
    identity: NDArray[np.int64],
    left: NDArray[np.float64],
    stopping: float,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Mass is pushed on from vertices that hold more than may be left; those that have most do not come first."""
    n = len(identity)
    degree = np.zeros(n, dtype=np.int64)
    for v in range(n):
        for edge in range(row_ptr[v], row_ptr[v + 1]):
            if identity[source[edge]] != identity[v]:
                degree[v] += 1
    first = np.zeros(n + 1, dtype=np.int64)
    room = 16 * n + 16
    other, probability = np.empty(room, dtype=np.int64), np.empty(room)
    mass, stopped = np.zeros(n), np.zeros(n)
    waits, seen = np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
    queue, touched = np.empty(n + 1, dtype=np.int64), np.empty(n, dtype=np.int64)
    for v in range(n):
        mass[v], seen[v], waits[v] = 1.0, True, True
        queue[0], touched[0] = v, v
        head, tail, count = 0, 1, 1
        while head != tail:
            u = queue[head]
            head = head + 1 if head < n else 0
            waits[u] = False
            held = mass[u]
            mass[u] = 0.0
            if degree[u] == 0:
                stopped[u] += held
                continue
            stopped[u] += stopping * held
            share = (1.0 - stopping) * held / degree[u]
            for edge in range(row_ptr[u], row_ptr[u + 1]):
                w = source[edge]
                if identity[w] == identity[u]:
                    continue
                mass[w] += share
                if not seen[w]:
                    seen[w] = True
                    touched[count] = w
                    count += 1
                if not waits[w] and mass[w] > left[w] * max(degree[w], 1):
                    waits[w] = True
                    queue[tail] = w
                    tail = tail + 1 if tail < n else 0
        at = first[v]
        if at + count > len(other):
            room = 2 * len(other) + count
            more, probable = np.empty(room, dtype=np.int64), np.empty(room)
            more[:at], probable[:at] = other[:at], probability[:at]
            other, probability = more, probable
        for place in range(count):
            u = touched[place]
            if identity[u] != identity[v] and stopped[u] > 0.0:
                other[at], probability[at] = u, stopped[u]
                at += 1
            mass[u], stopped[u], seen[u] = 0.0, 0.0, False
        first[v + 1] = at
    return first, other[: first[n]].copy(), probability[: first[n]].copy()
