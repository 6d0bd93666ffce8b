"""The network, many times side by side: heads of one width share every product of matrices.

A head is a vertex layer, a pooling, a graph layer and an output layer. A stack holds heads of one width; the first
dimension of all its tensors is the head. Forward and backward are written out, because the embeddings need no gradient
and are most of what there is to move. When to learn and when to stop is not decided here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from gspn.attributes import FloatArray
from gspn.predictors.embeddings import PackedEmbeddings
from gspn.predictors.loops import Integers, adam, rectify_and_pool, unpool
from gspn.predictors.outputs import Outputs
from gspn.random_streams import keyed_generator

_START = 11
"""Names the stream of random numbers from which starting weights are drawn."""

_NUMBERS_AT_ONCE = 2_000_000
"""Entries of the vertex layer that are computed at once where nothing is learned."""

_WEIGHTS, _GRADIENTS, _FIRST, _SECOND = range(4)
"""The rows of a stack's state: what is learned, its gradient and Adam's two moments."""

Weights: TypeAlias = dict[str, Tensor]


def shapes(columns: int, hidden: int, outputs: int) -> dict[str, tuple[int, ...]]:
    """The tensors of one head, by name."""
    return {
        "vertex.weight": (hidden, columns),
        "vertex.bias": (hidden,),
        "graph.weight": (hidden, hidden),
        "graph.bias": (hidden,),
        "output.weight": (outputs, hidden),
        "output.bias": (outputs,),
    }


def starting_weights(columns: int, hidden: int, outputs: int, seed: int, dtype: torch.dtype) -> Weights:
    """Uniform in ±1/√inputs, as torch's linear layers begin; depends on the seed and the shapes alone."""
    generator = keyed_generator(seed, _START)
    inputs = {"vertex": columns, "graph": hidden, "output": hidden}
    weights = {}
    for name, shape in shapes(columns, hidden, outputs).items():
        bound = 1 / math.sqrt(max(inputs[name.split(".")[0]], 1))
        draws = torch.rand(shape, generator=generator, dtype=torch.float64)
        weights[name] = ((2 * draws - 1) * bound).to(dtype)
    return weights


@dataclass(frozen=True)
class Head:
    """One head at rest: its weights, and what its training would go on from."""

    weights: Weights
    pooling: str
    lr: float = 0.0
    weight_decay: float = 0.0
    moments: tuple[Weights, Weights] | None = None
    """Adam's; None before the first step."""
    step: int = 0


class HeadStack:
    """Heads of one width at work, all after the same number of steps."""

    def __init__(self, heads: Sequence[Head]) -> None:
        self._heads, self._step = heads, heads[0].step
        self._lr = np.array([head.lr for head in heads])
        self._weight_decay = np.array([head.weight_decay for head in heads])
        weights = _side_by_side([head.weights for head in heads])
        self._state = torch.zeros(4, len(weights), dtype=weights.dtype)
        self._state[_WEIGHTS] = weights
        for kind in (_FIRST, _SECOND):
            if self._step:
                self._state[kind] = _side_by_side([head.moments[kind - _FIRST] for head in heads if head.moments])
        self._tensors = [self._views(row) for row in self._state]
        self._ends = np.cumsum([tensor.numel() for tensor in self._tensors[_WEIGHTS].values()])
        self._means = np.repeat([head.pooling == "mean" for head in heads], len(heads[0].weights["vertex.bias"]))
        self._space = self._state.new_empty(0)
        # The vertex layers of all heads as one layer, and its gradients.
        (self._vertex, self._vertex_bias), (self._vertex_gradient, self._vertex_bias_gradient) = (
            (self._tensors[kind]["vertex.weight"].flatten(0, 1), self._tensors[kind]["vertex.bias"].view(-1).numpy())
            for kind in (_WEIGHTS, _GRADIENTS)
        )

    def _views(self, row: Tensor) -> Weights:
        """The tensors [heads, …] that lie one behind the other in a row of the state."""
        shapes = {name: tensor.shape for name, tensor in self._heads[0].weights.items()}
        parts = row.split([len(self) * shape.numel() for shape in shapes.values()])
        return {name: part.view(-1, *shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}

    def __len__(self) -> int:
        return len(self._heads)

    @property
    def columns(self) -> int:
        """Width of all heads together."""
        return len(self._means)

    def heads(self) -> list[Head]:
        """The heads as they are now, to be stacked anew."""
        return [
            replace(
                head, weights=self.weights(i), moments=(self._copy(_FIRST, i), self._copy(_SECOND, i)), step=self._step
            )
            for i, head in enumerate(self._heads)
        ]

    def weights(self, head: int) -> Weights:
        """A copy of one head's weights."""
        return self._copy(_WEIGHTS, head)

    def _copy(self, kind: int, head: int) -> Weights:
        return {name: tensor[head].clone() for name, tensor in self._tensors[kind].items()}

    def outputs(self, rows: PackedEmbeddings) -> Tensor:
        """[heads, G, O] for all graphs, in chunks."""
        found = []
        for start, end in rows.chunks(max(1, _NUMBERS_AT_ONCE // self.columns)):
            first, last = int(rows.ptr[start]), int(rows.ptr[end])
            ptr = rows.ptr[start : end + 1] - first
            _, pooled = self._pool(rows.values[first:last], ptr.numpy())
            found.append(self._read(pooled)[1])
        return torch.cat(found, dim=1)

    def learn(self, x: Tensor, ptr: Integers, labels: FloatArray, outputs: Outputs, entries: int) -> FloatArray:
        """One step of Adam on the mean loss over the batch's labelled entries; [heads] their sum before the step.

        The batch is vertices x [N, D], graph g those from ptr[g] to ptr[g + 1], labels [G, T] of which `entries` are
        not missing.
        """
        weights, gradients = self._tensors[_WEIGHTS], self._tensors[_GRADIENTS]
        z, pooled = self._pool(x, ptr)
        active, found = self._read(pooled)
        losses = outputs.losses(found.numpy(), labels, found.numpy(), 1 / entries)
        # From here on `found`, `pooled` and `z` hold gradients in what they were.
        torch.bmm(found.mT, active, out=gradients["output.weight"])
        torch.sum(found, 1, out=gradients["output.bias"])
        inner = torch.bmm(found, weights["output.weight"]).mul_(active > 0)
        torch.bmm(inner.mT, self._by_head(pooled), out=gradients["graph.weight"])
        torch.sum(inner, 1, out=gradients["graph.bias"])
        self._by_head(pooled).copy_(torch.bmm(inner, weights["graph.weight"]))
        unpool(z.numpy(), self._vertex_bias, ptr, self._means, pooled.numpy(), self._vertex_bias_gradient)
        torch.mm(z.t(), x, out=self._vertex_gradient)
        self._step += 1
        flat, gradient, first, second = self._state.numpy()
        adam(flat, gradient, first, second, self._ends, self._lr, self._weight_decay, self._step)
        return losses

    def _pool(self, x: Tensor, ptr: Integers) -> tuple[Tensor, Tensor]:
        """The vertex layer before its bias [N, heads · hidden], and pooled [G, heads · hidden]."""
        z = torch.mm(x, self._vertex.t(), out=self._room(len(x)))
        pooled = x.new_empty(len(ptr) - 1, z.shape[1])
        rectify_and_pool(z.numpy(), self._vertex_bias, ptr, self._means, pooled.numpy())
        return z, pooled

    def _read(self, pooled: Tensor) -> tuple[Tensor, Tensor]:
        """The graph layer [heads, G, hidden] and the outputs [heads, G, O]."""
        weights = self._tensors[_WEIGHTS]
        graph_bias, output_bias = weights["graph.bias"].unsqueeze(1), weights["output.bias"].unsqueeze(1)
        active = torch.baddbmm(graph_bias, self._by_head(pooled), weights["graph.weight"].mT).relu_()
        return active, torch.baddbmm(output_bias, active, weights["output.weight"].mT)

    def _by_head(self, pooled: Tensor) -> Tensor:
        return pooled.view(len(pooled), len(self), -1).transpose(0, 1)

    def _room(self, vertices: int) -> Tensor:
        """Space for the vertex layer, kept from batch to batch: fresh memory of this size is slow to touch."""
        numbers = vertices * self.columns
        if numbers > len(self._space):
            self._space = self._state.new_empty(numbers + numbers // 4)
        return self._space[:numbers].view(vertices, -1) if vertices else self._space.new_empty(0, self.columns)


def _side_by_side(heads: Sequence[Weights]) -> Tensor:
    """All heads' first tensors, then all their second ones, and so on, as one row."""
    return torch.cat([head[name].flatten() for name in heads[0] for head in heads])
