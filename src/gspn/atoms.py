"""Atoms in data: values of a continuous column that repeat far more often than a density at its resolution explains.

Zeros of inflated columns, caps and floors of instruments, sentinels such as −999. A column that is rounded to a coarse
grid repeats everywhere and has none, unless one value sticks out of its neighbours. What models make of atoms is
up to them, and whether they are given any is up to the caller.
"""

from __future__ import annotations

import torch
from torch import Tensor

SHARE = 0.03
"""Of a column's values, which an atom must have: a rarer one costs a density little, and states nothing is known of."""

REPEATS = 5
"""Of an atom, at least: in a short column three per cent are a coincidence."""

TIMES = 5.0
"""How many times as often an atom occurs as the distinct values around it do on average, the commonest left out."""

SURE = 5.0
"""By how many deviations, √ of what is expected, it must be more: columns have many values, and all are tried."""

BESIDE = 2.5
"""On a grid: how many times as often as the distinct values next to it. Skewed columns fall off steeply, not in a leap:
for an exponential with a deviation of one step, the ratio is e. So atoms side by side are not found on a grid."""

AROUND = 5
"""Distinct values on either side that it is compared with."""

OTHERS = 3
"""Of these, the commonest that do not count where most others occur once: they may be atoms, too. On a grid, one."""

DISTINCT = 10
"""Distinct values that must be left elsewhere: a column with fewer is a list of values, which no density describes."""

MOST = 5
"""Atoms of a column; of more, the commonest."""


def find_atoms(x: Tensor) -> list[tuple[float, ...]]:
    """The atoms of each column of x [n, d], NaN = missing, ascending; columns without any have ()."""
    return [_of_column(column[~torch.isnan(column)].double()) for column in x.unbind(1)]


def _of_column(known: Tensor) -> tuple[float, ...]:
    values, counts = known.unique(return_counts=True)
    often = (counts >= max(REPEATS, SHARE * len(known))).nonzero().squeeze(1).tolist()
    found = [place for place in often if _sticks_out(counts, place)]
    found = sorted(found, key=lambda place: int(counts[place]), reverse=True)[:MOST]
    if len(values) - len(found) < DISTINCT:
        return ()
    return tuple(sorted(float(values[place]) for place in found))


def _sticks_out(counts: Tensor, place: int) -> bool:
    """Whether the value at a place among the distinct ones occurs far more often than those around it."""
    own = float(counts[place])
    around = torch.cat([counts[max(place - AROUND, 0) : place], counts[place + 1 : place + 1 + AROUND]]).double()
    if len(around) < AROUND:
        return False
    gridded = float(around.median()) > 1
    expected = float(around.sort().values[: -1 if gridded else -OTHERS].mean())
    if own < TIMES * expected or own - expected < SURE * expected**0.5:
        return False
    beside = counts[max(place - 1, 0) : place + 2]
    return not gridded or own >= BESIDE * float(beside.sort().values[-2])
