"""The compiled naive Bayes kernel: what it supports, and the loops as torch sees them, one differentiable function.

What is computed stands in `upward` and `downward`; here is what they work on. Results depend on the batch and the
number of threads, not on which thread is faster: sums over vertices are made part by part and added in order.
Differentiable once; who needs second derivatives asks for the reference (`compiling`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numba.core import event
from numpy.typing import NDArray
from torch import Tensor

from gspn.circuits.templates import NaiveBayes
from gspn.compiling import compiled, obstacle, once_differentiable
from gspn.graphs.batch import Batch
from gspn.kernels.compiled.distinct import distinct_inputs
from gspn.kernels.compiled.downward import OutputGradients, downward
from gspn.kernels.compiled.equal_trees import KernelRows, merge_equal_trees, one_row_per_vertex
from gspn.kernels.compiled.layout import Plan, Sizes, divide
from gspn.kernels.compiled.simd import WIDTH
from gspn.kernels.compiled.threads import Team, team
from gspn.kernels.compiled.upward import Climbed, upward
from gspn.kernels.contract import Climb, Kernel, Levels

_log = logging.getLogger(__name__)

Array = NDArray[Any]

_downward: Callable[..., tuple[Array, Array, Array]] = downward

NAIVE_BAYES_ONLY = "computes naive Bayes templates, not other circuits"


class _Notice(event.Listener):
    """Says what takes so long when the loops are compiled, which happens once for each dtype on a machine."""

    def on_start(self, happening: event.Event) -> None:
        way = {_climb: "up", downward: "down"}.get(happening.data["dispatcher"])
        if way:
            _log.info("compiling the loop %s the levels; it takes up to a minute, and the result is kept on disk", way)

    def on_end(self, happening: event.Event) -> None:
        pass


event.register("numba:compile", _Notice())


def fast(log_density: Tensor, evidence: Tensor | None, prior: Tensor, transitions: Tensor, batch: Batch) -> Levels:
    """Climb from level 0 to the root.

    `log_density` [L, U, C] is log p(x | state) of every distinct row of evidence, and `evidence` [N] tells which row
    each vertex has; None: one row per vertex, in order. `prior` [1, C] and `transitions` [L-1, T, 1, C, C] are
    probabilities.
    """
    levels, _, states = log_density.shape
    kinds, kind = transitions.shape[1], np.empty(0, np.int32)
    if kinds > 1 and batch.edge_type is not None:
        kind = batch.edge_type.int().numpy()
    number = np.arange(batch.num_vertices, dtype=np.int32) if evidence is None else evidence.int().numpy()
    edges = batch.row_ptr.numpy(), batch.source.int().numpy(), kind, batch.vertex_ptr.numpy(), number
    sizes = Sizes(levels, states, -(-states // WIDTH) * WIDTH, kinds)
    flat = _flat(log_density), _flat(prior), _flat(transitions)
    at_hand = team()
    done = _Done(at_hand, sizes, evidence is None, flat, *_climb(at_hand, sizes, evidence is None, *edges, *flat))
    climb: Any = _Climb.apply
    posteriors, root_prior, log_value, graph_sums = climb(log_density, prior, transitions, done)
    row_of = torch.from_numpy(done.rows.row_of) if len(done.rows.row_of) else None
    return Levels(posteriors, root_prior, log_value, row_of, graph_sums)


@compiled
def _climb(
    team: Team,
    sizes: Sizes,
    every_row_its_own: bool,
    row_ptr: Any,
    source: Any,
    kind: Any,
    vertex_ptr: Any,
    evidence: Any,
    log_density: Any,
    start: Any,
    transition: Any,
) -> tuple[Plan, KernelRows, Climbed]:
    """Who does which part, what the loops run over, and what the loop upward finds: all in one call from Python."""
    if every_row_its_own:
        rows = one_row_per_vertex(row_ptr, source, kind, vertex_ptr, evidence, log_density)
    else:
        rows = merge_equal_trees(team, row_ptr, source, kind, vertex_ptr, evidence, log_density)
    plan = divide(team, rows, sizes.levels)
    return plan, rows, upward(team, plan, sizes, rows, log_density, start, transition)


class _Done(NamedTuple):
    """What the way up leaves for the way down."""

    team: Team
    sizes: Sizes
    every_row_its_own: bool
    given: tuple[Array, Array, Array]
    """Log-densities, prior and transitions, flat"""
    plan: Plan
    rows: KernelRows
    climbed: Climbed


class _Climb(torch.autograd.Function):
    """(log_density, prior, transitions) → posteriors, root prior, log-values, sums over graphs."""

    @staticmethod
    def forward(
        ctx: Any, log_density: Tensor, prior: Tensor, transitions: Tensor, done: _Done
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        # So that torch notices if somebody changes them before the way down, or differentiates the gradients by them.
        ctx.save_for_backward(log_density, prior, transitions)
        ctx.done = done
        levels, states, wide, _ = done.sizes
        climbed, count, graphs = done.climbed, len(done.rows.size), len(done.rows.graph_ptr) - 1
        return (
            torch.from_numpy(climbed.h).as_strided((count, levels, 1, states), (wide, count * wide, wide, 1)),
            torch.from_numpy(climbed.root_prior).as_strided((count, 1, states), (wide, wide, 1)),
            torch.from_numpy(climbed.log_value),
            torch.from_numpy(climbed.graph_sums).view(graphs, levels, 1, states),
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
        done: _Done = ctx.done
        log_density, prior, transitions = ctx.saved_tensors
        logs, _, theta = done.given
        by_level = None if of_posteriors is None else of_posteriors.transpose(0, 1)
        gradients = by_level, of_sums, of_log_value, of_root_prior
        given = OutputGradients(*(logs[:0] if gradient is None else _flat(gradient) for gradient in gradients))
        known = done.team, done.plan, done.sizes, done.rows, logs, theta, done.climbed
        found = _downward(*known, given, done.every_row_its_own)
        of_log_density, of_prior, of_transitions = (torch.from_numpy(value) for value in found)
        return (
            of_log_density.view(log_density.shape),
            of_prior.view(prior.shape),
            of_transitions.view(transitions.shape),
            None,
        )


def _flat(value: Tensor) -> Array:
    """A tensor as a flat array, sharing its memory if possible."""
    return value.detach().numpy().ravel()


def climb_fast(climb: Climb) -> Levels:
    assert isinstance(climb.template, NaiveBayes)
    log_density, number = distinct_inputs(climb.template, climb.families, climb.naturals, climb.evidence)
    return fast(log_density, number, climb.prior, climb.transitions, climb.batch)


def obstacle_to(climb: Climb) -> str | None:
    """It needs naive Bayes, the mean and no context, and plain tensors on the CPU that nobody traces."""
    if not isinstance(climb.template, NaiveBayes):
        return NAIVE_BAYES_ONLY
    if climb.aggregation != "mean":
        return f"knows the aggregation 'mean', not '{climb.aggregation}'"
    if climb.has_context:
        return "knows no leaves that depend on a context"
    for tensor in (climb.prior, climb.transitions, climb.evidence.x):
        reason = obstacle(tensor)
        if reason:
            return reason
    return None


FAST = Kernel("fast", climb_fast, obstacle_to)
