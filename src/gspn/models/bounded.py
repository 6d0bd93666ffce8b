"""A stored graph through all levels within a bounded amount of memory: level after level, range after range.

The rows of a level are written to a work file, from which the next level reads them as a memory map. Work files and a
journal of what is finished stay until the end, so that a run that was stopped goes on where it stopped.
"""

from __future__ import annotations

import json
import logging
import shutil
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from gspn.errors import CheckpointError, InputError
from gspn.files import PARTIAL, digest, replace_file
from gspn.graphs.memory import parse_memory, rows_within
from gspn.graphs.stored import StoredGraph
from gspn.hierarchy import Hierarchy
from gspn.hierarchy.ranges import bytes_per_vertex, level_over_ranges, row_width
from gspn.locks import locked
from gspn.models.checks import check_entries, check_stored
from gspn.models.shards import DESCRIPTION, FORMAT, Shards, check_format, read_description

_log = logging.getLogger(__name__)

MOST_VERTICES = 1 << 17
"""Vertices of a range at most: larger ones would not be faster, and shards of this size are handy."""

LEAST_VERTICES = 1 << 10
"""Fewer, in a larger graph, would spend more time on going round than on the work."""

WORK = "work"

_OF_ANSWERS = ("template", "shortcut", "leaves", "atoms")
"""Settings that belong to what makes a run that run, beside the weights"""

Array = NDArray[Any]


@torch.no_grad()
def evaluate_stored(
    hierarchy: Hierarchy,
    settings: Mapping[str, Any],
    graph: StoredGraph,
    folder: Path,
    *,
    embeddings: bool,
    memory: str | int,
    format: str,
    progress: bool,
) -> Shards:
    """Log-likelihoods of all vertices, and their embeddings if asked for, as shards in a folder.

    `settings` are the model's, as they are saved.
    """
    check_format(format)
    check_stored(hierarchy, graph)
    if hierarchy.raw_prior.device.type != "cpu" or hierarchy.raw_prior.dtype not in (torch.float32, torch.float64):
        raise InputError("stored graphs are computed on the CPU in float32 or float64; see model.cpu(), model.float()")
    room = parse_memory(memory)
    columns = hierarchy.num_layers * hierarchy.template.num_sum_units * hierarchy.num_states if embeddings else 0
    size = _range_size(hierarchy, graph.num_vertices, columns, room, format)
    shards = Shards(folder, graph.num_vertices, size, columns, format)
    wanted = {name: settings[name] for name in _OF_ANSWERS if name in settings} | {
        "weights": digest(hierarchy.state_dict()),
        "graph": graph.digest,
        "memory": room,
        "embeddings": embeddings,
        "format": format,
        "size": size,
    }
    _finished(folder, wanted)  # nothing is written into a folder that belongs to something else
    (folder / WORK).mkdir(parents=True, exist_ok=True)
    with locked(folder / WORK / "lock"):
        if not _finished(folder, wanted):
            _describe(shards, wanted, finished=False)
            _run(hierarchy, graph, shards, progress)
            _describe(shards, wanted, finished=True)
            for left in folder.glob(PARTIAL):  # by a run that was killed
                left.unlink()
        shutil.rmtree(folder / WORK, ignore_errors=True)
    return shards


def _range_size(hierarchy: Hierarchy, vertices: int, columns: int, memory: int, format: str) -> int:
    """Vertices of a range: what fits into the memory beside the reserve.

    An embedding is put together once; Parquet encodes and compresses it in two more copies. A quarter is added for what
    an allocator loses between arrays of different sizes.
    """
    assembled = columns * hierarchy.raw_prior.element_size() * (3 if format == "parquet" else 1)
    needed = (bytes_per_vertex(hierarchy) + assembled + 16) * 5 // 4
    least = max(1, min(vertices, LEAST_VERTICES))
    return min(max(vertices, 1), MOST_VERTICES, rows_within(memory, needed, least, "this model"))


def _finished(folder: Path, identity: Mapping[str, Any]) -> bool:
    """Whether the folder holds this very run, finished; a folder that holds anything else is refused."""
    found = read_description(folder)
    if found is None:
        there = list(folder.iterdir()) if folder.is_dir() else []
        strange = [path.name for path in there if path.name != WORK and not path.match(PARTIAL)]
        if strange or (folder.exists() and not folder.is_dir()):
            raise CheckpointError(f"{folder} is in use ({sorted(strange)[:3]}); results need a folder of their own")
        return False
    mine, theirs = dict(identity), found["identity"]
    different = [name for name in sorted(set(mine) | set(theirs)) if mine.get(name) != theirs.get(name)]
    if different:
        raise CheckpointError(
            f"{folder} holds results of another run (different: {', '.join(different)}); "
            "delete it or name another folder to start afresh"
        )
    return bool(found["finished"])


def _describe(shards: Shards, identity: Mapping[str, Any], *, finished: bool) -> None:
    listed = {name: value for name, value in asdict(shards).items() if name != "folder"}
    description = {"format": FORMAT, "finished": finished, "identity": dict(identity), "shards": listed}
    replace_file(shards.folder / DESCRIPTION, json.dumps(description, indent=1).encode())


def _run(hierarchy: Hierarchy, graph: StoredGraph, shards: Shards, show_progress: bool) -> None:
    levels, ranges = hierarchy.num_layers, list(shards)
    dtype = np.dtype(str(hierarchy.raw_prior.dtype).removeprefix("torch."))
    rows = _Rows(shards.folder / WORK, graph.num_vertices, row_width(hierarchy), dtype)
    journal = _Journal.at(shards.folder / WORK / "journal")
    _check_kept(journal, rows, shards, levels)
    todo = [(level, i) for level in range(levels) for i in range(len(ranges)) if (level, i) not in journal.done]
    # disable=None: shown on a terminal only; a log file gets no bar.
    with tqdm(
        total=levels * graph.num_vertices,
        initial=sum(ranges[i][1] - ranges[i][0] for _, i in journal.done),
        desc="evaluate",
        unit="vertex",
        unit_scale=True,
        disable=None if show_progress else True,
        dynamic_ncols=True,
    ) as bar:
        before = -1
        for level, i in todo:
            if level != before:
                if not shards.columns:
                    rows.remove(level - 2)
                below = rows.read(level - 1) if level else np.empty(0, dtype)
                climb, before = level_over_ranges(hierarchy, level, graph, below), level
            first, last = ranges[i]
            x = torch.from_numpy(graph.x[first:last].astype(np.float64))
            if level == 0:
                check_entries(hierarchy, x, lambda row, first=first: f"vertex {first + row}, ")  # type: ignore[misc]
            found, log_likelihood = climb(first, last, x)
            if log_likelihood is None:
                journal.add(level, i, rows.write(level, first, found))
            else:
                together = _embeddings(rows, found, first, shards.columns, levels) if shards.columns else None
                shards.write(i, log_likelihood.numpy(), together)
                journal.add(level, i, 0)
            bar.update(last - first)


def _embeddings(rows: _Rows, root: Array, first: int, columns: int, levels: int) -> Array:
    """[n, L·S·C] from the work files of the levels below and the root's rows."""
    together, each = np.empty((len(root), columns), root.dtype), columns // levels
    for level in range(levels):
        own = root if level == levels - 1 else rows.read(level)[first : first + len(root)]
        together[:, level * each : (level + 1) * each] = own[:, :each]
    return together


def _check_kept(journal: _Journal, rows: _Rows, shards: Shards, levels: int) -> None:
    """What an earlier run has finished must be there: a power cut may have kept the journal and lost the rest."""
    ranges = list(shards)
    for level, i in [key for key in journal.done if key[0] == levels - 1 and not shards.exists(key[1])]:
        del journal.done[level, i]
    missing = [level for level in range(levels) for i in range(len(ranges)) if (level, i) not in journal.done]
    # Rows are read again by the level above, and by the root where embeddings are put together.
    needed = 0 if shards.columns else min(missing, default=levels) - 1
    for (level, i), check in journal.done.items():
        if needed <= level < levels - 1 and rows.check(level, *ranges[i]) != check:
            _log.warning("%s: rows of level %d are not those that were written; starting afresh", shards.folder, level)
            journal.done.clear()
            break
    journal.rewrite()


@dataclass(frozen=True)
class _Rows:
    """Work files with the rows [N, wide] of each level."""

    folder: Path
    vertices: int
    wide: int
    dtype: np.dtype[Any]

    def _path(self, level: int) -> Path:
        return self.folder / f"level-{level}.rows"

    def write(self, level: int, first: int, rows: Array) -> int:
        """Put the rows of some vertices into their place; gives their checksum."""
        path = self._path(level)
        with path.open("r+b" if path.exists() else "w+b") as file:
            file.truncate(self.vertices * self.wide * self.dtype.itemsize)
            file.seek(first * self.wide * self.dtype.itemsize)
            file.write(rows.data)
        return zlib.crc32(rows.data)

    def read(self, level: int) -> Array:
        return np.asarray(np.memmap(self._path(level), self.dtype, "r+", shape=(self.vertices, self.wide)))

    def check(self, level: int, first: int, last: int) -> int | None:
        try:
            return zlib.crc32(self.read(level)[first:last].data)
        except (OSError, ValueError):
            return None

    def remove(self, level: int) -> None:
        self._path(level).unlink(missing_ok=True)


@dataclass(frozen=True)
class _Journal:
    """Finished (level, range) and the checksums of their rows, one line each; half a line at the end counts nothing."""

    path: Path
    done: dict[tuple[int, int], int]

    @classmethod
    def at(cls, path: Path) -> _Journal:
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        entries = [[int(part) for part in line.split()] for line in lines if line.replace(" ", "").isdigit()]
        return cls(path, {(entry[0], entry[1]): entry[2] for entry in entries if len(entry) == 3})

    def add(self, level: int, number: int, check: int) -> None:
        self.done[level, number] = check
        with self.path.open("a") as file:
            file.write(f"{level} {number} {check}\n")

    def rewrite(self) -> None:
        replace_file(self.path, "".join(f"{a} {b} {c}\n" for (a, b), c in self.done.items()).encode())
