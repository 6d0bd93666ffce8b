"""One large graph in a folder of memory-mapped arrays, and how it gets there without ever being in memory.

Edges are sorted by receiving vertex: spread over files of neighbouring receivers first, where there are many, then each
file is counted and placed. Nothing of the size of the graph is held in anonymous memory; the arrays of the folder are
pages of files, which the system takes back when it needs them. All checks of `pack` are made here too.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from gspn.attributes import Schema
from gspn.columns import shorten
from gspn.compiling import compiled
from gspn.errors import GSPNError, InputError
from gspn.files import opened, sync_folder
from gspn.graphs.admission import check_entries, check_form, check_pointer, check_range
from gspn.graphs.memory import parse_memory, rows_within
from gspn.graphs.storage import digest_file, make_lasting, map_arrays

FORMAT = 1

MOST_AT_ONCE = 1 << 20
"""Rows and edges that are treated together at most: more of them would not be faster."""

LEAST_AT_ONCE = 1 << 13
"""Fewer would spend more time on going round than on the work."""

Array: TypeAlias = NDArray[Any]
Source: TypeAlias = Tensor | Array | str | os.PathLike[str]
"""Where an array comes from: memory, a memory map, or the path of a .npy file, which is then memory-mapped."""

Edges: TypeAlias = tuple[Array, Array, Array]
"""Senders, receivers and types (none: an empty array) of some edges, int32."""

Done: TypeAlias = Callable[[int], object]
"""Is told how many rows of entries or edges have been gone through."""


@dataclass(frozen=True, eq=False)
class StoredGraph:
    """A checked graph whose arrays are memory maps of files in `folder`."""

    folder: Path
    schema: Schema
    x: Array
    """[N, d] entries, float32 or float64, NaN where missing"""
    row_ptr: Array
    """[N + 1] vertex v receives along the edges row_ptr[v] … row_ptr[v + 1] - 1"""
    source: Array
    """[E] int32, the vertex that sends along each edge"""
    edge_type: Array | None
    """[E] int32, in the order of `source`"""
    largest_type: tuple[int, int]
    """the largest edge type, and the first edge, as edges were given, that has it; (0, 0) where there are no types"""
    digest: str
    """a fingerprint of everything above"""

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> StoredGraph:
        """A graph that `store_graph` wrote.

        All files are read through twice, for their digests and for what is in them: compiled code trusts them
        afterwards. With files in the page cache that takes about a second per 10⁷ edges.
        """
        folder = Path(folder)
        path = folder / "graph.json"
        try:
            with opened(path) as file:
                text = file.read()
            description = json.loads(text)
            found = description["format"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(
                f"{path} does not describe a stored graph ({error!r}); gspn.store_graph writes one"
            ) from error
        if found != FORMAT:
            raise InputError(f"{path} has graph format {found!r}, this version reads {FORMAT}")
        try:
            arrays, schema = map_arrays(folder, description["arrays"]), Schema.from_json(description["schema"])
            _check_arrays(arrays, schema, description["largest_type"])
            return cls(
                folder=folder,
                schema=schema,
                x=arrays["x"],
                row_ptr=arrays["row_ptr"],
                source=arrays["source"],
                edge_type=arrays.get("edge_type"),
                largest_type=tuple(description["largest_type"]),
                digest=hashlib.blake2b(text, digest_size=16).hexdigest(),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, RecursionError) as error:
            raise InputError(f"{folder} holds a damaged graph: {type(error).__name__}: {error}") from error

    @property
    def num_vertices(self) -> int:
        return len(self.x)

    @property
    def num_edges(self) -> int:
        return len(self.source)

    def __repr__(self) -> str:
        names = ", ".join(self.schema.names)
        return f"StoredGraph({self.num_vertices:,} vertices, {self.num_edges:,} edges in {self.folder}; {names})"


def _check_arrays(arrays: dict[str, Array], schema: Schema, largest_type: Any) -> None:
    unknown = sorted(set(arrays) - {"x", "row_ptr", "source", "edge_type"})
    if unknown:
        raise ValueError(f"there is an array {unknown[0]!r}")
    x, source, types = arrays["x"], arrays["source"], arrays.get("edge_type")
    check_entries(x, schema)
    check_form("source", source, (None,), "int32")
    check_range("source", source, 0, len(x))
    check_pointer("row_ptr", arrays["row_ptr"], len(x), len(source))
    largest = 0
    if types is not None:
        check_form("edge_type", types, (len(source),), "int32")
        check_range("edge_type", types, 0, 2**31)
        largest = int(types.max(initial=0))
    pair = isinstance(largest_type, list) and [type(number) for number in largest_type] == [int, int]
    if not pair or largest_type[0] != largest or not 0 <= largest_type[1] < max(1, len(source)):
        raise ValueError(f"largest_type is {shorten(largest_type)}, the largest edge type is {largest}")


def store_graph(
    folder: str | os.PathLike[str],
    x: Source,
    edge_index: Source,
    schema: Schema,
    *,
    edge_type: Source | None = None,
    memory: str | int = "512 MiB",
    progress: bool = True,
) -> StoredGraph:
    """Check a graph and write it into a new folder, using no more anonymous memory than `memory`.

    The folder appears complete or not at all. Arrays may be tensors, numpy arrays, memory maps or paths of .npy files.

    folder: the new folder.
    x: [N, d] entries, as in a PyG `Data`.
    edge_index: [2, E] edges.
    schema: the attributes.
    edge_type: [E] edge types.
    memory: bound on anonymous memory, in bytes or as text.
    progress: whether a progress bar is shown on a terminal.
    """
    folder = Path(folder)
    if folder.exists():
        raise InputError(f"{folder} exists already; StoredGraph.open reads a graph that was stored there")
    if not isinstance(schema, Schema):
        raise InputError(f"schema must be a gspn.Schema, got {type(schema).__name__}")
    entries = _checked_entries(_as_array("x", x), schema)
    given = _checked_edges(
        _as_array("edge_index", edge_index), None if edge_type is None else _as_array("edge_type", edge_type)
    )
    room = parse_memory(memory)
    parts = _number_of_parts(len(entries), given.number, room)
    # Every entry is read once; every edge is checked, distributed where there are parts, counted and placed.
    rows = len(entries) + given.number * (3 if parts == 1 else 4)
    # disable=None: shown on a terminal only; a log file gets no bar.
    shown = None if progress else True
    with tqdm(total=rows, desc="store", unit="row", unit_scale=True, disable=shown, dynamic_ncols=True) as bar:
        largest_type = given.check(len(entries), bar.update)
        with _new_folder(folder) as unfinished:
            _write_entries(unfinished / "x.npy", entries, schema, room, bar.update)
            _write_edges(unfinished, given, len(entries), parts, room, bar.update)
            _describe(unfinished, schema, largest_type)
    return StoredGraph.open(folder)


@contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """A folder to write to that becomes `folder` at the end, and only then."""
    unfinished = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        yield unfinished
        make_lasting(unfinished)
        os.rename(unfinished, folder)
        sync_folder(folder.parent)
    except OSError as error:
        if folder.exists():
            raise InputError(f"{folder} has been stored by somebody else meanwhile; theirs stays") from error
        raise GSPNError(f"{folder} cannot be written: {error.strerror or error}; nothing is left of it") from error
    finally:
        if unfinished is not None:
            shutil.rmtree(unfinished, ignore_errors=True)


def _describe(folder: Path, schema: Schema, largest_type: tuple[int, int]) -> None:
    description = {
        "format": FORMAT,
        "schema": schema.to_json(),
        "largest_type": largest_type,
        "arrays": {
            file.stem: {"shape": list(np.load(file, mmap_mode="r").shape), "digest": digest_file(file)}
            for file in sorted(folder.glob("*.npy"))
        },
    }
    (folder / "graph.json").write_text(json.dumps(description, indent=1), encoding="utf-8")


def _as_array(name: str, source: Source) -> Array:
    if isinstance(source, Tensor):
        return source.detach().cpu().numpy()
    if isinstance(source, np.ndarray):
        return source
    if not isinstance(source, str | os.PathLike):
        raise InputError(f"{name} must be a tensor, an array or the path of a .npy file, got {type(source).__name__}")
    try:
        array: Array = np.load(source, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{name}: {os.fspath(source)} cannot be read as a .npy file: {error}") from error
    return array


def _checked_entries(x: Array, schema: Schema) -> Array:
    if x.ndim != 2 or x.shape[1] != len(schema):
        wanted = f"{len(schema)} columns ({', '.join(schema.names)})"
        raise InputError(f"x has shape {x.shape}, the schema asks for {wanted}")
    if x.dtype.kind not in "biuf":
        raise InputError(f"x has dtype {x.dtype}, a real one is needed")
    if len(x) >= 2**31:
        raise InputError(f"x has {len(x):,} rows; graphs have fewer than 2³¹ vertices")
    return x


def _checked_edges(edges: Array, types: Array | None) -> _Given:
    """Edges in the right form; `_Given.check` looks at each of them."""
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise InputError(f"edge_index must have shape [2, E], got {edges.shape}")
    if edges.size and edges.dtype.kind not in "iu":
        raise InputError(f"edge_index must hold integers, got {edges.dtype}")
    if types is not None and types.shape != edges.shape[1:]:
        raise InputError(f"edge_type must have shape [{edges.shape[1]}], got {types.shape}")
    if types is not None and types.size and types.dtype.kind not in "iu":
        raise InputError(f"edge_type must hold integers, got {types.dtype}")
    return _Given(edges, types)


def _write_entries(path: Path, x: Array, schema: Schema, memory: int, done: Done) -> None:
    # A copy in double precision, and the masks that look for faults.
    step = _at_once(memory, 32 * len(schema), "the entries of this graph")
    out = _new_array(path, x.dtype if x.dtype in (np.float32, np.float64) else np.dtype(np.float64), x.shape)
    for start in range(0, len(x), step):
        part = x[start : start + step]
        fault = schema.find_fault(part)
        if fault is not None:
            row, column, reason = fault
            raise InputError(f"vertex {start + row}, attribute '{schema[column].name}': {reason}")
        out[start : start + step] = part
        done(len(part))


@dataclass(frozen=True, eq=False)
class _Given:
    """Edges as they were handed over."""

    edge_index: Array
    edge_type: Array | None

    @property
    def number(self) -> int:
        return int(self.edge_index.shape[1])

    def check(self, vertices: int, done: Done) -> tuple[int, int]:
        """Every edge's ends and type; gives the largest type and the first edge that has it."""
        edges, types = self.edge_index, self.edge_type
        largest = 0, 0
        for start in range(0, self.number, LEAST_AT_ONCE):
            part = edges[:, start : start + LEAST_AT_ONCE]
            if int(part.min()) < 0 or int(part.max()) >= vertices:
                edge = int(((part < 0) | (part >= vertices)).any(0).argmax())
                raise InputError(
                    f"edge {start + edge}: edge index ({part[0, edge]}, {part[1, edge]}) is out of range, "
                    f"the graph has {vertices} vertices"
                )
            if types is not None:
                own = types[start : start + LEAST_AT_ONCE]
                if int(own.min()) < 0 or int(own.max()) >= 2**31:
                    edge = int(((own < 0) | (own >= 2**31)).argmax())
                    reason = "negative" if own[edge] < 0 else "too large"
                    raise InputError(f"edge {start + edge}: edge type {own[edge]} is {reason}")
                if int(own.max()) > largest[0]:
                    largest = int(own.max()), start + int(own.argmax())
            done(part.shape[1])
        return largest

    def chunks(self, step: int) -> Iterator[Edges]:
        for start in range(0, self.number, step):
            source, target = (self.edge_index[side, start : start + step].astype(np.int32) for side in (0, 1))
            types = np.empty(0) if self.edge_type is None else self.edge_type[start : start + step]
            yield source, target, types.astype(np.int32)


def _number_of_parts(vertices: int, edges: int, memory: int) -> int:
    """A quarter of the free memory each for counts of receivers, and (for the sake of the page cache) for the part of
    the output that is written to in random order."""
    quarter = rows_within(memory, 4, 1, "the edges of this graph")
    return max(1, -(-vertices * 16 // quarter), -(-edges * 4 // quarter))


def _write_edges(folder: Path, given: _Given, vertices: int, parts: int, memory: int, done: Done) -> None:
    step = _at_once(memory, 64, "the edges of this graph")  # two copies as int32, their order, what is written
    borders = [vertices * i // parts for i in range(parts + 1)]
    buckets: list[Callable[[], Iterator[Edges]]] = [partial(given.chunks, step)]
    if parts > 1:
        buckets = _distribute(folder, given, np.array(borders), step, done)
    row_ptr = _new_array(folder / "row_ptr.npy", np.dtype(np.int64), (vertices + 1,))
    source = _new_array(folder / "source.npy", np.dtype(np.int32), (given.number,))
    types = np.empty(0, np.int32)
    if given.edge_type is not None:
        types = _new_array(folder / "edge_type.npy", np.dtype(np.int32), (given.number,))
    row_ptr[0] = 0
    for (first, last), bucket in zip(pairwise(borders), buckets, strict=True):
        count = np.zeros(last - first + 1, np.int64)
        count[0] = row_ptr[first]
        for _, target, _ in bucket():
            _count(target, first, count)
            done(len(target))
        np.cumsum(count, out=count)
        row_ptr[first + 1 : last + 1] = count[1:]
        for source_part, target, type_part in bucket():
            _place(source_part, target, type_part, first, count, source, types)
            done(len(target))
    for i in range(parts if parts > 1 else 0):
        _bucket(folder, i).unlink(missing_ok=True)


def _distribute(
    folder: Path, given: _Given, borders: Array, step: int, done: Done
) -> list[Callable[[], Iterator[Edges]]]:
    """Edges appended to one file for each range of receivers, in the order given."""
    columns = 2 if given.edge_type is None else 3
    for source, target, types in given.chunks(step):
        bucket = np.searchsorted(borders, target, side="right") - 1
        order = np.argsort(bucket, kind="stable")
        table = np.stack([source, target, types][:columns], axis=1)[order]
        ends = np.searchsorted(bucket[order], np.arange(len(borders)))
        for i, (start, end) in enumerate(pairwise(ends.tolist())):
            if end > start:
                with _bucket(folder, i).open("ab") as file:
                    file.write(table[start:end].data)
        done(len(target))

    def read(i: int) -> Iterator[Edges]:
        if not _bucket(folder, i).exists():
            return
        with _bucket(folder, i).open("rb") as file:
            while len(table := np.fromfile(file, np.int32, step * columns)):
                rows = table.reshape(-1, columns)
                types = rows[:, 2] if columns == 3 else np.empty(0, np.int32)
                yield np.ascontiguousarray(rows[:, 0]), np.ascontiguousarray(rows[:, 1]), np.ascontiguousarray(types)

    return [partial(read, i) for i in range(len(borders) - 1)]


def _bucket(folder: Path, i: int) -> Path:
    return folder / f"bucket-{i}"


@compiled
def _count(target: Any, first: int, count: Any) -> None:
    """count[v + 1 - first] += edges that v receives."""
    for e in range(len(target)):
        count[target[e] + 1 - first] += 1


@compiled
def _place(source: Any, target: Any, types: Any, first: int, place: Any, out: Any, out_types: Any) -> None:
    """Put edges, in order, where their receivers' rows go on; `place` moves along."""
    for e in range(len(target)):
        at = place[target[e] - first]
        place[target[e] - first] = at + 1
        out[at] = source[e]
        if len(types):
            out_types[at] = types[e]


def _at_once(memory: int, bytes_a_row: int, what: str) -> int:
    """Rows to treat together: in half of the free memory."""
    return min(MOST_AT_ONCE, rows_within(memory, 2 * bytes_a_row, LEAST_AT_ONCE, what))


def _new_array(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """A .npy file as a memory map that can be written to."""
    if 0 in shape:
        np.save(path, np.empty(shape, dtype), allow_pickle=False)
        return np.empty(shape, dtype)
    mapped = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    if hasattr(os, "posix_fallocate"):  # room for all of it: a map that meets a full disk ends the process
        with path.open("rb+") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return np.asarray(mapped)
