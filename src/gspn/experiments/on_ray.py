"""Pieces of work as tasks of a Ray cluster; each says how many processors and how much memory it needs.

Nodes need gspn and the data (GSPN_DATA_ROOT or the cache). A results folder that they share saves what a dying task
has done; without one, records come back to the process that asked for them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gspn.errors import InputError, from_extra
from gspn.experiments.local import fitting
from gspn.experiments.records import Record
from gspn.experiments.running import Outcome
from gspn.experiments.runs import Piece
from gspn.experiments.work import attempt, memory_of

_RETRIES = 2
_log = logging.getLogger(__name__)


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
        with from_extra("ray", "experiments on a cluster need Ray"):
            import ray
        self._ray, self._folder, self._commit = ray, folder.absolute(), commit
        if address is None:
            processors = threads * (workers or fitting(threads))
            ray.init("local", num_cpus=processors, include_dashboard=False, log_to_driver=False)
        else:
            ray.init(address, log_to_driver=False)
        try:
            self._memory = largest_memory(ray.nodes(), threads)  # type: ignore[no-untyped-call]
        except InputError:
            ray.shutdown()
            raise
        processors = int(ray.cluster_resources().get("CPU", 1))  # type: ignore[no-untyped-call]
        self.capacity = workers or max(1, processors // threads)
        self._perform = ray.remote(num_cpus=threads, max_retries=_RETRIES)(_task)
        self._threads = threads
        self._at_work: dict[Any, Piece] = {}

    def submit(self, piece: Piece) -> None:
        memory = memory_of(piece)
        if memory > self._memory:
            _log.warning(
                "%s may need %.1f GB, which no node has; it is started on one of the largest (%.1f GB)",
                piece.label,
                memory / 1e9,
                self._memory / 1e9,
            )
        task = self._perform.options(memory=min(memory, self._memory), name=piece.label)
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


def largest_memory(nodes: Iterable[Mapping[str, Any]], threads: int) -> int:
    """Bytes of the largest node with enough processors. A task that asks for more than a node has would wait for ever.

    Memory is an estimate, of which a task may be given less; without its processors no task can work.
    """
    alive = [node["Resources"] for node in nodes if node["Alive"]]
    enough = [int(resources.get("memory", 0)) for resources in alive if resources.get("CPU", 0) >= threads]
    if not enough:
        most = max((int(resources.get("CPU", 0)) for resources in alive), default=0)
        raise InputError(
            f"no node of the Ray cluster has {threads} processors, the largest has {most}: use fewer threads"
        )
    return max(enough)


def _task(piece: Piece, folder: Path, commit: str | None, threads: int) -> tuple[list[Record] | None, str | None]:
    import torch

    torch.set_num_threads(threads)
    return attempt(piece, folder, commit)
