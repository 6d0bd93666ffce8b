"""From numbers of vertices to numbers of graphs: sums, means, deviations. What is summed is the caller's business."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Pooled:
    """Statistics of [N, D] rows by graph; of a graph without vertices all are 0."""

    mean: Tensor
    """[G, D] float64"""
    log_sum: Tensor
    """[G, D] sign(s) · log(1 + |s|) of the sum s"""
    deviation: Tensor
    """[G, D]"""


def pool(rows: Tensor, sizes: Tensor) -> Pooled:
    """Statistics of the rows of graphs that have so many vertices each, one graph after another."""
    total = sums(rows, sizes)
    count = sizes.clamp_min(1)[:, None]
    mean = total / count
    # Centred before they are squared: a difference of large squares would be noise.
    apart = rows.double() - torch.repeat_interleave(mean, sizes, dim=0)
    return Pooled(mean, total.sign() * total.abs().log1p(), (sums(apart.square(), sizes) / count).sqrt())


def sums(rows: Tensor, sizes: Tensor) -> Tensor:
    """[G, D] float64 sums of rows [N, D], accumulated in double precision."""
    graph = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
    return torch.zeros(len(sizes), rows.shape[1], dtype=torch.float64).index_add_(0, graph, rows.double())
