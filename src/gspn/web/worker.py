"""One thread for all that computes: kernels must not run side by side, and one thread keeps its workers warm."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from starlette.exceptions import HTTPException

from gspn.web.limits import Limits

T = TypeVar("T")


class Worker:
    """Answers questions one after another; whoever would wait too long is told so."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._waiting = limits, 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="gspn-web")

    async def ask(self, function: Callable[..., T], *arguments: object) -> T:
        """The function's result, within the limits of waiting and time.

        A computation cannot be stopped half-way; one that takes too long is answered for, and its end is awaited by
        the next question.
        """
        if self._waiting >= self._limits.waiting:
            raise HTTPException(
                503, f"the server is busy: {self._waiting} questions are waiting; try again in a moment"
            )
        self._waiting += 1
        try:
            return await asyncio.wait_for(self.run(function, *arguments), self._limits.seconds)
        except TimeoutError:
            raise HTTPException(
                503, f"no answer within {self._limits.seconds:g} seconds: the graph is too large, or the server busy"
            ) from None
        finally:
            self._waiting -= 1

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        """The function's result, however long it takes: for the server's own work."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    def stop(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
