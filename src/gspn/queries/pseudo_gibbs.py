"""Draws of whole attribute sets: sweeps over the vertices, each drawn from its conditional given all others.

A GSPN is a family of conditionals, one for each vertex, and not one joint distribution that all of them belong to. So
this is what the literature on such families calls an (ordered) pseudo-Gibbs sampler: it has a limit, which may depend
on the order of the vertices, and there is no joint whose exact sampler it would be. With one level, or where no vertex
depends on another, the conditionals are independent and every draw is exact.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from gspn.graphs.batch import Batch
from gspn.graphs.walks import independent_groups
from gspn.queries.contract import Answering

_NUMBERS_AT_ONCE = 40_000_000


@torch.no_grad()
def pseudo_gibbs(
    model: Answering, batch: Batch, redrawn: Tensor, n: int, sweeps: int, generator: torch.Generator | None = None
) -> Tensor:
    """[n, N, d] the ends of n chains of `sweeps` sweeps over the vertices that have `redrawn` [N, d] entries.

    A chain starts from draws given only what is not redrawn, independent across vertices. A vertex's redrawn entries
    are drawn jointly given its other entries and the other vertices; two vertices at once only if neither is in the
    other's tree, which is the same as one after the other, in the order of the groups. What is drawn are values: an
    entry that is missing in the batch stays a gap, where that is evidence, and an observed one stays observed.
    """
    vertices = redrawn.any(1).nonzero().squeeze(1)
    groups = independent_groups(batch, vertices, model.reach)
    size = max(1, batch.num_vertices * model.numbers_per_vertex)
    at_once = max(1, _NUMBERS_AT_ONCE // size)
    chains = []
    for first in range(0, n, at_once):
        number = min(at_once, n - first)
        many, mask = side_by_side(batch, number), redrawn.repeat(number, 1)
        many = replace(many, missing=~many.observed)
        offset = torch.arange(number)[:, None] * batch.num_vertices

        def numbered(group: Tensor, offset: Tensor = offset) -> Tensor:
            return (offset + group).flatten()

        x = _redraw(model, many, many.x, numbered(vertices), mask, generator)
        for _ in range(sweeps):
            for group in groups:
                x = _redraw(model, many, x, numbered(group), mask, generator)
        chains.append(x.reshape(number, *batch.x.shape))
    return torch.cat(chains) if chains else batch.x.new_zeros(0, *batch.x.shape)


def _redraw(
    model: Answering, batch: Batch, x: Tensor, vertices: Tensor, redrawn: Tensor, generator: torch.Generator | None
) -> Tensor:
    """The entries x [N, d] with those of the vertices that are `redrawn` [N, d] drawn anew, all unknown meanwhile."""
    x, mask = x.clone(), redrawn[vertices]
    x[vertices] = x[vertices].masked_fill(mask, torch.nan)
    x[vertices] = model.roots_after(replace(batch, x=x), vertices).draw(mask, generator)
    return x


def side_by_side(batch: Batch, times: int) -> Batch:
    """The batch repeated: the same graphs again, numbered through."""
    vertices, edges = batch.num_vertices, batch.num_edges
    place = torch.arange(times)[:, None]
    in_degree = batch.in_degree.repeat(times)
    return replace(
        batch,
        x=batch.x.repeat(times, 1),
        source=(batch.source.repeat(times).reshape(times, edges) + place * vertices).flatten().to(batch.source.dtype),
        row_ptr=torch.cat([in_degree.new_zeros(1), in_degree.cumsum(0)]),
        vertex_ptr=torch.cat(
            [batch.vertex_ptr[:1], (batch.vertex_ptr[1:].repeat(times, 1) + place * vertices).flatten()]
        ),
        graph_ids=batch.graph_ids.repeat(times),
        edge_type=None if batch.edge_type is None else batch.edge_type.repeat(times),
        hidden=None,
        y=None,
        known_out_degree=None if batch.known_out_degree is None else batch.known_out_degree.repeat(times),
        identity=None if batch.identity is None else batch.identity.repeat(times),
    )
