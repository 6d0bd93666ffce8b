"""The compiled loop upward: posteriors of every level, vertex by vertex.

It works on stretches of vertices, cuts[i] … cuts[i + 1] - 1. Where no edge leaves a stretch, it can climb through all
levels by itself while its rows stay in the cache.

Posteriors are products of prior and density, not exponentials of sums: densities are known beforehand, relative to the
largest among the states, one exponential for each distinct row of evidence. Where the sum of products comes near the
smallest numbers there are, the same is computed in log space, so nothing is lost to underflow.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gspn.graphs.assembly import compiled
from gspn.kernels.lanes import WIDTH, fill, item, load, spread, store, total
from gspn.kernels.rows import CHUNK, TILE, copy_row, flush, gather, graph_of, multiply


@compiled
def _in_log_space(
    prior: Any, at: int, states: int, log_density: Any, evidence: int, peak: Any, h: Any, out: int
) -> float:
    """Posterior where products underflow; gives the logarithm of their sum, relative to the largest density."""
    tiny, log_weight = np.finfo(prior.dtype).tiny, np.empty(states)
    most, summed = -np.inf, 0.0
    for k in range(states):
        relative = log_density[evidence * states + k] - peak[evidence]
        log_weight[k] = math.log(prior[at + k] + tiny) + relative
        most = max(most, log_weight[k])
    for k in range(states):
        summed += math.exp(log_weight[k] - most)
    for k in range(states):
        h[out + k] = math.exp(log_weight[k] - most) / summed
    return most + math.log(summed)


@compiled
def upward(
    cuts: Any,
    first_level: int,
    last_level: int,
    levels: int,
    states: int,
    wide: int,
    kinds: int,
    row_ptr: Any,
    source: Any,
    kind: Any,
    share: Any,
    graph_ptr: Any,
    evidence: Any,
    size: Any,
    log_density: Any,
    density: Any,
    peak: Any,
    start: Any,
    transition: Any,
    h: Any,
    weight: Any,
    root_prior: Any,
    log_value: Any,
    pooled: Any,
) -> None:
    """Posteriors `h` [L, N, wide] of the levels first_level … last_level - 1, and sums of them over graphs, `pooled`.

    `weight` [L, N] is the sum of products before they are normalised, relative to the largest density; where that
    underflows, its (negative) logarithm.
    """
    vertices, rows, width = len(row_ptr) - 1, len(peak) // levels, kinds * wide
    tile, priors = np.zeros(TILE * width, h.dtype), np.zeros(TILE * wide, h.dtype)
    sums = np.zeros(wide, h.dtype)
    tiny, least = fill(h, np.finfo(h.dtype).tiny), np.finfo(h.dtype).tiny ** 0.5
    for i in range(len(cuts) - 1):
        graph_before = graph_of(cuts[i], graph_ptr)
        for level in range(first_level, last_level):
            graph, summed = graph_before, 0
            for tile_start in range(cuts[i], cuts[i + 1], TILE):
                many = min(TILE, cuts[i + 1] - tile_start)
                if level > 0:
                    for r in range(many):
                        v = tile_start + r
                        begin, end = item(row_ptr, v), item(row_ptr, v + 1)
                        base = (level - 1) * vertices
                        gather(h, base, wide, source, kind, share, width, begin, end, tile, r * width)
                    multiply(tile, width, transition, (level - 1) * kinds * states * wide, states, wide, priors)
                for r in range(many):
                    v = tile_start + r
                    if level == 0 or item(row_ptr, v) == item(row_ptr, v + 1):
                        copy_row(start, 0, priors, r * wide, wide)
                    row, own, at = level * rows + item(evidence, v), level * vertices + v, r * wide
                    sum_of_lanes = fill(h, 0)
                    for b in range(0, wide, WIDTH):
                        product = (load(priors, at + b) + tiny) * load(density, row * wide + b)
                        store(h, own * wide + b, product)
                        sum_of_lanes = sum_of_lanes + product
                    whole = total(sum_of_lanes)
                    if whole >= least:
                        # Divided, not multiplied by the inverse: a state that is certain has posterior 1 exactly,
                        # and the gradient of a certain posterior is 0, not rounding.
                        divisor = fill(h, whole)
                        for b in range(0, wide, WIDTH):
                            store(h, own * wide + b, load(h, own * wide + b) / divisor)
                        weight[own] = whole
                    else:
                        weight[own] = _in_log_space(priors, at, states, log_density, row, peak, h, own * wide)
                    if level == levels - 1:
                        copy_row(priors, at, root_prior, v * wide, wide)
                        log_value[v] = peak[row] + (math.log(weight[own]) if weight[own] > 0 else weight[own])
                    if v >= item(graph_ptr, graph + 1) or summed == CHUNK:
                        flush(sums, pooled, (graph * levels + level) * wide)
                        summed = 0
                        while v >= item(graph_ptr, graph + 1):
                            graph += 1
                    count = spread(size, v)
                    for b in range(0, wide, WIDTH):
                        store(sums, b, load(sums, b) + count * load(h, own * wide + b))
                    summed += 1
            flush(sums, pooled, (graph * levels + level) * wide)
