"""From records to findings: the table of test scores beside the paper's, training curves, scores against levels."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gspn.experiments.findings import Chart, Findings, Line, Number, Row, Table
from gspn.experiments.grids import Grid
from gspn.experiments.measures import MEASURES
from gspn.experiments.protocols import Contest
from gspn.experiments.published import PUBLISHED
from gspn.experiments.records import Record, Records
from gspn.experiments.runs import Run


def findings(grid: Grid, contests: Sequence[Contest], records: Records, command: str) -> Findings:
    """What is known by now; an experiment need not be complete to be looked at."""
    made = [
        record
        for contest in contests
        for run in contest.known(records.get)
        if (record := records.get(run.key)) is not None
    ]
    parts: list[Table | Chart] = []
    if grid.protocol.runs:
        shown = ("nll per vertex", "nll per entry") if grid.question == "fill" else (grid.measure,)
        parts += [_table(grid, contests, records, measure) for measure in shown]
    if "levels" in grid.figures:
        parts += _levels(grid, contests, records)
    if "curves" in grid.figures:
        parts += _curves(contests, records)
    return Findings(
        title=grid.title,
        command=command,
        done=len(made),
        planned=sum(contest.planned for contest in contests),
        parts=tuple(parts),
        notes=grid.notes,
        made_with=_made_with(made),
    )


def _table(grid: Grid, contests: Sequence[Contest], records: Records, measure: str) -> Table:
    shown = MEASURES[measure]
    columns = tuple(dict.fromkeys(contest.column for contest in contests))
    paper = PUBLISHED.get(grid.paper or "", {}) if measure == grid.measure else {}
    rows, notes = [], []
    for name in dict.fromkeys(contest.row for contest in contests):
        ours = {}
        for column in columns:
            folds = [contest for contest in contests if (contest.row, contest.column) == (name, column)]
            scores = [_test_scores(contest, records, measure) for contest in folds]
            complete = [found for found in scores if found]
            if complete:
                ours[column] = _number(complete, shown.factor)
            if complete and len(complete) < len(folds):
                notes.append(f"{name} on {column}: {len(complete)} of {len(folds)} folds so far")
        rows.append(Row(name, ours, paper.get(grid.models[name].published or name, {})))
    return Table(grid.title, shown.label, shown.better, columns, tuple(rows), shown.digits, tuple(notes))


def _test_scores(contest: Contest, records: Records, measure: str) -> list[float]:
    """Test scores of a contest's final runs; empty until all of them are there."""
    finals = [records.get(run.key) for run in contest.finals(records.get)]
    if not finals or any(record is None for record in finals):
        return []
    return [record["scores"]["test"][measure] for record in finals if record is not None and "error" not in record]


def _number(scores: Sequence[Sequence[float]], factor: float) -> Number:
    """Over folds where there are several, the runs of a fold averaged; else over the runs of the only one."""
    values = [factor * statistics.mean(runs) for runs in scores] if len(scores) > 1 else [factor * v for v in scores[0]]
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Number(statistics.mean(values), deviation, len(values))


def _levels(grid: Grid, contests: Sequence[Contest], records: Records) -> list[Chart]:
    """Validation scores against the number of levels, one line for each pair of state numbers.

    Averaged over folds and over all other settings, as in the paper's figure.
    """
    shown = MEASURES[grid.measure]
    charts = []
    for column, own in _by_column(contests):
        lines: dict[str, dict[int, list[float]]] = {}
        for run, record in _judged(own, records):
            label = ", ".join(
                f"{symbol} = {run.settings[key]}"
                for symbol, key in (("C", "num_states"), ("C_g", "num_graph_states"))
                if key in run.settings
            )
            score = shown.factor * record["scores"]["validation"][grid.measure]
            lines.setdefault(label, {}).setdefault(run.settings["num_layers"], []).append(score)
        if lines:
            charts.append(
                Chart(
                    f"{column}: number of levels",
                    "number of levels",
                    f"validation {shown.label}",
                    tuple(_line(label, points) for label, points in lines.items()),
                    ("Bands are standard errors of the mean over folds and configurations.",),
                )
            )
    return charts


def _line(label: str, points: Mapping[int, Sequence[float]]) -> Line:
    x = sorted(points)
    errors = [statistics.stdev(points[i]) / len(points[i]) ** 0.5 if len(points[i]) > 1 else 0.0 for i in x]
    return Line(label, tuple(map(float, x)), tuple(statistics.mean(points[i]) for i in x), tuple(errors))


def _curves(contests: Sequence[Contest], records: Records) -> list[Chart]:
    """How the validation loss of each model's first final run fell, on the first fold of each dataset."""
    charts = []
    for column, own in _by_column(contests):
        first = min(contest.fold for contest in own)
        lines = []
        for contest in own:
            final = next(iter(contest.finals(records.get)), None)
            record = None if final is None else records.get(final.key)
            curve = {} if record is None or contest.fold != first else record["curves"].get("model", {})
            if len(curve.get("validation", ())) > 1:
                lines.append(Line(contest.row, tuple(curve["epoch"]), tuple(curve["validation"])))
        if lines:
            note = "Losses of different objectives are no measure of each other; the shapes can be compared."
            charts.append(Chart(f"{column}: validation loss", "epoch", "loss", tuple(lines), (note,)))
    return charts


def _by_column(contests: Sequence[Contest]) -> Iterable[tuple[str, list[Contest]]]:
    for column in dict.fromkeys(contest.column for contest in contests):
        yield column, [contest for contest in contests if contest.column == column]


def _judged(contests: Sequence[Contest], records: Records) -> Iterable[tuple[Run, Record]]:
    for contest in contests:
        for run in contest.candidates:
            record = records.get(run.key)
            if record is not None and "error" not in record:
                yield run, record


def _made_with(made: Sequence[Record]) -> dict[str, str]:
    """Versions and commits, several of a kind side by side, and what all the training took."""
    kinds: dict[str, dict[str, Any]] = {}
    for record in made:
        for name, value in {**record["versions"], "commit": record["commit"], "threads": record["threads"]}.items():
            kinds.setdefault(name, {})[str(value)] = None
    shown = {name: ", ".join(values) for name, values in kinds.items()}
    hours = sum(sum(record["seconds"].values()) for record in made) / 3600
    return shown | {"training time": f"{hours:.1f} hours of one process"}
