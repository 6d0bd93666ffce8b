"""Distinct rows of evidence: what many vertices have in common is computed once.

Atoms have a few dozen elements and vertices a few hundred degrees: densities, and their gradients, are needed for each
of these once a level, not for each vertex.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gspn.circuits.evidence import Evidence
from gspn.circuits.leaves import Leaves, Natural
from gspn.circuits.templates import NaiveBayes, gaps_are_evidence, inputs_of
from gspn.compiling import compiled


def distinct_inputs(
    template: NaiveBayes, families: Sequence[Leaves], naturals: Sequence[Natural], evidence: Evidence
) -> tuple[Tensor, Tensor | None]:
    """Inputs [levels, U, C] of the template for distinct rows of evidence [N, d], and every row's number [N] there.

    None: one row for every row of the evidence, in order.
    """
    x = evidence.x
    alike = not gaps_are_evidence(families)  # hidden or missing, it is the same to these
    if alike and len(families) == 1 and (table := families[0].table(naturals[0])) is not None:
        # The rows of a table are all that can occur: there is nothing to search for, or to look up.
        values = table.shape[1]
        if values <= _most(x):
            return table, x.squeeze(1).nan_to_num(nan=values - 1).int()
    if alike:
        rows, number = distinct_rows(x)
        return inputs_of(template, families, naturals, Evidence(rows)), number
    columns = x.shape[1]
    rows, number = distinct_rows(torch.cat([x, evidence.hidden.double(), evidence.missing.double()], dim=1))
    codes = rows[:, columns : 2 * columns] > 0, rows[:, 2 * columns :] > 0
    return inputs_of(template, families, naturals, Evidence(rows[:, :columns], *codes)), number


def distinct_rows(x: Tensor) -> tuple[Tensor, Tensor | None]:
    """The distinct rows of x [N, d], float64 on the CPU, and for every row of x the number [N] of its equal there.

    Rows are in the order of their first occurrence. Where too many are distinct for this to pay, x itself and None.
    """
    bits = x.contiguous().view(torch.int64).numpy()
    found, number = _number(bits, _most(x))
    if len(number) < len(bits):
        return x, None
    return torch.from_numpy(found).view(torch.float64), torch.from_numpy(number)


def _most(x: Tensor) -> int:
    """Distinct rows beyond which they do not pay: each thread sums gradients for all, half a row per vertex."""
    return len(x) // (2 * torch.get_num_threads())


@compiled
def _number(rows: Any, most: int) -> Any:
    """The distinct rows and the numbers of all rows; no numbers if more than `most` are distinct."""
    columns, places = rows.shape[1], 16
    while places < 2 * most:
        places *= 2
    table, mask = np.full(places, -1, np.int32), np.uint64(places - 1)
    number, first, found = np.empty(len(rows), np.int32), np.empty(most, np.int32), 0
    for i in range(len(rows)):
        key = np.uint64(0)
        for k in range(columns):
            key = (key ^ np.uint64(rows[i, k])) * np.uint64(0x9E3779B97F4A7C15)
            key ^= key >> np.uint64(29)
        place = key & mask
        while True:
            candidate = table[place]
            if candidate < 0:
                if found == most:
                    return rows[:0], number[:0]
                table[place], first[found], number[i] = found, i, found
                found += 1
                break
            same = True
            for k in range(columns):
                same &= rows[first[candidate], k] == rows[i, k]
            if same:
                number[i] = candidate
                break
            place = (place + np.uint64(1)) & mask
    distinct = np.empty((found, columns), np.int64)
    for i in range(found):
        for k in range(columns):  # a row at once would take three seconds longer to compile
            distinct[i, k] = rows[first[i], k]
    return distinct, number
