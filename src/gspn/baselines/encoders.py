"""Networks that learn without labels, and the encoder they share: embeddings of attributes, then graph convolutions.

GAE is the graph auto-encoder: vertices that share an edge get similar vectors, others of the same graph do not. DGI is
deep graph infomax: a graph's summary tells its vertices from those of a graph with shuffled features.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus
from torch_geometric.nn import GCNConv, InnerProductDecoder

from gspn.arguments import check_integer
from gspn.baselines.networks import Inputs, Shape, pool

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


@dataclass(frozen=True)
class DGI(Encoding):
    """Mutual information of vertices and the mean of their graph; features are shuffled over the whole batch.

    PyG's `DeepGraphInfomax` has one summary for all vertices that it is given; here every graph has its own.
    """

    def build(self, shape: Shape) -> nn.Module:
        return _DGI(self, shape)


class _DGI(nn.Module):
    def __init__(self, settings: DGI, shape: Shape) -> None:
        super().__init__()
        self.encoder = Encoder(shape.columns, settings)
        self.activation = nn.PReLU(settings.hidden)
        self.similarity = nn.Linear(settings.hidden, settings.hidden, bias=False)

    def forward(self, inputs: Inputs) -> Tensor:
        row: Tensor = self.activation(self.encoder(inputs))
        return row

    def loss(self, inputs: Inputs) -> tuple[Tensor, int]:
        """Logistic loss of true and shuffled vertices: one term each."""
        true = self(inputs)
        shuffled = self(replace(inputs, x=inputs.x[torch.randperm(len(inputs.x))]))
        direction = self.similarity(pool(true, inputs, "mean").sigmoid())[inputs.graph]
        losses = softplus(-(true * direction).sum(1)) + softplus((shuffled * direction).sum(1))
        return losses.sum(), 2 * len(true)
