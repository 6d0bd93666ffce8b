"""Digests of single graphs and vertices: the same wherever and in whatever order they stand in a dataset.

A graph's is that of its vertices' attributes and edges, by Weisfeiler and Lehman's refinement, so it does not depend on
how vertices are numbered: the same molecule written as another SMILES has the same. Numbers count with about four
digits, so that rounding makes no difference; very seldom it does.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gspn.graphs.batch import Batch
from gspn.graphs.dataset import GraphDataset
from gspn.random_streams import keyed_uniform

_ROUNDS = 3
"""Steps along the edges that a vertex of a graph sees."""
_MISSING = -(2**40)
_DIGITS = 13
"""Bits of a number that count; for numbers below 1, so many behind the point."""
_AT_ONCE = 1_000_000


def graph_digests(dataset: GraphDataset) -> list[str]:
    """One for each graph; its targets do not count."""
    found = []
    for batch in dataset.chunks(_AT_ONCE):
        colours = _refined(batch)
        counts = batch.vertex_ptr.diff()
        graph = torch.repeat_interleave(torch.arange(len(counts)), counts)
        found.append(_hashed(torch.zeros_like(counts).index_add_(0, graph, colours), counts))
    return _written(torch.cat(found)) if found else []


def vertex_digests(dataset: GraphDataset) -> list[str]:
    """One for each vertex, of its name and its own attributes; without names, of its surroundings, too."""
    named = dataset.vertex_names is not None
    parts = [_own(batch.x) if named else _refined(batch) for batch in dataset.chunks(_AT_ONCE)]
    colours = torch.cat(parts) if parts else torch.zeros(0, dtype=torch.long)
    if dataset.vertex_names is not None:
        names = dataset.vertex_names[dataset.vertex_rows().numpy()]
        colours = _hashed(colours, torch.from_numpy(_of_text([str(name) for name in names])))
    return _written(colours)


def _refined(batch: Batch) -> Tensor:
    colours = _own(batch.x)
    source, target = batch.source.long(), batch.target.long()
    types = torch.zeros_like(source) if batch.edge_type is None else batch.edge_type
    for _ in range(_ROUNDS):
        # Sums of whole numbers that wrap around do not depend on their order.
        told = torch.zeros_like(colours).index_add_(0, target, _hashed(colours[source], types))
        colours = _hashed(colours, told)
    return colours


def _own(x: Tensor) -> Tensor:
    """[n] digests of rows of entries."""
    values = x.double().nan_to_num(0.0).numpy()
    _, exponent = np.frexp(values)
    step = np.exp2(np.maximum(exponent, 0) - _DIGITS)
    codes = torch.from_numpy(np.round(values / step).astype(np.int64) * 4_096 + np.maximum(exponent, 0))
    codes = torch.where(x.isnan(), _MISSING, codes)
    colours = torch.zeros(len(x), dtype=torch.long)
    for column in codes.unbind(1):
        colours = _hashed(colours, column)
    return colours


def _hashed(*keys: Tensor) -> Tensor:
    """[n] whole numbers below 2⁵³, one for each combination of keys."""
    return (keyed_uniform(*keys) * 2.0**53).long()


def _of_text(names: list[str]) -> NDArray[np.int64]:
    from hashlib import blake2b

    digests = [int.from_bytes(blake2b(name.encode(), digest_size=6).digest(), "big") for name in names]
    return np.array(digests, dtype=np.int64)


def _written(colours: Tensor) -> list[str]:
    return [f"{value:014x}" for value in colours.tolist()]
