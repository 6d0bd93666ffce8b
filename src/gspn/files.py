"""Files that are either the old ones or the new ones, never half of either; tensors and JSON, no pickle."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from glob import escape
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from gspn.errors import CheckpointError

PARTIAL = ".*.????????.partial"
"""What files are called while they are being written."""


def replace_file(path: Path, content: bytes) -> None:
    """Write a file so that a crash at any moment leaves the old or the new content."""
    with _placing(path) as partial:
        write_through(partial, content)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to that takes the place of `path` when it is complete, and only then."""
    with _placing(path) as partial, partial.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _placing(path: Path) -> Iterator[Path]:
    """A hidden file beside `path` that takes its place at the end; every writer has its own.

    Ctrl-C and errors leave nothing behind; a kill may leave the hidden file.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        yield partial
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def remove_leftovers(path: Path) -> None:
    """Remove what killed writers of this file have left: hidden files that nobody has written to for an hour."""
    for left in path.parent.glob(f".{escape(path.name)}.????????.partial"):
        with suppress(FileNotFoundError):
            if time.time() - left.stat().st_mtime > 3600:
                left.unlink()


@contextmanager
def opened(path: Path) -> Iterator[BufferedReader]:
    """A plain file to read from; folders, pipes and devices, which may never end, are refused with an OSError."""
    # Opening a pipe would wait for somebody who writes to it.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is no plain file")
        file = os.fdopen(descriptor, "rb", closefd=False)
        yield file
    finally:
        os.close(descriptor)


def digest_of_file(path: Path) -> str | None:
    """SHA-256 of a plain file; None where it cannot be read."""
    try:
        with opened(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def read_json(path: Path) -> Any:
    """What a plain file of JSON holds; ValueError where it is none, or nested too deeply to be read."""
    with opened(path) as file:
        content = file.read()
    try:
        return json.loads(content)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def write_through(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut; file systems that cannot do it are left to their own devices."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def tensor_bytes(tensors: Mapping[str, Tensor], note: Mapping[str, Any] | None = None) -> bytes:
    """Tensors, and a JSON note beside them, in the safetensors format."""
    return save(_plain(tensors), metadata=None if note is None else {"note": json.dumps(note)})


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensors[name].detach().cpu().contiguous().clone() for name in sorted(tensors)}


def digest(tensors: Mapping[str, Tensor]) -> str:
    """A fingerprint of named tensors."""
    return hashlib.sha256(save(_plain(tensors))).hexdigest()


def read_tensors(path: Path) -> tuple[dict[str, Tensor], Any]:
    """Tensors and the note of a safetensors file; a damaged or foreign file is an error that names it."""
    try:
        with opened(path):
            pass
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
            metadata = file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is not readable as safetensors: {error}") from error
    try:
        return tensors, json.loads(metadata["note"]) if "note" in metadata else None
    except (json.JSONDecodeError, RecursionError) as error:
        raise CheckpointError(f"the note in {path} is not valid JSON: {error}") from error


def misfits(tensors: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> list[str]:
    """Names that one side lacks, or that differ in shape or dtype."""
    shared = set(tensors) & set(wanted)
    changed = {n for n in shared if (tensors[n].shape, tensors[n].dtype) != (wanted[n].shape, wanted[n].dtype)}
    return sorted((set(tensors) ^ set(wanted)) | changed)
