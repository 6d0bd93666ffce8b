"""One thread for all that computes: kernels must not run side by side, and one thread keeps its workers warm.

Questions come first. A learning, which may take a minute, pauses after every step (`gspn.training.pause`) to let the
questions be answered that have come meanwhile, and ends there if nobody waits for it any more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.exceptions import HTTPException

from gspn.training import pausing
from gspn.web.limits import Limits

T = TypeVar("T")


class AbandonedError(Exception):
    """A learning has ended, as nobody waits for it."""


@dataclass(frozen=True, eq=False)
class _Job:
    do: Callable[[], Any]
    is_wanted: Callable[[], bool] = lambda: True
    future: Future[Any] = field(default_factory=Future)

    def run(self, before: Callable[[], None] = lambda: None) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            before()
            found = self.do()
        except BaseException as error:
            self.future.set_exception(error)
        else:
            self.future.set_result(found)


class Worker:
    """Answers questions one after another, and learns in between; whoever would wait too long is told so."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._waiting, self._ended = limits, 0, False
        self._questions: deque[_Job] = deque()
        self._learning: deque[_Job] = deque()
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
            job = self._submit(self._questions, _Job(lambda: function(*arguments)))
            return await asyncio.wait_for(asyncio.wrap_future(job.future), self._limits.seconds)
        except TimeoutError:
            raise HTTPException(
                503, f"no answer within {self._limits.seconds:g} seconds: the graph is too large, or the server busy"
            ) from None
        finally:
            self._waiting -= 1

    async def learn(self, function: Callable[[], T], is_wanted: Callable[[], bool]) -> T:
        """The function's result, however long it takes; `AbandonedError` once it is not wanted any more.

        One learns at a time, in the order of asking.
        """
        job = self._submit(self._learning, _Job(function, is_wanted))
        return await asyncio.wrap_future(job.future)

    def stop(self) -> None:
        self._ended = True  # what is learning ends at its next pause
        self._thread.shutdown(wait=False, cancel_futures=True)
        for job in (*self._questions, *self._learning):
            job.future.cancel()

    def _submit(self, waiting: deque[_Job], job: _Job) -> _Job:
        waiting.append(job)
        self._thread.submit(self._next)
        return job

    def _next(self) -> None:
        """Do what waits longest, questions first; there may be nothing, if a pause has dealt with it."""
        if self._questions:
            self._questions.popleft().run()
        elif self._learning:
            job = self._learning.popleft()

            def pause() -> None:
                if self._ended or not job.is_wanted():
                    raise AbandonedError
                while self._questions:
                    self._questions.popleft().run()

            with pausing(pause):
                job.run(pause)
