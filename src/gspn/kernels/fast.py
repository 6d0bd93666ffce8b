"""The compiled naive Bayes kernel as torch sees it: one differentiable function, its work divided among threads.

What is computed stands in `loops`; here is what they work on. Results depend on the batch and the number of threads,
not on which thread is faster: sums over vertices are made range by range and added in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gspn.graphs.batch import Batch
from gspn.kernels import loops
from gspn.kernels.contract import Levels
from gspn.kernels.lanes import WIDTH
from gspn.kernels.threads import run_all

_STRETCH = 512
"""Vertices that climb together, if the graphs allow: few enough for their rows to stay in the cache."""

_WORTH_A_THREAD = 5_000
"""Vertices times levels that are worth a thread of their own."""

Array = NDArray[Any]

_upward: Callable[..., None] = loops.upward
_downward: Callable[..., None] = loops.downward


def fast(log_density: Tensor, evidence: Tensor | None, prior: Tensor, transitions: Tensor, batch: Batch) -> Levels:
    """See `contract.Kernel`."""
    states = prior.shape[-1]
    climb: Any = _Climb.apply
    h, root_prior, log_value, pooled = climb(log_density, prior, transitions, evidence, batch)
    posteriors = h[..., :states].transpose(0, 1).unsqueeze(2)
    return Levels(posteriors, root_prior[:, None, :states], log_value, pooled[..., None, :states])


@dataclass(frozen=True, eq=False)
class _Work:
    """A batch as the loops want it, and who does which part of it."""

    levels: int
    states: int
    wide: int
    kinds: int
    row_ptr: Array
    source: Array
    kind: Array
    vertex_ptr: Array
    evidence: Array
    ranges: list[Array]
    """Cuts between stretches of vertices; one array for every task."""
    independent: bool
    """Whether no edge runs between stretches, so that each can climb through all levels by itself."""

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        return self.levels, self.states, self.wide, self.kinds

    def climb(self, task: Callable[[int, Array, int, int], None], *, downward: bool = False) -> None:
        """Run `task(number of the range, cuts, first level, last level)` so that levels come in order."""
        if self.independent:
            _side_by_side([partial(task, i, cuts, 0, self.levels) for i, cuts in enumerate(self.ranges)])
            return
        for level in reversed(range(self.levels)) if downward else range(self.levels):
            _side_by_side([partial(task, i, cuts, level, level + 1) for i, cuts in enumerate(self.ranges)])


def _side_by_side(tasks: list[Callable[[], None]]) -> None:
    if len(tasks) == 1:
        tasks[0]()
    elif tasks:
        run_all(tasks)


def _work(levels: int, states: int, kinds: int, evidence: Tensor | None, batch: Batch) -> _Work:
    vertices = batch.num_vertices
    row_ptr, vertex_ptr = batch.row_ptr.numpy(), batch.vertex_ptr.numpy()
    kind = np.empty(0, np.int32)
    if kinds > 1 and batch.edge_type is not None:
        kind = batch.edge_type.int().numpy()
    number = np.arange(vertices, dtype=np.int32) if evidence is None else evidence.int().numpy()
    ranges, independent = _divide(row_ptr, vertex_ptr, levels)
    wide = -(-states // WIDTH) * WIDTH
    source = batch.source.int().numpy()
    return _Work(levels, states, wide, kinds, row_ptr, source, kind, vertex_ptr, number, ranges, independent)


def _divide(row_ptr: Array, vertex_ptr: Array, levels: int) -> tuple[list[Array], bool]:
    """Ranges of equal work, between graphs if that divides it well, else anywhere."""
    vertices = len(row_ptr) - 1
    parts = max(1, min(torch.get_num_threads(), vertices * levels // _WORTH_A_THREAD))
    # A vertex costs about as much as four edges.
    at_graph = row_ptr[vertex_ptr] + 4 * vertex_ptr
    goals = at_graph[-1] * np.arange(1, parts) / parts
    borders = np.searchsorted(at_graph, goals)
    work = np.diff(at_graph[np.concatenate([[0], borders, [len(at_graph) - 1]])])
    if parts == 1 or work.max() <= 1.3 * at_graph[-1] / parts:
        edges = np.concatenate([[0], borders, [len(vertex_ptr) - 1]])
        return [_stretches(vertex_ptr[a : b + 1]) for a, b in pairwise(edges) if b > a], True
    at_vertex = row_ptr + 4 * np.arange(vertices + 1)
    cuts = np.concatenate([[0], np.searchsorted(at_vertex, goals), [vertices]])
    return [cuts[i : i + 2] for i in range(parts)], False


def _stretches(borders: Array) -> Array:
    """Some of the borders between graphs, at least `_STRETCH` vertices apart where possible."""
    if len(borders) < 3 or borders[-1] - borders[0] <= _STRETCH:
        return borders[[0, -1]]
    number = (borders - borders[0]) // _STRETCH
    kept = np.concatenate([[True], number[1:-1] > number[:-2], [True]])
    chosen: Array = borders[kept]
    return chosen


class _Climb(torch.autograd.Function):
    """(log_density, prior, transitions) → padded posteriors [L, N, wide], root prior, log-values, sums over graphs."""

    @staticmethod
    def forward(
        ctx: Any, log_density: Tensor, prior: Tensor, transitions: Tensor, evidence: Tensor | None, batch: Batch
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        levels, rows, states = log_density.shape
        work = _work(levels, states, transitions.shape[1], evidence, batch)
        vertices, graphs, wide = batch.num_vertices, batch.num_graphs, work.wide
        log_density = log_density.contiguous()
        density = log_density.new_empty(levels * rows * wide)
        peak = log_density.new_empty(levels * rows)
        logs = _flat(log_density, log_density)
        _tabulate(levels * rows, states, wide, logs, density.numpy(), peak.numpy())
        h = log_density.new_zeros(levels, vertices, wide)
        weight = log_density.new_empty(levels * vertices)
        root_prior = log_density.new_zeros(vertices, wide)
        log_value = log_density.new_empty(vertices)
        ranges = len(work.ranges)
        pooled = np.zeros((1 if work.independent else ranges, graphs * levels * wide))
        start = _padded(prior.detach(), wide)
        transition = _padded(transitions.detach(), wide)

        edges = work.row_ptr, work.source, work.kind, work.vertex_ptr, work.evidence
        known = logs, density.numpy(), peak.numpy(), start, transition
        results = _flat(h, h), weight.numpy(), _flat(root_prior, h), log_value.numpy()
        given: list[Any] = [*work.sizes, *edges, *known, *results]

        def task(number: int, cuts: Array, first: int, last: int) -> None:
            _upward(cuts, first, last, *given, pooled[0 if work.independent else number])

        work.climb(task)
        sums = torch.from_numpy(pooled.sum(0)).to(h.dtype).view(graphs, levels, wide)
        ctx.save_for_backward(log_density, prior, transitions, h, density, peak, weight)
        ctx.work, ctx.evidence, ctx.batch = work, evidence, batch
        return h, root_prior, log_value, sums

    @staticmethod
    def backward(
        ctx: Any, of_h: Tensor | None, of_root_prior: Tensor | None, of_log_value: Tensor | None, of_sums: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        work: _Work = ctx.work
        log_density, prior, transitions, h, density, peak, weight = ctx.saved_tensors
        levels, states, wide, kinds = work.sizes
        vertices, rows, ranges = h.shape[1], log_density.shape[1], len(work.ranges)
        out_ptr, target, out_kind = _transpose(work)
        transposed = _padded(transitions.detach().transpose(-1, -2), wide)
        messages = h.new_empty(2 * vertices * wide)
        of_log_density = h.new_zeros(ranges, levels * rows * wide)
        of_transition = np.zeros((ranges, (levels - 1) * kinds * states * wide))
        of_start = np.zeros((ranges, wide))

        edges = work.row_ptr, out_ptr, target, out_kind, work.vertex_ptr, work.evidence
        known = _flat(log_density, h), density.numpy(), peak.numpy(), transposed, _flat(h, h), weight.numpy()
        gradients = [_flat(gradient, h) for gradient in (of_h, of_sums, of_log_value, of_root_prior)]
        given: list[Any] = [*work.sizes, *edges, *known, *gradients, messages.numpy()]

        def task(number: int, cuts: Array, first: int, last: int) -> None:
            results = of_log_density[number].numpy(), of_transition[number], of_start[number]
            _downward(cuts, first, last, *given, *results)

        work.climb(task, downward=True)
        to_density = of_log_density.sum(0) if ranges > 1 else of_log_density
        to_start = torch.from_numpy(of_start.sum(0)).to(h.dtype)
        to_transition = torch.from_numpy(of_transition.sum(0)).to(h.dtype)
        return (
            to_density.view(levels, rows, wide)[..., :states],
            to_start[:states].view(prior.shape),
            to_transition.view(*transitions.shape[:-1], wide)[..., :states],
            None,
            None,
        )


def _tabulate(rows: int, *arguments: Any) -> None:
    parts = max(1, min(torch.get_num_threads(), rows // _WORTH_A_THREAD))
    borders = [rows * i // parts for i in range(parts + 1)]
    _side_by_side([partial(loops.tabulate, borders[i], borders[i + 1], *arguments) for i in range(parts)])


def _transpose(work: _Work) -> tuple[Array, Array, Array]:
    """Rows by sender: pointer, receivers and edge types."""
    out_ptr, target = np.zeros_like(work.row_ptr), np.empty_like(work.source)
    out_kind = np.empty_like(work.kind)
    arguments = (work.row_ptr, work.source, work.kind, out_ptr, target, out_kind)
    if work.independent:
        _side_by_side([partial(loops.transpose, cuts[0], cuts[-1], *arguments) for cuts in work.ranges])
    else:
        loops.transpose(0, len(work.row_ptr) - 1, *arguments)
    return out_ptr, target, out_kind


def _padded(value: Tensor, wide: int) -> Array:
    """Flat, the last dimension filled up with zeros."""
    padded = value.new_zeros(*value.shape[:-1], wide)
    padded[..., : value.shape[-1]] = value
    return padded.view(-1).numpy()


def _flat(value: Tensor | None, like: Tensor) -> Array:
    """A tensor as a flat array, sharing its memory; none, as an empty one."""
    return (like.new_empty(0) if value is None else value.detach().contiguous().view(-1)).numpy()
