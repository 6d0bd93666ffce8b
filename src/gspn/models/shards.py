"""Results too large for memory: log-likelihoods and embeddings of consecutive vertices in one shard after the other.

A shard is one file (Parquet) or one file for each kind of result (npy). How results are computed is in `bounded`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gspn.errors import CheckpointError, InputError, from_extra
from gspn.files import read_json, replacing

DESCRIPTION = "results.json"
FORMAT = 1
FORMATS = ("npy", "parquet")

Array = NDArray[Any]


@dataclass(frozen=True)
class Shards:
    """Results of all vertices of a stored graph in `folder`, `size` vertices per shard."""

    folder: Path
    num_vertices: int
    size: int
    columns: int
    """numbers of an embedding; 0 where embeddings were not asked for"""
    format: str

    @classmethod
    def open(cls, folder: str | Path) -> Shards:
        """Results that a finished `evaluate_stored` left in a folder."""
        description = read_description(Path(folder))
        if description is None or not description["finished"]:
            state = (
                "unfinished results; evaluate_stored with the same arguments goes on" if description else "no results"
            )
            raise CheckpointError(f"{folder} holds {state}")
        return cls(Path(folder), **description["shards"])

    def __len__(self) -> int:
        return -(-self.num_vertices // self.size)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """First vertex, and last vertex + 1, of every shard."""
        return ((start, min(start + self.size, self.num_vertices)) for start in range(0, self.num_vertices, self.size))

    def files(self, number: int) -> dict[str, Path]:
        """The files of a shard, by what is in them."""
        kinds = ["log_likelihood", "embeddings"] if self.columns else ["log_likelihood"]
        stems = dict.fromkeys(kinds, "shard") if self.format == "parquet" else {kind: kind for kind in kinds}
        return {kind: self.folder / f"{stem}-{number:06d}.{self.format}" for kind, stem in stems.items()}

    def log_likelihood(self, start: int = 0, end: int | None = None) -> Tensor:
        """[end - start] log P(x_v | tree below v) of the vertices start … end - 1; of all by default."""
        return self._read("log_likelihood", start, end)

    def embeddings(self, start: int = 0, end: int | None = None) -> Tensor:
        """[end - start, L·S·C] embeddings of the vertices start … end - 1; of all by default."""
        if not self.columns:
            raise InputError("embeddings were not asked for: evaluate_stored(..., embeddings=True)")
        return self._read("embeddings", start, end)

    def _read(self, kind: str, start: int, end: int | None) -> Tensor:
        end = self.num_vertices if end is None else end
        if not 0 <= start <= end <= self.num_vertices:
            raise InputError(f"vertices {start} … {end} are asked for; there are {self.num_vertices}")
        parts = []
        for number in range(start // self.size, -(-end // self.size)):
            first = number * self.size
            array = self._read_shard(self.files(number)[kind], kind)
            parts.append(torch.from_numpy(np.array(array[max(0, start - first) : end - first])))
        return torch.cat(parts) if parts else torch.empty(0, *([self.columns] if kind == "embeddings" else []))

    def _read_shard(self, path: Path, kind: str) -> Array:
        try:
            if self.format == "npy":
                array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
                return array
            column = _parquet().read_table(path, columns=[kind]).column(kind).combine_chunks()
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be read: {error}") from error
        flat: Array = (column.flatten() if kind == "embeddings" else column).to_numpy()
        return flat.reshape(-1, self.columns) if kind == "embeddings" else flat

    def write(self, number: int, log_likelihood: Array, embeddings: Array | None) -> None:
        """Write a shard; each file appears complete or not at all."""
        files = self.files(number)
        results = {"log_likelihood": log_likelihood} | ({} if embeddings is None else {"embeddings": embeddings})
        if self.format == "npy":
            for kind, array in results.items():
                with replacing(files[kind]) as file:
                    np.save(file, array, allow_pickle=False)
            return
        parquet, start = _parquet(), number * self.size
        import pyarrow as pa

        columns = {"vertex": pa.array(np.arange(start, start + len(log_likelihood)))}
        columns["log_likelihood"] = pa.array(log_likelihood)
        if embeddings is not None:
            columns["embeddings"] = pa.FixedSizeListArray.from_arrays(pa.array(embeddings.reshape(-1)), self.columns)
        with replacing(files["log_likelihood"]) as file:
            # Posteriors hardly ever repeat: a dictionary of them would be larger than they are.
            parquet.write_table(pa.table(columns), file, use_dictionary=False)

    def exists(self, number: int) -> bool:
        return all(path.exists() for path in self.files(number).values())


def read_description(folder: Path) -> dict[str, Any] | None:
    """What `results.json` says; None where there is none."""
    path = folder / DESCRIPTION
    if not path.exists():
        return None
    try:
        description = read_json(path)
        known = description["format"] == FORMAT and {"finished", "shards", "identity"} <= set(description)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} does not describe results of this library: {error!r}") from error
    if not known:
        raise CheckpointError(f"{path} has format {description['format']!r}, this version reads {FORMAT}")
    return dict(description)


def check_format(format: str) -> None:
    if format not in FORMATS:
        raise InputError(f"format must be one of {', '.join(FORMATS)}, got {format!r}")
    if format == "parquet":
        _parquet()


def _parquet() -> Any:
    with from_extra("tables", "Parquet needs pyarrow"):
        import pyarrow.parquet
    return pyarrow.parquet
