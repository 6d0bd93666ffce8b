"""How the numbers of a table are written and which of them are marked; all forms of a report agree on it."""

from __future__ import annotations

import math
from typing import Literal

from gspn.experiments.findings import Findings, Number, ResultTable

Mark = Literal["best", "second"]


def marks(table: ResultTable) -> dict[tuple[int, str], Mark]:
    """The best and the second-best of our numbers in every column, by row number and column.

    Numbers are compared as they are written: two that read alike are equally good. With several best ones there is no
    second, and a number that stands alone in its column is not compared with anything. A mean over other folds than
    the most complete one's of its column is one of other graphs, which is no contest either.
    """
    if table.better is None:
        return {}
    found: dict[tuple[int, str], Mark] = {}
    for column in table.columns:
        written = {
            number: round(row.ours[column].mean, table.digits)
            for number, row in enumerate(table.rows)
            if column in row.ours
            and math.isfinite(row.ours[column].mean)
            and not _is_over_other_folds(row.ours[column], table, column)
        }
        order = sorted(written.values(), reverse=table.better == "higher")
        if len(order) < 2:
            continue
        for number, value in written.items():
            if value == order[0]:
                found[number, column] = "best"
            elif order[0] != order[1] and value == order[1]:
                found[number, column] = "second"
    return found


def unmarked(table: ResultTable) -> str:
    """What the explanation of marks has to add where numbers take no part in the comparison."""
    other = any(
        _is_over_other_folds(number, table, column) for row in table.rows for column, number in row.ours.items()
    )
    return "; means over other folds take no part" if other else ""


def _is_over_other_folds(number: Number, table: ResultTable, column: str) -> bool:
    all_folds = (row.ours[column].folds for row in table.rows if column in row.ours)
    return number.folds != max(all_folds, key=len)


def write(value: float, digits: int) -> str:
    """A number with a proper minus and without a negative zero."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "−∞"
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")


def mean_and_deviation(number: Number, digits: int) -> tuple[str, str]:
    """Both as text; the deviation is empty where there is none."""
    if number.written is not None:
        return number.written
    if number.interval is not None:
        low, high = (write(end, digits) for end in number.interval)
        return f"{write(number.mean, digits)} [{low}, {high}]", ""
    spread = number.deviation
    return write(number.mean, digits), "" if spread is None or math.isnan(spread) else write(spread, digits)


def counted(table: ResultTable) -> str:
    """What a complete number of ours is a mean over, as "10 folds"; empty where there is none."""
    numbers = [number for row in table.rows for number in row.ours.values()]
    return _count(max(numbers, key=lambda number: len(number.folds) or number.runs)) if numbers else ""


def counted_otherwise(number: Number | None, table: ResultTable) -> str:
    """What this one is a mean over where the caption says something else, else nothing: the cell has to say so."""
    own = "" if number is None else _count(number)
    return "" if own == counted(table) else own


def _count(number: Number) -> str:
    count, unit = (len(number.folds), "fold") if number.folds else (number.runs, "run")
    return f"{count} {unit}{'s' * (count != 1)}"


def _has_deviations(table: ResultTable) -> bool:
    return any(number.deviation is not None for row in table.rows for number in row.ours.values())


def has_published(table: ResultTable) -> bool:
    return any(column in row.published for row in table.rows for column in table.columns)


def caption(table: ResultTable) -> str:
    """What the numbers are, and which are good."""
    over = counted(table)
    shown = "mean ± standard deviation" if _has_deviations(table) else "means"
    kind = {"": "", "1 run": "single runs", "1 fold": "a single fold"}
    spread = kind.get(over, f"{shown} over {over}")
    better = f"{table.better} is better" if table.better else ""
    return ", ".join(filter(None, [table.measure, better, spread]))


def progress(findings: Findings) -> str:
    """Whether the experiment is complete, in words; what leaves parts of its grid out is not."""
    done, planned = findings.done, findings.planned
    without = f"; left out of this report: {', '.join(findings.left_out)}" if findings.left_out else ""
    if is_complete(findings):
        return f"complete: {done} of {planned} runs"
    if done >= planned > 0:
        return f"not all of the grid: {done} of {planned} planned runs{without}"
    if not done:
        return f"nothing has been run yet: 0 of {planned} runs{without}"
    return f"incomplete: {done} of {planned} runs; the numbers are provisional{without}"


def is_complete(findings: Findings) -> bool:
    """Whether all runs of the whole grid have been made."""
    return findings.done >= findings.planned > 0 and not findings.left_out
