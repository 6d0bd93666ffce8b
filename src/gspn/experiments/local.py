"""Pieces of work in processes of this machine, spawned: kernels with threads do not survive a fork.

A worker that dies (killed, out of memory) costs its own piece, which is tried again in a new one.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path

import joblib

from gspn.experiments.running import Outcome
from gspn.experiments.runs import Piece
from gspn.experiments.work import attempt

_TRIES = 3
_SPAWN = multiprocessing.get_context("spawn")
_THREAD_SETTINGS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class _Worker:
    process: SpawnProcess
    connection: Connection


class LocalRunner:
    """So many processes with so many threads each; by default as many as the machine has processors for."""

    def __init__(
        self, folder: Path, *, workers: int | None = None, threads: int = 1, commit: str | None = None
    ) -> None:
        self._folder, self._threads, self._commit = folder, threads, commit
        self.capacity = workers or fitting(threads)
        self._idle: list[_Worker] = []
        self._at_work: dict[str, tuple[_Worker, Piece, int]] = {}

    def submit(self, piece: Piece) -> None:
        self._start(piece, tries=1)

    def wait(self, seconds: float) -> list[Outcome]:
        connections = {worker.connection: key for key, (worker, _, _) in self._at_work.items()}
        outcomes = []
        for connection in wait(list(connections), seconds):
            worker, piece, tries = self._at_work.pop(connections[connection])  # type: ignore[index]
            try:
                records, failure = worker.connection.recv()
            except (EOFError, OSError):  # it died
                worker.connection.close()
                worker.process.join()
                if tries < _TRIES:
                    self._start(piece, tries + 1)
                    continue
                code = worker.process.exitcode
                outcomes.append(Outcome(piece, failure=f"its process ended {tries} times (exit code {code})"))
                continue
            self._idle.append(worker)
            outcomes.append(Outcome(piece, records, failure))
        return outcomes

    def close(self) -> None:
        for worker, _, _ in self._at_work.values():
            worker.process.terminate()
        for worker in [*self._idle, *(worker for worker, _, _ in self._at_work.values())]:
            worker.connection.close()  # an idle one ends by itself
            worker.process.join()
        self._idle, self._at_work = [], {}

    def _start(self, piece: Piece, tries: int) -> None:
        worker = self._idle.pop() if self._idle else self._hire()
        try:
            worker.connection.send(piece)
        except OSError:  # it died while it had nothing to do
            worker.connection.close()
            self._start(piece, tries)
            return
        self._at_work[piece.key] = (worker, piece, tries)

    def _hire(self) -> _Worker:
        ours, theirs = _SPAWN.Pipe()
        process = _SPAWN.Process(
            target=_serve, args=(theirs, self._folder, self._threads, self._commit), daemon=True, name="gspn-worker"
        )
        with _threads_of_children(self._threads):
            process.start()
        theirs.close()
        return _Worker(process, ours)


def fitting(threads: int) -> int:
    """How many processes with so many threads each this machine has processors for."""
    return max(1, int(joblib.cpu_count()) // threads)


@contextmanager
def _threads_of_children(threads: int) -> Iterator[None]:
    """Libraries that start threads read their number when they are loaded: before a worker's first line."""
    before = {name: os.environ.get(name) for name in _THREAD_SETTINGS}
    os.environ.update(dict.fromkeys(_THREAD_SETTINGS, str(threads)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _serve(connection: Connection, folder: Path, threads: int, commit: str | None) -> None:
    """What a worker does all its life."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the first one decides
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    while True:
        try:
            piece = connection.recv()
        except (EOFError, OSError):
            return
        connection.send(attempt(piece, folder, commit))


def _end_with_parent() -> None:
    """A worker whose parent was killed ends as well; its piece goes on from the checkpoint the next time."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
