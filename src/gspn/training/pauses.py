"""Pauses of whoever learns: after every step something else may be done, in the same thread.

A server that computes in one thread answers questions in them, and ends what nobody waits for any more, by an
exception. Whoever learns in a loop calls `pause`, which does nothing unless somebody asked for it (`pausing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Pause = Callable[[], None]

_asked: ContextVar[Pause | None] = ContextVar("gspn_pause", default=None)


@contextmanager
def pausing(call: Pause) -> Iterator[None]:
    """Whatever learns in this thread meanwhile calls `call` after every step."""
    token = _asked.set(call)
    try:
        yield
    finally:
        _asked.reset(token)


def pause() -> None:
    """Let others have a turn, if there are any."""
    call = _asked.get()
    if call is not None:
        call()
