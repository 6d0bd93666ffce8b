"""Embeddings as people have them, one [N, D] matrix a graph, as one matrix over the vertices of all graphs.

Here belongs what is refused (other shapes, other widths, infinite numbers), in which precision the rest is kept, and
how columns are standardised. Labels are read by `gspn.targets`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gspn.columns import shorten, tensor_to_array
from gspn.compiling import compiled
from gspn.errors import InputError

Floats: TypeAlias = NDArray[Any]

Integers: TypeAlias = NDArray[np.int64]

Embeddings: TypeAlias = Sequence[Tensor] | Sequence[NDArray[Any]]


class Space:
    """Memory that is used again and again: fresh memory of a batch's size is slow to touch."""

    def __init__(self) -> None:
        self._kept: Tensor | None = None

    def rows(self, number: int, like: Tensor) -> Tensor:
        """So many rows, as wide and precise as those of `like`, with anything in them."""
        if self._kept is None or len(self._kept) < number:
            self._kept = like.new_empty(number + number // 4, like.shape[1])
        return self._kept[:number]


@dataclass(frozen=True)
class PackedEmbeddings:
    """The vertices of all graphs, one below the other; graph g has the rows from ptr[g] to ptr[g + 1]."""

    values: Tensor
    """[ΣN, D], float32 or float64."""
    ptr: Tensor
    """[G + 1]"""

    def __len__(self) -> int:
        return len(self.ptr) - 1

    @property
    def width(self) -> int:
        return self.values.shape[1]

    def batch(self, graph_ids: Tensor, space: Space | None = None) -> PackedEmbeddings:
        """The chosen graphs, copied by compiled code: with small heads, every operation of torch counts.

        In a `space`, a batch stands where the one before stood.
        """
        chosen, ptr = graph_ids.numpy(), self.ptr.numpy()
        own_ptr = np.empty(len(chosen) + 1, dtype=np.int64)
        vertices = _measure(chosen, ptr, own_ptr)
        own_values = (space or Space()).rows(vertices, self.values)
        _copy(chosen, ptr, self.values.numpy(), own_values.numpy())
        return PackedEmbeddings(own_values, torch.from_numpy(own_ptr))

    def chunks(self, vertices: int) -> Iterator[PackedEmbeddings]:
        """Consecutive graphs that together have at most so many vertices (or are one graph)."""
        ptr, start = self.ptr.numpy(), 0
        while start < len(self):
            end = int(np.searchsorted(ptr, ptr[start] + vertices, side="right")) - 1
            end = min(max(end, start + 1), len(self))
            yield PackedEmbeddings(self.values[ptr[start] : ptr[end]], self.ptr[start : end + 1] - self.ptr[start])
            start = end

    def units(self) -> tuple[Tensor, Tensor]:
        """[D] mean and deviation of every column; a column whose values differ by rounding only has deviation 1."""
        if not len(self.values):
            return self.values.new_zeros(self.width), self.values.new_ones(self.width)
        # In one pass, which torch adds up in double precision.
        deviation, mean = torch.std_mean(self.values, dim=0, correction=0)
        rounding = torch.finfo(deviation.dtype).eps * mean.abs()
        return mean, deviation.where(deviation.isfinite() & (deviation > rounding), 1.0)

    def standardise(self, mean: Tensor, deviation: Tensor) -> None:
        """Bring the values to these units, in place: they are a copy, and may be most of what is in memory."""
        self.values.sub_(mean).div_(deviation)


def read_embeddings(
    embeddings: Any, *, width: int | None = None, dtype: torch.dtype | None = None, name: str = "embeddings"
) -> PackedEmbeddings:
    """All graphs' embeddings as one matrix.

    float64 if there is any float64 among them, else float32 (also for integers and half precision), unless `dtype` says
    otherwise. `width` is the number of columns that they must have.
    """
    arrays = [_array(graph, number, name) for number, graph in enumerate(_sequence(embeddings, name))]
    if not arrays:
        raise InputError(f"{name} is empty: give one [N, D] matrix a graph, as embed does for a list of graphs")
    columns = arrays[0].shape[1] if width is None else width
    for number, array in enumerate(arrays):
        if array.shape[1] != columns:
            wanted = f"graph 0 has {columns}" if width is None else f"{columns} were learned from"
            raise InputError(f"{name}, graph {number}: {array.shape[1]} columns, but {wanted}")
    if dtype is None:
        double = any(array.dtype.kind == "f" and array.dtype.itemsize > 4 for array in arrays)
        dtype = torch.float64 if double else torch.float32
    kind = np.float64 if dtype == torch.float64 else np.float32
    with np.errstate(over="ignore"):  # what is too large for single precision is refused below, as infinite
        values = np.concatenate(arrays, dtype=kind, casting="unsafe")
    ptr = np.zeros(len(arrays) + 1, dtype=np.int64)
    np.cumsum([len(array) for array in arrays], out=ptr[1:])
    rows = PackedEmbeddings(torch.from_numpy(values), torch.from_numpy(ptr))
    _refuse_non_finite(rows, name)
    return rows


def _sequence(embeddings: Any, name: str) -> Any:
    if isinstance(embeddings, str | bytes | Mapping) or not hasattr(embeddings, "__len__"):
        raise InputError(f"{name} must be a list with one [N, D] matrix a graph, got {shorten(embeddings)}")
    return embeddings


def _array(graph: Any, number: int, name: str) -> NDArray[Any]:
    try:
        if isinstance(graph, Tensor):
            # Before numpy sees it: bfloat16 and its like have no numpy type, and must not look like float64 after.
            graph = tensor_to_array(graph.float() if graph.is_floating_point() and graph.itemsize < 4 else graph)
        array = np.asarray(graph)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name}, graph {number}: no matrix of numbers ({error})") from error
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name}, graph {number}: no matrix of real numbers, but of {array.dtype}")
    if array.ndim != 2:
        hint = "; a single graph goes into a list" if array.ndim == 1 else ""
        raise InputError(f"{name}, graph {number}: expected a matrix [N, D], got shape {list(array.shape)}{hint}")
    return array


def _refuse_non_finite(rows: PackedEmbeddings, name: str) -> None:
    # A sum is one pass without a copy, and no number among the terms makes it no number.
    if bool(torch.isfinite(rows.values.sum())):
        return
    wrong = (~torch.isfinite(rows.values)).nonzero()
    if len(wrong):
        row, column = wrong[0].tolist()
        graph = int(torch.searchsorted(rows.ptr, row, right=True)) - 1
        raise InputError(
            f"{name}, graph {graph}, vertex {row - int(rows.ptr[graph])}, column {column}: "
            f"{float(rows.values[row, column])} is not a finite number"
        )


@compiled
def _measure(chosen: Integers, ptr: Integers, own_ptr: Integers) -> int:
    """Fill the pointer [len(chosen) + 1] of a batch; gives its number of vertices."""
    own_ptr[0] = 0
    for i in range(len(chosen)):
        own_ptr[i + 1] = own_ptr[i] + ptr[chosen[i] + 1] - ptr[chosen[i]]
    return own_ptr[-1]  # type: ignore[no-any-return]


@compiled
def _copy(chosen: Integers, ptr: Integers, values: Floats, own_values: Floats) -> None:
    """The rows of the chosen graphs, one below the other."""
    end = 0
    for i in range(len(chosen)):
        old = values[ptr[chosen[i]] : ptr[chosen[i] + 1]]
        start, end = end, end + len(old)
        # Flat, so that the compiler uses vector instructions.
        flat, own = old.ravel(), own_values[start:end].ravel()
        for k in range(len(flat)):
            own[k] = flat[k]
