"""One level over a range of vertices, from the rows of the level below, which may be a memory map.

What `upward` does for a whole batch, for graphs that are not in memory: nothing here is larger than the range, but for
arrays that are only read. A row holds the states of a vertex, filled up with zeros to `wide`, a multiple of eight.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gspn.compiling import compiled
from gspn.kernels.compiled.posterior import log_of, posterior
from gspn.kernels.compiled.rows import TILE, copy_row, gather, multiply
from gspn.kernels.compiled.simd import item
from gspn.kernels.compiled.threads import Team, parts, side_by_side


class Range(NamedTuple):
    """Vertices of a range, their edges, and and what can reach them."""

    row_ptr: Any
    """[n + 1] where the range's rows begin in `source` and `kind`"""
    source: Any
    kind: Any
    """edge types; empty where they are not told apart"""
    below: Any
    """[N · wide] rows of the level below; empty for level 0"""
    wide: int
    kinds: int


@compiled
def posteriors_of_range(
    team: Team,
    vertices: Range,
    evidence: Any,
    log_density: Any,
    density: Any,
    peak: Any,
    start: Any,
    transition: Any,
    h: Any,
    log_value: Any,
) -> None:
    """Posteriors `h` [n, wide], and log-values [n] if there is room for them."""
    borders = _borders(team, vertices.row_ptr)
    given = (borders, vertices, evidence, log_density, density, peak, start, transition, h, log_value)
    side_by_side(_posteriors, team.start, len(borders) - 1, given)


@compiled
def means_of_range(team: Team, vertices: Range, out: Any) -> None:
    """out [n, kinds, wide] = means over incoming edges of the senders' rows, apart by kind of edge; 0 where none."""
    borders = _borders(team, vertices.row_ptr)
    side_by_side(_means, team.start, len(borders) - 1, (borders, vertices, out))


@compiled
def _borders(team: Team, row_ptr: Any) -> Any:
    """Vertices at which parts of about equal work begin, and their end; a vertex counts as four edges."""
    vertices = len(row_ptr) - 1
    number = parts(team, vertices)
    borders, v = np.zeros(number + 1, np.int64), 0
    whole = row_ptr[vertices] - row_ptr[0] + 4 * vertices
    for part in range(1, number):
        while v < vertices and (row_ptr[v] - row_ptr[0] + 4 * v) * number < whole * part:
            v += 1
        borders[part] = v
    borders[number] = vertices
    return borders


@compiled
def _posteriors(
    part: int,
    borders: Any,
    vertices: Range,
    evidence: Any,
    log_density: Any,
    density: Any,
    peak: Any,
    start: Any,
    transition: Any,
    h: Any,
    log_value: Any,
) -> None:
    row_ptr, source, kind, below, wide, kinds = vertices
    states, width = len(log_density) // len(peak), kinds * wide
    tile, priors, share = np.zeros(TILE * width, h.dtype), np.zeros(TILE * wide, h.dtype), np.zeros(1, h.dtype)
    for tile_start in range(borders[part], borders[part + 1], TILE):
        many = min(TILE, borders[part + 1] - tile_start)
        if len(below):
            for r in range(many):
                begin, end = item(row_ptr, tile_start + r), item(row_ptr, tile_start + r + 1)
                share[0] = 1 / max(1, end - begin)
                gather(below, 0, wide, source, kind, share, 0, width, begin, end, tile, r * width)
            multiply(tile, width, transition, 0, states, wide, priors)
        for r in range(many):
            v, at = tile_start + r, r * wide
            if len(below) == 0 or item(row_ptr, v) == item(row_ptr, v + 1):
                copy_row(start, 0, priors, at, wide)
            row = item(evidence, v)
            weight = posterior(priors, at, states, wide, log_density, density, peak, row, h, v * wide)
            if len(log_value):
                log_value[v] = peak[row] + log_of(weight)


@compiled
def _means(part: int, borders: Any, vertices: Range, out: Any) -> None:
    row_ptr, source, kind, below, wide, kinds = vertices
    width, share = kinds * wide, np.zeros(1, out.dtype)
    for v in range(borders[part], borders[part + 1]):
        begin, end = item(row_ptr, v), item(row_ptr, v + 1)
        share[0] = 1 / max(1, end - begin)
        gather(below, 0, wide, source, kind, share, 0, width, begin, end, out, v * width)
