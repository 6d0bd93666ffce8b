"""GIN: sums over neighbours and a perceptron a layer; every layer, and the features themselves, are read out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn
from torch.nn.functional import dropout
from torch_geometric.nn import GINConv

from gspn.arguments import check_choice, check_integer, check_real
from gspn.baselines.networks import Inputs, Module, Shape, perceptron, pool


@dataclass(frozen=True)
class GIN:
    """Graph isomorphism network: `num_layers` rounds of neighbour sums, pooled by "sum" or "mean"."""

    hidden: int = 32
    num_layers: int = 4
    pooling: str = "sum"
    dropout: float = 0.0
    num_edge_types: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_integer("hidden", self.hidden, 1)
        check_integer("num_layers", self.num_layers, 0)
        check_choice("pooling", self.pooling, ("sum", "mean"))
        check_real("dropout", self.dropout, 0.0, 1.0)

    def build(self, shape: Shape) -> Module:
        return _GIN(self, shape)


class _GIN(Module):
    def __init__(self, settings: GIN, shape: Shape) -> None:
        super().__init__()
        width, layers = settings.hidden, settings.num_layers
        self.first = perceptron(shape.columns, width)
        self.convolutions = nn.ModuleList(GINConv(perceptron(width, width), train_eps=True) for _ in range(layers))
        self.readouts = nn.ModuleList(nn.Linear(width, shape.outputs) for _ in range(layers + 1))
        self.pooling, self.dropout = settings.pooling, settings.dropout

    def forward(self, inputs: Inputs) -> Tensor:
        rows = [self.first(inputs.x)]
        for convolution in self.convolutions:
            rows.append(convolution(rows[-1], inputs.edges))
        parts = []
        for readout, row in zip(self.readouts, rows, strict=True):
            parts.append(readout(dropout(pool(row, inputs, self.pooling), self.dropout, self.training)))
        total: Tensor = sum(parts[1:], parts[0])
        return total
