"""Compiled work in several threads: those that torch itself computes with.

Threads of OpenMP wait for their next work by spinning, for milliseconds, before they fall asleep. Any other would
have to share a processor with them, and a step may take no longer than that: so work is handed to these very threads.
Numba's own threading layers are not used: its OpenMP layer is another OpenMP than torch's and dies in forked children,
and its work queue ends the process when two Python threads call it at once.

Where torch computes with something else, and in a forked child, which inherits none of its parent's threads, a pool of
our own does the work.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

import torch

_lock = Lock()
_pool: ThreadPoolExecutor | None = None
_Body = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def num_parts(amount: int, worth_a_thread: int) -> int:
    """How many threads to divide an amount of work among, at most as many as torch uses."""
    return max(1, min(torch.get_num_threads(), int(amount) // worth_a_thread))


def run_all(tasks: Sequence[Callable[[], object]]) -> None:
    """Run all tasks side by side, at least one of them in the calling thread; returns when all are done.

    They should spend their time in compiled functions that release the interpreter's lock.
    """
    errors: list[BaseException] = []

    def run(task: Callable[[], object]) -> None:
        try:
            task()
        except BaseException as error:
            errors.append(error)

    if len(tasks) == 1:
        run(tasks[0])
    elif _openmp is not None:
        start, number, size = _openmp

        def body(_: object) -> None:
            # The team may be smaller than was asked for.
            for task in tasks[number() :: size()]:
                run(task)

        start(_Body(body), None, len(tasks), 0)
    elif tasks:
        others = [_threads().submit(run, task) for task in tasks[1:]]
        run(tasks[0])
        # The tasks write into arrays of the caller: nothing may go on when this function is left.
        for other in others:
            other.exception()
    if errors:
        raise errors[0]


def _find_openmp() -> tuple[Any, Any, Any] | None:
    """How to start a team of torch's threads, a thread's number in it and the team's size; None: not to be had."""
    if not torch.backends.openmp.is_available():
        return None
    try:
        library = ctypes.CDLL(None)  # what the process has loaded, torch's libraries among it
        start, number, size = library.GOMP_parallel, library.omp_get_thread_num, library.omp_get_num_threads
    except (OSError, AttributeError, TypeError):
        return None
    start.argtypes = _Body, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint
    start.restype = None
    return start, number, size


_openmp = _find_openmp()


def _threads() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="gspn")
        return _pool


def _forget() -> None:
    """A forked child has inherited the pools but none of their threads."""
    global _pool, _lock, _openmp
    _pool, _lock, _openmp = None, Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
