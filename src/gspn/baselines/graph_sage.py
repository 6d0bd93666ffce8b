"""GraphSAGE: each vertex beside an aggregate of its neighbours; all layers side by side are pooled by their maximum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv

from gspn.arguments import check_choice, check_integer
from gspn.baselines.networks import Inputs, Module, Shape, pool


@dataclass(frozen=True)
class GraphSAGE:
    """`aggregation` of the neighbours: "sum", "mean" or "max" (of a projection, as in the paper that proposed it)."""

    hidden: int = 32
    num_layers: int = 3
    aggregation: str = "mean"
    num_edge_types: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_integer("hidden", self.hidden, 1)
        check_integer("num_layers", self.num_layers, 1)
        check_choice("aggregation", self.aggregation, ("sum", "mean", "max"))

    def build(self, shape: Shape) -> Module:
        return _GraphSAGE(self, shape)


class _GraphSAGE(Module):
    def __init__(self, settings: GraphSAGE, shape: Shape) -> None:
        super().__init__()
        width, how = settings.hidden, settings.aggregation
        self.convolutions = nn.ModuleList(
            SAGEConv(columns, width, aggr=how, project=how == "max")
            for columns in [shape.columns] + [width] * (settings.num_layers - 1)
        )
        self.head = nn.Sequential(
            nn.Linear(width * settings.num_layers, width), nn.ReLU(), nn.Linear(width, shape.outputs)
        )

    def forward(self, inputs: Inputs) -> Tensor:
        row, rows = inputs.x, []
        for convolution in self.convolutions:
            row = convolution(row, inputs.edges).relu()
            rows.append(row)
        outputs: Tensor = self.head(pool(torch.cat(rows, dim=1), inputs, "max"))
        return outputs
