"""Blocks of columns of graphs, read off one fitted model: statistics of its states, pairs along edges, likelihoods.

A block knows nothing of other blocks, nor which columns are worth keeping. Everything is computed chunk by chunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gspn.baselines.attribute_columns import pool, sums
from gspn.graphs import Batch, GraphDataset
from gspn.models.checks import check_magnitudes
from gspn.models.gspn import GSPN
from gspn.queries.contract import chunk_size

_NUMBERS_AT_ONCE = 4_000_000
"""Of what embedders give, and of pairs: 32 MB."""


@dataclass(frozen=True, eq=False)
class Asked:
    """Which blocks a model is asked for."""

    pairs: int
    """levels whose pairs of states along edges are counted, at most"""
    likelihood: bool
    left_out: bool


def columns_of(model: Any, dataset: GraphDataset, asked: Asked) -> Tensor:
    """[G, F] float64 of all graphs; chunks are sized by the model."""
    read = _of_states if isinstance(model, GSPN) else _of_embeddings
    parts = list(read(model, dataset, asked))
    return torch.cat(parts) if parts else torch.zeros(0, 0, dtype=torch.float64)


def names_of(model: Any, width: int, asked: Asked) -> list[str]:
    """What the columns of a model are called; `width` is that of an embedder's rows."""
    if not isinstance(model, GSPN):
        return [f"{statistic}_{column}" for statistic in ("mean", "logsum", "sd") for column in range(width)]
    units = model.hierarchy.template.num_sum_units
    states = [
        f"level{level}{_unit(unit, units)}_state{state}"
        for level in range(model.num_layers)
        for unit in range(units)
        for state in range(model.num_states)
    ]
    names = [f"{statistic}_{state}" for statistic in ("mean", "logsum", "sd") for state in states]
    entropies = [f"level{level}{_unit(unit, units)}" for level in range(model.num_layers) for unit in range(units)]
    names += [f"{statistic}_entropy_{level}" for statistic in ("mean", "sd") for level in entropies]
    for level in paired(model.num_layers, asked.pairs):
        names += [
            f"{statistic}_level{level}{_unit(unit, units)}_state{one}_to_state{other}"
            for statistic in ("pairs", "logpairs")
            for unit in range(units)
            for one in range(model.num_states)
            for other in range(model.num_states)
        ]
    names += ["pseudo_likelihood"] if asked.likelihood else []
    return names + (["left_out_likelihood"] if asked.left_out else [])


def paired(levels: int, most: int) -> Sequence[int]:
    """So many levels, spread evenly from the lowest to the highest."""
    if most >= levels:
        return range(levels)
    return sorted({round(place) for place in torch.linspace(0, levels - 1, most).tolist()}) if most else ()


@torch.no_grad()
def _of_states(model: GSPN, dataset: GraphDataset, asked: Asked) -> Iterator[Tensor]:
    check_magnitudes(model.hierarchy, dataset)
    size = chunk_size(model.hierarchy)
    if asked.pairs:
        size = min(size, max(1, _NUMBERS_AT_ONCE // model.num_states**2))
    for batch in dataset.chunks(size):
        batch = batch.to(model.hierarchy.raw_prior.device)
        evaluation = model.hierarchy(batch)
        posteriors, on_device = evaluation.posteriors.cpu(), batch
        batch = batch.to("cpu")
        sizes = batch.vertex_ptr.diff()
        pooled = pool(posteriors.flatten(1), sizes)
        entropy = pool(-torch.xlogy(posteriors, posteriors).sum(-1).flatten(1), sizes)
        parts = [pooled.mean, pooled.log_sum, pooled.deviation, entropy.mean, entropy.deviation]
        for level in paired(model.num_layers, asked.pairs):
            parts += _pairs(posteriors[:, level], batch, sizes)
        observed = sums(batch.observed.sum(1)[:, None], sizes)
        if asked.likelihood:
            parts.append(_per_entry(evaluation.log_likelihood.cpu(), sizes, observed))
        if asked.left_out:
            every = torch.arange(batch.num_vertices, device=on_device.source.device)
            parts.append(_per_entry(model.answering.log_prob_hidden(on_device, every).cpu(), sizes, observed))
        yield torch.cat(parts, dim=1)


def _pairs(posteriors: Tensor, batch: Batch, sizes: Tensor) -> list[Tensor]:
    """Expected shares, and log(1 + number), of edges between each pair of states of posteriors [N, S, C]."""
    received = torch.zeros_like(posteriors, dtype=torch.float64)
    received.index_add_(0, batch.target.long(), posteriors.double()[batch.source.long()])
    # One outer product per vertex with what it receives: nothing has a row per edge and a column per pair.
    products = received[..., :, None] * posteriors.double()[..., None, :]
    total = sums(products.flatten(1), sizes)
    edges = sums(batch.in_degree[:, None], sizes)
    return [total / edges.clamp_min(1), total.log1p()]


def _per_entry(log_likelihood: Tensor, sizes: Tensor, observed: Tensor) -> Tensor:
    """[G, 1] nats per observed entry; 0 where nothing is observed."""
    return sums(log_likelihood[:, None], sizes) / observed.clamp_min(1)


def _of_embeddings(model: Any, dataset: GraphDataset, asked: Asked) -> Iterator[Tensor]:
    """Statistics of whatever `embed` gives; of a few graphs first, to learn how wide it is."""
    sizes, start, width = dataset.num_vertices_per_graph(), 0, 1_000
    while start < len(dataset):
        end = start + 1
        total = int(sizes[start])
        while end < len(dataset) and total + int(sizes[end]) <= _NUMBERS_AT_ONCE // width:
            total += int(sizes[end])
            end += 1
        rows = torch.cat([*model.embed(dataset[start:end])])
        width = max(1, rows.shape[1])
        pooled = pool(rows, sizes[start:end])
        yield torch.cat([pooled.mean, pooled.log_sum, pooled.deviation], dim=1)
        start = end


def _unit(unit: int, units: int) -> str:
    return "" if units == 1 else f"_unit{unit}"
