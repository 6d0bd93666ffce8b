"""The encoder of the networks that learn without labels: an embedding of the attributes, then graph convolutions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from gspn.arguments import check_integer
from gspn.baselines.networks import Inputs

_ATTRIBUTES = 100
"""Size of the embedding of a vertex's attributes, that of OGB's atom encoder, which the paper used."""


@dataclass(frozen=True)
class Encoding:
    """Settings of a network that consists of an encoder and a loss of its own."""

    hidden: int = 32
    num_layers: int = 2
    num_edge_types: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_integer("hidden", self.hidden, 1)
        check_integer("num_layers", self.num_layers, 1)


class Encoder(nn.Module):
    """[N, hidden] after `num_layers` convolutions.

    A linear map of indicator columns is a learned vector for every category, and adds them up over the attributes; a
    missing category is the training data's mean of its vectors.
    """

    def __init__(self, columns: int, settings: Encoding) -> None:
        super().__init__()
        self.attributes = nn.Linear(columns, _ATTRIBUTES, bias=False)
        # As learned vectors start, whatever the number of columns.
        nn.init.xavier_uniform_(self.attributes.weight)
        widths = [_ATTRIBUTES] + [settings.hidden] * settings.num_layers
        self.convolutions = nn.ModuleList(map(GCNConv, widths[:-1], widths[1:]))

    def forward(self, inputs: Inputs) -> Tensor:
        row: Tensor = self.attributes(inputs.x)
        for number, convolution in enumerate(self.convolutions):
            row = convolution(row.relu() if number else row, inputs.edges)
        return row
