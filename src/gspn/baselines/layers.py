"""The two pieces that several of the networks are made of."""

from __future__ import annotations

from torch import Tensor, nn
from torch_geometric.nn import BatchNorm, global_add_pool, global_max_pool, global_mean_pool

from gspn.baselines.networks import Inputs

_POOLINGS = {"sum": global_add_pool, "mean": global_mean_pool, "max": global_max_pool}


def perceptron(columns: int, width: int) -> nn.Sequential:
    """Two layers, each with batch normalisation and ReLU."""
    return nn.Sequential(
        nn.Linear(columns, width), normalised(width), nn.ReLU(), nn.Linear(width, width), normalised(width), nn.ReLU()
    )


def normalised(width: int) -> nn.Module:
    """Batch normalisation; a batch of a single vertex is taken as it is."""
    norm: nn.Module = BatchNorm(width, allow_single_element=True)
    return norm


def pool(rows: Tensor, inputs: Inputs, how: str) -> Tensor:
    """[G, width] from one row per vertex; 0 for a graph without vertices."""
    pooled: Tensor = _POOLINGS[how](rows, inputs.graph, inputs.num_graphs)
    return pooled
