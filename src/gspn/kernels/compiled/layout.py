"""Compiled preparations for the loops over levels: who does what, rows filled up to whole lanes, edges by sender.

Everything is a flat array. The C states of a row are filled up with zeros to `wide`, a multiple of eight.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gspn.compiling import compiled
from gspn.kernels.compiled.equal_trees import KernelRows
from gspn.kernels.compiled.simd import WIDTH, exp_negative, fill, larger, largest, load, store
from gspn.kernels.compiled.threads import Team, parts, side_by_side

STRETCH = 128
"""Rows that climb together, if the graphs allow: few enough to stay in the cache."""


class Plan(NamedTuple):
    """Who computes what: part p has the stretches of rows between cuts[ends[p]] … cuts[ends[p + 1] - 1]."""

    cuts: Any
    ends: Any
    independent: bool
    """Whether no edge runs between stretches, so that each can climb through all levels by itself."""


class Sizes(NamedTuple):
    """What there is of everything but rows."""

    levels: int
    states: int
    wide: int
    kinds: int


@compiled
def divide(team: Team, rows: KernelRows, levels: int) -> Plan:
    """Cut the rows into parts of about equal work, between graphs if these are not much too large."""
    row_ptr, graph_ptr = rows.row_ptr, rows.graph_ptr
    graphs, number = len(graph_ptr) - 1, parts(team, len(rows.size) * levels)
    vertices = graph_ptr[graphs]
    cuts, ends = np.empty(graphs + 1 + 2 * number, np.int64), np.zeros(number + 1, np.int64)
    # A row costs about as much as four edges.
    whole = row_ptr[vertices] + 4 * vertices
    graph, place, done, most = 0, 0, 0, 0
    for part in range(number):
        before = done
        cuts[place] = graph_ptr[graph]
        place += 1
        while graph < graphs and (done * number < whole * (part + 1) or part == number - 1):
            graph += 1
            v = graph_ptr[graph]
            done = row_ptr[v] + 4 * v
            if v - cuts[place - 1] >= STRETCH:
                cuts[place] = v
                place += 1
        if cuts[place - 1] != graph_ptr[graph]:
            cuts[place] = graph_ptr[graph]
            place += 1
        ends[part + 1] = place
        most = max(most, done - before)
    if number == 1 or most * number <= 1.3 * whole:
        return Plan(cuts, ends, True)
    # One graph is most of the work. It is cut, too: then all have to wait for each other after every level.
    v = 0
    for part in range(number):
        cuts[2 * part] = v
        while v < vertices and (row_ptr[v] + 4 * v) * number < whole * (part + 1):
            v += 1
        cuts[2 * part + 1] = v
        ends[part + 1] = 2 * part + 2
    return Plan(cuts, ends, False)


@compiled
def pad(values: Any, states: int, wide: int, swapped: bool) -> Any:
    """Rows of `states` numbers → rows of `wide`, filled up with zeros; square matrices may change their sides."""
    out = np.zeros(len(values) // states * wide, values.dtype)
    for row in range(len(values) // states):
        matrix, i = row // states * states, row % states
        for k in range(states):
            out[row * wide + k] = values[(matrix + k) * states + i] if swapped else values[row * states + k]
    return out


@compiled
def add_up(values: Any, states: int, wide: int, out: Any) -> None:
    """The sum of arrays [n, rows · wide], without what fills up their rows."""
    for row in range(values.shape[1] // wide):
        for k in range(states):
            total = 0.0
            for i in range(len(values)):
                total += values[i, row * wide + k]
            out[row * states + k] = total


@compiled
def tabulate(team: Team, states: int, wide: int, log_density: Any) -> Any:
    """Log-densities [rows, states] → densities relative to the largest among the states, and the largest."""
    rows = len(log_density) // states
    density, peak = np.empty(rows * wide, log_density.dtype), np.empty(rows, log_density.dtype)
    number = parts(team, rows)
    side_by_side(_tabulate, team.start, number, (number, states, wide, log_density, density, peak))
    return density, peak


@compiled
def _tabulate(part: int, number: int, states: int, wide: int, log_density: Any, density: Any, peak: Any) -> None:
    row = np.full(wide, -np.inf, log_density.dtype)
    for i in range(len(peak) * part // number, len(peak) * (part + 1) // number):
        for k in range(states):
            row[k] = log_density[i * states + k]
        most = load(row, 0)
        for b in range(WIDTH, wide, WIDTH):
            most = larger(most, load(row, b))
        peak[i] = largest(most)
        top = fill(density, peak[i])
        for b in range(0, wide, WIDTH):
            store(density, i * wide + b, exp_negative(load(row, b) - top))


@compiled
def transpose(team: Team, plan: Plan, rows: KernelRows) -> KernelRows:
    """The same rows with edges by sender: `row_ptr` tells where a row's outgoing edges begin, `source` who receives."""
    by_sender = KernelRows(
        np.zeros(len(rows.row_ptr), np.int64),
        np.empty(len(rows.source), np.int32),
        np.empty(len(rows.kind), np.int32),
        np.empty(len(rows.share), rows.share.dtype),
        rows.graph_ptr,
        rows.evidence,
        rows.size,
        rows.row_of,
    )
    if plan.independent and parts(team, len(rows.source)) > 1:
        side_by_side(_transpose, team.start, len(plan.ends) - 1, (plan.cuts, plan.ends, rows, by_sender))
    else:
        whole = np.array([0, len(rows.size)])
        side_by_side(_transpose, 0, 1, (whole, np.array([0, 2]), rows, by_sender))
    return by_sender


@compiled
def _transpose(part: int, cuts: Any, ends: Any, rows: KernelRows, by_sender: KernelRows) -> None:
    """Between the part's rows and all others there are no edges: it begins where its incoming edges begin."""
    first, last = cuts[ends[part]], cuts[ends[part + 1] - 1]
    out_ptr = by_sender.row_ptr
    for e in range(rows.row_ptr[first], rows.row_ptr[last]):
        out_ptr[rows.source[e] + 1] += 1
    begin = rows.row_ptr[first]
    for u in range(first, last):
        begin += out_ptr[u + 1]
        # The end of the row before, moved along to this row's end while it is filled.
        out_ptr[u + 1] = begin - out_ptr[u + 1]
    for v in range(first, last):
        for e in range(rows.row_ptr[v], rows.row_ptr[v + 1]):
            u = rows.source[e]
            place = out_ptr[u + 1]
            by_sender.source[place], by_sender.share[place] = v, rows.share[e]
            if len(rows.kind):
                by_sender.kind[place] = rows.kind[e]
            out_ptr[u + 1] = place + 1
