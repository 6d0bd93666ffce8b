"""From records of the question "impute" to what a report shows: ranks, gains, scores by set, coverage, pictures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from typing import Any

from gspn.experiments.findings import Chart, Line, Number, Picture, ResultTable, Row
from gspn.experiments.protocols import ModelSelection
from gspn.experiments.records import Record, Records
from gspn.experiments.yardstick.ranks import average_ranks, gains
from gspn.plots.canvas import name_axes, new_figure, plain
from gspn.plots.colours import PALETTE, QUIET
from gspn.plots.files import svg_text

Case = tuple[str, str]
"""A set, and mechanism, rate and seed as text."""
Found = Mapping[Case, Mapping[str, Record]]

Interval = tuple[float, float, float]

_FEWEST_ALONE = 30
"""Numbers of vertices without informed neighbours, of which a coverage says something."""

_INTERVALS = "In brackets: 90 % intervals, from drawing sets with replacement, the same for all methods."


def imputation_parts(
    contests: Sequence[ModelSelection], records: Records, against: str | None
) -> tuple[list[ResultTable | Chart | Picture], list[str]]:
    """What is shown, and what is to be said of it."""
    found, notes = complete_cases(contests, records)
    if not found:
        return [], notes
    methods = list(next(iter(found.values())))
    scores = {
        "error": scores_of(found, _error),
        "NLL": scores_of(found, lambda scores: scores.get("nll")),
        "CRPS": scores_of(found, lambda scores: scores.get("crps")),
        "wrong categories": scores_of(found, lambda scores: 1 - scores["accuracy"] if "accuracy" in scores else None),
    }
    scores = {name: cases for name, cases in scores.items() if cases}
    ranks = {name: average_ranks(cases) for name, cases in scores.items()}
    parts: list[ResultTable | Chart | Picture] = [
        with_intervals("Average ranks", "mean rank over sets", ranks, methods, scores, 2),
    ]
    if against in methods:
        assert against is not None
        relative = {
            f"{name} in %": {row: _percent(gain) for row, gain in gains(scores[name], against, True).items()}
            for name in ("error", "CRPS")
            if name in scores
        }
        ours = {**relative, "NLL in nats": gains(scores["NLL"], against, False)}
        counted = {f"{name} in %": scores[name] for name in ("error", "CRPS") if name in scores}
        parts.append(
            with_intervals(
                f"Against {against}",
                f"difference from {against} in the same cases, negative where a method is better",
                ours,
                methods,
                {**counted, "NLL in nats": scores["NLL"]},
                2,
            )
        )
    parts.append(ranks_drawn("Average rank by NLL", ranks["NLL"], "average rank by NLL"))
    parts.append(ranks_drawn("Average rank by error", ranks["error"], "average rank by error"))
    parts += [
        by_set("Error", "RMSE in deviations (where a set has no numbers: share of wrong categories)", scores["error"]),
        by_set("NLL", "nats per hidden entry, densities per deviation", scores["NLL"]),
    ]
    parts += [by_set("CRPS", "CRPS in deviations", scores["CRPS"])] if "CRPS" in scores else []
    parts += _by_mechanism(found)
    parts += _calibration(found, methods)
    return parts, notes


def complete_cases(contests: Sequence[ModelSelection], records: Records) -> tuple[Found, list[str]]:
    """Records by case and method, of cases that every method with results has finished."""
    by_case: dict[Case, dict[str, Record]] = {}
    for contest in contests:
        (run,) = contest.candidates
        if (record := records.get(run.key)) is not None:
            case = f"{run.asked['mechanism']} {run.asked['rate']:.0%}, seed {run.seed}"
            by_case.setdefault((contest.column, case), {})[contest.row] = record
    methods = [
        row
        for row in dict.fromkeys(contest.row for contest in contests)
        if any(row in found for found in by_case.values())
    ]
    complete = {
        case: {row: found[row] for row in methods}
        for case, found in by_case.items()
        if all(row in found for row in methods)
    }
    sets = list(dict.fromkeys(name for name, _ in complete))
    notes = [
        f"{len(complete)} cases of {len(sets)} sets that all methods have finished are compared: {', '.join(sets)}."
    ]
    if len(complete) < len(by_case):
        notes.append(f"{len(by_case) - len(complete)} cases are left out, as some method has not finished them.")
    failed = sorted({(row, name) for (name, _), found in complete.items() for row in found if "error" in found[row]})
    notes += [f"{row} failed on {name} at least once; it has the last rank there." for row, name in failed]
    return complete, notes


def _error(scores: Mapping[str, float]) -> float | None:
    return scores["rmse"] if "rmse" in scores else 1 - scores["accuracy"]


def scores_of(found: Found, score: Callable[[Mapping[str, float]], float | None]) -> dict[Case, dict[str, float]]:
    """One score of all methods, in the cases that have it; infinite of methods that failed."""
    wanted: dict[Case, dict[str, float]] = {}
    for case, records in found.items():
        own = {row: score(record["scores"]["hidden"]) for row, record in records.items() if "error" not in record}
        if own and all(value is not None for value in own.values()):
            wanted[case] = {row: value if (value := own.get(row)) is not None else math.inf for row in records}
    return wanted


def with_intervals(
    title: str,
    measure: str,
    columns: Mapping[str, Mapping[str, Interval]],
    methods: Sequence[str],
    cases: Mapping[str, Mapping[Case, Any]],
    digits: int,
) -> ResultTable:
    def number(column: str, row: str) -> Number:
        value, low, high = columns[column][row]
        return Number(value, runs=len(cases[column]), interval=(low, high))

    rows = tuple(
        Row(row, {column: number(column, row) for column in columns if row in columns[column]}, {}) for row in methods
    )
    return ResultTable(title, measure, "lower", tuple(columns), rows, digits, (_INTERVALS,))


def _percent(interval: Interval) -> Interval:
    return 100 * interval[0], 100 * interval[1], 100 * interval[2]


def by_set(title: str, measure: str, scores: Mapping[Case, Mapping[str, float]]) -> ResultTable:
    columns = tuple(dict.fromkeys(name for name, _ in scores))
    methods = list(next(iter(scores.values())))
    own = {column: [found for (name, _), found in scores.items() if name == column] for column in columns}
    rows = tuple(
        Row(row, {c: Number(mean(found[row] for found in own[c]), runs=len(own[c])) for c in columns}, {})
        for row in methods
    )
    return ResultTable(title, measure, "lower", columns, rows, 3)


def _by_mechanism(found: Found) -> list[ResultTable]:
    """The error again, over sets, by what was hidden."""
    kinds = dict.fromkeys(case.split(",")[0] for _, case in found)
    scores = scores_of(found, _error)
    by_kind = {
        kind: average_ranks({case: own for case, own in scores.items() if case[1].split(",")[0] == kind})
        for kind in kinds
    }
    methods = list(next(iter(found.values())))
    cases = {kind: {case: own for case, own in scores.items() if case[1].split(",")[0] == kind} for kind in kinds}
    return [with_intervals("Average ranks by error and mechanism", "mean rank over sets", by_kind, methods, cases, 1)]


def _calibration(found: Found, methods: Sequence[str]) -> list[ResultTable | Chart | Picture]:
    """Coverage, width and PIT of numbers, and what it all took."""
    made = {row: [records[row] for records in found.values() if "error" not in records[row]] for row in methods}
    numeric = {row: [record for record in own if "coverage" in record["scores"]["hidden"]] for row, own in made.items()}
    rows, coverage, lines = [], {}, []
    for row in methods:
        ours = {}
        if own := [record["scores"]["hidden"] for record in numeric[row]]:
            covered = [scores["coverage"] for scores in own]
            order = sorted(covered)
            tenth = len(order) // 10
            coverage[row] = (mean(covered), order[tenth], order[-1 - tenth])
            ours["coverage"] = Number(mean(covered), runs=len(own))
            ours["least of a set"] = Number(_least(found, row), runs=len(own))
            if apart := [scores for scores in own if scores.get("entries alone", 0) >= _FEWEST_ALONE]:
                ours["alone"] = Number(mean(scores["coverage alone"] for scores in apart), runs=len(apart))
            ours["width"] = Number(mean(scores["width"] for scores in own), runs=len(own))
            counts = [
                sum(record["pit"][place] for record in numeric[row]) for place in range(len(numeric[row][0]["pit"]))
            ]
            places = tuple((place + 0.5) / len(counts) for place in range(len(counts)))
            lines.append(Line(row, places, tuple(len(counts) * count / max(sum(counts), 1) for count in counts)))
        if costs := [cost for one in made[row] if (cost := one["scores"]["hidden"].get("costliest")) is not None]:
            ours["costliest"] = Number(max(costs), runs=len(costs))
        if made[row]:
            ours["seconds"] = Number(mean(record["seconds"]["model"] for record in made[row]), runs=len(made[row]))
        rows.append(Row(row, ours, {}))
    notes = (
        "Widths are in deviations. A central interval of 90 % should hold 0.90 of the hidden numbers; in the set where "
        "it holds least, means over cases, it holds the second number.",
        f"Alone are vertices that receive from none with observed entries, where a case has {_FEWEST_ALONE} such "
        "numbers. Costliest: the hidden entry that was held least likely, in nats.",
    )
    columns = ("coverage", "least of a set", "alone", "width", "costliest", "seconds")
    parts: list[ResultTable | Chart | Picture] = [
        ResultTable("Calibration and time", "intervals of 90 %", None, columns, tuple(rows), 3, notes)
    ]
    if coverage:
        parts.append(ranks_drawn("Coverage", coverage, "coverage of 90 % intervals, all cases but the tenths", 0.9))
        flat = "The density of F(x) at the hidden values; flat at 1 where probabilities are right."
        parts.append(Chart("PIT", "F(x) of the hidden value", "density", tuple(lines), (flat,)))
    return parts


def _least(found: Found, row: str) -> float:
    """Coverage in the set where it is least."""
    by_set: dict[str, list[float]] = {}
    for (name, _), records in found.items():
        covered = records[row].get("scores", {}).get("hidden", {}).get("coverage")
        if covered is not None:
            by_set.setdefault(name, []).append(covered)
    return min(map(mean, by_set.values()))


def ranks_drawn(title: str, values: Mapping[str, Interval], label: str, wanted: float | None = None) -> Picture:
    finite = {row: interval for row, interval in values.items() if all(map(math.isfinite, interval))}
    return Picture(title, dots(finite, label, wanted))


def dots(values: Mapping[str, tuple[float, float, float]], label: str, wanted: float | None = None) -> str:
    """SVG of values with intervals, smallest at the top; `wanted` is marked by a line."""
    order = sorted(values, key=lambda name: values[name][0], reverse=True)
    figure, (axes,) = new_figure(height=1.0 + 0.28 * max(len(order), 1))
    for place, name in enumerate(order):
        value, low, high = values[name]
        axes.plot([low, high], [place, place], color=PALETTE[0], linewidth=1.5, alpha=0.5)
        axes.plot([value], [place], "o", color=PALETTE[0], markersize=5)
    if wanted is not None:
        axes.axvline(wanted, color=QUIET, linewidth=1.0, linestyle="--")
    axes.set_yticks(range(len(order)), [plain(name) for name in order])
    name_axes(axes, label)
    return svg_text(figure)
