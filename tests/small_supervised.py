"""Small graphs that lean to one side, labels of every kind that follow from it, and models that learn them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from gspn import Binary, Categorical, Continuous, Count, Schema, SupervisedGSPN
from gspn.attributes import Attribute

SCHEMA = Schema([Categorical("colour", ["red", "green"]), Continuous("mass")])
KIND, TOXIC, ENERGY = Categorical("kind", ["warm", "cold"]), Binary("toxic"), Continuous("energy")
RINGS, HITS = Count("rings"), Count("hits", distribution="negative_binomial")
SEVERAL = Schema([KIND, TOXIC, ENERGY, RINGS, HITS])

Labels = dict[str, NDArray[Any]]


def planted(number: int, seed: int) -> tuple[list[Data], NDArray[Any], Labels]:
    """Small rings that lean to one side, which shows in most vertices; the sides; labels of every kind that follow."""
    rng = np.random.default_rng(seed)
    sides = rng.integers(2, size=number)
    graphs = []
    for side in sides:
        n = int(rng.integers(4, 9))
        own = np.where(rng.random(n) < 0.85, side, 1 - side)
        x = np.stack([own, rng.normal(np.where(own, 1.0, -1.0), 1.0)], axis=1)
        x[rng.random(x.shape) < 0.1] = np.nan
        ring = np.stack([np.arange(n), np.roll(np.arange(n), 1)])
        edges = torch.from_numpy(np.concatenate([ring, ring[::-1]], axis=1))
        graphs.append(Data(x=torch.from_numpy(x), edge_index=edges))
    labels = {
        "kind": np.where(sides, "cold", "warm"),
        "toxic": sides.astype(bool),
        "energy": rng.normal(np.where(sides, 120.0, 100.0), 3.0),
        "rings": rng.poisson(np.where(sides, 20, 2)),
        "hits": rng.poisson(rng.gamma(4.0, np.where(sides, 6.0, 0.5))),
    }
    return graphs, sides, labels


def with_gaps(labels: Labels, share: float, seed: int = 0) -> Labels:
    rng = np.random.default_rng(seed)
    gaps = {name: v.astype(object) for name, v in labels.items()}
    for column in gaps.values():
        column[rng.random(len(column)) < share] = None
    return gaps


def make(target: Attribute | Schema = KIND, **arguments: Any) -> SupervisedGSPN:
    small: dict[str, Any] = {"num_layers": 2, "num_states": 3, "num_graph_states": 4, "batch_size": 16}
    learned = {"epochs": 10, "lr": 0.1, "seed": 1, "labels": "targets"}
    return SupervisedGSPN(SCHEMA, target, **small | learned | arguments)


GRAPHS, SIDES, LABELS = planted(60, 0)
HELD_OUT, HELD_OUT_SIDES, HELD_OUT_LABELS = planted(80, 1)
