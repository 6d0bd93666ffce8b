"""Pieces of work as tasks of a Ray cluster; each says how many processors and how much memory it needs.

Nodes need gspn and the data (GSPN_DATA_ROOT or the cache). A results folder that they share saves what a dying task
has done; without one, records come back to the process that asked for them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gspn.errors import MissingExtraError
from gspn.experiments.records import Record
from gspn.experiments.running import Outcome
from gspn.experiments.runs import Piece
from gspn.experiments.work import attempt, memory_of

_RETRIES = 2


class RayRunner:
    """Tasks on the cluster at `address`; without one, a local cluster is started and stopped for the experiment."""

    def __init__(
        self,
        folder: Path,
        *,
        address: str | None = None,
        workers: int | None = None,
        threads: int = 1,
        commit: str | None = None,
    ) -> None:
        try:
            import ray
        except ImportError as error:
            raise MissingExtraError(
                "experiments on a cluster need Ray, which is not installed: pip install 'gspn[ray]'"
            ) from error
        self._ray, self._folder, self._commit = ray, folder.absolute(), commit
        if address is None:
            ray.init("local", num_cpus=(workers or 2) * threads, include_dashboard=False, log_to_driver=False)
        else:
            ray.init(address, log_to_driver=False)
        processors = int(ray.cluster_resources().get("CPU", 1))  # type: ignore[no-untyped-call]
        self.capacity = workers or max(1, processors // threads)
        self._perform = ray.remote(num_cpus=threads, max_retries=_RETRIES)(_task)
        self._threads = threads
        self._at_work: dict[Any, Piece] = {}

    def submit(self, piece: Piece) -> None:
        task = self._perform.options(memory=memory_of(piece), name=piece.label)
        self._at_work[task.remote(piece, self._folder, self._commit, self._threads)] = piece

    def wait(self, seconds: float) -> list[Outcome]:
        finished, _ = self._ray.wait(list(self._at_work), num_returns=1, timeout=seconds)
        return [self._outcome(reference, self._at_work.pop(reference)) for reference in finished]

    def close(self) -> None:
        for reference in self._at_work:
            self._ray.cancel(reference, force=True)
        self._at_work = {}
        self._ray.shutdown()

    def _outcome(self, reference: Any, piece: Piece) -> Outcome:
        try:
            records, failure = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            return Outcome(piece, failure=str(error))
        return Outcome(piece, records, failure)


def _task(piece: Piece, folder: Path, commit: str | None, threads: int) -> tuple[list[Record] | None, str | None]:
    import torch

    torch.set_num_threads(threads)
    return attempt(piece, folder, commit)
