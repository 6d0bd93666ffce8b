"""A task that only two hops of structure can solve.

A ring in which coloured vertices alternate with blank ones. Every graph of a size has the same colours in equal numbers
and the same degrees; the label says whether coloured vertices two steps apart mostly agree (long runs of a colour) or
mostly differ (short runs). The multiset of attributes, and that of the attributes of direct neighbours of coloured
vertices, say nothing.
"""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import Data

from gspn import Categorical, Schema

SCHEMA = Schema([Categorical("colour", ["red", "green", "blank"])])
TARGET = Categorical("pairs", ["agree", "differ"])


def ring(rng: np.random.Generator, label: int) -> Data:
    half = int(rng.integers(5, 9))
    # Runs of each colour: two or three long ones, or nearly as many as there are vertices.
    runs = int(rng.integers(1, 3)) if label == 0 else int(rng.integers(half - 1, half + 1))
    lengths = [_composition(rng, half, runs) for _ in range(2)]
    colours = [c for run in range(runs) for c in (0, 1) for _ in range(lengths[c][run])]
    x = np.full(4 * half, 2.0)
    x[::2] = colours
    n = len(x)
    steps = np.stack([np.arange(n), np.roll(np.arange(n), -1)])
    shuffled = rng.permutation(n)
    edges = shuffled[np.concatenate([steps, steps[::-1]], axis=1)]
    attributes = np.empty(n)
    attributes[shuffled] = x
    return Data(
        x=torch.from_numpy(attributes)[:, None], edge_index=torch.from_numpy(edges), y=torch.tensor([float(label)])
    )


def rings(count: int, seed: int) -> list[Data]:
    """Both labels in equal numbers."""
    rng = np.random.default_rng(seed)
    return [ring(rng, i % 2) for i in range(count)]


def _composition(rng: np.random.Generator, total: int, parts: int) -> list[int]:
    """`total` as a sum of `parts` positive numbers."""
    cuts = np.sort(rng.choice(np.arange(1, total), size=parts - 1, replace=False))
    return [int(step) for step in np.diff(np.concatenate([[0], cuts, [total]]))]
