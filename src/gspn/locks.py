"""One process at a time: a lock on a file, which the system takes back when its holder dies.

Where the file cannot be made or the file system knows no locks, work goes on without one: all that is guarded is also
placed atomically, so that a lock saves work and nothing else depends on it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from gspn.errors import InputError

logger = logging.getLogger(__name__)

_PATIENCE = 3600.0
"""Seconds after which somebody who waits gives up."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of this file, waiting for another process that has it."""
    with _held(path, _PATIENCE) as ours:
        if not ours:
            raise InputError(f"another process has been holding {path} for {_PATIENCE / 60:.0f} minutes; is it stuck?")
        yield


@contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Whether the lock of this file is ours for now; nobody waits."""
    with _held(path, 0.0) as ours:
        yield ours


@contextmanager
def _held(path: Path, patience: float) -> Iterator[bool]:
    # Soft locks, which would stand in where the system has none, outlive a holder that is killed.
    lock, ours = FileLock(path, timeout=patience, fallback_to_soft=False), True
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        ours = False
    except (OSError, NotImplementedError) as error:
        logger.info("no lock is possible here: %s", error)
    try:
        yield ours
    finally:
        lock.release()
