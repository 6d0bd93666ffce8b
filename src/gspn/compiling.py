"""Compiling loops with Numba: one way for all rooms that have some."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile with Numba, keeping the machine code on disk where there is a place for it."""
    options: dict[str, Any] = {"nogil": True, "boundscheck": False}
    try:
        return numba.njit(cache=True, **options)(function)  # type: ignore[no-any-return]
    except RuntimeError as error:  # no folder that could hold the cache
        logging.getLogger(__name__).info("%s is compiled anew in every process: %s", function.__name__, error)
        return numba.njit(**options)(function)  # type: ignore[no-any-return]
