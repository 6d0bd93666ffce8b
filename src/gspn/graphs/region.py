"""A part of a dataset that is small enough to try things on: whole graphs, or regions of a large one.

Edges are what matters, so of a graph that is too large vertices are not drawn one by one: regions grow from random
vertices along the edges, and most edges between what is kept are kept, too.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gspn.errors import InputError
from gspn.graphs.dataset import GraphDataset
from gspn.graphs.pack import packed
from gspn.random_streams import keyed_generator

_GRAPHS, _CENTRES = 8, 9
"""Name the streams of random numbers that draw graphs, and where regions begin."""

_FROM_ONE_CENTRE = 500
"""Vertices of a region, about: many small regions see more of a graph, few large ones cut fewer edges."""


def sample_region(dataset: GraphDataset, most_vertices: int, seed: int = 0) -> GraphDataset:
    """About so many vertices of the dataset at most, with the edges between them; all of it where it is no larger."""
    if most_vertices < 1:
        raise InputError(f"a region needs at least one vertex, got {most_vertices}")
    sizes = dataset.num_vertices_per_graph()
    if int(sizes.sum()) <= most_vertices:
        return dataset
    order = torch.randperm(len(dataset), generator=keyed_generator(seed, _GRAPHS))
    whole = order[sizes[order].cumsum(0) <= most_vertices]
    if len(whole):
        return dataset[whole.sort().values]
    return _of_one_graph(dataset[order[:1]], most_vertices, seed)


def _of_one_graph(dataset: GraphDataset, most: int, seed: int) -> GraphDataset:
    batch = dataset.batch(torch.tensor([0]))
    source, target = batch.source.long(), batch.target.long()
    kept = _grown(source, target, batch.num_vertices, most, seed)
    number = torch.full((batch.num_vertices,), -1)
    number[kept] = torch.arange(len(kept))
    within = (number[source] >= 0) & (number[target] >= 0)
    edges = torch.stack([number[source[within]], number[target[within]]])
    types = None if dataset.edge_type is None or batch.edge_type is None else batch.edge_type[within]
    others: dict[str, Any] = {} if types is None else {"edge_type": types, "edge_types": dataset.edge_types}
    vertex_ptr, edge_ptr = torch.tensor([0, len(kept)]), torch.tensor([0, edges.shape[1]])
    return packed(dataset.schema, batch.x[kept], edges, vertex_ptr, edge_ptr, **others)


def _grown(source: Tensor, target: Tensor, vertices: int, most: int, seed: int) -> Tensor:
    """[most] the vertices of some regions, ascending."""
    order = torch.randperm(vertices, generator=keyed_generator(seed, _CENTRES))
    centres = max(1, most // _FROM_ONE_CENTRE)
    kept, frontier = torch.zeros(vertices, dtype=torch.bool), torch.zeros(0, dtype=torch.long)
    count = next_centre = 0
    while count < most:
        if not len(frontier):  # what regions there were has been taken whole: others, twice as many
            left = order[next_centre:]
            next_centre += centres
            frontier = left[:centres][~kept[left[:centres]]]
            centres *= 2
            if not len(frontier):
                continue
        frontier = frontier[: most - count]
        kept[frontier] = True
        count += len(frontier)
        ahead = torch.zeros(vertices, dtype=torch.bool)
        ahead[frontier] = True
        reached = torch.cat([target[ahead[source]], source[ahead[target]]]).unique()
        frontier = reached[~kept[reached]]
    return kept.nonzero().squeeze(1)
