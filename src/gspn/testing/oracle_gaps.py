"""The oracle's gaps as evidence: how likely an entry of a leaf is missing, and what its code says therefore.

A leaf whose gaps are evidence has "gaps": for each of its attributes the probability of a gap. What is left of it is a
leaf like any other; nothing of the library belongs here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gspn.testing.oracle_leaves import Parameters, log


def log_codes(leaf: Parameters, codes: Sequence[str]) -> float:
    """Log probability that entries are observed or missing as they are; nothing is said of hidden ones."""
    if "gaps" not in leaf:
        return 0.0
    factors = []
    for gap, code in zip(np.atleast_1d(leaf["gaps"]), codes, strict=True):
        match code:
            case "observed":
                factors.append(log(1 - float(gap)))
            case "missing":
                factors.append(log(float(gap)))
            case "hidden":
                pass
            case _:
                raise ValueError(f"no such code: {code!r}")
    return math.fsum(factors)


def without(leaf: Parameters) -> dict[str, Any]:
    return {key: value for key, value in leaf.items() if key != "gaps"}
