"""How likely vertices and graphs are: on a seeded sample, per observed entry, and where they rank.

Everything leaves the vertex, or the entry, out of its own evidence; the pseudo-likelihood, in which a vertex sees its
own value through its neighbours, makes strange vertices look usual.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gspn.graphs.batch import Batch
from gspn.graphs.dataset import GraphDataset
from gspn.graphs.walks import Neighbourhood
from gspn.hierarchy.hierarchy import Hierarchy
from gspn.queries.contract import Answering, chunk_size
from gspn.random_streams import keyed_uniform

_GRAPHS, _TRIED = -1, -2
"""Name the streams of random numbers that choose graphs to be scored (vertices have their own numbers from 0 on)."""
_TRIES = 20
_CHEAP_COPIES, _CHEAP_EDGES = 1_000_000, 10_000_000
"""Private copies of vertices, and edges of these, that may be evaluated without having been asked for: some seconds."""


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


@torch.no_grad()
def score_entries(model: Answering, batch: Batch, vertices: Tensor) -> Tensor:
    """[len(vertices), d] log P(x_va | v's other observed entries, all other vertices); NaN where x_va is missing.

    Where gaps are evidence, that the entry is observed is part of what is scored; `conditional` asks for values alone.
    """
    scores = torch.full((len(vertices), batch.x.shape[1]), torch.nan, dtype=model.dtype)
    for column, observed in enumerate(batch.observed[vertices].unbind(1)):
        rows = observed.nonzero().squeeze(1)
        hidden = torch.zeros(len(rows), batch.x.shape[1], dtype=torch.bool)
        hidden[:, column] = True
        scores[rows, column] = model.log_prob_hidden(batch, vertices[rows], hidden).cpu()
    return scores


@torch.no_grad()
def posterior_entropy(model: Hierarchy, batch: Batch) -> Tensor:
    """[N, L, S] entropy of every sum unit's posterior in nats: 0 where the state is certain, at most log C."""
    posteriors = model(batch).posteriors
    return -torch.xlogy(posteriors, posteriors).sum(-1)


@torch.no_grad()
def totals(model: Answering, batch: Batch, vertices: Tensor, leave_one_out: bool = True) -> Tensor:
    """[len(vertices), 2] log-likelihood of every vertex and number of its observed entries, to be summed at will."""
    ask = model.log_prob_hidden if leave_one_out else model.log_likelihood
    log_prob = ask(batch, vertices).double().cpu()
    return torch.stack([log_prob, batch.observed.sum(1)[vertices].double()], dim=1)


def per_entry(sums: Tensor) -> Tensor:
    """Log-likelihood per observed entry from totals [..., 2]; NaN where nothing is observed."""
    return (sums[..., 0] / sums[..., 1]).masked_fill(sums[..., 1] == 0, torch.nan)


def is_cheap(dataset: GraphDataset, longest_closed_walk: int, most_vertices: int, seed: int) -> bool:
    """Whether this many vertices of a dataset can be left out one by one cheaply: tried on its largest graph.

    A vertex sees itself along closed walks of up to `longest_closed_walk` steps. Near a vertex with very many
    neighbours, leaving out one of these takes copies of all of them.
    """
    largest = int(dataset.num_edges_per_graph().argmax()) if len(dataset) else 0
    batch = dataset.batch(torch.arange(largest, largest + 1)) if len(dataset) else None
    if batch is None or not batch.num_vertices:
        return True
    most_vertices = min(most_vertices, int(dataset.num_vertices_per_graph().sum()))
    roots = keyed_uniform(seed, torch.arange(batch.num_vertices), _TRIED).argsort()[:_TRIES]
    keys = Neighbourhood.of(batch).closed_walks(roots, longest_closed_walk, _CHEAP_COPIES * len(roots) // most_vertices)
    if keys is None:
        return False
    edges = int(batch.in_degree[keys % batch.num_vertices].sum())
    return edges * most_vertices <= _CHEAP_EDGES * len(roots)


def training_scores(model: Answering, dataset: GraphDataset, most_vertices: int, seed: int) -> dict[str, list[float]]:
    """Sorted scores of a seeded sample of at most so many "vertices", and of whole "graphs" with that many in all."""
    log_prob, observed = sampled_log_probs(model, dataset, most_vertices, seed)
    sizes = dataset.num_vertices_per_graph()
    order = keyed_uniform(seed, torch.arange(len(dataset)), _GRAPHS).argsort()
    whole = order[sizes[order].cumsum(0) <= most_vertices]
    of_graphs = [
        per_entry(rows.sum(0))
        for batch in (dataset[whole].chunks(chunk_size(model)) if len(whole) else ())
        for rows in totals(model, batch, torch.arange(batch.num_vertices)).split(batch.vertex_ptr.diff().tolist())
    ]
    return {
        "vertices": _sorted(log_prob.double().cpu() / observed),
        "graphs": _sorted(torch.stack(of_graphs)) if of_graphs else [],
    }


def rank(scores: Tensor, among: Sequence[float]) -> Tensor:
    """Share of the scores `among` that are higher: near 1 for what is stranger than almost all; NaN stays NaN."""
    known = torch.tensor(among, dtype=torch.float64)
    scores = scores.double().cpu()
    share = 1 - torch.searchsorted(known, scores.nan_to_num(0.0), right=True).double() / len(known)
    return share.masked_fill(torch.isnan(scores), torch.nan)


def _sorted(scores: Tensor) -> list[float]:
    ordered: list[float] = scores[~torch.isnan(scores)].sort().values.tolist()
    return ordered
