"""Distinct rows of evidence: what many vertices have in common is computed once.

Atoms have a few dozen elements and vertices a few hundred degrees: densities, and their gradients, are needed for each
of these once a level, not for each vertex.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from gspn.graphs.assembly import compiled


def distinct_rows(x: Tensor) -> tuple[Tensor, Tensor | None]:
    """The distinct rows of x [N, d], float64 on the CPU, and for every row of x the number [N] of its equal there.

    Rows are in the order of their first occurrence. Where too many are distinct for this to pay, x itself and None.
    """
    # Each thread sums gradients for all distinct rows; together that should not exceed one row a vertex.
    most = len(x) // (2 * torch.get_num_threads())
    bits = x.contiguous().numpy().view(np.int64)
    number, first = np.empty(len(bits), np.int32), np.empty(most, np.int32)
    places = 1 << max(4, (2 * most - 1).bit_length())
    found = _number(bits, first, number, np.full(places, -1, np.int32))
    if found < 0:
        return x, None
    return x[torch.from_numpy(first[:found])], torch.from_numpy(number)


@compiled
def _number(rows: Any, first: Any, number: Any, table: Any) -> int:
    """Number rows by an open hash table of at least twice as many places as there may be distinct rows."""
    found, columns, mask = 0, rows.shape[1], np.uint64(len(table) - 1)
    for i in range(len(rows)):
        key = np.uint64(0)
        for k in range(columns):
            key = (key ^ np.uint64(rows[i, k])) * np.uint64(0x9E3779B97F4A7C15)
            key ^= key >> np.uint64(29)
        place = key & mask
        while True:
            candidate = table[place]
            if candidate < 0:
                if found == len(first):
                    return -1
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
    return found
