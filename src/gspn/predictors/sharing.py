"""Heads shared out among threads, so that each thread has its own products and none waits for another within an epoch.

Products that torch itself spreads over threads make all of them wait for the slowest at every step, and what lies
between the products is done by one. Here belongs who does what, not what is done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from threading import Event
from types import TracebackType
from typing import Self, TypeVar

import torch

Result = TypeVar("Result")

_COLUMNS_WORTH_A_THREAD = 128
"""Narrower products do not repay a thread that reads all batches for them."""

_COLUMNS_WORTH_A_TORCH_THREAD = 64
"""Narrower products are not made faster by one more of torch's own threads."""

_COLUMNS_AT_ONCE = 1024
"""Widest product of the vertex layer, which bounds the memory that a batch takes."""


def share_out(widths: Sequence[int], threads: int) -> list[list[list[int]]]:
    """Numbers of heads by share and, in it, by stack: shares are about equally wide, a stack has heads of one width."""
    number = max(1, min(threads, len(widths), sum(widths) // _COLUMNS_WORTH_A_THREAD))
    shares: list[list[int]] = [[] for _ in range(number)]
    loads = [0] * number
    for head in sorted(range(len(widths)), key=lambda head: -widths[head]):
        least = loads.index(min(loads))
        shares[least].append(head)
        loads[least] += widths[head]
    return [
        [part for width, own in groupby(share, widths.__getitem__) for part in _parts(list(own), width)]
        for share in shares
    ]


def _parts(heads: list[int], width: int) -> list[list[int]]:
    at_once = max(1, _COLUMNS_AT_ONCE // width)
    return [heads[first : first + at_once] for first in range(0, len(heads), at_once)]


class Workers:
    """As many threads as torch uses; `stop` is set when nobody waits for their work any more."""

    def __init__(self) -> None:
        self.threads, self.stop = torch.get_num_threads(), Event()
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="gspn-heads")

    def run(self, tasks: Sequence[Callable[[], Result]], columns: Sequence[int]) -> list[Result]:
        """The results of all tasks, whose widest products have so many columns; a single task is done right here."""
        most = max(1, self.threads // len(tasks))

        def do(task: Callable[[], Result], width: int) -> Result:
            # Holds for the thread that it is called in. More threads than this gain nothing, and lose much where other
            # processes compete for them.
            torch.set_num_threads(max(1, min(most, width // _COLUMNS_WORTH_A_TORCH_THREAD)))
            return task()

        if len(tasks) == 1:
            return [do(tasks[0], columns[0])]
        return list(self._pool.map(do, tasks, columns))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop.set()
        self._pool.shutdown()
        # What the workers have set for themselves is also what threads to come would begin with.
        torch.set_num_threads(self.threads)
