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
from gspn.kernels.rows import TILE, copy_row, gather, multiply
from gspn.kernels.upward import _in_log_space


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
                gather(below, 0, wide, source, kind, width, begin, end, 1 / max(1, end - begin), tile, r * width)
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
        gather(below, 0, wide, source, kind, width, begin, end, 1 / max(1, end - begin), out, v * width)
