"""Compiled preparations for the loops over levels: who does what, rows filled up to whole lanes, edges by sender.

Everything is a flat array. A row holds the C states of a vertex, filled up with zeros to `wide`, a multiple of eight.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gspn.graphs.assembly import compiled
from gspn.kernels.lanes import WIDTH, exp_negative, fill, larger, largest, load, store


@compiled
def divide(row_ptr: Any, graph_ptr: Any, parts: int, stretch: int, cuts: Any, ends: Any) -> bool:
    """Cut the vertices between graphs into parts of about equal work; False if the largest is much too large.

    Part p has the stretches between cuts[ends[p - 1]] … cuts[ends[p] - 1], each of at least `stretch` vertices where
    the graphs allow.
    """
    graphs = len(graph_ptr) - 1
    vertices = graph_ptr[graphs]
    # A vertex costs about as much as four edges.
    whole = row_ptr[vertices] + 4 * vertices
    graph, place, done, most = 0, 0, 0, 0
    for part in range(parts):
        first = done
        cuts[place] = graph_ptr[graph]
        place += 1
        while graph < graphs and (done * parts < whole * (part + 1) or part == parts - 1):
            graph += 1
            v = graph_ptr[graph]
            done = row_ptr[v] + 4 * v
            if v - cuts[place - 1] >= stretch:
                cuts[place] = v
                place += 1
        if cuts[place - 1] != graph_ptr[graph]:
            cuts[place] = graph_ptr[graph]
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
    first: int,
    last: int,
    row_ptr: Any,
    source: Any,
    kind: Any,
    share: Any,
    out_ptr: Any,
    target: Any,
    out_kind: Any,
    out_share: Any,
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
            target[place], out_share[place] = v, share[e]
            if len(kind):
                out_kind[place] = kind[e]
            out_ptr[u + 1] = place + 1
