"""Small random graphs for suites: cycles, parallel edges, self-loops, vertices that nobody speaks to, gaps, a hub."""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import Data

from gspn.attributes import Binary, Categorical, Continuous, Count, Schema

SCHEMA = Schema([Continuous("charge"), Categorical("element", ["C", "N", "O"]), Binary("aromatic"), Count("hydrogens")])


def draw_graph(rng: np.random.Generator, vertices: int, edge_types: int = 1, missing: float = 0.2) -> Data:
    """Over `SCHEMA`: a ring with chords, a parallel edge, a self-loop; the last vertex has no incoming edge."""
    kind = rng.random(vertices) < 0.5
    columns = [
        rng.normal(np.where(kind, 2.0, -1.0), 0.7),
        np.where(rng.random(vertices) < 0.7, kind, 2),
        rng.random(vertices) < np.where(kind, 0.9, 0.2),
        rng.poisson(np.where(kind, 4.0, 1.0)),
    ]
    x = np.stack(columns, axis=1).astype(np.float64)
    x[rng.random(x.shape) < missing] = np.nan
    ring = [(v, (v + 1) % max(1, vertices - 1)) for v in range(vertices - 1)]
    edges = ring + [(v, u) for u, v in ring] + [(vertices - 1, 0)]
    if vertices > 2:
        edges += [edges[0], (1, 1)]
    edges = [edges[i] for i in rng.permutation(len(edges))] if vertices > 1 else []
    index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
    data = Data(x=torch.from_numpy(x), edge_index=index)
    if edge_types > 1:
        data.edge_type = torch.from_numpy(rng.integers(edge_types, size=len(edges)))
    return data


def draw_graphs(count: int, seed: int, *, vertices: int = 5, edge_types: int = 1, missing: float = 0.2) -> list[Data]:
    """Graphs of up to that many vertices, from one on."""
    rng = np.random.default_rng(seed)
    return [draw_graph(rng, int(rng.integers(1, vertices + 1)), edge_types, missing) for _ in range(count)]


def hub(in_degree: int, seed: int = 0, edge_types: int = 1) -> Data:
    """A vertex that receives from many, some of which receive from it."""
    rng = np.random.default_rng(seed)
    data = draw_graph(rng, in_degree + 1, edge_types)
    edges = [(u, 0) for u in range(1, in_degree + 1)] + [(0, u) for u in range(1, in_degree + 1, 3)]
    data.edge_index = torch.tensor(edges, dtype=torch.long).T
    if edge_types > 1:
        data.edge_type = torch.from_numpy(rng.integers(edge_types, size=len(edges)))
    return data


def permuted(data: Data, order: torch.Tensor) -> Data:
    """The graph with vertex order[i] in the place i."""
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order))
    moved = data.clone()
    moved.x, moved.edge_index = data.x[order], place[data.edge_index]
    return moved
