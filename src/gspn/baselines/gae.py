"""GAE: the graph auto-encoder. Vertices that share an edge get similar vectors, others of the same graph do not."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus
from torch_geometric.nn import InnerProductDecoder

from gspn.baselines.encoder import Encoder, Encoding
from gspn.baselines.networks import Inputs, Shape


@dataclass(frozen=True)
class GAE(Encoding):
    """An inner product tells edges from pairs without an edge, one of which is drawn for every edge."""

    def build(self, shape: Shape) -> nn.Module:
        return _GAE(self, shape)


class _GAE(nn.Module):
    def __init__(self, settings: GAE, shape: Shape) -> None:
        super().__init__()
        self.encoder = Encoder(shape.columns, settings)
        self.decoder = InnerProductDecoder()

    def forward(self, inputs: Inputs) -> Tensor:
        row: Tensor = self.encoder(inputs)
        return row

    def loss(self, inputs: Inputs) -> tuple[Tensor, int]:
        """Logistic loss of edges and non-edges: one term a pair."""
        row, others = self(inputs), non_edges(inputs)
        on_edges = self.decoder(row, inputs.edges, sigmoid=False)
        elsewhere = self.decoder(row, others, sigmoid=False)
        return softplus(-on_edges).sum() + softplus(elsewhere).sum(), len(on_edges) + len(elsewhere)


def non_edges(inputs: Inputs) -> Tensor:
    """[2, ≤ E] for every edge its sender and a random vertex of the same graph, left out where that is an edge.

    PyG's `batched_negative_sampling` goes graph by graph and draws from Python's random numbers, which no seed of
    torch's fixes.
    """
    source, graph = inputs.edges[0], inputs.graph[inputs.edges[0]]
    sizes = inputs.sizes
    place = (torch.rand(len(source), dtype=torch.float64) * sizes[graph]).long()
    drawn = (sizes.cumsum(0) - sizes)[graph] + place
    num_vertices = len(inputs.graph)
    edge = torch.isin(source * num_vertices + drawn, inputs.edges[0] * num_vertices + inputs.edges[1])
    return torch.stack([source, drawn])[:, ~edge & (source != drawn)]
