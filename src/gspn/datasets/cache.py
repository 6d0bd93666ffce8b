"""Prepared datasets are kept: a raw file is parsed once, and memory-mapped from then on.

An entry is found by everything that decides its content: name, options, version of the reader, format of the store, and
a digest of the raw files (sizes and times of files can agree where contents differ). So a changed raw file or another
version never meets an old entry. An entry appears complete or not at all; a damaged one is replaced.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gspn.datasets.family import Sources
from gspn.errors import InputError
from gspn.graphs.dataset import GraphDataset
from gspn.graphs.storage import FORMAT, read_dataset, write_dataset
from gspn.locks import locked

logger = logging.getLogger(__name__)


def prepared(
    cache: Path,
    name: str,
    version: int,
    options: Mapping[str, Any],
    files: Mapping[str, Path | None],
    sources: Sources,
    parse: Callable[[], GraphDataset],
) -> GraphDataset:
    """The entry of the cache for all this, parsed and written first if need be."""
    listed = {role: _listed(path, sources[role].members) for role, path in files.items()}
    before = _stamps(listed)
    description = {
        "name": name,
        "version": version,
        "format": FORMAT,
        "options": dict(options),
        "files": {role: _digest(paths) for role, paths in listed.items()},
    }
    key = hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()[:24]
    folder = cache / "packed" / f"{name}-{key}"
    if (dataset := _read(folder)) is not None:
        return dataset
    with locked(folder.with_name(f".{folder.name}.lock")):
        if (dataset := _read(folder)) is not None:  # another process has just written it
            return dataset
        logger.info("preparing %s in %s", name, folder)
        dataset = parse()
        if _stamps(listed) != before:
            raise InputError(f"{name}: a raw file has changed while it was read; load the dataset again")
        return _keep(dataset, folder)


def _listed(path: Path | None, members: tuple[str, ...]) -> list[tuple[str, Path]]:
    """Files by the name that they have for the reader; a folder stands for its members."""
    if path is None:
        return []
    if not path.is_dir():
        return [(path.name, path)]
    if not members:
        raise InputError(f"{path} is a folder, but a file is wanted")
    return [(member, path / member) for member in members]


def _stamps(listed: Mapping[str, list[tuple[str, Path]]]) -> list[tuple[int, int, int] | None]:
    def stamp(path: Path) -> tuple[int, int, int] | None:
        try:
            status = path.stat()
        except FileNotFoundError:
            return None
        return status.st_size, status.st_mtime_ns, status.st_ino

    return [stamp(path) for paths in listed.values() for _, path in paths]


def _digest(paths: list[tuple[str, Path]]) -> list[tuple[str, str | None]]:
    digests: list[tuple[str, str | None]] = []
    for name, path in paths:
        try:
            with path.open("rb") as file:
                digests.append((name, hashlib.file_digest(file, "sha256").hexdigest()))
        except FileNotFoundError:  # the reader will say so if it needs the file
            digests.append((name, None))
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error}") from error
    return digests


def _read(folder: Path) -> GraphDataset | None:
    if not os.path.exists(folder):  # unlike Path.exists, no error where looking is not permitted
        return None
    try:
        return read_dataset(folder)
    except (InputError, EOFError, AttributeError) as error:
        logger.warning("what was prepared in %s is damaged (%s); preparing it anew", folder, error)
        return None


def _keep(dataset: GraphDataset, folder: Path) -> GraphDataset:
    """The dataset, read back from the cache if it can be written to."""
    try:
        _clear(folder)
        write_dataset(dataset, folder)
        return read_dataset(folder)
    except (OSError, InputError) as error:
        logger.warning(
            "%s cannot be kept (%s); the dataset is held in memory, and prepared anew next time", folder, error
        )
        return dataset


def _clear(folder: Path) -> None:
    """Take a damaged entry out of the way, and what killed processes have left of unfinished ones."""
    if os.path.exists(folder):
        os.rename(folder, folder.with_name(f".{folder.name}-damaged-{os.getpid()}"))
    for left in folder.parent.glob(f".{folder.name}-*"):
        shutil.rmtree(left, ignore_errors=True)
