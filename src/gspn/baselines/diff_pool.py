"""DiffPool: vertices are softly assigned to learned clusters, which form a smaller graph for further convolutions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch_geometric.nn import DenseSAGEConv, SAGEConv, dense_diff_pool
from torch_geometric.utils import to_dense_adj, to_dense_batch

from gspn.arguments import check_integer, check_real
from gspn.baselines.networks import Inputs, Module, Shape, normalised, pool


@dataclass(frozen=True)
class DiffPool:
    """One pooling to `share` of the largest training graph's vertices, three convolutions before and after it.

    The link prediction loss and the entropy of the assignments are added to the loss, as proposed with the method.
    """

    hidden: int = 64
    embedding: int = 128
    share: float = 0.1
    dense: int = 50
    num_edge_types: ClassVar[int] = 1

    def __post_init__(self) -> None:
        for name in ("hidden", "embedding", "dense"):
            check_integer(name, getattr(self, name), 1)
        check_real("share", self.share, 0.0, 1.0, low_open=True)

    def build(self, shape: Shape) -> Module:
        return _DiffPool(self, shape)


class _Block(nn.Module):
    """Three convolutions side by side, normalised, on a sparse graph or on dense small ones."""

    def __init__(self, convolution: type[nn.Module], widths: list[int]) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(map(convolution, widths[:-1], widths[1:]))
        self.norms = nn.ModuleList(map(normalised, widths[1:]))

    def forward(self, row: Tensor, edges: Tensor) -> Tensor:
        rows = []
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            row = convolution(row, edges).relu()
            row = norm(row.flatten(0, -2)).view(row.shape)
            rows.append(row)
        return torch.cat(rows, dim=-1)


class _DiffPool(Module):
    def __init__(self, settings: DiffPool, shape: Shape) -> None:
        super().__init__()
        clusters = max(1, math.ceil(settings.share * int(shape.sizes.max())))
        widths = [settings.hidden, settings.hidden, settings.embedding]
        width = sum(widths)
        self.before = _Block(SAGEConv, [shape.columns, *widths])
        self.towards = _Block(SAGEConv, [shape.columns, settings.hidden, settings.hidden, clusters])
        self.assign = nn.Linear(2 * settings.hidden + clusters, clusters)
        self.after = _Block(DenseSAGEConv, [width, *widths])
        self.head = nn.Sequential(
            nn.Linear(2 * width, settings.dense), nn.ReLU(), nn.Linear(settings.dense, shape.outputs)
        )

    def forward(self, inputs: Inputs) -> Tensor:
        rows = self.before(inputs.x, inputs.edges)
        wishes = self.assign(self.towards(inputs.x, inputs.edges))
        largest = max(1, int(inputs.sizes.max()))
        dense, present = to_dense_batch(rows, inputs.graph, 0.0, largest, inputs.num_graphs)
        wishes, _ = to_dense_batch(wishes, inputs.graph, 0.0, largest, inputs.num_graphs)
        adjacency = to_dense_adj(inputs.edges, inputs.graph, None, largest, inputs.num_graphs)
        clusters, between, link, entropy = dense_diff_pool(dense, adjacency, wishes, present)
        self.penalty = link + entropy
        coarse = self.after(clusters, between).amax(1)
        outputs: Tensor = self.head(torch.cat([pool(rows, inputs, "max"), coarse], dim=1))
        return outputs
