"""ReLU and the sum over each graph's vertices in one compiled pass: with small heads, every operation of torch counts.

Here belongs the one step of the network that torch would make in several; all others are torch's own.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gspn.compiling import compiled, once_differentiable
from gspn.predictors.embeddings import Floats, Integers


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
