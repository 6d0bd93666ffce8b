"""Private copies: how a root is kept out of its own tree at little cost.

In a graph with cycles a vertex occurs inside its own tree (it hears its own echo). To hide entries of one root, and of
no other, without a pass per root, the graph is extended by private copies of the few vertices whose messages would
change: those on a closed walk through the root that is short enough to fit in the tree. Copies listen to copies of the
same root where there are any and to the shared vertices otherwise; the shared vertices never listen to copies. One
pass over the extended graph then answers for all roots at once.

Why these vertices suffice: hiding root v changes vertex u at level l only if u is reached from v in at most l steps,
and u at level l matters to the root (level L-1) only if v is reached from u in at most L-1-l steps. Both can hold only
if the two distances add up to at most L-1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from gspn.graphs.batch import Batch, rows_by_target


@dataclass(frozen=True, eq=False)
class _Adjacency:
    """Rows of neighbours: for vertex u, neighbour[ptr[u] : ptr[u + 1]], with the edge each one comes from."""

    ptr: Tensor
    neighbour: Tensor
    edge: Tensor

    @classmethod
    def of(cls, row: Tensor, neighbour: Tensor, num_vertices: int) -> _Adjacency:
        edge, ptr = rows_by_target(row, num_vertices)
        return cls(ptr, neighbour[edge], edge)

    def rows(self, vertices: Tensor) -> tuple[Tensor, Tensor]:
        """All neighbour slots of the given vertices: (which of the given vertices, slot)."""
        sizes = self.ptr.diff()[vertices]
        owner = torch.repeat_interleave(torch.arange(len(vertices)), sizes)
        first = torch.repeat_interleave(self.ptr[vertices] - (sizes.cumsum(0) - sizes), sizes)
        return owner, first + torch.arange(len(owner))


def echo_free(
    batch: Batch, roots: Tensor, hidden: Tensor, num_levels: int, budget: int
) -> Iterator[tuple[Batch, Tensor]]:
    """The batch extended by private copies, in pieces: yields (extended batch, position of each root's copy).

    `hidden` [R, d] says what each root hides, from itself and in every inner occurrence of it. The pieces follow the
    order of `roots`; each holds as many roots as keep the number of copies near `budget`.
    """
    whole = _Neighbourhood.of(batch)
    pending = [(roots, hidden)]
    while pending:
        some, hides = pending.pop()
        pairs = whole.closed_walks(some, num_levels - 1, budget if len(some) > 1 else None)
        if pairs is None:
            half = len(some) // 2
            pending += [(some[half:], hides[half:]), (some[:half], hides[:half])]
        elif len(some):
            yield _extend(batch, whole, some, hides, pairs, num_levels)


@dataclass(frozen=True, eq=False)
class _Neighbourhood:
    num_vertices: int
    incoming: _Adjacency
    outgoing: _Adjacency

    @classmethod
    def of(cls, batch: Batch) -> _Neighbourhood:
        n, source = batch.num_vertices, batch.source.long()
        incoming = _Adjacency(batch.row_ptr, source, torch.arange(batch.num_edges))
        return cls(n, incoming, _Adjacency.of(source, batch.target.long(), n))

    def closed_walks(self, roots: Tensor, length: int, budget: int | None) -> Tensor | None:
        """Sorted keys (root number · N + vertex) of all vertices on closed walks of at most `length` through a root.

        None when there are more than `budget`. A vertex of such a walk is within half its length of the root in one
        direction; so balls of that radius hold all of them, and the longer distances are found inside these balls.
        """
        if budget is not None and len(roots) > budget:
            return None
        start = torch.arange(len(roots)) * self.num_vertices + roots
        balls = []
        for adjacency in (self.outgoing, self.incoming):
            ball = self._distances(adjacency, start, length // 2, None, budget)
            if ball is None:
                return None
            balls.append(ball[0])
        union = torch.unique(torch.cat(balls))
        total = torch.zeros(len(union), dtype=torch.long)
        for adjacency in (self.outgoing, self.incoming):
            found = self._distances(adjacency, start, length, union, None)
            assert found is not None  # only a budget can end the search early
            distance = torch.full((len(union),), length + 1)
            distance[torch.searchsorted(union, found[0])] = found[1]
            total += distance
        near: Tensor = union[total <= length]
        return near

    def _distances(
        self, adjacency: _Adjacency, start: Tensor, radius: int, within: Tensor | None, budget: int | None
    ) -> tuple[Tensor, Tensor] | None:
        """Breadth-first search from all roots at once: keys reached and their distances."""
        seen, distance, frontier = start, torch.zeros(len(start), dtype=torch.long), start
        for step in range(1, radius + 1):
            owner, slot = adjacency.rows(frontier % self.num_vertices)
            if budget is not None and len(slot) > 16 * budget:
                return None
            root_part = frontier - frontier % self.num_vertices
            reached = torch.unique(root_part[owner] + adjacency.neighbour[slot])
            if within is not None:
                reached = reached[_contains(within, reached)]
            order = seen.argsort()
            frontier = reached[~_contains(seen[order], reached)]
            if not len(frontier):
                break
            seen = torch.cat([seen, frontier])
            distance = torch.cat([distance, torch.full((len(frontier),), step)])
            if budget is not None and len(seen) > budget:
                return None
        return seen, distance

    def ancestors(self, roots: Tensor, steps: int) -> Tensor:
        """[N] True for all vertices from which a root is reached in at most `steps` steps."""
        reached = torch.zeros(self.num_vertices, dtype=torch.bool)
        reached[roots] = True
        frontier = torch.unique(roots)
        for _ in range(steps):
            _, slot = self.incoming.rows(frontier)
            frontier = torch.unique(self.incoming.neighbour[slot])
            frontier = frontier[~reached[frontier]]
            if not len(frontier):
                break
            reached[frontier] = True
        return reached


def _contains(ordered: Tensor, keys: Tensor) -> Tensor:
    place = torch.searchsorted(ordered, keys)
    place.clamp_(max=max(len(ordered) - 1, 0))
    return ordered[place] == keys if len(ordered) else torch.zeros(len(keys), dtype=torch.bool)


def _extend(
    batch: Batch, whole: _Neighbourhood, roots: Tensor, hidden: Tensor, pairs: Tensor, num_levels: int
) -> tuple[Batch, Tensor]:
    n = batch.num_vertices
    # Shared part: only what some root can hear at all.
    kept = whole.ancestors(roots, num_levels - 1)
    new_number = kept.cumsum(0) - 1
    num_kept = int(kept.sum())
    sender, receiver = batch.source.long(), batch.target.long()
    shared = (kept[sender] & kept[receiver]).nonzero().squeeze(1)

    # Private part: every incoming edge of a copied vertex, from a copy of the same root where there is one.
    copied = pairs % n
    owner, edge = whole.incoming.rows(copied)
    key = (pairs - copied)[owner] + sender[edge]
    place = torch.searchsorted(pairs, key).clamp_(max=max(len(pairs) - 1, 0))
    private = pairs[place] == key
    source = torch.where(private, num_kept + place, new_number[sender[edge]])
    # A sender that no root hears in time feeds only a copy that does not matter any more: leave the edge out.
    useful = private | kept[sender[edge]]

    size = num_kept + len(pairs)
    copy_of_root = num_kept + torch.searchsorted(pairs, torch.arange(len(roots)) * n + roots)
    all_hidden = torch.zeros(size, batch.x.shape[1], dtype=torch.bool)
    all_hidden[copy_of_root] = hidden
    # Both parts are sorted by receiver already, and copies come after all shared vertices.
    in_degree = torch.bincount(torch.cat([new_number[receiver[shared]], (num_kept + owner)[useful]]), minlength=size)
    edges = torch.cat([shared, edge[useful]])
    extended = Batch(
        x=torch.cat([batch.x[kept], batch.x[copied]]),
        source=torch.cat([new_number[sender[shared]], source[useful]]).int(),
        row_ptr=torch.cat([in_degree.new_zeros(1), in_degree.cumsum(0)]),
        max_in_degree=int(in_degree.max()) if size else 0,
        vertex_ptr=torch.tensor([0, size]),
        graph_ids=torch.zeros(1, dtype=torch.long),
        edge_type=None if batch.edge_type is None else batch.edge_type[edges],
        hidden=all_hidden,
    )
    return extended, copy_of_root
