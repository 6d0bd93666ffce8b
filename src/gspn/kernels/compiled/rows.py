"""Sums and products of rows of states, as parts of the compiled loops over levels.

Vertices are treated in tiles of eight, whose products with a transition keep to registers. These functions become part
of the loops that use them. Numba keeps the loops' machine code on disk and does not notice changes here: whoever
changes this file or `simd` has to clear the cache (see the notes for developers).
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from gspn.compiling import compiled
from gspn.kernels.compiled.simd import WIDTH, fill, item, load, spread, store
from gspn.kernels.contract import LONG_SUM

TILE = 8
"""Vertices treated together; `multiply` and `add_products` are written out for this number."""

CHUNK = 256
"""Terms that are summed in the working precision before they are added to a sum in double precision."""

part = numba.njit(forceinline=True, boundscheck=False)


@part
def _add_rows(values, base, wide, number, share, step, first, last, out, at):  # type: ignore[no-untyped-def]
    """out[at : at + wide] = Σ share[e · step] · values[base + number[e]] over the edges first … last - 1.

    Four groups of lanes at a time, so that a row is walked through once: how many edges a vertex has is hard to guess
    for a processor, and a wrong guess costs more than the sum. Where there are fewer groups, the last is summed twice.
    Every other edge has sums of its own, which need not wait for each other.
    """
    end = wide - WIDTH
    for b in range(0, wide, 4 * WIDTH):
        b1, b2, b3 = min(b + WIDTH, end), min(b + 2 * WIDTH, end), min(b + 3 * WIDTH, end)
        s0 = s1 = s2 = s3 = t0 = t1 = t2 = t3 = fill(values, 0)
        e = first
        while e + 1 < last:
            row, part = (base + item(number, e)) * wide, spread(share, e * step)
            s0 = s0 + part * load(values, row + b)
            s1 = s1 + part * load(values, row + b1)
            s2 = s2 + part * load(values, row + b2)
            s3 = s3 + part * load(values, row + b3)
            row, part = (base + item(number, e + 1)) * wide, spread(share, (e + 1) * step)
            t0 = t0 + part * load(values, row + b)
            t1 = t1 + part * load(values, row + b1)
            t2 = t2 + part * load(values, row + b2)
            t3 = t3 + part * load(values, row + b3)
            e += 2
        if e < last:
            row, part = (base + item(number, e)) * wide, spread(share, e * step)
            s0 = s0 + part * load(values, row + b)
            s1 = s1 + part * load(values, row + b1)
            s2 = s2 + part * load(values, row + b2)
            s3 = s3 + part * load(values, row + b3)
        store(out, at + b, s0 + t0)
        store(out, at + b1, s1 + t1)
        store(out, at + b2, s2 + t2)
        store(out, at + b3, s3 + t3)


@part
def _add_rows_by_kind(values, base, wide, number, kind, share, step, width, first, last, out, at):  # type: ignore[no-untyped-def]
    """The same apart by kind of edge: out[at : at + width], `wide` places a kind."""
    zero = fill(values, 0)
    for b in range(0, width, WIDTH):
        store(out, at + b, zero)
    for e in range(first, last):
        place, row, part = at + kind[e] * wide, (base + item(number, e)) * wide, spread(share, e * step)
        for b in range(0, wide, WIDTH):
            store(out, place + b, load(out, place + b) + part * load(values, row + b))


@compiled
def _gather_many(
    values: Any,
    base: int,
    wide: int,
    number: Any,
    kind: Any,
    share: Any,
    step: int,
    width: int,
    first: int,
    last: int,
    out: Any,
    at: int,
) -> None:
    """As `gather`, in chunks whose sums are added in double precision."""
    exact = np.zeros(width)
    for start in range(first, last, CHUNK):
        end = min(last, start + CHUNK)
        if len(kind) == 0:
            _add_rows(values, base, wide, number, share, step, start, end, out, at)
        else:
            _add_rows_by_kind(values, base, wide, number, kind, share, step, width, start, end, out, at)
        for k in range(width):
            exact[k] += out[at + k]
    for k in range(width):
        out[at + k] = exact[k]


@part
def gather(values, base, wide, number, kind, share, step, width, first, last, out, at):  # type: ignore[no-untyped-def]
    """out[at : at + width] = Σ share · row of values along the edges first … last - 1.

    Edge e's share is share[e · step]: with step 0 all have the same.
    """
    if last - first > LONG_SUM:
        _gather_many(values, base, wide, number, kind, share, step, width, first, last, out, at)
    elif len(kind) == 0:
        _add_rows(values, base, wide, number, share, step, first, last, out, at)
    else:
        _add_rows_by_kind(values, base, wide, number, kind, share, step, width, first, last, out, at)


@part
def multiply(tile, width, matrix, at, states, wide, out):  # type: ignore[no-untyped-def]
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


@part
def add_products(left, right, states, wide, width, start, out, at):  # type: ignore[no-untyped-def]
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


@part
def copy_row(source, start, out, at, length):  # type: ignore[no-untyped-def]
    for b in range(0, length, WIDTH):
        store(out, at + b, load(source, start + b))


@part
def flush(part, sums, at):  # type: ignore[no-untyped-def]
    """Move sums of the working precision to sums in double precision."""
    for k in range(len(part)):
        sums[at + k] += part[k]
        part[k] = 0


@compiled
def graph_of(vertex: int, vertex_ptr: Any) -> int:
    """The last graph that begins at the vertex or before it."""
    low, high = 0, len(vertex_ptr) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if vertex_ptr[middle] <= vertex:
            low = middle
        else:
            high = middle
    return low
