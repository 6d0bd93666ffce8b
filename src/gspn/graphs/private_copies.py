"""Private copies: how a root is kept out of its own tree at little cost.

In a graph with cycles a vertex occurs inside its own tree and sees its own value. To hide entries of one root, and of
no other, without a pass per root, the graph is extended by private copies of the few vertices whose messages would
change: those on a closed walk through the root that is short enough to fit in the tree. Copies receive messages from
copies of the same root where there are any and from the shared vertices otherwise; the shared vertices never receive
messages from copies. One pass over the extended graph then answers for all roots at once.

Why these vertices suffice, where a level reaches s steps far (s = 1, or 2 where leaves see two hops) and the root
therefore `reach` = s (L-1): hiding root v changes vertex u at level l only if u is reached from v in at most s l steps,
and u at level l matters to the root only if v is reached from u in at most s (L-1-l) steps. Both can hold only if the
two distances add up to at most `reach`. A vertex u in the middle of two hops w → u → t needs a copy as well where w has
changed at level l-1 and t matters at level l: its distances are at most s (l-1) + 1 and s (L-1-l) + 1, in sum `reach`.

Why the degrees are those of the whole graph wherever they count: a row at a distance d < `reach` from the roots has all
its senders, for they are at most d + 1 away and thus kept, and a copy has them too. Level l ≥ 1 at t counts only if t
is at most s (L-1-l) away; it asks for the edges into t and, with two hops, for those into t's senders, which are at
most s (L-1-l) + s - 1 ≤ `reach` - 1 away. Rows at the rim, which lack senders, count at level 0 alone, which asks for
no edges. Who is whose sender, and so how many edges of u come from t, is given by `Batch.identity`: a copy t receives
messages from a shared u that has no copy, and that u from the shared t, which is the same vertex.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from gspn.graphs.batch import Batch
from gspn.graphs.walks import Neighbourhood


def with_private_copies(
    batch: Batch, roots: Tensor, hidden: Tensor, reach: int, budget: int, longest_closed_walk: int | None = None
) -> Iterator[tuple[Batch, Tensor]]:
    """The batch extended by private copies, in pieces: yields (extended batch, position of each root's copy).

    `hidden` [R, d] says what each root hides, from itself and in every inner occurrence of it, beside what the batch
    hides from everybody. The pieces follow the
    order of `roots`; each holds as many roots as keep the number of copies near `budget`. A root depends on vertices at
    most `reach` steps away, and on itself along closed walks of at most `longest_closed_walk` steps (default: `reach`).
    """
    if not len(roots):
        return
    whole, longest = Neighbourhood.of(batch), reach if longest_closed_walk is None else longest_closed_walk
    pending = [(roots, hidden)]
    while pending:
        some, hides = pending.pop()
        pairs = whole.closed_walks(some, longest, budget if len(some) > 1 else None)
        if pairs is None:
            half = len(some) // 2
            pending += [(some[half:], hides[half:]), (some[:half], hides[:half])]
        else:
            yield _extend(batch, whole, some, hides, pairs, reach)


def _extend(
    batch: Batch, whole: Neighbourhood, roots: Tensor, hidden: Tensor, pairs: Tensor, reach: int
) -> tuple[Batch, Tensor]:
    n = batch.num_vertices
    # Shared part: only vertices within reach of some root.
    kept = whole.ancestors(roots, reach)
    new_number = kept.cumsum(0) - 1
    num_kept = int(kept.sum())
    sender, receiver = batch.source.long(), batch.target.long()
    shared = (kept[sender] & kept[receiver]).nonzero().squeeze(1)

    # Private part: every incoming edge of a copied vertex, from a copy of the same root where there is one.
    copied = pairs % n
    owner, edge = whole.edges_into(copied)
    key = (pairs - copied)[owner] + sender[edge]
    place = torch.searchsorted(pairs, key).clamp_(max=max(len(pairs) - 1, 0))
    private = pairs[place] == key
    source = torch.where(private, num_kept + place, new_number[sender[edge]])
    # A copy whose senders are beyond the reach of all roots is that of a root without any reach: leave the edges out.
    useful = private | kept[sender[edge]]

    size = num_kept + len(pairs)
    copy_of_root = num_kept + torch.searchsorted(pairs, torch.arange(len(roots)) * n + roots)
    rows = torch.cat([kept.nonzero().squeeze(1), copied])
    all_hidden = torch.zeros(size, batch.x.shape[1], dtype=torch.bool) if batch.hidden is None else batch.hidden[rows]
    all_hidden[copy_of_root] |= hidden
    # Both parts are sorted by receiver already, and copies come after all shared vertices.
    in_degree = torch.bincount(torch.cat([new_number[receiver[shared]], (num_kept + owner)[useful]]), minlength=size)
    edges, out_degree = torch.cat([shared, edge[useful]]), batch.out_degree
    identity = torch.arange(n) if batch.identity is None else batch.identity
    extended = Batch(
        x=batch.x[rows],
        source=torch.cat([new_number[sender[shared]], source[useful]]).int(),
        row_ptr=torch.cat([in_degree.new_zeros(1), in_degree.cumsum(0)]),
        max_in_degree=int(in_degree.max()) if size else 0,
        vertex_ptr=torch.tensor([0, size]),
        graph_ids=torch.zeros(1, dtype=torch.long),
        edge_type=None if batch.edge_type is None else batch.edge_type[edges],
        hidden=all_hidden,
        missing=None if batch.missing is None else batch.missing[rows],
        known_out_degree=out_degree[rows],
        identity=identity[rows],
    )
    return extended, copy_of_root
