"""Compiled loops over levels and vertices for naive Bayes: upward for posteriors, downward for gradients.

Arrays are flat. A row holds the C states of one vertex, filled up with zeros to `wide`, a multiple of eight. Vertices
are treated in tiles of eight, whose products with a transition keep to registers. A loop works on `cuts`, stretches of
vertices [cuts[i], cuts[i + 1]): where no edge leaves a stretch it can climb through all levels by itself, while its
rows stay in the cache.

Posteriors are products of prior and density, not exponentials of sums: densities are known beforehand, relative to the
largest among the states, one exponential for each distinct row of evidence. Where the sum of products comes near the
smallest numbers there are, the same is computed in log space, so nothing is lost to underflow.

How the work is divided, and what torch sees of it, belongs to `fast`.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from gspn.graphs.assembly import compiled
from gspn.kernels.lanes import WIDTH, exp_negative, fill, item, larger, largest, load, spread, store, total
from gspn.kernels.levels import LONG_SUM

TILE = 8
"""Vertices treated together; `_multiply` and `_add_products` are written out for this number."""

_CHUNK = 256
"""Terms that are summed in the working precision before they are added to a sum in double precision."""

_part = numba.njit(forceinline=True, boundscheck=False)


@compiled
def divide(row_ptr: Any, vertex_ptr: Any, parts: int, stretch: int, cuts: Any, ends: Any) -> bool:
    """Cut the vertices between graphs into parts of about equal work; False if the largest is much too large.

    Part p has the stretches between cuts[ends[p - 1]] … cuts[ends[p] - 1], each of at least `stretch` vertices where
    the graphs allow.
    """
    graphs = len(vertex_ptr) - 1
    vertices = vertex_ptr[graphs]
    # A vertex costs about as much as four edges.
    whole = row_ptr[vertices] + 4 * vertices
    graph, place, done, most = 0, 0, 0, 0
    for part in range(parts):
        first = done
        cuts[place] = vertex_ptr[graph]
        place += 1
        while graph < graphs and (done * parts < whole * (part + 1) or part == parts - 1):
            graph += 1
            v = vertex_ptr[graph]
            done = row_ptr[v] + 4 * v
            if v - cuts[place - 1] >= stretch:
                cuts[place] = v
                place += 1
        if cuts[place - 1] != vertex_ptr[graph]:
            cuts[place] = vertex_ptr[graph]
            place += 1
        ends[part] = place
        most = max(most, done - first)
    return parts == 1 or most * parts <= 1.3 * whole


@compiled
def pad(values: Any, states: int, wide: int, swapped: bool, out: Any) -> None:
    """Rows of `states` numbers → rows of `wide`, filled up with zeros; square matrices may change their sides."""
    for row in range(len(values) // states):
        matrix, i = row // states * states, row % states
        for k in range(states):
            out[row * wide + k] = values[(matrix + k) * states + i] if swapped else values[row * states + k]
        for k in range(states, wide):
            out[row * wide + k] = 0


@compiled
def tabulate(first: int, last: int, states: int, wide: int, log_density: Any, density: Any, peak: Any) -> None:
    """Rows first … last - 1 of log-densities [rows, states] → densities relative to the largest, and the largest."""
    row = np.full(wide, -np.inf, log_density.dtype)
    for i in range(first, last):
        given = log_density[i * states : (i + 1) * states]
        for k in range(states):
            row[k] = given[k]
        most = load(row, 0)
        for b in range(WIDTH, wide, WIDTH):
            most = larger(most, load(row, b))
        peak[i] = largest(most)
        top = fill(density, peak[i])
        for b in range(0, wide, WIDTH):
            store(density, i * wide + b, exp_negative(load(row, b) - top))


@compiled
def transpose(
    first: int, last: int, row_ptr: Any, source: Any, kind: Any, out_ptr: Any, target: Any, out_kind: Any
) -> None:
    """Rows by sender for the vertices first … last - 1, between which and the others there are no edges.

    `out_ptr` comes as zeros; a row of its own begins where the vertices' incoming edges begin.
    """
    for e in range(row_ptr[first], row_ptr[last]):
        out_ptr[source[e] + 1] += 1
    begin = row_ptr[first]
    for u in range(first, last):
        begin += out_ptr[u + 1]
        # The end of the row before, moved along to this row's end while it is filled.
        out_ptr[u + 1] = begin - out_ptr[u + 1]
    for v in range(first, last):
        for e in range(row_ptr[v], row_ptr[v + 1]):
            u = source[e]
            place = out_ptr[u + 1]
            target[place] = v
            if len(kind):
                out_kind[place] = kind[e]
            out_ptr[u + 1] = place + 1


@_part
def _add_rows(values, base, wide, number, first, last, scale, out, at):  # type: ignore[no-untyped-def]
    """out[at : at + wide] = scale · Σ values[base + item(number, e)] over the edges first … last - 1.

    Four groups of lanes at a time, so that a row is walked through once: how many edges a vertex has is hard to guess
    for a processor, and a wrong guess costs more than the sum. Where there are fewer groups, the last is summed twice.
    """
    factor, end = fill(values, scale), wide - WIDTH
    for b in range(0, wide, 4 * WIDTH):
        b1, b2, b3 = min(b + WIDTH, end), min(b + 2 * WIDTH, end), min(b + 3 * WIDTH, end)
        s0 = s1 = s2 = s3 = fill(values, 0)
        e = first
        while e + 1 < last:
            one, other = (base + item(number, e)) * wide, (base + item(number, e + 1)) * wide
            s0 = s0 + (load(values, one + b) + load(values, other + b))
            s1 = s1 + (load(values, one + b1) + load(values, other + b1))
            s2 = s2 + (load(values, one + b2) + load(values, other + b2))
            s3 = s3 + (load(values, one + b3) + load(values, other + b3))
            e += 2
        if e < last:
            one = (base + item(number, e)) * wide
            s0 = s0 + load(values, one + b)
            s1 = s1 + load(values, one + b1)
            s2 = s2 + load(values, one + b2)
            s3 = s3 + load(values, one + b3)
        store(out, at + b, s0 * factor)
        store(out, at + b1, s1 * factor)
        store(out, at + b2, s2 * factor)
        store(out, at + b3, s3 * factor)


@_part
def _add_rows_by_kind(values, base, wide, number, kind, width, first, last, scale, out, at):  # type: ignore[no-untyped-def]
    """The same apart by kind of edge: out[at : at + width], `wide` places a kind."""
    factor, zero = fill(values, scale), fill(values, 0)
    for b in range(0, width, WIDTH):
        store(out, at + b, zero)
    for e in range(first, last):
        place, row = at + kind[e] * wide, (base + item(number, e)) * wide
        for b in range(0, wide, WIDTH):
            store(out, place + b, load(out, place + b) + load(values, row + b) * factor)


@compiled
def _gather_many(
    values: Any,
    base: int,
    wide: int,
    number: Any,
    kind: Any,
    width: int,
    first: int,
    last: int,
    scale: float,
    out: Any,
    at: int,
) -> None:
    """As `_gather`, in chunks whose sums are added in double precision."""
    exact = np.zeros(width)
    for start in range(first, last, _CHUNK):
        end = min(last, start + _CHUNK)
        if len(kind) == 0:
            _add_rows(values, base, wide, number, start, end, scale, out, at)
        else:
            _add_rows_by_kind(values, base, wide, number, kind, width, start, end, scale, out, at)
        for k in range(width):
            exact[k] += out[at + k]
    for k in range(width):
        out[at + k] = exact[k]


@_part
def _gather(values, base, wide, number, kind, width, first, last, scale, out, at):  # type: ignore[no-untyped-def]
    """out[at : at + width] = scale · Σ rows of values along edges."""
    if last - first > LONG_SUM:
        _gather_many(values, base, wide, number, kind, width, first, last, scale, out, at)
    elif len(kind) == 0:
        _add_rows(values, base, wide, number, first, last, scale, out, at)
    else:
        _add_rows_by_kind(values, base, wide, number, kind, width, first, last, scale, out, at)


@_part
def _multiply(tile, width, matrix, at, states, wide, out):  # type: ignore[no-untyped-def]
    """out [8, wide] = tile [8, width] · matrix [kinds · states, wide], where a tile's row has `wide` places a kind."""
    for b in range(0, wide, WIDTH):
        a0, a1, a2, a3 = fill(out, 0), fill(out, 0), fill(out, 0), fill(out, 0)
        a4, a5, a6, a7 = fill(out, 0), fill(out, 0), fill(out, 0), fill(out, 0)
        row = at + b
        for start in range(0, width, wide):
            for x in range(start, start + states):
                factor = load(matrix, row)
                row += wide
                a0 = a0 + spread(tile, x) * factor
                a1 = a1 + spread(tile, x + width) * factor
                a2 = a2 + spread(tile, x + 2 * width) * factor
                a3 = a3 + spread(tile, x + 3 * width) * factor
                a4 = a4 + spread(tile, x + 4 * width) * factor
                a5 = a5 + spread(tile, x + 5 * width) * factor
                a6 = a6 + spread(tile, x + 6 * width) * factor
                a7 = a7 + spread(tile, x + 7 * width) * factor
        store(out, b, a0)
        store(out, b + wide, a1)
        store(out, b + 2 * wide, a2)
        store(out, b + 3 * wide, a3)
        store(out, b + 4 * wide, a4)
        store(out, b + 5 * wide, a5)
        store(out, b + 6 * wide, a6)
        store(out, b + 7 * wide, a7)


@_part
def _add_products(left, right, states, wide, width, start, out, at):  # type: ignore[no-untyped-def]
    """out [states, wide] += leftᵀ [states, 8] · right [8, wide], where right begins at `start` of rows of `width`."""
    for b in range(0, wide, WIDTH):
        r0, r1 = load(right, start + b), load(right, start + b + width)
        r2, r3 = load(right, start + b + 2 * width), load(right, start + b + 3 * width)
        r4, r5 = load(right, start + b + 4 * width), load(right, start + b + 5 * width)
        r6, r7 = load(right, start + b + 6 * width), load(right, start + b + 7 * width)
        for k in range(states):
            one = load(out, at + k * wide + b) + spread(left, k) * r0
            other = spread(left, k + wide) * r1
            one = one + spread(left, k + 2 * wide) * r2
            other = other + spread(left, k + 3 * wide) * r3
            one = one + spread(left, k + 4 * wide) * r4
            other = other + spread(left, k + 5 * wide) * r5
            one = one + spread(left, k + 6 * wide) * r6
            other = other + spread(left, k + 7 * wide) * r7
            store(out, at + k * wide + b, one + other)


@_part
def _mean(values, weights, at, wide):  # type: ignore[no-untyped-def]
    """Σ values · weights over the row that begins at `at`."""
    products = fill(values, 0)
    for b in range(0, wide, WIDTH):
        products = products + load(values, at + b) * load(weights, at + b)
    return total(products)


@_part
def _shift(values, at, wide, by):  # type: ignore[no-untyped-def]
    amount = fill(values, by)
    for b in range(0, wide, WIDTH):
        store(values, at + b, load(values, at + b) - amount)


@_part
def _copy(source, start, out, at, length):  # type: ignore[no-untyped-def]
    for b in range(0, length, WIDTH):
        store(out, at + b, load(source, start + b))


@_part
def _flush(part, sums, at):  # type: ignore[no-untyped-def]
    """Move sums of the working precision to sums in double precision."""
    for k in range(len(part)):
        sums[at + k] += part[k]
        part[k] = 0


@compiled
def _in_log_space(
    prior: Any, at: int, states: int, log_density: Any, evidence: int, peak: Any, h: Any, out: int
) -> float:
    """Posterior where products underflow; gives the logarithm of their sum, relative to the largest density."""
    tiny, log_weight = np.finfo(prior.dtype).tiny, np.empty(states)
    for k in range(states):
        relative = log_density[evidence * states + k] - peak[evidence]
        log_weight[k] = math.log(prior[at + k] + tiny) + relative
    most = log_weight.max()
    summed = np.exp(log_weight - most).sum()
    for k in range(states):
        h[out + k] = math.exp(log_weight[k] - most) / summed
    log_sum: float = most + math.log(summed)
    return log_sum


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
    vertex_ptr: Any,
    evidence: Any,
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
        graph_before = np.searchsorted(vertex_ptr, cuts[i], side="right") - 1
        for level in range(first_level, last_level):
            graph, summed = graph_before, 0
            for tile_start in range(cuts[i], cuts[i + 1], TILE):
                size = min(TILE, cuts[i + 1] - tile_start)
                if level > 0:
                    for r in range(size):
                        v = tile_start + r
                        begin, end = item(row_ptr, v), item(row_ptr, v + 1)
                        mean = 1 / max(1, end - begin)
                        base = (level - 1) * vertices
                        _gather(h, base, wide, source, kind, width, begin, end, mean, tile, r * width)
                    _multiply(tile, width, transition, (level - 1) * kinds * states * wide, states, wide, priors)
                for r in range(size):
                    v = tile_start + r
                    if level == 0 or item(row_ptr, v) == item(row_ptr, v + 1):
                        _copy(start, 0, priors, r * wide, wide)
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
                        _copy(priors, at, root_prior, v * wide, wide)
                        log_value[v] = peak[row] + (math.log(weight[own]) if weight[own] > 0 else weight[own])
                    if v >= item(vertex_ptr, graph + 1) or summed == _CHUNK:
                        _flush(sums, pooled, (graph * levels + level) * wide)
                        summed = 0
                        while v >= item(vertex_ptr, graph + 1):
                            graph += 1
                    for b in range(0, wide, WIDTH):
                        store(sums, b, load(sums, b) + load(h, own * wide + b))
                    summed += 1
            _flush(sums, pooled, (graph * levels + level) * wide)


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
    vertex_ptr: Any,
    evidence: Any,
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

    `messages` [2, N, wide] are gradients of the neighbours' means at a level and the one above it, by turns.
    """
    vertices, rows, width = len(row_ptr) - 1, len(peak) // levels, kinds * wide
    tile, posteriors = np.zeros(TILE * width, h.dtype), np.zeros(TILE * wide, h.dtype)
    inflow = np.zeros(TILE * wide, h.dtype)
    to_start = np.zeros(wide, h.dtype)
    to_transition = np.zeros(kinds * states * wide, h.dtype)
    for i in range(len(cuts) - 1):
        graph_before = np.searchsorted(vertex_ptr, cuts[i], side="right") - 1
        for level in range(last_level - 1, first_level - 1, -1):
            graph, summed = graph_before, 0
            above, here = (level + 1) % 2 * vertices, level % 2 * vertices
            at_transition = level * kinds * states * wide
            for tile_start in range(cuts[i], cuts[i + 1], TILE):
                size = min(TILE, cuts[i + 1] - tile_start)
                _copy(h, (level * vertices + tile_start) * wide, posteriors, 0, size * wide)
                if level < levels - 1:
                    for r in range(size):
                        u = tile_start + r
                        begin, end = item(out_ptr, u), item(out_ptr, u + 1)
                        _gather(messages, above, wide, target, out_kind, width, begin, end, 1, tile, r * width)
                    for k in range(size * width, TILE * width):
                        tile[k] = 0
                    _multiply(tile, width, transposed, at_transition, states, wide, inflow)
                    for t in range(kinds):
                        _add_products(posteriors, tile, states, wide, width, t * wide, to_transition, t * states * wide)
                else:
                    inflow[:] = 0
                for r in range(size):
                    v = tile_start + r
                    at, own, row = r * wide, level * vertices + v, level * rows + item(evidence, v)
                    while v >= item(vertex_ptr, graph + 1):
                        graph += 1
                    if len(of_pooled):
                        for b in range(0, wide, WIDTH):
                            more = load(of_pooled, (graph * levels + level) * wide + b)
                            store(inflow, at + b, load(inflow, at + b) + more)
                    if len(of_h):
                        for b in range(0, wide, WIDTH):
                            store(inflow, at + b, load(inflow, at + b) + load(of_h, own * wide + b))
                    # Deviations from the mean under h. The mean is taken off twice: where one state is almost certain
                    # the first difference is mostly rounding, the mean of the differences shows how much.
                    mean = _mean(inflow, posteriors, at, wide)
                    _shift(inflow, at, wide, mean)
                    mean = _mean(inflow, posteriors, at, wide)
                    if level == levels - 1 and len(of_log_value):
                        # The root's log-value adds its gradient to that of every log-weight, in proportion to h.
                        mean -= of_log_value[v]
                    _shift(inflow, at, wide, mean)
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
                        share = fill(h, 1 / (item(row_ptr, v + 1) - item(row_ptr, v)))
                        for b in range(0, wide, WIDTH):
                            store(messages, (here + v) * wide + b, load(inflow, at + b) * share)
                summed += size
                if summed >= _CHUNK or tile_start + size == cuts[i + 1]:
                    summed = 0
                    _flush(to_start, of_start, 0)
                    if level < levels - 1:
                        _flush(to_transition, of_transition, at_transition)
