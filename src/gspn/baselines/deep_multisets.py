"""Deep multisets: a layer at every vertex, their sum, a perceptron. Like `StructureAgnostic` it never sees an edge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from gspn.arguments import check_integer
from gspn.baselines.networks import Inputs, Module, Shape, pool


@dataclass(frozen=True)
class DeepMultisets:
    """The structure-agnostic baseline for graphs whose vertices have numbers for features."""

    hidden: int = 32
    num_edge_types: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_integer("hidden", self.hidden, 1)

    def build(self, shape: Shape) -> Module:
        return _DeepMultisets(self, shape)


class _DeepMultisets(Module):
    def __init__(self, settings: DeepMultisets, shape: Shape) -> None:
        super().__init__()
        width = settings.hidden
        self.vertex = nn.Sequential(nn.Linear(shape.columns, width), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, shape.outputs))

    def forward(self, inputs: Inputs) -> Tensor:
        outputs: Tensor = self.head(pool(self.vertex(inputs.x), inputs, "sum"))
        return outputs
