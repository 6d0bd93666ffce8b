"""Packed datasets on disk: one folder of plain arrays and a JSON description, written at once, read memory-mapped.

A folder appears complete or not at all. Arrays are `.npy` files without pickle; a description that does not match them,
or that another version wrote, is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gspn.attributes import Attribute, Schema, from_json, to_json
from gspn.errors import InputError
from gspn.files import opened, read_json, sync_folder
from gspn.graphs.admission import check_by_segment, check_entries, check_form, check_pointer, check_range
from gspn.graphs.dataset import GraphDataset
from gspn.graphs.splits import Fold

FORMAT = 2
_NAMES = ("edge_types", "vertex_names", "graph_names")
_ARRAYS = (
    "x",
    "source",
    "row_ptr",
    "vertex_ptr",
    "positions",
    "edge_order",
    "edge_type",
    "y",
)


def write_dataset(dataset: GraphDataset, folder: Path) -> None:
    """Write a dataset into a new folder. If another process has put one there meanwhile, theirs stays."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        arrays = {name: getattr(dataset, name) for name in _ARRAYS}
        for i, fold in enumerate(dataset.splits):
            arrays |= {f"fold_{i}_{part}": getattr(fold, part) for part in ("train", "validation", "test")}
        names = {name: _names_to_json(name, getattr(dataset, name)) for name in _NAMES}
        for name, values in names.items():
            if isinstance(values, np.ndarray):
                arrays[name] = torch.from_numpy(values)
        described = {}
        for name, tensor in arrays.items():
            if tensor is not None:
                np.save(unfinished / f"{name}.npy", tensor.numpy(), allow_pickle=False)
                described[name] = {"shape": list(tensor.shape), "digest": digest_file(unfinished / f"{name}.npy")}
        description = {
            "format": FORMAT,
            "schema": dataset.schema.to_json(),
            "target": _target_to_json(dataset.target),
            "target_level": dataset.target_level,
            "names": {name: None if isinstance(values, np.ndarray) else values for name, values in names.items()},
            "folds": len(dataset.splits),
            "arrays": described,
        }
        (unfinished / "dataset.json").write_text(json.dumps(description, indent=1), encoding="utf-8")
        make_lasting(unfinished)
        try:
            os.rename(unfinished, folder)
        except OSError:
            if not (folder / "dataset.json").exists():
                raise
        sync_folder(folder.parent)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def read_dataset(folder: Path) -> GraphDataset:
    """A dataset that `write_dataset` wrote, its arrays memory-mapped; what is in them is looked at first."""
    try:
        description = read_json(folder / "dataset.json")
        found = description["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder} holds no readable dataset.json: {error!r}") from error
    if found != FORMAT:
        raise InputError(f"{folder} has dataset format {found!r}, this version reads {FORMAT}")
    try:
        arrays = map_arrays(folder, description["arrays"])
        schema = Schema.from_json(description["schema"])
        target = _target_from_json(description["target"])
        _check_arrays(arrays, schema, description["target_level"])
        folds = tuple(
            Fold(*(torch.from_numpy(arrays.pop(f"fold_{i}_{part}")) for part in ("train", "validation", "test")))
            for i in range(description["folds"])
        )
        others: dict[str, Any] = {
            name: arrays.pop(name) if name in arrays else _names_from_json(name, description["names"][name])
            for name in _NAMES
        }
        others |= {name: torch.from_numpy(array) for name, array in arrays.items()}
        return GraphDataset(
            schema=schema, target=target, target_level=description["target_level"], splits=folds, **others
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, RecursionError) as error:
        raise InputError(f"{folder} holds a damaged dataset: {type(error).__name__}: {error}") from error


def _check_arrays(arrays: dict[str, NDArray[Any]], schema: Schema, target_level: Any) -> None:
    x, row_ptr, vertex_ptr, source = (arrays[name] for name in ("x", "row_ptr", "vertex_ptr", "source"))
    check_entries(x, schema)
    vertices, graphs, edges = len(x), len(vertex_ptr) - 1, len(source)
    check_pointer("vertex_ptr", vertex_ptr, graphs, vertices)
    check_pointer("row_ptr", row_ptr, vertices, edges)
    check_form("source", source, (edges,), "int32")
    of_graphs = row_ptr[vertex_ptr]
    check_by_segment("source", source, of_graphs, np.diff(vertex_ptr))
    check_form("positions", arrays["positions"], (None,), "int64")
    check_range("positions", arrays["positions"], 0, graphs)
    if "edge_order" in arrays:
        check_form("edge_order", arrays["edge_order"], (edges,), "int32")
        check_by_segment("edge_order", arrays["edge_order"], of_graphs, np.diff(of_graphs))
    if "edge_type" in arrays:
        check_form("edge_type", arrays["edge_type"], (edges,), "int8", "int16", "int32", "int64")
        check_range("edge_type", arrays["edge_type"], 0, 2**31)
    if target_level not in ({None} if "y" not in arrays else {"graph", "vertex"}):
        raise ValueError(f"target_level is {target_level!r}")
    if "y" in arrays and len(arrays["y"]) != (vertices if target_level == "vertex" else graphs):
        raise ValueError(f"y has {len(arrays['y'])} rows")
    for name in (name for name in arrays if name.startswith("fold_")):
        check_form(name, arrays[name], (None,), "int64")
        check_range(name, arrays[name], 0, len(arrays["positions"]))


def make_lasting(folder: Path) -> None:
    """Files on the disk before the rename that shows them, and readable for whom the parent folder is."""
    for file in folder.iterdir():
        with file.open("rb+") as handle:
            os.fsync(handle.fileno())
    with suppress(OSError):  # not every file system has modes
        shutil.copymode(folder.parent, folder)
    sync_folder(folder)


def map_arrays(folder: Path, described: Any) -> dict[str, NDArray[Any]]:
    """The arrays of a folder by name; `described` says which there are."""
    if not all(name.isidentifier() for name in described):
        raise ValueError("an array's name would lead out of the folder")
    return {name: map_array(folder / f"{name}.npy", entry) for name, entry in described.items()}


def map_array(path: Path, entry: dict[str, Any]) -> NDArray[Any]:
    if digest_file(path) != entry["digest"]:
        raise ValueError(f"{path.name} is not the file that was written")
    # Copy-on-write: torch wants writable memory, and nothing that writes to it may reach the file.
    empty = 0 in entry["shape"]
    array: NDArray[Any] = np.load(path, mmap_mode=None if empty else "c", allow_pickle=False)
    if list(array.shape) != entry["shape"]:
        raise ValueError(f"{path.name} has shape {list(array.shape)} instead of {entry['shape']}")
    return np.asarray(array)


def digest_file(path: Path) -> str:
    """Of the whole file: what has changed since it was written is refused."""
    with opened(path) as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _names_to_json(field: str, names: Any) -> Any:
    """Names as a list of [kind, value], which keeps 1 and "1" apart; whole-number arrays stay arrays."""
    if names is None or (isinstance(names, np.ndarray) and names.dtype.kind == "i"):
        return names
    return [_name_to_json(field, name) for name in (names.tolist() if isinstance(names, np.ndarray) else names)]


def _name_to_json(field: str, name: Any) -> list[Any]:
    if isinstance(name, tuple):
        return ["tuple", [_name_to_json(field, part) for part in name]]
    if name is not None and not isinstance(name, str | bool | int | float):
        raise InputError(f"{field}: {name!r} cannot be written; names are text, numbers or tuples of them")
    return ["plain", name]


def _names_from_json(field: str, stored: Any) -> Any:
    if stored is None:
        return None
    names = [_name_from_json(entry) for entry in stored]
    if field == "edge_types":
        return tuple(names)
    array = np.empty(len(names), dtype=object)
    array[:] = names
    return array


def _name_from_json(entry: Any) -> Any:
    kind, value = entry
    return tuple(_name_from_json(part) for part in value) if kind == "tuple" else value


def _target_to_json(target: Attribute | Schema | None) -> dict[str, Any] | None:
    if target is None:
        return None
    return target.to_json() if isinstance(target, Schema) else to_json(target)


def _target_from_json(data: dict[str, Any] | None) -> Attribute | Schema | None:
    if data is None:
        return None
    return Schema.from_json(data) if "attributes" in data else from_json(data)
