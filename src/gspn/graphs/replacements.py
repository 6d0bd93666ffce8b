"""Many single replacements at once: one entry gets another value, and only the vertices it affects are copied.

The graph is extended by worlds. World 0 is the graph as it is; in every further world one entry of one vertex has
another value, and the world holds copies of the vertices within reach of that vertex. A copy receives messages from
its own world where that has the sender, and otherwise from world 0, where the sender is the same. One pass over the
extended graph then answers for all replacements at once.

Only the reach of a change matters here, not its effect: a vertex further away from the replacement than `reach` has
the same value in both worlds at every level, and so, with two hops, has every vertex in the middle of a path that no
change takes. Degrees are those of the whole graph wherever they count, for the reasons given in `private_copies`:
copies have all their senders, and world 0 has them up to one step before its rim.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from gspn.graphs.batch import Batch
from gspn.graphs.walks import Neighbourhood


@dataclass(frozen=True, eq=False)
class Worlds:
    """A graph extended by the worlds of some replacements."""

    batch: Batch
    first: int
    """number of the first replacement in here"""
    replacement: Tensor
    """[R] for every vertex within reach of a replacement: which one, counted from `first`"""
    vertex: Tensor
    """[R] its number in the graph that was extended"""
    after: Tensor
    """[R] the position of its copy"""
    before: Tensor
    """[R] its position in world 0"""


def replaced(
    batch: Batch, vertices: Tensor, column: int, values: Tensor, reach: int, copied: int, budget: int
) -> Iterator[Worlds]:
    """The worlds in which entry (vertices[i], column) is values[i], in order, as many at once as `budget` copies allow.

    A replacement affects the vertices that it reaches in at most `reach` steps; `copied` is the number of steps up to
    which vertices are copied, at least that. A single world may exceed the budget, as it has to be computed at once.
    """
    whole = Neighbourhood.of(batch)
    pending = [(0, len(vertices))] if len(vertices) else []
    while pending:
        start, end = pending.pop()
        balls = _balls(whole, vertices[start:end], copied, budget if end - start > 1 else None)
        if balls is None:
            half = (start + end) // 2
            pending += [(half, end), (start, half)]
        else:
            changed = vertices[start:end], values[start:end]
            yield _extend(batch, whole, start, *changed, column, *balls, reach)


def _balls(whole: Neighbourhood, vertices: Tensor, steps: int, budget: int | None) -> tuple[Tensor, Tensor] | None:
    """Keys (replacement · N + vertex), sorted, of all vertices so many steps from a replaced one, and their distances.

    None when there are more than `budget`. Replacements at the same vertex share one search.
    """
    n = whole.num_vertices
    centre, which = torch.unique(vertices, return_inverse=True)
    found = whole.within_reach(centre, steps, budget)
    if found is None:
        return None
    keys, distances = found
    sizes = torch.bincount(keys // n, minlength=len(centre))
    first, size = (sizes.cumsum(0) - sizes)[which], sizes[which]
    if budget is not None and int(size.sum()) > budget:
        return None
    replacement = torch.repeat_interleave(size)
    row = torch.arange(len(replacement)) + torch.repeat_interleave(first - (size.cumsum(0) - size), size)
    return replacement * n + keys[row] % n, distances[row]


def _extend(
    batch: Batch,
    whole: Neighbourhood,
    first: int,
    vertices: Tensor,
    values: Tensor,
    column: int,
    balls: Tensor,
    distances: Tensor,
    reach: int,
) -> Worlds:
    n = batch.num_vertices
    # World 0 needs everything within reach of the vertices that a replacement affects; that includes these themselves.
    kept = whole.ancestors(torch.unique(balls % n), reach).nonzero().squeeze(1)
    at_home = torch.full((n,), -1)
    at_home[kept] = torch.arange(len(kept))
    keys = torch.cat([kept, n + balls])
    vertex, world = keys % n, keys // n
    owner, edge = whole.edges_into(vertex)
    sender = whole.sender[edge]
    source = _place(keys, world[owner] * n + sender)
    source = torch.where(source < 0, at_home[sender], source)
    # A sender that is not even in world 0 is too far away to matter at the levels that count.
    useful = source >= 0
    in_degree = torch.bincount(owner[useful], minlength=len(keys))
    x = batch.x[vertex]
    changed = _place(keys, (1 + torch.arange(len(vertices))) * n + vertices)
    x[changed, column] = values
    hidden = torch.zeros_like(x, dtype=torch.bool)
    hidden[changed, column] = values.isnan()  # a value that becomes unknown says nothing: it is no gap in the data
    reached = (distances <= reach).nonzero().squeeze(1)
    return Worlds(
        Batch(
            x=x,
            source=source[useful].int(),
            row_ptr=torch.cat([in_degree.new_zeros(1), in_degree.cumsum(0)]),
            max_in_degree=int(in_degree.max()),
            vertex_ptr=torch.tensor([0, len(keys)]),
            graph_ids=torch.zeros(1, dtype=torch.long),
            edge_type=None if batch.edge_type is None else batch.edge_type[edge[useful]],
            hidden=hidden if bool(hidden.any()) else None,
            known_out_degree=batch.out_degree[vertex],
            identity=vertex if batch.identity is None else batch.identity[vertex],
        ),
        first,
        balls[reached] // n,
        balls[reached] % n,
        len(kept) + reached,
        at_home[balls[reached] % n],
    )


def _place(keys: Tensor, sought: Tensor) -> Tensor:
    """Where each sought key is among the sorted ones; -1 where it is not."""
    place = torch.searchsorted(keys, sought).clamp_(max=len(keys) - 1)
    return torch.where(keys[place] == sought, place, -1)
