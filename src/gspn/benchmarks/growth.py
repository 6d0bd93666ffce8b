"""How time grows with edges on many small graphs, and what a level costs on one large graph.

Small graphs: log-likelihoods of all vertices, and gradients of their mean, of 10⁵ to 10⁷ edges; the exponent is the
slope of log seconds over log edges. Large graph: 10⁶ vertices, 10⁷ edges between random ones. A level's forward pass
(the difference between five levels and one, by four) is compared with the bare mean over incoming edges of rows of as
many numbers, by whichever is faster of the kernel's own compiled loop and torch's `embedding_bag`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from gspn import GSPN, Categorical, GraphDataset, Schema
from gspn.benchmarks.measure import medians
from gspn.graphs.pack import packed
from gspn.kernels.compiled.ranges import Range, means_of_range
from gspn.kernels.compiled.simd import WIDTH
from gspn.kernels.compiled.threads import team

EDGES = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
SMALL_VERTICES, SMALL_EDGES = 30, 64
LARGE_VERTICES, LARGE_EDGES = 1_000_000, 10_000_000
LEVELS, STATES, LABELS = 5, 20, 10
CHUNK = 40_000
THREADS = 2
REPETITIONS = 3

SCHEMA = Schema([Categorical("label", range(LABELS))])


def run() -> list[dict[str, Any]]:
    """A row for each number of edges, one with the exponents, one for the large graph."""
    threads = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        return [*_small_graphs(), _large_graph()]
    finally:
        torch.set_num_threads(threads)


def _row(what: str, edges: int, forward: float, gradient: float, mean: float = math.nan) -> dict[str, Any]:
    row = {"what": what, "edges": edges, "forward": forward, "gradient": gradient, "bare mean": mean}
    return row | {"ratio": forward / mean, "threads": THREADS}


def _small_graphs() -> list[dict[str, Any]]:
    model = _model(LEVELS)
    datasets = [_disjoint(edges // SMALL_EDGES) for edges in EDGES]
    contestants: dict[str, Callable[[], object]] = {}
    for edges, dataset in zip(EDGES, datasets, strict=True):
        contestants[f"forward {edges}"] = partial(model.log_likelihood, dataset)
        contestants[f"gradient {edges}"] = partial(_gradient, model, dataset)
    found = medians(contestants, REPETITIONS, warm_up=1)
    seconds = [[found[f"{what} {edges}"] for edges in EDGES] for what in ("forward", "gradient")]
    rows = [_row("small graphs, s", *row) for row in zip(EDGES, *seconds, strict=True)]
    return [*rows, _row("exponent", EDGES[-1], *(_exponent(EDGES, times) for times in seconds))]


def _exponent(edges: tuple[int, ...], seconds: list[float]) -> float:
    return float(np.polyfit(np.log(edges), np.log(seconds), 1)[0])


def _gradient(model: GSPN, dataset: GraphDataset) -> None:
    """Of the mean negative log-likelihood, summed over batches as training would have them."""
    model.zero_grad()
    for batch in dataset.chunks(CHUNK):
        (-model(batch).log_likelihood.sum() / len(dataset.x)).backward()


def _large_graph() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    edges = torch.from_numpy(rng.integers(LARGE_VERTICES, size=(2, LARGE_EDGES)))
    dataset = _dataset(LARGE_VERTICES, edges, torch.tensor([0, LARGE_VERTICES]), torch.tensor([0, LARGE_EDGES]))
    batch = dataset.batch(torch.arange(1))
    one, all_levels = _model(1), _model(LEVELS)
    wide = -(-STATES // WIDTH) * WIDTH
    rows, padded = torch.rand(LARGE_VERTICES, STATES), torch.rand(LARGE_VERTICES * wide)
    # Indices of 32 bits, as embedding_bag likes them best; making them is not timed.
    source, start = batch.source, batch.row_ptr[:-1].int()
    graph = batch.row_ptr.numpy(), batch.source.numpy(), np.empty(0, np.int32)
    vertices, means = Range(*graph, padded.numpy(), wide, 1), torch.empty_like(padded).numpy()

    def forward(model: GSPN) -> Tensor:
        with torch.no_grad():
            log_likelihood: Tensor = model(batch).log_likelihood
        return log_likelihood

    found = medians(
        {
            "one level": lambda: forward(one),
            "all levels": lambda: forward(all_levels),
            "compiled": lambda: means_of_range(team(), vertices, means),
            "torch": lambda: F.embedding_bag(source, rows, start, mode="mean"),
        },
        REPETITIONS,
        warm_up=1,
    )
    level = (found["all levels"] - found["one level"]) / (LEVELS - 1)
    return _row("level of a large graph, s", LARGE_EDGES, level, math.nan, min(found["compiled"], found["torch"]))


def _model(levels: int) -> GSPN:
    model = GSPN(SCHEMA, num_layers=levels, num_states=STATES)
    return model.set_parameters(model.get_parameters())  # which makes it count as fitted


def _disjoint(graphs: int) -> GraphDataset:
    rng = np.random.default_rng(0)
    edges = torch.from_numpy(rng.integers(SMALL_VERTICES, size=(2, graphs * SMALL_EDGES)))
    numbers = torch.arange(graphs + 1)
    return _dataset(graphs * SMALL_VERTICES, edges, numbers * SMALL_VERTICES, numbers * SMALL_EDGES)


def _dataset(vertices: int, edges: Tensor, vertex_ptr: Tensor, edge_ptr: Tensor) -> GraphDataset:
    labels = np.random.default_rng(1).integers(LABELS, size=(vertices, 1))
    return packed(SCHEMA, torch.from_numpy(labels).double(), edges, vertex_ptr, edge_ptr)
