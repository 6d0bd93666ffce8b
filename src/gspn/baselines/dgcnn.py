"""DGCNN: graph convolutions, the vertices sorted by the last of them, and 1-D convolutions along the sorted list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, SortAggregation

from gspn.arguments import check_integer, check_real
from gspn.baselines.networks import Inputs, Module, Shape

_FEWEST = 10
"""Vertices of a sorted list, at least: the second convolution sees five pairs."""


@dataclass(frozen=True)
class DGCNN:
    """`share` of the training graphs have no more vertices than are kept of a sorted graph."""

    hidden: int = 32
    num_layers: int = 3
    share: float = 0.6
    dense: int = 128
    dropout: float = 0.5
    num_edge_types: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_integer("hidden", self.hidden, 1)
        check_integer("num_layers", self.num_layers, 1)
        check_integer("dense", self.dense, 1)
        check_real("share", self.share, 0.0, 1.0)
        check_real("dropout", self.dropout, 0.0, 1.0)

    def build(self, shape: Shape) -> Module:
        return _DGCNN(self, shape)


class _DGCNN(Module):
    def __init__(self, settings: DGCNN, shape: Shape) -> None:
        super().__init__()
        widths = [shape.columns] + [settings.hidden] * settings.num_layers + [1]
        self.convolutions = nn.ModuleList(map(GCNConv, widths[:-1], widths[1:]))
        self.row = sum(widths[1:])
        self.kept = max(_FEWEST, int(shape.sizes.double().quantile(settings.share)))
        self.sort = SortAggregation(self.kept)
        self.along = nn.Sequential(
            nn.Conv1d(1, 16, self.row, self.row), nn.ReLU(), nn.MaxPool1d(2, 2), nn.Conv1d(16, 32, 5, 1), nn.ReLU()
        )
        self.head = nn.Sequential(
            nn.Flatten(),
            nn.Linear(32 * (self.kept // 2 - 4), settings.dense),
            nn.ReLU(),
            nn.Dropout(settings.dropout),
            nn.Linear(settings.dense, shape.outputs),
        )

    def forward(self, inputs: Inputs) -> Tensor:
        row, rows = inputs.x, []
        for convolution in self.convolutions:
            row = convolution(row, inputs.edges).tanh()
            rows.append(row)
        if len(row):
            lists = self.sort(torch.cat(rows, dim=1), inputs.graph, dim_size=inputs.num_graphs)
        else:  # PyG's sorting has no smallest number to fill up with
            lists = row.new_zeros(inputs.num_graphs, self.kept * self.row)
        outputs: Tensor = self.head(self.along(lists[:, None]))
        return outputs
