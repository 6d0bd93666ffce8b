"""One level over a range of vertices, from the rows of the level below, which may be a memory map.

What `upward` does for a whole batch, for graphs that are not in memory: nothing here is larger than the range, but for
arrays that are only read. A row holds the states of a vertex, filled up with zeros to `wide`, a multiple of eight.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gspn.graphs.assembly import compiled
from gspn.kernels.lanes import WIDTH, fill, item, load, store, total
from gspn.kernels.levels import LONG_SUM
from gspn.kernels.rows import CHUNK, TILE, copy_row, multiply, part
from gspn.kernels.upward import _in_log_space


@part
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


@part
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
    for start in range(first, last, CHUNK):
        end = min(last, start + CHUNK)
        if len(kind) == 0:
            _add_rows(values, base, wide, number, start, end, scale, out, at)
        else:
            _add_rows_by_kind(values, base, wide, number, kind, width, start, end, scale, out, at)
        for k in range(width):
            exact[k] += out[at + k]
    for k in range(width):
        out[at + k] = exact[k]


@part
def _gather(values, base, wide, number, kind, width, first, last, scale, out, at):  # type: ignore[no-untyped-def]
    """out[at : at + width] = scale · Σ rows of values along edges.

    Not the batches' `rows.gather`: that wants a share of every edge, which would be an array as large as the edges.
    """
    if last - first > LONG_SUM:
        _gather_many(values, base, wide, number, kind, width, first, last, scale, out, at)
    elif len(kind) == 0:
        _add_rows(values, base, wide, number, first, last, scale, out, at)
    else:
        _add_rows_by_kind(values, base, wide, number, kind, width, first, last, scale, out, at)


@compiled
def posteriors_of_range(
    first: int,
    last: int,
    states: int,
    wide: int,
    kinds: int,
    row_ptr: Any,
    source: Any,
    kind: Any,
    below: Any,
    evidence: Any,
    log_density: Any,
    density: Any,
    peak: Any,
    start: Any,
    transition: Any,
    h: Any,
    log_value: Any,
) -> None:
    """Posteriors `h` [n, wide], and log-values [n] if there is room for them, of the range's vertices first … last - 1.

    `row_ptr` [n + 1] is the range's own, its edges numbered as in `source`; senders are rows of `below`, which is empty
    for level 0.
    """
    width = kinds * wide
    tile, priors = np.zeros(TILE * width, h.dtype), np.zeros(TILE * wide, h.dtype)
    tiny, least = fill(h, np.finfo(h.dtype).tiny), np.finfo(h.dtype).tiny ** 0.5
    for tile_start in range(first, last, TILE):
        size = min(TILE, last - tile_start)
        if len(below):
            for r in range(size):
                begin, end = item(row_ptr, tile_start + r), item(row_ptr, tile_start + r + 1)
                _gather(below, 0, wide, source, kind, width, begin, end, 1 / max(1, end - begin), tile, r * width)
            multiply(tile, width, transition, 0, states, wide, priors)
        for r in range(size):
            v, at = tile_start + r, r * wide
            if len(below) == 0 or item(row_ptr, v) == item(row_ptr, v + 1):
                copy_row(start, 0, priors, at, wide)
            row, own = item(evidence, v), v * wide
            sum_of_lanes = fill(h, 0)
            for b in range(0, wide, WIDTH):
                product = (load(priors, at + b) + tiny) * load(density, row * wide + b)
                store(h, own + b, product)
                sum_of_lanes = sum_of_lanes + product
            whole = total(sum_of_lanes)
            if whole >= least:
                divisor = fill(h, whole)
                for b in range(0, wide, WIDTH):
                    store(h, own + b, load(h, own + b) / divisor)
                log_weight = math.log(whole)
            else:
                log_weight = _in_log_space(priors, at, states, log_density, row, peak, h, own)
            if len(log_value):
                log_value[v] = peak[row] + log_weight


@compiled
def means_of_range(
    first: int, last: int, wide: int, kinds: int, row_ptr: Any, source: Any, kind: Any, below: Any, out: Any
) -> None:
    """out [n, kinds, wide] = means over incoming edges of the senders' rows, apart by kind of edge; 0 where none."""
    width = kinds * wide
    for v in range(first, last):
        begin, end = item(row_ptr, v), item(row_ptr, v + 1)
        _gather(below, 0, wide, source, kind, width, begin, end, 1 / max(1, end - begin), out, v * width)
