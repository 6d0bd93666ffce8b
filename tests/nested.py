"""Changes deep inside nested mappings and lists, as tests of what is refused need them."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

Change = Callable[[Any], None]


def alter(*path: str | int, by: Callable[[Any], Any]) -> Change:
    """Puts something made of what stands there in its place."""

    def change(whole: Any) -> None:
        inner = reduce(lambda part, step: part[step], path[:-1], whole)
        inner[path[-1]] = by(inner[path[-1]])

    return change


def put(*path: str | int, value: Any) -> Change:
    def change(whole: Any) -> None:
        reduce(lambda part, step: part[step], path[:-1], whole)[path[-1]] = value

    return change


def drop(*path: str | int) -> Change:
    def change(whole: Any) -> None:
        del reduce(lambda part, step: part[step], path[:-1], whole)[path[-1]]

    return change
