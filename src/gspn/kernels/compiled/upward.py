"""The compiled loop upward: posteriors of every level, vertex by vertex.

It works on stretches of rows, cuts[i] … cuts[i + 1] - 1. Where no edge leaves a stretch, it can climb through all
levels by itself while its rows stay in the cache.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gspn.compiling import compiled
from gspn.kernels.compiled.equal_trees import KernelRows
from gspn.kernels.compiled.layout import Plan, Sizes, add_up, pad, tabulate
from gspn.kernels.compiled.posterior import log_of, posterior
from gspn.kernels.compiled.rows import CHUNK, TILE, copy_row, flush, gather, graph_of, multiply
from gspn.kernels.compiled.simd import WIDTH, item, load, spread, store
from gspn.kernels.compiled.threads import Team, side_by_side


class Climbed(NamedTuple):
    """What the loop upward leaves behind."""

    density: Any
    """[L, U, wide] densities relative to the largest among the states"""
    peak: Any
    """[L, U] logarithm of the largest"""
    h: Any
    """[L, K, wide] posteriors"""
    weight: Any
    """[L, K] sum of products before they are normalised, relative to the largest density; where that underflows, its
    (negative) logarithm"""
    root_prior: Any
    """[K, wide]"""
    log_value: Any
    """[K]"""
    pooled: Any
    """[n, G · L · wide] posteriors summed over each graph's vertices, in n parts"""
    graph_sums: Any
    """[G, L, C] the sum of these parts"""


@compiled
def upward(
    team: Team, plan: Plan, sizes: Sizes, rows: KernelRows, log_density: Any, start: Any, transition: Any
) -> Climbed:
    """Climb from level 0 to the root; log_density [L, U, C], start [C] and transition [L-1, T, C, C] are flat."""
    levels, states, wide, _ = sizes
    count, graphs, number = len(rows.size), len(rows.graph_ptr) - 1, len(plan.ends) - 1
    density, peak = tabulate(team, states, wide, log_density)
    climbed = Climbed(
        density,
        peak,
        np.empty(levels * count * wide, density.dtype),
        np.empty(levels * count, density.dtype),
        np.empty(count * wide, density.dtype),
        np.empty(count, density.dtype),
        np.zeros((1 if plan.independent else number, graphs * levels * wide)),
        np.empty(graphs * levels * states, density.dtype),
    )
    given = (plan, sizes, rows, log_density, pad(start, states, wide, False), pad(transition, states, wide, False))
    if plan.independent:
        side_by_side(climb, team.start, number, (0, levels, *given, climbed))
    else:
        for level in range(levels):
            side_by_side(climb, team.start, number, (level, level + 1, *given, climbed))
    add_up(climbed.pooled, states, wide, climbed.graph_sums)
    return climbed


@compiled
def climb(
    part: int,
    first_level: int,
    last_level: int,
    plan: Plan,
    sizes: Sizes,
    rows: KernelRows,
    log_density: Any,
    start: Any,
    transition: Any,
    climbed: Climbed,
) -> None:
    """The levels first_level … last_level - 1 of one part's stretches; `start` and `transition` are filled up."""
    levels, states, wide, kinds = sizes
    row_ptr, source, kind, share, graph_ptr, evidence, size, _ = rows
    density, peak, h, weight, root_prior, log_value, pooled, _ = climbed
    cuts, sums_of_graphs = plan.cuts[plan.ends[part] : plan.ends[part + 1]], pooled[part % len(pooled)]
    vertices, densities, width = len(size), len(peak) // levels, kinds * wide
    tile, priors = np.zeros(TILE * width, h.dtype), np.zeros(TILE * wide, h.dtype)
    sums = np.zeros(wide, h.dtype)
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
                        gather(h, base, wide, source, kind, share, 1, width, begin, end, tile, r * width)
                    multiply(tile, width, transition, (level - 1) * kinds * states * wide, states, wide, priors)
                for r in range(many):
                    v = tile_start + r
                    if level == 0 or item(row_ptr, v) == item(row_ptr, v + 1):
                        copy_row(start, 0, priors, r * wide, wide)
                    row, own, at = level * densities + item(evidence, v), level * vertices + v, r * wide
                    weight[own] = posterior(priors, at, states, wide, log_density, density, peak, row, h, own * wide)
                    if level == levels - 1:
                        copy_row(priors, at, root_prior, v * wide, wide)
                        log_value[v] = peak[row] + log_of(weight[own])
                    if v >= item(graph_ptr, graph + 1) or summed == CHUNK:
                        flush(sums, sums_of_graphs, (graph * levels + level) * wide)
                        summed = 0
                        while v >= item(graph_ptr, graph + 1):
                            graph += 1
                    count = spread(size, v)
                    for b in range(0, wide, WIDTH):
                        store(sums, b, load(sums, b) + count * load(h, own * wide + b))
                    summed += 1
            flush(sums, sums_of_graphs, (graph * levels + level) * wide)
