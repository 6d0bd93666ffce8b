"""ECC: convolutions whose weights a small network computes from the edge's type."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.functional import one_hot
from torch_geometric.nn import NNConv

from gspn.arguments import check_integer, check_real
from gspn.baselines.networks import Inputs, Module, Shape, normalised, pool


@dataclass(frozen=True)
class ECC:
    """Edge-conditioned convolutions, averaged over neighbours, and a mean over vertices.

    Proposed with stochastic gradient descent and a pooling by graph coarsening; here it has Adam, as all others, and
    one pooling at the end.
    """

    hidden: int = 32
    num_layers: int = 2
    dropout: float = 0.05
    num_edge_types: int = 1

    def __post_init__(self) -> None:
        for name in ("hidden", "num_layers", "num_edge_types"):
            check_integer(name, getattr(self, name), 1)
        check_real("dropout", self.dropout, 0.0, 1.0)

    def build(self, shape: Shape) -> Module:
        return _ECC(self, shape)


class _ECC(Module):
    def __init__(self, settings: ECC, shape: Shape) -> None:
        super().__init__()
        width = settings.hidden
        columns = [shape.columns] + [width] * (settings.num_layers - 1)
        self.num_edge_types = settings.num_edge_types
        self.convolutions = nn.ModuleList(NNConv(n, width, self._filter(n * width), aggr="mean") for n in columns)
        self.norms = nn.ModuleList(normalised(width) for _ in columns)
        self.dropout = nn.Dropout(settings.dropout)
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), self.dropout, nn.Linear(width, shape.outputs))

    def _filter(self, weights: int) -> nn.Module:
        return nn.Sequential(nn.Linear(self.num_edge_types, 16), nn.ReLU(), nn.Linear(16, weights))

    def forward(self, inputs: Inputs) -> Tensor:
        row = inputs.x
        if self.num_edge_types == 1 or inputs.edge_type is None:
            kinds = row.new_ones(inputs.edges.shape[1], self.num_edge_types)
        else:
            kinds = one_hot(inputs.edge_type, self.num_edge_types).to(row.dtype)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            row = self.dropout(norm(convolution(row, inputs.edges, kinds)).relu())
        outputs: Tensor = self.head(pool(row, inputs, "mean"))
        return outputs
