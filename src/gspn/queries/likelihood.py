"""How likely vertices are given all others: on a seeded sample of a dataset."""

from __future__ import annotations

import torch
from torch import Tensor

from gspn.graphs.dataset import GraphDataset
from gspn.queries.chunks import chunk_size
from gspn.queries.contract import Answering
from gspn.random_streams import keyed_uniform


def leave_one_out_nll(model: Answering, dataset: GraphDataset, max_roots: int, seed: int) -> float:
    """Mean −log P(x_v | all other vertices) over a fixed, seeded sample of at most `max_roots` vertices.

    Only vertices with something observed are drawn. NaN where there are none.
    """
    return -sampled_log_probs(model, dataset, max_roots, seed)[0].double().mean().item()


def sampled_log_probs(model: Answering, dataset: GraphDataset, max_roots: int, seed: int) -> tuple[Tensor, Tensor]:
    """log P(x_v | all other vertices), and the number of v's observed entries, of a seeded sample of vertices."""
    graph, vertex = dataset.vertex_keys()
    draw = keyed_uniform(seed, graph, vertex).masked_fill(torch.isnan(dataset.entries()).all(1), torch.inf)
    drawn = draw.argsort()[:max_roots]
    drawn = drawn[draw[drawn] < 1]
    is_root = torch.zeros(len(graph), dtype=torch.bool).index_fill(0, drawn, True)
    with_roots = graph[drawn].unique()
    rows = is_root[torch.isin(graph, with_roots)]
    log_probs, observed, start = [torch.zeros(0, dtype=model.dtype)], [torch.zeros(0, dtype=torch.long)], 0
    for batch in dataset[with_roots].chunks(chunk_size(model)) if len(with_roots) else ():
        roots = rows[start : start + batch.num_vertices].nonzero().squeeze(1)
        log_probs.append(model.log_prob_hidden(batch, roots))
        observed.append(batch.observed.sum(1)[roots])
        start += batch.num_vertices
    return torch.cat(log_probs), torch.cat(observed)
