"""Amounts of memory as people write them, and what of such a setting is free for arrays."""

from __future__ import annotations

import re

from gspn.errors import InputError

RESERVE = 96 << 20
"""Bytes of a setting that are not for arrays: compiled code, threads, and what numpy and torch keep for themselves.
An allowance, not a measured number; what a whole run takes is measured by `python -m gspn.benchmarks bounded`."""

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}


def parse_memory(memory: str | int) -> int:
    """Bytes, from a number of bytes or text such as "512 MiB" or "2 GB"."""
    if isinstance(memory, int) and not isinstance(memory, bool) and memory > 0:
        return int(memory)
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", memory.lower()) if isinstance(memory, str) else None
    if found is None or found[2] not in _UNITS or float(found[1]) == 0:
        raise InputError(f"memory must be a number of bytes or text such as '512 MiB', got {memory!r}")
    return int(float(found[1]) * _UNITS[found[2]])


def show_memory(amount: int) -> str:
    """In whole MiB, rounded up: what is said to be enough has to be."""
    return f"{-(-amount >> 20):,} MiB"


def rows_within(memory: int, bytes_a_row: int, least: int, what: str) -> int:
    """Rows that fit into a setting beside the reserve; fewer than `least` are an error that says what is needed."""
    rows = (memory - RESERVE) // bytes_a_row
    if rows < least:
        raise InputError(
            f"memory of {show_memory(memory)} is too little for {what}; it takes at least "
            f"{show_memory(RESERVE + least * bytes_a_row)}"
        )
    return rows
