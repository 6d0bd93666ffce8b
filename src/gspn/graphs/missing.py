"""Making entries missing, to measure how well they are filled: the paper's Gamma mask, uniform, by column.

Every mask is [ΣN, d], True where an entry is to be missing, rows as in `GraphDataset.entries`. It depends on the seed
and on each vertex's graph and number alone. What training hides from itself is drawn in `masks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from scipy.special import gammaincinv
from torch import Tensor

from gspn.errors import InputError
from gspn.graphs.dataset import GraphDataset
from gspn.random_streams import keyed_uniform


def gamma_mask(
    dataset: GraphDataset, seed: int = 0, *, concentration: float = 1.5, rate: float = 0.5, most: float = 10.0
) -> Tensor:
    """The paper's mask: per vertex g ~ Gamma(concentration, rate), p = min(g, most) / most, ⌊d·p⌋ entries missing.

    The entries are chosen uniformly. With the defaults and six attributes 1.30 are missing on average. (The paper's
    sentence leaves room; this is our reading of it.)
    """
    graph, vertex = dataset.vertex_keys()
    g = torch.from_numpy(gammaincinv(concentration, keyed_uniform(seed, graph, vertex, 0).numpy())) / rate
    columns = len(dataset.schema)
    how_many = (columns * g.clamp(max=most) / most).floor()
    order = keyed_uniform(seed, graph[:, None], vertex[:, None], 1, torch.arange(columns))
    return order.argsort(1).argsort(1) < how_many[:, None]


def uniform_mask(dataset: GraphDataset, share: float, seed: int = 0) -> Tensor:
    """Every entry missing with the same probability, independently."""
    return column_mask(dataset, dict.fromkeys(dataset.schema.names, share), seed)


def column_mask(dataset: GraphDataset, shares: Mapping[str, float], seed: int = 0) -> Tensor:
    """Entries of the named attributes missing with their own probabilities, the others never."""
    probability = torch.zeros(len(dataset.schema), dtype=torch.float64)
    for name, share in shares.items():
        if not 0 <= share <= 1:
            raise InputError(f"a share must be between 0 and 1, got {share}")
        probability[dataset.schema.index(name)] = share
    graph, vertex = dataset.vertex_keys()
    return keyed_uniform(seed, graph[:, None], vertex[:, None], torch.arange(len(probability))) < probability


def with_missing(dataset: GraphDataset, mask: Tensor) -> GraphDataset:
    """The dataset with the masked entries turned into missing ones; the original keeps the truth."""
    rows = dataset.vertex_rows()
    if mask.shape != (len(rows), dataset.x.shape[1]):
        wanted = [len(rows), dataset.x.shape[1]]
        raise InputError(f"mask has shape {list(mask.shape)}, the dataset's entries have {wanted}")
    if len(dataset.positions.unique()) < len(dataset):
        raise InputError("a graph occurs twice in the dataset, so its entries cannot be missing in one of the two only")
    x = dataset.x.clone()
    x[rows] = x[rows].masked_fill(mask, torch.nan)
    return replace(dataset, x=x)


def withholding(dataset: GraphDataset, mask: Tensor) -> GraphDataset:
    """The dataset without the masked entries, which are not missing in the data: they are kept to judge by."""
    left, rows = with_missing(dataset, mask), dataset.vertex_rows()
    withheld = torch.zeros(dataset.x.shape, dtype=torch.bool) if dataset.withheld is None else dataset.withheld.clone()
    withheld[rows] |= mask
    return replace(left, withheld=withheld)
