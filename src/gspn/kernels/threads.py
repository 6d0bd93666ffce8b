"""Compiled work in several threads of our own.

Numba's threading layers are not used: its OpenMP layer dies in forked children, and its work queue ends the process
when two Python threads call it at once. Compiled functions that release the interpreter lock, each on its own range of
vertices, need neither: they work in spawned and forked processes and from any thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

_lock = Lock()
_pool: ThreadPoolExecutor | None = None


def run_all(tasks: Sequence[Callable[[], object]]) -> None:
    """Run all tasks side by side, the first of them in the calling thread; returns when all are done."""
    others = [_threads().submit(task) for task in tasks[1:]]
    try:
        tasks[0]()
    finally:
        # The tasks write into arrays of the caller: nothing may go on when this function is left.
        for other in others:
            other.exception()
    for other in others:
        other.result()


def _threads() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="gspn")
        return _pool


def _forget() -> None:
    """A forked child has inherited the pool but none of its threads."""
    global _pool, _lock
    _pool, _lock = None, Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
