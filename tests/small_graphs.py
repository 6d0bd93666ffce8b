"""Small generated graphs with attributes of every kind, for tests that train or save."""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import Data

from gspn import Binary, Categorical, Continuous, Count, Schema

EVERY_KIND = Schema(
    [
        Continuous("charge"),
        Categorical("element", ["C", "N", "O"]),
        Binary("aromatic"),
        Count("hydrogens"),
        Count("degree", distribution="negative_binomial"),
    ]
)


def draw_graph(
    rng: np.random.Generator, vertices: int, *, missing: float = 0.1, edge_types: int = 0, center: float = 0.0
) -> Data:
    """A ring with chords, undirected; a hidden type of each vertex shows in all its attributes and its neighbours'."""
    kind = rng.integers(2) ^ (rng.random(vertices) < 0.2)
    x = np.stack(
        [
            center + rng.normal(np.where(kind, 2.0, -2.0), 0.7),
            np.where(rng.random(vertices) < 0.7, kind, 2),
            rng.random(vertices) < np.where(kind, 0.9, 0.2),
            rng.poisson(np.where(kind, 5.0, 1.0)),
            rng.poisson(rng.gamma(2.0, np.where(kind, 1.0, 3.0))),
        ],
        axis=1,
    ).astype(np.float64)
    x[rng.random(x.shape) < missing] = np.nan
    ring = np.stack([np.arange(vertices), np.roll(np.arange(vertices), 1)])
    one_way = np.concatenate([ring, rng.integers(vertices, size=(2, 2))], axis=1)
    edges = torch.from_numpy(np.concatenate([one_way, one_way[::-1]], axis=1).astype(np.int64))
    data = Data(x=torch.from_numpy(x), edge_index=edges)
    if edge_types:
        data.edge_type = torch.from_numpy(rng.integers(edge_types, size=edges.shape[1]))
    return data


def draw_graphs(
    count: int,
    seed: int,
    *,
    sizes: tuple[int, int] = (4, 10),
    missing: float = 0.1,
    edge_types: int = 0,
    center: float = 0.0,
) -> list[Data]:
    """Graphs over `EVERY_KIND` with `sizes[0]` to `sizes[1]` vertices."""
    rng = np.random.default_rng(seed)
    return [
        draw_graph(
            rng, int(rng.integers(sizes[0], sizes[1] + 1)), missing=missing, edge_types=edge_types, center=center
        )
        for _ in range(count)
    ]


def spoil(graphs: list[Data], graph: int, vertex: int, column: int, value: float) -> list[Data]:
    """The same graphs with one other entry."""
    spoiled = [data.clone() for data in graphs]
    spoiled[graph].x[vertex, column] = value
    return spoiled
