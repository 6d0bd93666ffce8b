"""Vertices whose trees are equal: what they have in common is computed once.

Leaves of a star and members of a clique receive the same messages: vertices with equal evidence whose neighbours are
equal in turn have equal posteriors at every level. They form a class, and the loops over levels run over classes, whose
edges hold the share of a vertex's messages that comes from a class. This is exact: hashes propose the classes of a
graph, refined until they no longer change, and before they are used they are compared edge by edge.

Nothing here depends on levels or states.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gspn.compiling import compiled
from gspn.kernels.compiled.threads import Team, parts, side_by_side

ROUNDS = 12
"""Refinements after which a graph is left alone: a long path would need as many as it has vertices."""

WORTHWHILE = 7 / 8
"""Share of classes among the vertices beyond which it is cheaper to compute every vertex by itself."""

ENOUGH = 128
"""Vertices after which it is clear whether a batch is worth the trouble."""

_ODD = np.uint64(0x9E3779B97F4A7C15)
_HALF, _THIRD = np.uint64(32), np.uint64(29)


class KernelRows(NamedTuple):
    """What the loops over levels run over: a row for every class of vertices, graph by graph, and edges between."""

    row_ptr: Any
    """[K + 1] row k receives along the edges row_ptr[k] … row_ptr[k + 1] - 1"""
    source: Any
    """[E] row that sends along each edge"""
    kind: Any
    """[E] edge types; empty where there is only one"""
    share: Any
    """[E] share of the receiver's messages; the shares of a row add up to 1"""
    graph_ptr: Any
    """[G + 1] graph g owns the rows graph_ptr[g] … graph_ptr[g + 1] - 1"""
    evidence: Any
    """[K] number of each row's evidence"""
    size: Any
    """[K] vertices of each row"""
    row_of: Any
    """[N] row of each vertex; empty: one row per vertex, in order"""


@compiled
def one_row_per_vertex(row_ptr: Any, source: Any, kind: Any, vertex_ptr: Any, evidence: Any, like: Any) -> KernelRows:
    """One row per vertex. Shares and sizes have the dtype of `like`."""
    share, size = np.empty(len(source), like.dtype), np.ones(len(evidence), like.dtype)
    for v in range(len(evidence)):
        part = 1 / max(1, row_ptr[v + 1] - row_ptr[v])
        for e in range(row_ptr[v], row_ptr[v + 1]):
            share[e] = part
    return KernelRows(row_ptr, source, kind, share, vertex_ptr, evidence, size, np.empty(0, np.int32))


@compiled
def merge_equal_trees(
    team: Team, row_ptr: Any, source: Any, kind: Any, vertex_ptr: Any, evidence: Any, like: Any
) -> KernelRows:
    """One row for every class of vertices with equal trees; one row per vertex where classes would be too many."""
    vertices, graphs = len(evidence), len(vertex_ptr) - 1
    own, first, degree = np.empty(vertices, np.int32), np.empty(vertices, np.int32), np.empty(vertices, np.int32)
    graph_ptr, edge_ptr = np.zeros(graphs + 1, np.int64), np.zeros(graphs + 1, np.int64)
    borders = _borders(parts(team, vertices + len(source)), vertex_ptr, row_ptr)
    given = (borders, vertex_ptr, row_ptr, source, kind, evidence, own, first, graph_ptr, edge_ptr)
    side_by_side(_classify, team.start, len(borders) - 1, (*given, degree))
    for g in range(graphs):
        graph_ptr[g + 1] += graph_ptr[g]
        edge_ptr[g + 1] += edge_ptr[g]
    classes, edges = graph_ptr[graphs], edge_ptr[graphs]
    if classes > WORTHWHILE * vertices:
        return one_row_per_vertex(row_ptr, source, kind, vertex_ptr, evidence, like)
    rows = KernelRows(
        np.zeros(classes + 1, np.int64),
        np.empty(edges, np.int32),
        np.empty(min(edges, len(kind)), np.int32),
        np.empty(edges, like.dtype),
        graph_ptr,
        np.empty(classes, np.int32),
        np.zeros(classes, like.dtype),
        np.empty(vertices, np.int32),
    )
    side_by_side(_join, team.start, len(borders) - 1, (*given, rows))
    return rows


@compiled
def _borders(number: int, vertex_ptr: Any, row_ptr: Any) -> Any:
    """Graphs at which ranges of about equal work begin, and their end."""
    borders, graphs, part = np.empty(number + 1, np.int64), len(vertex_ptr) - 1, 0
    whole = row_ptr[vertex_ptr[graphs]] + vertex_ptr[graphs]
    for g in range(graphs):
        while part < number and (row_ptr[vertex_ptr[g]] + vertex_ptr[g]) * number >= whole * part:
            borders[part] = g
            part += 1
    borders[part:] = graphs
    return borders


@compiled
def _scramble(value: Any) -> Any:
    value = (value + np.uint64(1)) * _ODD
    value = (value ^ (value >> _HALF)) * _ODD
    return value ^ (value >> _THIRD)


@compiled
def _number(key: Any, n: int, table: Any, number: Any) -> int:
    """Number n keys in the order of their first occurrence; gives how many differ."""
    places = 4
    while places < 2 * n:
        places *= 2
    table[:places] = -1
    found, mask = 0, np.uint64(places - 1)
    for i in range(n):
        place = ((key[i] * _ODD) >> _HALF) & mask
        while table[place] >= 0 and key[table[place]] != key[i]:
            place = (place + np.uint64(1)) & mask
        if table[place] < 0:
            table[place], number[i] = i, found
            found += 1
        else:
            number[i] = number[table[place]]
    return found


@compiled
def _refine(
    start: int, n: int, row_ptr: Any, source: Any, kind: Any, evidence: Any, own: Any, key: Any, mixed: Any, table: Any
) -> int:
    """Propose classes `own` of one graph's vertices; gives their number, 0 if there are too many or no end is seen."""
    for i in range(n):
        key[i] = evidence[start + i]
    found = _number(key, n, table, own)
    for _ in range(ROUNDS):
        if found > WORTHWHILE * n:
            return 0
        for i in range(n):
            mixed[i] = _scramble(np.uint64(own[i]))
        for i in range(n):
            received = mixed[i] * _ODD
            for e in range(row_ptr[start + i], row_ptr[start + i + 1]):
                sender = mixed[source[e] - start]
                received += _scramble(sender + np.uint64(kind[e])) if len(kind) else sender
            key[i] = received
        before, found = found, _number(key, n, table, own)
        if found == before:
            return found
    return 0


@compiled
def _check(start: int, n: int, row_ptr: Any, source: Any, kind: Any, own: Any, first: Any, degree: Any) -> bool:
    """Whether all vertices of a class receive from the same classes as the first of them; fills in from how many."""
    kinds = 1
    for e in range(row_ptr[start], row_ptr[start + n] if len(kind) else 0):
        kinds = max(kinds, kind[e] + 1)
    received = np.zeros(n * kinds, np.int32)
    # By class: vertices in the order of their classes.
    place, order = np.zeros(n + 1, np.int32), np.empty(n, np.int32)
    for i in range(n):
        place[own[i] + 1] += 1
    for i in range(n):
        place[i + 1] += place[i]
    for i in range(n):
        order[place[own[i]]] = i
        place[own[i]] += 1
    example = -1
    for place_in_order in range(n):
        i = order[place_in_order]
        begin, end = row_ptr[start + i], row_ptr[start + i + 1]
        if example < 0 or own[i] != own[example]:
            if example >= 0:
                for e in range(row_ptr[start + example], row_ptr[start + example + 1]):
                    received[own[source[e] - start] * kinds + (kind[e] if len(kind) else 0)] = 0
            example, different = i, 0
            for e in range(begin, end):
                at = own[source[e] - start] * kinds + (kind[e] if len(kind) else 0)
                different += received[at] == 0
                received[at] += 1
            first[own[i]], degree[own[i]] = start + i, different
            continue
        if end - begin != row_ptr[start + example + 1] - row_ptr[start + example]:
            return False
        for e in range(begin, end):
            at = own[source[e] - start] * kinds + (kind[e] if len(kind) else 0)
            received[at] -= 1
            if received[at] < 0:
                return False
        for e in range(begin, end):
            received[own[source[e] - start] * kinds + (kind[e] if len(kind) else 0)] += 1
    return True


@compiled
def _classify(
    number: int,
    borders: Any,
    vertex_ptr: Any,
    row_ptr: Any,
    source: Any,
    kind: Any,
    evidence: Any,
    own: Any,
    first: Any,
    class_counts: Any,
    edge_counts: Any,
    degree: Any,
) -> None:
    """Classes inside each graph of a range: `own` [N] of every vertex, and by class its first vertex.

    The numbers of classes and of their edges are counted by graph, behind a 0.
    """
    most = 0
    for g in range(borders[number], borders[number + 1]):
        most = max(most, vertex_ptr[g + 1] - vertex_ptr[g])
    key, mixed, table = np.empty(most, np.uint64), np.empty(most, np.uint64), np.empty(4 * most + 4, np.int32)
    seen, classes = 0, 0
    for g in range(borders[number], borders[number + 1]):
        start, end = vertex_ptr[g], vertex_ptr[g + 1]
        n, numbers, found = end - start, own[start:end], 0
        if seen < ENOUGH or classes <= WORTHWHILE * seen:
            found = _refine(start, n, row_ptr, source, kind, evidence, numbers, key, mixed, table)
        if found == 0 or not _check(start, n, row_ptr, source, kind, numbers, first[start:end], degree[start:end]):
            found = n
            for v in range(start, end):
                own[v], first[v] = v - start, v
            edge_counts[g + 1] = row_ptr[end] - row_ptr[start]
        else:
            for c in range(found):
                edge_counts[g + 1] += degree[start + c]
        class_counts[g + 1] = found
        seen, classes = seen + n, classes + found


@compiled
def _join(
    number: int,
    borders: Any,
    vertex_ptr: Any,
    row_ptr: Any,
    source: Any,
    kind: Any,
    evidence: Any,
    own: Any,
    first: Any,
    graph_ptr: Any,
    edge_ptr: Any,
    rows: KernelRows,
) -> None:
    """Fill rows: each class receives what its first vertex does, edges from one class made one."""
    most, kinds = 0, 1
    for g in range(borders[number], borders[number + 1]):
        most = max(most, graph_ptr[g + 1] - graph_ptr[g])
    for e in range(len(kind)):
        kinds = max(kinds, kind[e] + 1)
    seen = np.full(most * kinds, -1, np.int64)
    for g in range(borders[number], borders[number + 1]):
        start, classes, edge = vertex_ptr[g], graph_ptr[g], edge_ptr[g]
        alone = graph_ptr[g + 1] - classes == vertex_ptr[g + 1] - start
        for v in range(start, vertex_ptr[g + 1]):
            rows.row_of[v] = classes + own[v]
            rows.size[classes + own[v]] += 1
        for c in range(graph_ptr[g + 1] - classes):
            v, begin = first[start + c], edge
            part = 1 / max(1, row_ptr[v + 1] - row_ptr[v])
            for e in range(row_ptr[v], row_ptr[v + 1]):
                u = own[source[e]]
                at = u * kinds + (kind[e] if len(kind) else 0)
                if not alone and seen[at] >= begin:
                    rows.share[seen[at]] += 1
                    continue
                seen[at] = edge
                rows.source[edge], rows.share[edge] = classes + u, 1
                if len(kind):
                    rows.kind[edge] = kind[e]
                edge += 1
            for e in range(begin, edge):
                rows.share[e] *= part
            rows.row_ptr[classes + c + 1] = edge
            rows.evidence[classes + c] = evidence[v]
