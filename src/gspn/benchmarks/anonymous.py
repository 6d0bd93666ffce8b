"""How much anonymous memory a piece of work takes: pages of the process that no file could give back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

_STATUS = Path("/proc/self/status")
_PAUSE = 0.002


def anonymous() -> int | None:
    """Bytes of anonymous memory of this process; None where the system does not tell."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith("RssAnon:")]
    return int(found[0]) * 1024 if found else None


def watch(work: Callable[[], object]) -> tuple[float, int | None]:
    """Seconds of the work, and the most anonymous memory, beyond what there is now, that a thread saw meanwhile."""
    before, most, done = anonymous(), 0, threading.Event()

    def look() -> None:
        nonlocal most
        while not done.wait(_PAUSE):
            most = max(most, anonymous() or 0)

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    start = time.perf_counter()
    try:
        work()
    finally:
        seconds = time.perf_counter() - start
        done.set()
        watcher.join()
    most = max(most, anonymous() or 0)
    return seconds, None if before is None else most - before
