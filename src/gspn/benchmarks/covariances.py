"""Correlated leaves: a gradient step with each structure of covariances beside the diagonal one, and EM.

On random vertices with gaps and random edges; rounds alternate between the structures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch_geometric.data import Data

from gspn import GSPN, Continuous, Schema
from gspn.benchmarks.measure import medians

VERTICES, COLUMNS, GAPS, STATES, LEVELS = 10_000, 10, 0.2, 20, 2
ROUNDS = 7
STRUCTURES = ("diagonal", "tied", "full", "shrunk", "low_rank")
EM_VERTICES, EM_STATES, EM_CONTEXTS = 2_000, 8, (None, "neighbours", "two_hops")


def run() -> list[dict[str, Any]]:
    """One row a structure: milliseconds of a step and its ratio to the diagonal one; then seconds of EM."""
    graph, schema = _graph(VERTICES)
    steps = {structure: _step(graph, schema, structure) for structure in STRUCTURES}
    found = medians(steps, ROUNDS, warm_up=1)
    size = {"vertices": VERTICES, "columns": COLUMNS, "states": STATES, "threads": torch.get_num_threads()}
    rows = [
        {"measure": "gradient step", "covariance": one, "ms": 1e3 * seconds, "of diagonal": seconds / found["diagonal"]}
        | size
        for one, seconds in found.items()
    ]
    small, _ = _graph(EM_VERTICES)
    for context in EM_CONTEXTS:
        seconds = medians({"em": _em(small, schema, context)}, 3, warm_up=1)["em"]
        rows.append(
            {"measure": f"EM, context {context}", "covariance": "shrunk", "ms": 1e3 * seconds, "of diagonal": None}
            | size
            | {"vertices": EM_VERTICES, "states": EM_STATES}
        )
    return rows


def _graph(vertices: int) -> tuple[Data, Schema]:
    generator = torch.Generator().manual_seed(0)
    mixed = torch.randn(COLUMNS, COLUMNS, generator=generator, dtype=torch.float64) / 2
    centres = 3 * torch.randn(6, COLUMNS, generator=generator, dtype=torch.float64)
    group = torch.randint(6, (vertices,), generator=generator)
    x = centres[group] + torch.randn(vertices, COLUMNS, generator=generator, dtype=torch.float64) @ mixed
    x[torch.rand(x.shape, generator=generator) < GAPS] = torch.nan
    one_way = torch.randint(vertices, (2, 2 * vertices), generator=generator)
    one_way = one_way[:, one_way[0] != one_way[1]]
    schema = Schema([Continuous(f"column {number}") for number in range(COLUMNS)])
    return Data(x=x, edge_index=torch.cat([one_way, one_way.flip(0)], dim=1)), schema


def _step(graph: Data, schema: Schema, structure: str) -> Callable[[], object]:
    model = GSPN(schema, num_layers=LEVELS, num_states=STATES, covariance=structure)
    model.fit(graph, epochs=0, progress=False, keep_scores=False)
    batch, optimizer = model.collate(graph), torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)

    def step() -> None:
        optimizer.zero_grad()
        (-model(batch).log_likelihood.mean()).backward()
        optimizer.step()

    return step


def _em(graph: Data, schema: Schema, context: str | None) -> Callable[[], object]:
    settings: dict[str, Any] = {"num_layers": 2, "num_states": EM_STATES, "covariance": "shrunk", "context": context}
    model = GSPN(schema, start="em", epochs=0, prior=1.0, **settings)
    return lambda: model.fit(graph, progress=False, keep_scores=False)
