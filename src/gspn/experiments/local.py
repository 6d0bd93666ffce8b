"""Pieces of work in processes of this machine, begun afresh: kernels with threads do not survive a fork.

Every process is a pool of its own: one that dies (killed, out of memory) costs its own piece alone, which is tried
again in a new one.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from pathlib import Path
from typing import Any

import joblib
from joblib.externals.loky import ProcessPoolExecutor

from gspn.experiments.running import Outcome
from gspn.experiments.runs import Piece
from gspn.experiments.work import attempt

_TRIES = 3
_THREAD_SETTINGS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class LocalRunner:
    """So many processes with so many threads each; by default as many as the machine has processors for."""

    def __init__(
        self, folder: Path, *, workers: int | None = None, threads: int = 1, commit: str | None = None
    ) -> None:
        self._folder, self._threads, self._commit = folder, threads, commit
        self.capacity = workers or fitting(threads)
        self._idle: list[ProcessPoolExecutor] = []
        self._at_work: dict[Future[Any], tuple[ProcessPoolExecutor, Piece, int]] = {}

    def submit(self, piece: Piece) -> None:
        self._start(piece, tries=1)

    def wait(self, seconds: float) -> list[Outcome]:
        outcomes = []
        for future in wait(self._at_work, seconds, FIRST_COMPLETED).done:
            worker, piece, tries = self._at_work.pop(future)
            try:
                records, failure = future.result()
            except BrokenExecutor as error:  # it died
                worker.shutdown()
                if tries < _TRIES:
                    self._start(piece, tries + 1)
                else:
                    outcomes.append(Outcome(piece, failure=f"its process ended {tries} times: {error}"))
                continue
            self._idle.append(worker)
            outcomes.append(Outcome(piece, records, failure))
        return outcomes

    def close(self) -> None:
        for worker in [*self._idle, *(worker for worker, _, _ in self._at_work.values())]:
            worker.shutdown(kill_workers=True)
        self._idle, self._at_work = [], {}

    def _start(self, piece: Piece, tries: int) -> None:
        try:
            worker = self._idle.pop() if self._idle else self._hire()
            future = worker.submit(attempt, piece, self._folder, self._commit)
        except BrokenExecutor:  # it died while it had nothing to do
            self._start(piece, tries)
            return
        self._at_work[future] = worker, piece, tries

    def _hire(self) -> ProcessPoolExecutor:
        # Libraries that start threads read their number when they are loaded: before a worker's first line.
        settings = dict.fromkeys(_THREAD_SETTINGS, str(self._threads))
        return ProcessPoolExecutor(1, env=settings, initializer=_begin, initargs=(self._threads, os.getpid()))


def fitting(threads: int) -> int:
    """How many processes with so many threads each this machine has processors for."""
    return max(1, int(joblib.cpu_count()) // threads)


def _begin(threads: int, parent: int) -> None:
    """What a worker does before its first piece."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the first one decides
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    torch.set_num_threads(threads)


def _end_with(parent: int) -> None:
    """A worker whose parent was killed ends as well; its piece goes on from the checkpoint the next time."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)
