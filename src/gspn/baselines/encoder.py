"""The encoder of the networks that learn without labels: an embedding of the attributes, then graph convolutions."""

from __future__ import annotations

from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from gspn.baselines.networks import Inputs

_ATTRIBUTES = 100
"""Size of the embedding of a vertex's attributes, that of OGB's atom encoder, which the paper used."""


class Encoder(nn.Module):
    """[N, hidden] after `num_layers` convolutions.

    A linear map of indicator columns is a learned vector for every category, and adds them up over the attributes; a
    missing category is the training data's mean of its vectors.
    """

    def __init__(self, columns: int, hidden: int, num_layers: int) -> None:
        super().__init__()
        self.attributes = nn.Linear(columns, _ATTRIBUTES, bias=False)
        # As learned vectors start, whatever the number of columns.
        nn.init.xavier_uniform_(self.attributes.weight)
        widths = [_ATTRIBUTES] + [hidden] * num_layers
        self.convolutions = nn.ModuleList(map(GCNConv, widths[:-1], widths[1:]))

    def forward(self, inputs: Inputs) -> Tensor:
        row: Tensor = self.attributes(inputs.x)
        for number, convolution in enumerate(self.convolutions):
            row = convolution(row.relu() if number else row, inputs.edges)
        return row
