"""DGI: deep graph infomax. A graph's summary tells its vertices from those of a graph with shuffled features."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from gspn.baselines.encoder import Encoder, Encoding
from gspn.baselines.networks import Inputs, Shape, pool


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
