"""Checks of arguments that any room may have: whole numbers, real numbers, choices; messages name the argument.

What an argument means to a model is checked in `models.checks`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

from gspn.errors import InputError


def check_integer(name: str, value: Any, least: int, most: int | None = None) -> None:
    number = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None
    if number is None or number < least or (most is not None and number > most):
        bounds = f"of at least {least}" if most is None else f"between {least} and {most}"
        raise InputError(f"{name} must be an integer {bounds}, got {value!r}")


def check_real(name: str, value: Any, low: float, high: float, *, low_open: bool = False) -> None:
    try:
        number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    except OverflowError:
        number = math.inf
    if not (low <= number <= high) or math.isinf(number) or (low_open and number == low):
        bounds = f"{'above' if low_open else 'at least'} {low:g}" + (
            "" if math.isinf(high) else f" and at most {high:g}"
        )
        raise InputError(f"{name} must be a number {bounds}, got {value!r}")


def check_choice(name: str, value: Any, choices: Sequence[Any]) -> None:
    if value not in choices:
        raise InputError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
