"""Means over neighbours: what the vertices that send to a vertex have observed, column by column."""

from __future__ import annotations

import torch
from torch import Tensor

from gspn.graphs import GraphDataset


def neighbour_means(dataset: GraphDataset, columns: Tensor) -> Tensor:
    """[N, w] means of columns [N, w] over each vertex's incoming edges; NaN where no neighbour has observed one."""
    batch = dataset.batch(torch.arange(len(dataset)))
    source, target = batch.source.long(), batch.target.long()
    known = ~columns.isnan()
    total = torch.zeros_like(columns).index_add(0, target, columns.nan_to_num(0.0)[source])
    count = torch.zeros_like(columns).index_add(0, target, known.to(columns.dtype)[source])
    return total / count
