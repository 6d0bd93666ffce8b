"""Numbers on a scale of colours: around a neutral centre, or from least to most; one for several drawings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gspn.columns import is_number, shorten
from gspn.errors import InputError
from gspn.plots.colours import BLANK, DIVERGING, SEQUENTIAL, blend

_ROUND = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


@dataclass(frozen=True)
class Scale:
    """Colours from `low` to `high`; with a centre, which lies half-way, they diverge from a neutral one."""

    low: float
    high: float
    centre: float | None = 0.0
    beyond: tuple[bool, bool] = (False, False)
    """Whether there are numbers below `low` and above `high`; they look like the end, and the legend says so."""

    def colour(self, value: float) -> str:
        """#rrggbb; a missing value has none of the scale's colours."""
        if math.isnan(value):
            return BLANK
        return blend(SEQUENTIAL if self.centre is None else DIVERGING, (value - self.low) / (self.high - self.low))

    def ticks(self) -> list[tuple[float, str]]:
        """Five numbers along the scale, and how they are written."""
        values = [self.low + (self.high - self.low) * i / 4 for i in range(5)]
        if self.centre is not None:
            values[2] = self.centre
        texts = [write_number(value, signed=self.centre is not None) for value in values]
        texts[0] = ("≤ " if self.beyond[0] else "") + texts[0]
        texts[-1] = ("≥ " if self.beyond[1] else "") + texts[-1]
        return list(zip(values, texts, strict=True))


def scale_for(values: Sequence[NDArray[np.float64]], centre: float | None = 0.0, limit: float | None = None) -> Scale:
    """The scale on which all the arrays are shown; NaN does not count.

    With a centre it reaches equally far to both sides, to a round number that covers all values, or to exactly `limit`
    from the centre. Without, it goes from the least value to the greatest.
    """
    present = np.concatenate([array[~np.isnan(array)] for array in values])
    least, greatest = float(present.min()), float(present.max())
    if centre is None:
        if limit is not None:
            raise InputError("limit is a distance from the centre, but centre is None")
        return Scale(least, greatest if greatest > least else least + 1.0, None)
    if limit is None:
        limit = _round_up(max(greatest - centre, centre - least))
    elif not is_number(limit) or not 0 < limit < math.inf:
        raise InputError(f"limit must be a positive number, got {shorten(limit)}")
    return Scale(centre - limit, centre + limit, centre, (least < centre - limit, greatest > centre + limit))


def write_number(value: float, signed: bool = False) -> str:
    """Three digits at most, a proper minus, 0 as 0."""
    text = f"{value:{'+' if signed else ''}.3g}" if value else "0"
    return text.replace("-", "−")


def _round_up(value: float) -> float:
    if value <= 0 or not math.isfinite(value):
        return 1.0
    unit = 10.0 ** math.floor(math.log10(value))
    # A number such as 0.3 is 2.9999… units: it is round already.
    return next((step * unit for step in _ROUND if value <= step * unit * (1 + 1e-9)), 10 * unit)
