"""The compiled naive Bayes kernel as torch sees it: one differentiable function, its work divided among threads.

What is computed stands in `upward` and `downward`; here is what they work on. Results depend on the batch and the
number of threads, not on which thread is faster: sums over vertices are made range by range and added in order.
Differentiable once; who needs second derivatives asks for the reference.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numba.core import event
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from gspn.graphs.batch import Batch
from gspn.kernels import layout
from gspn.kernels.alike import Rows, rows_alike, rows_alone
from gspn.kernels.contract import Levels
from gspn.kernels.downward import downward
from gspn.kernels.lanes import WIDTH
from gspn.kernels.threads import num_parts, run_all
from gspn.kernels.upward import upward

_log = logging.getLogger(__name__)

_STRETCH = 512
"""Vertices that climb together, if the graphs allow: few enough for their rows to stay in the cache."""

_WORTH_A_THREAD = 4_000
"""Rows times levels that are worth a thread of their own."""

_WORTH_TRANSPOSING_TOGETHER = 20_000
"""Edges that are sorted by sender sooner by several threads than by one."""

Array = NDArray[Any]

_upward: Callable[..., None] = upward
_downward: Callable[..., None] = downward


class _Notice(event.Listener):
    """Says what takes so long when the loops are compiled, which happens once for each dtype on a machine."""

    def on_start(self, happening: event.Event) -> None:
        if happening.data["dispatcher"] in (upward, downward):
            name = happening.data["dispatcher"].py_func.__name__
            _log.info("compiling the loop %s; this takes some seconds, and the result is kept on disk", name)

    def on_end(self, happening: event.Event) -> None:
        pass


event.register("numba:compile", _Notice())


def fast(log_density: Tensor, evidence: Tensor | None, prior: Tensor, transitions: Tensor, batch: Batch) -> Levels:
    """See `contract.Kernel`."""
    levels, _, states = log_density.shape
    work = _work(levels, states, transitions.shape[1], log_density.dtype, evidence, batch)
    climb: Any = _Climb.apply
    posteriors, root_prior, log_value, graph_sums = climb(log_density, prior, transitions, work)
    row_of = None if work.rows.row_of is None else torch.from_numpy(work.rows.row_of)
    return Levels(posteriors, root_prior, log_value, row_of, graph_sums)


@dataclass(frozen=True, eq=False)
class _Work:
    """What the loops work on, and who does which part of it."""

    levels: int
    states: int
    wide: int
    kinds: int
    rows: Rows
    every_row_its_own: bool
    """Whether no two rows have the same evidence."""
    ranges: list[Array]
    """Cuts between stretches of rows; one array for every task."""
    independent: bool
    """Whether no edge runs between stretches, so that each can climb through all levels by itself."""

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        return self.levels, self.states, self.wide, self.kinds

    def climb(self, task: Callable[[int, Array, int, int], None], *, downward: bool = False) -> None:
        """Run `task(number of the range, cuts, first level, last level)` so that levels come in order."""
        if self.independent:
            run_all([partial(task, i, cuts, 0, self.levels) for i, cuts in enumerate(self.ranges)])
            return
        for level in reversed(range(self.levels)) if downward else range(self.levels):
            run_all([partial(task, i, cuts, level, level + 1) for i, cuts in enumerate(self.ranges)])


def _work(levels: int, states: int, kinds: int, dtype: torch.dtype, evidence: Tensor | None, batch: Batch) -> _Work:
    vertices, kind = batch.num_vertices, np.empty(0, np.int32)
    if kinds > 1 and batch.edge_type is not None:
        kind = batch.edge_type.int().numpy()
    number = np.arange(vertices, dtype=np.int32) if evidence is None else evidence.int().numpy()
    edges = batch.row_ptr.numpy(), batch.source.int().numpy(), kind, batch.vertex_ptr.numpy(), number
    working = torch.empty(0, dtype=dtype).numpy().dtype
    rows = rows_alone(*edges, working) if evidence is None else rows_alike(*edges, working)
    row_ptr, graph_ptr = rows.row_ptr, rows.graph_ptr
    parts = num_parts(len(rows.size) * levels, _WORTH_A_THREAD)
    cuts, ends = np.empty(len(graph_ptr) + 2 * parts, np.int64), np.empty(parts, np.int64)
    independent = layout.divide(row_ptr, graph_ptr, parts, _STRETCH, cuts, ends)
    if not independent:
        # One graph is most of the work. Cut it, too: then all have to wait for each other after every level.
        at_row = row_ptr + 4 * np.arange(len(row_ptr))
        goals = at_row[-1] * np.arange(parts + 1) / parts
        cuts = np.searchsorted(at_row, goals).repeat(2)[1:-1]
        ends = np.arange(2, 2 * parts + 1, 2)
    ranges = [cuts[start:end] for start, end in pairwise([0, *ends.tolist()])]
    wide = -(-states // WIDTH) * WIDTH
    return _Work(levels, states, wide, kinds, rows, evidence is None, ranges, independent)


class _Climb(torch.autograd.Function):
    """(log_density, prior, transitions) → posteriors, root prior, log-values, sums over graphs."""

    @staticmethod
    def forward(
        ctx: Any, log_density: Tensor, prior: Tensor, transitions: Tensor, work: _Work
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        levels, states, wide, _ = work.sizes
        rows, count, graphs = work.rows, len(work.rows.size), len(work.rows.graph_ptr) - 1
        new, logs = log_density.new_empty, _flat(log_density, log_density)
        densities = levels * log_density.shape[1]
        density, peak = new(densities * wide), new(densities)
        _tabulate(densities, states, wide, logs, density.numpy(), peak.numpy())
        h, weight = new(levels, count, wide), new(levels * count)
        root_prior, log_value = new(count, wide), new(count)
        pooled = np.zeros((1 if work.independent else len(work.ranges), graphs * levels * wide))
        edges = rows.row_ptr, rows.source, rows.kind, rows.share, rows.graph_ptr, rows.evidence, rows.size
        known = logs, density.numpy(), peak.numpy(), _padded(prior, h, wide), _padded(transitions, h, wide)
        results = _flat(h, h), weight.numpy(), _flat(root_prior, h), log_value.numpy()
        given: list[Any] = [*work.sizes, *edges, *known, *results]

        def task(number: int, cuts: Array, first: int, last: int) -> None:
            _upward(cuts, first, last, *given, pooled[0 if work.independent else number])

        work.climb(task)
        sums = torch.from_numpy(pooled[0] if len(pooled) == 1 else pooled.sum(0)).to(h.dtype)
        ctx.save_for_backward(log_density, prior, transitions, h, density, peak, weight)
        ctx.work = work
        return (
            h[..., :states].transpose(0, 1).unsqueeze(2),
            root_prior[:, None, :states],
            log_value,
            sums.view(graphs, levels, 1, wide)[..., :states],
        )

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any,
        of_posteriors: Tensor | None,
        of_root_prior: Tensor | None,
        of_log_value: Tensor | None,
        of_sums: Tensor | None,
    ) -> tuple[Tensor | None, ...]:
        work: _Work = ctx.work
        log_density, prior, transitions, h, density, peak, weight = ctx.saved_tensors
        levels, states, wide, kinds = work.sizes
        rows, count, ranges = work.rows, h.shape[1], len(work.ranges)
        messages = h.new_empty(2 * count * wide)
        # Rows whose evidence is their own can share one array.
        arrays = 1 if work.every_row_its_own else ranges
        of_log_density = np.zeros((arrays, levels * log_density.shape[1] * wide), messages.numpy().dtype)
        of_transition = np.zeros((ranges, (levels - 1) * kinds * states * wide))
        of_start = np.zeros((ranges, wide))
        edges = rows.row_ptr, *_transpose(work), rows.graph_ptr, rows.evidence, rows.size
        swapped = _padded(transitions, h, wide, swapped=True)
        known = _flat(log_density, h), density.numpy(), peak.numpy(), swapped, _flat(h, h), weight.numpy()
        by_level = None if of_posteriors is None else of_posteriors.transpose(0, 1)
        gradients = [_padded(gradient, h, wide) for gradient in (by_level, of_sums)]
        gradients += [_flat(of_log_value, h), _padded(of_root_prior, h, wide)]
        given: list[Any] = [*work.sizes, *edges, *known, *gradients, messages.numpy()]

        def task(number: int, cuts: Array, first: int, last: int) -> None:
            _downward(
                cuts, first, last, *given, of_log_density[number % arrays], of_transition[number], of_start[number]
            )

        work.climb(task, downward=True)

        def total(parts: Array, shape: torch.Size) -> Tensor:
            whole = torch.from_numpy(parts[0] if len(parts) == 1 else parts.sum(0)).to(h.dtype)
            return whole.view(*shape[:-1], wide)[..., :states]

        return (
            total(of_log_density, log_density.shape),
            total(of_start, prior.shape),
            total(of_transition, transitions.shape),
            None,
        )


def _tabulate(rows: int, *arguments: Any) -> None:
    parts = num_parts(rows, _WORTH_A_THREAD)
    borders = [rows * i // parts for i in range(parts + 1)]
    run_all([partial(layout.tabulate, borders[i], borders[i + 1], *arguments) for i in range(parts)])


def _transpose(work: _Work) -> tuple[Array, Array, Array, Array]:
    """Edges by sender: pointer, receivers, edge types and shares."""
    rows = work.rows
    given = rows.row_ptr, rows.source, rows.kind, rows.share
    by_sender = np.zeros_like(rows.row_ptr), *(np.empty_like(value) for value in given[1:])
    if work.independent and len(rows.source) > _WORTH_TRANSPOSING_TOGETHER:
        run_all([partial(layout.transpose, cuts[0], cuts[-1], *given, *by_sender) for cuts in work.ranges])
    else:
        layout.transpose(0, len(rows.size), *given, *by_sender)
    return by_sender  # type: ignore[return-value]


def _padded(value: Tensor | None, like: Tensor, wide: int, *, swapped: bool = False) -> Array:
    """Flat, the last dimension filled up with zeros; its last two dimensions swapped if asked for. None: empty."""
    if value is None:
        return _flat(None, like)
    states = value.shape[-1]
    padded = like.new_empty(value.numel() // states * wide).numpy()
    layout.pad(_flat(value, like), states, wide, swapped, padded)
    return padded


def _flat(value: Tensor | None, like: Tensor) -> Array:
    """A tensor as a flat array, sharing its memory if possible; none, as an empty one."""
    return (like.new_empty(0) if value is None else value.detach().contiguous().view(-1)).numpy()
