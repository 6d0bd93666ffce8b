"""The compiled loop downward: gradients of densities, transitions and prior from those of posteriors and log-values.

The reverse of `upward`, on the same stretches of vertices. Every vertex collects from those that listen to it, so no
two threads write to the same place; what is summed over vertices is summed by each thread for itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gspn.graphs.assembly import compiled
from gspn.kernels.lanes import WIDTH, fill, item, load, spread, store
from gspn.kernels.rows import (
    CHUNK,
    TILE,
    add_products,
    copy_row,
    flush,
    gather,
    graph_of,
    multiply,
    subtract,
    weighted_sum,
)


@compiled
def downward(
    cuts: Any,
    first_level: int,
    last_level: int,
    levels: int,
    states: int,
    wide: int,
    kinds: int,
    row_ptr: Any,
    out_ptr: Any,
    target: Any,
    out_kind: Any,
    out_share: Any,
    graph_ptr: Any,
    evidence: Any,
    size: Any,
    log_density: Any,
    density: Any,
    peak: Any,
    transposed: Any,
    h: Any,
    weight: Any,
    of_h: Any,
    of_pooled: Any,
    of_log_value: Any,
    of_root_prior: Any,
    messages: Any,
    of_log_density: Any,
    of_transition: Any,
    of_start: Any,
) -> None:
    """Gradients of the levels last_level - 1 … first_level, from those of what `upward` gives (empty: none).

    `messages` [2, N, wide] are gradients of the priors at a level and the one above it, by turns.
    """
    vertices, rows, width = len(row_ptr) - 1, len(peak) // levels, kinds * wide
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
                        gather(messages, above, wide, target, out_kind, out_share, width, begin, end, tile, r * width)
                    for k in range(many * width, TILE * width):
                        tile[k] = 0
                    multiply(tile, width, transposed, at_transition, states, wide, inflow)
                    for t in range(kinds):
                        add_products(posteriors, tile, states, wide, width, t * wide, to_transition, t * states * wide)
                else:
                    inflow[:] = 0
                for r in range(many):
                    v = tile_start + r
                    at, own, row = r * wide, level * vertices + v, level * rows + item(evidence, v)
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
                    # Deviations from the mean under h. The mean is taken off twice: where one state is almost certain
                    # the first difference is mostly rounding, the mean of the differences shows how much.
                    mean = weighted_sum(inflow, posteriors, at, wide)
                    subtract(inflow, at, wide, mean)
                    mean = weighted_sum(inflow, posteriors, at, wide)
                    if level == levels - 1 and len(of_log_value):
                        # The root's log-value adds its gradient to that of every log-weight, in proportion to h.
                        mean -= of_log_value[v]
                    subtract(inflow, at, wide, mean)
                    for b in range(0, wide, WIDTH):
                        place, more = row * wide + b, load(posteriors, at + b) * load(inflow, at + b)
                        store(of_log_density, place, load(of_log_density, place) + more)
                    # Gradient of the prior: that of the log-weights divided by it, which leaves density over weight.
                    alone = level == 0 or item(row_ptr, v) == item(row_ptr, v + 1)
                    if weight[own] > 0:
                        factor = fill(h, 1 / weight[own])
                        for b in range(0, wide, WIDTH):
                            store(inflow, at + b, load(inflow, at + b) * load(density, row * wide + b) * factor)
                    else:
                        for k in range(states):
                            relative = log_density[row * states + k] - peak[row] - weight[own]
                            inflow[at + k] *= math.exp(relative)
                        for k in range(states, wide):
                            inflow[at + k] = 0
                    if level == levels - 1 and len(of_root_prior):
                        for b in range(0, wide, WIDTH):
                            store(inflow, at + b, load(inflow, at + b) + load(of_root_prior, v * wide + b))
                    if alone:
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
