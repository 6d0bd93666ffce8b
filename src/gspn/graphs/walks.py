"""Walks in a batch: who reaches whom in so many steps, for many vertices at once; and groups in which nobody does.

A key names a vertex as seen from one of the vertices that were asked about: (number of the question) · N + vertex.
Searches are compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gspn.compiling import compiled
from gspn.graphs.batch import Batch, rows_by_target

_WORK = 16
"""Edges that a search may look at for each key that it may find."""

IntArray: TypeAlias = NDArray[np.int64]
_MOST_PAIRS = 50_000_000
"""Pairs of vertices within reach that are kept at once; beyond, every vertex is a group of its own."""


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """The vertices of a batch with their senders, in the order of the edges, and their receivers."""

    num_vertices: int
    row_ptr: Tensor
    sender: Tensor
    out_ptr: Tensor
    receiver: Tensor

    @classmethod
    def of(cls, batch: Batch) -> Neighbourhood:
        row_ptr, sender = batch.row_ptr, batch.source.long()
        out_ptr, receiver = torch.zeros_like(row_ptr), torch.empty_like(sender)
        _turn(row_ptr.numpy(), sender.numpy(), out_ptr.numpy(), receiver.numpy())
        return cls(batch.num_vertices, row_ptr, sender, out_ptr, receiver)

    @property
    def _inward(self) -> tuple[Any, Any]:
        return self.row_ptr.numpy(), self.sender.numpy()

    @property
    def _outward(self) -> tuple[Any, Any]:
        return self.out_ptr.numpy(), self.receiver.numpy()

    def edges_into(self, vertices: Tensor) -> tuple[Tensor, Tensor]:
        """All incoming edges of the given vertices: (which of the given vertices, edge)."""
        sizes = self.row_ptr.diff()[vertices]
        owner = torch.repeat_interleave(torch.arange(len(vertices)), sizes)
        first = torch.repeat_interleave(self.row_ptr[vertices] - (sizes.cumsum(0) - sizes), sizes)
        return owner, first + torch.arange(len(owner))

    def closed_walks(self, roots: Tensor, length: int, budget: int | None) -> Tensor | None:
        """Sorted keys of all vertices on closed walks of at most `length` through a root.

        None when there are more than `budget`.
        """
        most = -1 if budget is None else budget
        keys, enough = _closed_walks(*self._inward, *self._outward, roots.numpy(), length, most)
        return torch.from_numpy(keys) if enough else None

    def within_reach(self, starts: Tensor, steps: int, budget: int | None) -> tuple[Tensor, Tensor] | None:
        """Sorted keys of all vertices that each start reaches in at most so many steps, and their distances.

        None when there are more than `budget`.
        """
        most = -1 if budget is None else budget
        keys, distances, enough = _within_reach(*self._outward, starts.numpy(), steps, most)
        return (torch.from_numpy(keys), torch.from_numpy(distances)) if enough else None

    def ancestors(self, vertices: Tensor, steps: int) -> Tensor:
        """[N] True for all vertices from which one of the given is reached in at most so many steps."""
        reached = np.zeros(self.num_vertices, np.bool_)
        _ancestors(*self._inward, vertices.numpy(), steps, reached)
        return torch.from_numpy(reached)


@compiled
def _turn(row_ptr: Any, sender: Any, out_ptr: Any, receiver: Any) -> None:
    """Edges by sender; `out_ptr` comes as zeros."""
    for e in range(len(sender)):
        out_ptr[sender[e] + 1] += 1
    for v in range(len(row_ptr) - 1):
        out_ptr[v + 1] += out_ptr[v]
    place = out_ptr[:-1].copy()
    for v in range(len(row_ptr) - 1):
        for e in range(row_ptr[v], row_ptr[v + 1]):
            u = sender[e]
            receiver[place[u]] = v
            place[u] += 1


@compiled
def _search(ptr: Any, neighbour: Any, start: int, steps: int, distance: Any, found: Any, most: int, within: Any) -> int:
    """Breadth first from a start: fills `distance` (-1: not reached) and `found`; gives how many were found.

    -1 as soon as there are more than `most`, or far more edges to look at. Only vertices that `within` marks count,
    where it is not empty.
    """
    distance[start], found[0], count, next_one, looked_at = 0, start, 1, 0, 0
    while next_one < count:
        u = found[next_one]
        next_one += 1
        if distance[u] == steps:
            break
        looked_at += ptr[u + 1] - ptr[u]
        if looked_at > _WORK * most:
            return -1
        for slot in range(ptr[u], ptr[u + 1]):
            v = neighbour[slot]
            if distance[v] < 0 and (len(within) == 0 or within[v]):
                if count > most:
                    return -1
                distance[v] = distance[u] + 1
                found[count] = v
                count += 1
    return count


@compiled
def _room(keys: Any, needed: int) -> Any:
    """The same keys with room for more."""
    if needed <= len(keys):
        return keys
    larger = np.empty(max(needed, 2 * len(keys)), keys.dtype)
    for i in range(len(keys)):  # as one assignment it would take three seconds longer to compile
        larger[i] = keys[i]
    return larger


@compiled
def _within_reach(ptr: Any, neighbour: Any, starts: Any, steps: int, budget: int) -> Any:
    n = len(ptr) - 1
    most = n * len(starts) + len(neighbour) if budget < 0 else budget
    distance, found, everywhere = np.full(n, -1, np.int64), np.empty(n + 1, np.int64), np.empty(0, np.bool_)
    keys, distances, total = np.empty(64, np.int64), np.empty(64, np.int64), 0
    for i in range(len(starts)):
        count = _search(ptr, neighbour, starts[i], steps, distance, found, most, everywhere)
        if count < 0 or total + count > most:
            return keys[:0], distances[:0], False
        ordered = np.sort(found[:count])
        keys, distances = _room(keys, total + count), _room(distances, total + count)
        for v in ordered:
            keys[total], distances[total] = i * n + v, distance[v]
            total += 1
            distance[v] = -1
    return keys[:total], distances[:total], True


@compiled
def _closed_walks(row_ptr: Any, sender: Any, out_ptr: Any, receiver: Any, roots: Any, length: int, budget: int) -> Any:
    """A vertex of such a walk is within half its length of the root in one direction; so balls of that radius hold all
    of them, and the longer distances are found inside these balls.
    """
    n = len(row_ptr) - 1
    no_limit = n * len(roots) + len(sender)
    most = no_limit if budget < 0 else budget
    there, back, found = np.full(n, -1, np.int64), np.full(n, -1, np.int64), np.empty(n + 1, np.int64)
    near, everywhere = np.zeros(n, np.bool_), np.empty(0, np.bool_)
    ball, keys, total = np.empty(2 * n + 2, np.int64), np.empty(64, np.int64), 0
    for i in range(len(roots)):
        size = 0
        for inward in range(2):
            ptr, neighbour, distance = (row_ptr, sender, back) if inward else (out_ptr, receiver, there)
            count = _search(ptr, neighbour, roots[i], length // 2, distance, found, most, everywhere)
            if count < 0:
                return keys[:0], False
            for v in found[:count]:
                distance[v] = -1
                if not near[v]:
                    near[v], ball[size] = True, v
                    size += 1
        _search(out_ptr, receiver, roots[i], length, there, found, no_limit, near)
        _search(row_ptr, sender, roots[i], length, back, found, no_limit, near)
        keys = _room(keys, total + size)
        for v in np.sort(ball[:size]):
            if there[v] >= 0 and back[v] >= 0 and there[v] + back[v] <= length:
                keys[total] = i * n + v
                total += 1
            near[v], there[v], back[v] = False, -1, -1
        if total > most:
            return keys[:0], False
    return keys[:total], True


@compiled
def _ancestors(row_ptr: Any, sender: Any, vertices: Any, steps: int, reached: Any) -> None:
    frontier, size = np.empty(len(reached), np.int64), 0
    for v in vertices:
        if not reached[v]:
            reached[v], frontier[size] = True, v
            size += 1
    begin = 0
    for _ in range(steps):
        end = size
        for v in frontier[begin:end]:
            for e in range(row_ptr[v], row_ptr[v + 1]):
                u = sender[e]
                if not reached[u]:
                    reached[u], frontier[size] = True, u
                    size += 1
        begin = end


def independent_groups(batch: Batch, vertices: Tensor, steps: int) -> list[Tensor]:
    """The vertices in groups (a greedy colouring): inside a group no vertex reaches another within `steps` edges.

    Vertices of different graphs are independent, so there are no more groups than the largest graph has vertices.
    """
    near = _near(batch, vertices, steps)
    if near is None:
        return list(vertices.split(1))
    ptr, other = near
    colour = np.full(len(vertices), -1)
    for v in range(len(vertices)):
        taken = set(colour[other[ptr[v] : ptr[v + 1]]].tolist())
        colour[v] = next(c for c in range(len(taken) + 1) if c not in taken)
    return [vertices[torch.from_numpy(np.flatnonzero(colour == c))] for c in range(int(colour.max(initial=-1)) + 1)]


def _near(batch: Batch, vertices: Tensor, steps: int) -> tuple[IntArray, IntArray] | None:
    """For each of the vertices which others reach it, or are reached by it, as rows; None where there are too many."""
    found = Neighbourhood.of(batch).within_reach(vertices, steps, _MOST_PAIRS)
    if found is None:
        return None
    place = torch.full((batch.num_vertices,), -1)
    place[vertices] = torch.arange(len(vertices))
    one, other = found[0] // batch.num_vertices, place[found[0] % batch.num_vertices]
    one, other = one[other >= 0], other[other >= 0]
    order, ptr = rows_by_target(torch.cat([one, other]), len(vertices))
    return ptr.numpy(), torch.cat([other, one])[order].numpy()
