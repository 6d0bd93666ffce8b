"""How likely are the vertices: the paper's pseudo-likelihood, and the exact conditional given all other vertices."""

from __future__ import annotations

import torch
from torch import Tensor

from gspn.graphs.batch import Batch
from gspn.graphs.dataset import GraphDataset
from gspn.graphs.draws import keyed_uniform
from gspn.hierarchy.hierarchy import Hierarchy
from gspn.hierarchy.objectives import leave_one_out
from gspn.queries.chunks import chunk_size


@torch.no_grad()
def log_likelihood(hierarchy: Hierarchy, batch: Batch, vertices: Tensor) -> Tensor:
    """[len(vertices)] log P(x_v | tree below v): the paper's pseudo-likelihood."""
    likelihood: Tensor = hierarchy(batch).log_likelihood
    return likelihood[vertices.to(likelihood.device)]


@torch.no_grad()
def log_prob_hidden(hierarchy: Hierarchy, batch: Batch, vertices: Tensor, hidden: Tensor | None = None) -> Tensor:
    """[len(vertices)] log P(hidden entries of v | v's other observed entries, all other vertices).

    `hidden` [len(vertices), d] chooses the entries of each vertex, which leave the evidence in that vertex's own tree
    only; by default all of them: the vertex given the others.
    """
    pieces = list(leave_one_out(hierarchy, batch, vertices, hidden))
    return torch.cat(pieces) if pieces else hierarchy.raw_prior.new_zeros(0)


def leave_one_out_nll(hierarchy: Hierarchy, dataset: GraphDataset, max_roots: int, seed: int) -> float:
    """Mean −log P(x_v | all other vertices) over a fixed, seeded sample of at most `max_roots` vertices.

    Only vertices with something observed are drawn. NaN where there are none.
    """
    return -sampled_log_probs(hierarchy, dataset, max_roots, seed)[0].double().mean().item()


def sampled_log_probs(hierarchy: Hierarchy, dataset: GraphDataset, max_roots: int, seed: int) -> tuple[Tensor, Tensor]:
    """log P(x_v | all other vertices), and the number of v's observed entries, of a seeded sample of vertices."""
    graph, vertex = dataset.vertex_keys()
    draw = keyed_uniform(seed, graph, vertex).masked_fill(torch.isnan(dataset.entries()).all(1), torch.inf)
    drawn = draw.argsort()[:max_roots]
    drawn = drawn[draw[drawn] < 1]
    is_root = torch.zeros(len(graph), dtype=torch.bool).index_fill(0, drawn, True)
    with_roots = graph[drawn].unique()
    rows = is_root[torch.isin(graph, with_roots)]
    log_probs, observed, start = [hierarchy.raw_prior.new_zeros(0)], [torch.zeros(0, dtype=torch.long)], 0
    for batch in dataset[with_roots].chunks(chunk_size(hierarchy)) if len(with_roots) else ():
        roots = rows[start : start + batch.num_vertices].nonzero().squeeze(1)
        log_probs.append(log_prob_hidden(hierarchy, batch, roots))
        observed.append(batch.observed.sum(1)[roots])
        start += batch.num_vertices
    return torch.cat(log_probs), torch.cat(observed)
