"""How a comparison is timed, judged and shown: interleaved repetitions, medians, paired ratios, a table or JSON."""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def medians(contestants: Mapping[str, Callable[[], object]], repetitions: int, warm_up: int = 2) -> dict[str, float]:
    """Median seconds of every contestant, each repetition running all of them in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for repetition in range(warm_up + repetitions):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            if repetition >= warm_up:
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def paired_ratio(old: Sequence[float], new: Sequence[float], level: float = 0.95) -> tuple[float, float, float]:
    """The geometric mean of new / old over rounds, and Student's interval for it, from the logarithms of the ratios."""
    from scipy.stats import t

    logs = [math.log(after / before) for before, after in zip(old, new, strict=True)]
    mean = statistics.fmean(logs)
    half = float(t.ppf((1 + level) / 2, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def show(rows: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """Print rows of equal keys as an aligned table, or as JSON."""
    if as_json:
        print(json.dumps(list(rows), indent=1))
        return
    if not rows:
        print("nothing was measured")
        return
    cells = [list(rows[0])] + [[_cell(value) for value in row.values()] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    for row in cells:
        first, *others = zip(row, widths, strict=True)
        print("  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]).rstrip())


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
