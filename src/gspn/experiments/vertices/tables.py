"""From records of the question "label" to what a report shows: ranks, margins, scores by set and by share of gaps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import mean, stdev

from gspn.experiments.findings import Chart, Number, Picture, ResultTable, Row
from gspn.experiments.protocols import ModelSelection
from gspn.experiments.records import Record, Records
from gspn.experiments.yardstick.ranks import average_ranks, gains
from gspn.experiments.yardstick.tables import (
    Case,
    by_set,
    complete_cases,
    ranks_drawn,
    scores_of,
    with_intervals,
)

_LOSSES: Mapping[str, Callable[[Mapping[str, float]], float]] = {
    "1 - macro F1": lambda scores: 1 - scores["macro F1"],
    "error rate": lambda scores: 1 - scores["accuracy"],
    "log-loss": lambda scores: scores["log-loss"],
    "calibration": lambda scores: scores["calibration"],
}
"""All are better the lower they are, as ranks want it."""
_MOST_COLUMNS, _LEAST_SEEDS = 6, 3
"""Of the table of accuracies"""


def label_parts(
    contests: Sequence[ModelSelection], records: Records, against: str | None
) -> tuple[list[ResultTable | Chart | Picture], list[str]]:
    """What is shown, and what is to be said of it."""
    found, notes = complete_cases(contests, records)
    if not found:
        return [], notes
    methods = list(next(iter(found.values())))
    scores = {name: scores_of(found, loss) for name, loss in _LOSSES.items()}
    ranks = {name: average_ranks(cases) for name, cases in scores.items()}
    parts: list[ResultTable | Chart | Picture] = [
        with_intervals("Average ranks", "mean rank over sets", ranks, methods, scores, 2)
    ]
    if against in methods:
        assert against is not None
        parts.append(
            with_intervals(
                f"Against {against}",
                f"difference from {against} in the same cases, negative where a method is better",
                {name: gains(cases, against, False) for name, cases in scores.items()},
                methods,
                scores,
                3,
            )
        )
    parts.append(ranks_drawn("Average rank by macro F1", ranks["1 - macro F1"], "average rank by macro F1"))
    parts.append(ranks_drawn("Average rank by log-loss", ranks["log-loss"], "average rank by log-loss"))
    parts += [by_set(name, "mean over the cases of a set", cases) for name, cases in scores.items()]
    parts += _accuracies(found)
    parts += [_by_gaps(name, cases) for name, cases in scores.items() if name in ("1 - macro F1", "log-loss")]
    collapsed = [
        f"{row} predicts a single class on {name} ({case})."
        for (name, case), own in found.items()
        for row, record in own.items()
        if record["scores"].get("hidden", {}).get("classes") == 1.0 and row != "frequencies"
    ]
    seconds = {
        row: Number(mean(record["seconds"]["model"] for record in made), runs=len(made))
        for row in methods
        if (made := [own[row] for own in found.values() if "error" not in own[row]])
    }
    rows = tuple(Row(row, {"seconds": number}, {}) for row, number in seconds.items())
    parts.append(ResultTable("Time", "seconds per run, of the clock", "lower", ("seconds",), rows, 1))
    return parts, [*notes, *collapsed]


def _accuracies(found: Mapping[Case, Mapping[str, Record]]) -> list[ResultTable]:
    """Percents of the labels that are right by set and gaps, where a few sets have several seeds."""
    by_column: dict[str, list[Mapping[str, Record]]] = {}
    for (name, case), own in found.items():
        by_column.setdefault(f"{name}, {case.split(',')[0]}", []).append(own)
    if len(by_column) > _MOST_COLUMNS or min(map(len, by_column.values())) < _LEAST_SEEDS:
        return []
    rows = []
    for row in next(iter(found.values())):
        numbers = {}
        for column, cases in by_column.items():
            right = [100 * own[row]["scores"]["hidden"]["accuracy"] for own in cases if "error" not in own[row]]
            if right:
                numbers[column] = Number(mean(right), stdev(right) if len(right) > 1 else None, runs=len(right))
        rows.append(Row(row, numbers, {}))
    title, measure = "Accuracy by set and gaps", "% of the labels that are right"
    return [ResultTable(title, measure, "higher", tuple(by_column), tuple(rows), 1)]


def _by_gaps(name: str, scores: Mapping[Case, Mapping[str, float]]) -> ResultTable:
    """Average ranks again, by what is hidden."""
    kinds = list(dict.fromkeys(case.split(",")[0] for _, case in scores))
    cases = {kind: {case: own for case, own in scores.items() if case[1].split(",")[0] == kind} for kind in kinds}
    methods = list(next(iter(scores.values())))
    ranks = {kind: average_ranks(own) for kind, own in cases.items()}
    return with_intervals(f"Average ranks by {name} and gaps", "mean rank over sets", ranks, methods, cases, 1)
