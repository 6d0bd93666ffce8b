"""The compiled loop downward: gradients of densities, transitions and prior from those of posteriors and log-values.

The reverse of `upward`, on the same stretches of vertices. Every vertex collects from those that listen to it, so no
two threads write to the same place; what is summed over vertices is summed by each thread for itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gspn.compiling import compiled
from gspn.kernels.compiled.equal_trees import KernelRows
from gspn.kernels.compiled.layout import Plan, Sizes, add_up, pad, transpose
from gspn.kernels.compiled.posterior import to_prior
from gspn.kernels.compiled.rows import (
    CHUNK,
    TILE,
    add_products,
    copy_row,
    flush,
    gather,
    graph_of,
    multiply,
)
from gspn.kernels.compiled.simd import WIDTH, item, load, spread, store
from gspn.kernels.compiled.threads import Team, side_by_side
from gspn.kernels.compiled.upward import Climbed


class OutputGradients(NamedTuple):
    """Gradients of what `upward` gives, flat; empty: none."""

    h: Any
    """[L, K, C]"""
    graph_sums: Any
    """[G, L, C]"""
    log_value: Any
    """[K]"""
    root_prior: Any
    """[K, C]"""


class InputGradients(NamedTuple):
    """Gradients of what it was given; each part has sums of its own."""

    log_density: Any
    """[n, L · U · wide]"""
    transition: Any
    """[n, (L - 1) · T · C · wide]"""
    start: Any
    """[n, wide]"""


@compiled
def downward(
    team: Team,
    plan: Plan,
    sizes: Sizes,
    rows: KernelRows,
    log_density: Any,
    transition: Any,
    climbed: Climbed,
    given: OutputGradients,
    every_row_its_own: bool,
) -> Any:
    """Gradients of log_density, start and transition, flat and without what fills up rows.

    `every_row_its_own`: no two rows have the same evidence.
    """
    levels, states, wide, kinds = sizes
    number = len(plan.ends) - 1
    found = InputGradients(
        # Rows whose evidence is their own can share one array.
        np.zeros((1 if every_row_its_own else number, len(climbed.density)), climbed.density.dtype),
        np.zeros((number, (levels - 1) * kinds * states * wide)),
        np.zeros((number, wide)),
    )
    messages = np.empty(2 * len(rows.size) * wide, climbed.density.dtype)
    by_sender, transposed = transpose(team, plan, rows), pad(transition, states, wide, True)
    padded = OutputGradients(
        pad(given.h, states, wide, False),
        pad(given.graph_sums, states, wide, False),
        given.log_value,
        pad(given.root_prior, states, wide, False),
    )
    known = (plan, sizes, rows, by_sender, log_density, transposed, climbed, padded, messages, found)
    if plan.independent:
        side_by_side(descend, team.start, number, (0, levels, *known))
    else:
        for level in range(levels - 1, -1, -1):
            side_by_side(descend, team.start, number, (level, level + 1, *known))
    of_log_density, of_start = np.empty_like(log_density), np.empty(states, log_density.dtype)
    of_transition = np.empty_like(transition)
    add_up(found.log_density, states, wide, of_log_density)
    add_up(found.start, states, wide, of_start)
    add_up(found.transition, states, wide, of_transition)
    return of_log_density, of_start, of_transition


@compiled
def descend(
    part: int,
    first_level: int,
    last_level: int,
    plan: Plan,
    sizes: Sizes,
    rows: KernelRows,
    by_sender: KernelRows,
    log_density: Any,
    transposed: Any,
    climbed: Climbed,
    given: OutputGradients,
    messages: Any,
    found: InputGradients,
) -> None:
    """The levels last_level - 1 … first_level of one part's stretches; what is given is filled up.

    `messages` [2, K, wide] are gradients of the priors at a level and the one above it, by turns.
    """
    levels, states, wide, kinds = sizes
    row_ptr, graph_ptr, evidence, size = rows.row_ptr, rows.graph_ptr, rows.evidence, rows.size
    out_ptr, target, out_kind, out_share = by_sender.row_ptr, by_sender.source, by_sender.kind, by_sender.share
    density, peak, h, weight = climbed.density, climbed.peak, climbed.h, climbed.weight
    of_h, of_pooled, of_log_value, of_root_prior = given
    of_log_density = found.log_density[part % len(found.log_density)]
    of_transition, of_start = found.transition[part], found.start[part]
    cuts = plan.cuts[plan.ends[part] : plan.ends[part + 1]]
    vertices, densities, width = len(size), len(peak) // levels, kinds * wide
    tile, posteriors = np.zeros(TILE * width, h.dtype), np.zeros(TILE * wide, h.dtype)
    inflow = np.zeros(TILE * wide, h.dtype)
    to_start = np.zeros(wide, h.dtype)
    to_transition = np.zeros(kinds * states * wide, h.dtype)
    for i in range(len(cuts) - 1):
        graph_before = graph_of(cuts[i], graph_ptr)
        for level in range(last_level - 1, first_level - 1, -1):
            graph, summed = graph_before, 0
            above, here = (level + 1) % 2 * vertices, level % 2 * vertices
            at_transition = level * kinds * states * wide
            for tile_start in range(cuts[i], cuts[i + 1], TILE):
                many = min(TILE, cuts[i + 1] - tile_start)
                copy_row(h, (level * vertices + tile_start) * wide, posteriors, 0, many * wide)
                if level < levels - 1:
                    for r in range(many):
                        u = tile_start + r
                        begin, end = item(out_ptr, u), item(out_ptr, u + 1)
                        gather(
                            messages, above, wide, target, out_kind, out_share, 1, width, begin, end, tile, r * width
                        )
                    for k in range(many * width, TILE * width):
                        tile[k] = 0
                    multiply(tile, width, transposed, at_transition, states, wide, inflow)
                    for t in range(kinds):
                        add_products(posteriors, tile, states, wide, width, t * wide, to_transition, t * states * wide)
                else:
                    inflow[:] = 0
                for r in range(many):
                    v = tile_start + r
                    at, own, row = r * wide, level * vertices + v, level * densities + item(evidence, v)
                    while v >= item(graph_ptr, graph + 1):
                        graph += 1
                    if len(of_pooled):
                        count = spread(size, v)
                        for b in range(0, wide, WIDTH):
                            more = load(of_pooled, (graph * levels + level) * wide + b)
                            store(inflow, at + b, load(inflow, at + b) + count * more)
                    if len(of_h):
                        for b in range(0, wide, WIDTH):
                            store(inflow, at + b, load(inflow, at + b) + load(of_h, own * wide + b))
                    # The root's log-value adds its gradient to that of every log-weight, in proportion to h.
                    of_weights = of_log_value[v] if level == levels - 1 and len(of_log_value) else 0
                    to_prior(
                        inflow, posteriors, at, states, wide, of_weights, log_density, density, peak, row, weight[own],
                        of_log_density,
                    )  # fmt: skip
                    if level == levels - 1 and len(of_root_prior):
                        for b in range(0, wide, WIDTH):
                            store(inflow, at + b, load(inflow, at + b) + load(of_root_prior, v * wide + b))
                    if level == 0 or item(row_ptr, v) == item(row_ptr, v + 1):
                        for b in range(0, wide, WIDTH):
                            store(to_start, b, load(to_start, b) + load(inflow, at + b))
                    else:
                        copy_row(inflow, at, messages, (here + v) * wide, wide)
                summed += many
                if summed >= CHUNK or tile_start + many == cuts[i + 1]:
                    summed = 0
                    flush(to_start, of_start, 0)
                    if level < levels - 1:
                        flush(to_transition, of_transition, at_transition)
