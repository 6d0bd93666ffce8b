"""A graph with gaps and all kinds of attributes, and with values that repeat, for EM to learn from."""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import Data

import gspn

COVARIANCES = ("diagonal", "full", "shrunk", "tied", "low_rank")
SCHEMA = gspn.Schema(
    [
        gspn.Continuous("a"),
        gspn.Categorical("kind", ["x", "y", "z"]),
        gspn.Continuous("b"),
        gspn.Binary("flag"),
        gspn.Continuous("c"),
        gspn.Count("number"),
    ]
)


def graph(seed: int = 0, size: int = 120, missing: float = 0.25) -> Data:
    """Vertices whose neighbours are like them, in two groups, with gaps, isolated vertices and parallel edges."""
    rng = np.random.default_rng(seed)
    group = rng.integers(2, size=size)
    base = rng.normal(size=(size, 3)) @ np.array([[1.0, 0.5, 0.0], [0.0, 1.0, -0.6], [0.3, 0.0, 0.8]])
    numbers = base + 3 * group[:, None]
    columns = [
        numbers[:, 0],
        np.where(group, rng.integers(3, size=size), rng.integers(2, size=size)),
        5 * numbers[:, 1] - 2,
        rng.random(size) < 0.2 + 0.6 * group,
        numbers[:, 2],
        rng.poisson(np.exp(0.3 * numbers[:, 0])),
    ]
    x = np.stack(columns, axis=1).astype(float)
    x[rng.random(x.shape) < missing] = np.nan
    ends = rng.integers(size - 10, size=(2, 3 * size))
    ends = ends[:, (ends[0] != ends[1]) & ((group[ends[0]] == group[ends[1]]) | (rng.random(3 * size) < 0.2))]
    edges = torch.from_numpy(np.concatenate([ends, ends[::-1], ends[:, :5]], axis=1))
    return Data(x=torch.from_numpy(x), edge_index=edges, edge_type=torch.arange(edges.shape[1]) % 2)


ATOMS = {"a": [0.0], "c": [-20.0, 5.0]}


def with_atoms(data: Data) -> Data:
    """A third of the known entries of two attributes at atoms."""
    x, rng = data.x.clone(), np.random.default_rng(3)
    for name, values in ATOMS.items():
        column = SCHEMA.index(name)
        chosen = torch.from_numpy(rng.random(len(x)) < 0.33) & ~torch.isnan(x[:, column])
        x[chosen, column] = torch.from_numpy(rng.choice(values, size=int(chosen.sum())))
    return Data(x=x, edge_index=data.edge_index, edge_type=data.edge_type)
