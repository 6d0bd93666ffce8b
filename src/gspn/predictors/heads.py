"""The network, many times side by side: heads of one width share every product of matrices.

A head is a vertex layer, a pooling, a graph layer and an output layer. In a stack the first dimension of all tensors is
the head. With small heads every operation of torch counts, so the one step that torch would make in several, ReLU and
the sum over each graph's vertices, is one compiled pass. When to learn and when to stop is not decided here, nor how
inputs are standardised.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from gspn.compiling import compiled, once_differentiable
from gspn.predictors.embeddings import Floats, Integers, PackedEmbeddings
from gspn.random_streams import keyed_generator

_START = 11
"""Names the stream of random numbers from which starting weights are drawn."""

_COLUMNS_AT_ONCE = 1024
"""Widest product of the vertex layer, which bounds the memory that a batch takes."""

_NUMBERS_AT_ONCE = 2_000_000
"""Entries of the vertex layer that are computed at once where nothing is learned."""

_ABOVE_ZERO = 2.0
"""Deviations by which a head begins to see all columns above 0, though they are centred."""

Weights: TypeAlias = dict[str, Tensor]

INPUTS = ("input.mean", "input.deviation")
"""What is kept with a head's weights: the units in which it takes its inputs, [columns] each."""


def split_inputs(kept: Weights) -> tuple[Tensor, Tensor, Weights]:
    """Mean and deviation of the inputs, and the weights, of what is kept of a head."""
    mean, deviation = (kept[name] for name in INPUTS)
    return mean, deviation, {name: tensor for name, tensor in kept.items() if name not in INPUTS}


def shapes(columns: int, hidden: int, outputs: int) -> dict[str, tuple[int, ...]]:
    """The weights of one head, by name."""
    return {
        "vertex.weight": (hidden, columns),
        "vertex.bias": (hidden,),
        "graph.weight": (hidden, hidden),
        "graph.bias": (hidden,),
        "output.weight": (outputs, hidden),
        "output.bias": (outputs,),
    }


def starting_weights(columns: int, hidden: int, outputs: int, seed: int, dtype: torch.dtype) -> Weights:
    """Uniform in ±1/√inputs, as torch's linear layers begin; depends on the seed and the shapes alone.

    Sums over vertices of centred columns do not grow with their number: a head would begin without seeing how large a
    graph is. So the vertex layer begins as it would for columns that are as far above 0 as posteriors usually are.
    """
    generator = keyed_generator(seed, _START)
    inputs = {"vertex": columns, "graph": hidden, "output": hidden}
    weights = {}
    for name, shape in shapes(columns, hidden, outputs).items():
        bound = 1 / math.sqrt(max(inputs[name.split(".")[0]], 1))
        draws = torch.rand(shape, generator=generator, dtype=torch.float64)
        weights[name] = ((2 * draws - 1) * bound).to(dtype)
    weights["vertex.bias"] += _ABOVE_ZERO * weights["vertex.weight"].sum(1)
    return weights


class Head(nn.Module):
    """One head. All its weights lie in a single tensor: heads are stacked, and Adam makes its step, in one operation.

    Being a parameter of its own, a head has its own learning rate, and leaves the others with nothing to be moved.
    """

    def __init__(self, weights: Weights, pooling: str) -> None:
        super().__init__()
        # In the order of `shapes`, whatever order a file has them in.
        weights = {name: weights[name] for name in shapes(0, 0, 0)}
        self.shapes = {name: tensor.shape for name, tensor in weights.items()}
        self.pooling = pooling
        self.numbers = nn.Parameter(torch.cat([tensor.detach().flatten() for tensor in weights.values()]))

    @property
    def hidden(self) -> int:
        return self.shapes["vertex.bias"][0]

    def weights(self) -> Weights:
        """A copy of the weights by name."""
        parts = self.numbers.detach().split([shape.numel() for shape in self.shapes.values()])
        return {name: part.view(shape).clone() for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}


class HeadStack:
    """Heads of one width, computed together."""

    def __init__(self, heads: Sequence[Head]) -> None:
        self.heads = heads
        self._sizes = [shape.numel() for shape in heads[0].shapes.values()]
        averages = torch.tensor([head.pooling == "mean" for head in heads])[:, None, None]
        self._averages = averages if averages.any() else None

    @property
    def columns(self) -> int:
        """Width of all heads together."""
        return len(self.heads) * self.heads[0].hidden

    def __call__(self, rows: PackedEmbeddings) -> Tensor:
        """[heads, G, O] for a batch of graphs."""
        heads, hidden = len(self.heads), self.heads[0].hidden
        # Brought to their shapes here and not by name: every view costs one operation here and one on the way back.
        vertex, vertex_bias, graph, graph_bias, output, output_bias = self._stacked().split(self._sizes, dim=1)
        z = torch.addmm(vertex_bias.reshape(-1), rows.values, vertex.reshape(self.columns, rows.width).t())
        pooled = rectified_sums(z, rows.ptr).view(-1, heads, hidden).transpose(0, 1)
        if self._averages is not None:
            pooled = pooled / torch.where(self._averages, rows.ptr.diff().clamp_min(1)[None, :, None], 1)
        active = torch.baddbmm(graph_bias.unsqueeze(1), pooled, graph.view(heads, hidden, hidden).mT).relu()
        return torch.baddbmm(output_bias.unsqueeze(1), active, output.view(heads, -1, hidden).mT)

    def _stacked(self) -> Tensor:
        """[heads, numbers]; a single head's are not copied."""
        if len(self.heads) == 1:
            return self.heads[0].numbers.unsqueeze(0)
        return torch.stack([head.numbers for head in self.heads])

    @torch.no_grad()
    def outputs(self, rows: PackedEmbeddings) -> Tensor:
        """[heads, G, O] for any number of graphs, in chunks."""
        return torch.cat([self(part) for part in rows.chunks(max(1, _NUMBERS_AT_ONCE // self.columns))], dim=1)


def stacks(heads: Iterable[Head]) -> Iterator[HeadStack]:
    """Heads in stacks of neighbours that are equally wide; not too many, or a batch would need too much memory."""
    for hidden, group in groupby(heads, lambda head: head.hidden):
        own, at_once = list(group), max(1, _COLUMNS_AT_ONCE // hidden)
        for first in range(0, len(own), at_once):
            yield HeadStack(own[first : first + at_once])


def rectified_sums(z: Tensor, ptr: Tensor) -> Tensor:
    """[G, K] the sums of max(z, 0) over the rows from ptr[g] to ptr[g + 1] of z [N, K]; 0 where there are none."""
    sums: Any = _RectifiedSums.apply
    pooled: Tensor = sums(z, ptr)
    return pooled


class _RectifiedSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, ptr: Tensor) -> Tensor:
        pooled = z.new_empty(len(ptr) - 1, z.shape[1])
        _sum(z.detach().numpy(), ptr.numpy(), pooled.numpy())
        ctx.save_for_backward(z, ptr)
        return pooled

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        z, ptr = ctx.saved_tensors
        found = torch.empty_like(z)
        _spread(z.detach().numpy(), ptr.numpy(), gradient.contiguous().numpy(), found.numpy())
        return found, None


@compiled
def _sum(z: Floats, ptr: Integers, pooled: Floats) -> None:
    zero = z.dtype.type(0)
    for g in range(len(pooled)):
        total = pooled[g]
        total[:] = zero
        for v in range(ptr[g], ptr[g + 1]):
            row = z[v]
            for k in range(len(total)):
                # Asked this way round, NaN stays NaN instead of becoming 0.
                total[k] += zero if row[k] <= zero else row[k]


@compiled
def _spread(z: Floats, ptr: Integers, gradient: Floats, found: Floats) -> None:
    zero = z.dtype.type(0)
    for g in range(len(gradient)):
        own = gradient[g]
        for v in range(ptr[g], ptr[g + 1]):
            row, new = z[v], found[v]
            for k in range(len(own)):
                new[k] = zero if row[k] <= zero else own[k]
