"""One process at a time: a lock on a file, which the system takes back when its holder dies."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gspn.errors import InputError

logger = logging.getLogger(__name__)

_PAUSE = 0.05
_PATIENCE = 3600.0


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of this file, waiting for another process that has it.

    Where the file cannot be made or the file system knows no locks, work goes on without one: all that is guarded is
    also placed atomically, so that the lock saves work and nothing else depends on it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:
        yield
        return
    try:
        _wait(path, descriptor)
        yield
    finally:
        os.close(descriptor)  # gives the lock back


@contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Whether the lock of this file is ours for now; nobody waits."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        yield _try_lock(descriptor)
    finally:
        os.close(descriptor)


def _wait(path: Path, descriptor: int) -> None:
    until = time.monotonic() + _PATIENCE
    while not _try_lock(descriptor):
        if time.monotonic() > until:
            raise InputError(f"another process has been holding {path} for {_PATIENCE / 60:.0f} minutes; is it stuck?")
        time.sleep(_PAUSE)


def _try_lock(descriptor: int) -> bool:
    """Whether the lock is ours now, or there are no locks here."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:
        # A file system without locks: work goes on, at worst twice, and the atomic rename still keeps it right.
        logger.info("no lock is possible here: %s", error)
    return True
