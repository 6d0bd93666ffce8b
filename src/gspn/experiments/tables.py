"""From records to findings: the table of test scores beside the paper's, training curves, scores against levels."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gspn.experiments.findings import Chart, Findings, Line, Number, Picture, ResultTable, Row
from gspn.experiments.grids import Grid
from gspn.experiments.measures import MEASURES
from gspn.experiments.protocols import ModelSelection
from gspn.experiments.published import PUBLISHED
from gspn.experiments.records import Record, Records
from gspn.experiments.running import survey
from gspn.experiments.runs import Run, digest
from gspn.experiments.vertices.tables import label_parts
from gspn.experiments.yardstick.tables import imputation_parts
from gspn.plots.molecules import draw_molecules, read_molecule


def findings(
    grid: Grid,
    contests: Sequence[ModelSelection],
    records: Records,
    command: str,
    columns: Sequence[str] | None = None,
) -> Findings:
    """What is known by now; an experiment need not be complete to be looked at.

    `columns` are all those of the whole experiment: of those that no contest is in, the report says so; None: all of
    the grid.
    """
    found = {
        run.key: record
        for contest in contests
        for run in contest.known(records.get)
        if (record := records.get(run.key)) is not None
    }
    made = list(found.values())
    now = survey(contests, records)
    parts: list[ResultTable | Chart | Picture] = []
    notes = list(grid.notes)
    if grid.question == "time":
        parts.append(_times(grid, contests, records))
    elif grid.question == "draw":
        parts += _pictures(contests, records)
    elif grid.question == "impute":
        shown_parts, said = imputation_parts(contests, records, grid.against)
        parts += shown_parts
        notes += said
    elif grid.question == "label":
        shown_parts, said = label_parts(contests, records, grid.against)
        parts += shown_parts
        notes += said
    elif grid.protocol.runs:
        shown = ("nll per vertex", "nll per entry") if grid.question == "fill" else (grid.measure,)
        tables = [_table(grid, contests, records, measure) for measure in shown]
        parts += [*tables, *_margins(tables[0], grid.against)]
        notes += [_searches(contests)] if contests else []
    if "levels" in grid.figures:
        parts += _levels(grid, contests, records)
    if "curves" in grid.figures:
        parts += _curves(contests, records)
    return Findings(
        title=grid.title,
        command=command,
        done=now.made,
        planned=now.planned,
        parts=tuple(parts),
        notes=(*notes, *_failures(contests, records)),
        made_with=_made_with(made),
        left_out=_left_out(grid, contests, grid.data if columns is None else columns),
    )


def _left_out(grid: Grid, contests: Sequence[ModelSelection], columns: Iterable[str]) -> tuple[str, ...]:
    """Columns and rows of the grid that no contest is in."""
    columns_shown, rows_shown = {contest.column for contest in contests}, {contest.row for contest in contests}
    return (
        *(column for column in columns if column not in columns_shown),
        *(row for row in grid.models if row not in rows_shown),
    )


def _table(grid: Grid, contests: Sequence[ModelSelection], records: Records, measure: str) -> ResultTable:
    shown = MEASURES[measure]
    columns = tuple(dict.fromkeys(contest.column for contest in contests))
    paper = PUBLISHED.get(grid.paper or "", {}) if measure == grid.measure else {}
    rows, notes = [], []
    for name in dict.fromkeys(contest.row for contest in contests):
        ours = {}
        for column in columns:
            folds = [contest for contest in contests if (contest.row, contest.column) == (name, column)]
            scores = {contest.fold: _test_scores(contest, records, measure) for contest in folds}
            complete = {fold: found for fold, found in scores.items() if found}
            if complete:
                ours[column] = _number(complete, len(folds))
            if complete and len(complete) < len(folds):
                notes.append(f"{name} on {column}: {len(complete)} of {len(folds)} folds")
        entry = grid.models[name]
        theirs = paper.get(entry.published or name, {})
        taken = {column: number for column, number in theirs.items() if not entry.data or column in entry.data}
        rows.append(Row(name, ours, taken))
    return ResultTable(shown.title, shown.label, shown.better, columns, tuple(rows), shown.digits, tuple(notes))


def _margins(table: ResultTable, against: str | None) -> list[ResultTable]:
    """By how much the means of all other rows are better than that of the row `against`, ours and the paper's."""
    base = next((row for row in table.rows if row.label == against), None)
    others = [row for row in table.rows if row is not base]
    if base is None or not others:
        return []
    sign = 1 if table.better == "higher" else -1
    rows = [
        Row(row.label, _margin(row.ours, base.ours, sign), _margin(row.published, base.published, sign))
        for row in others
    ]
    measure = f"by how much the {table.title} is better than that of {against}"
    if any(number.interval for row in rows for number in row.ours.values()):
        measure += "; 95 % intervals, paired over folds"
    beside = "differences of the means that are published in the paper"
    title = f"Margins over {against}"
    return [ResultTable(title, measure, "higher", table.columns, tuple(rows), table.digits, beside=beside)]


def _margin(numbers: Mapping[str, Number], others: Mapping[str, Number], sign: int) -> dict[str, Number]:
    return {
        column: replace(
            number,
            mean=sign * (number.mean - others[column].mean),
            deviation=None,
            interval=_paired(number, others[column], sign),
            written=None,
        )
        for column, number in numbers.items()
        if column in others and number.folds == others[column].folds  # of the same graphs
    }


def _paired(number: Number, other: Number, sign: int) -> tuple[float, float] | None:
    """Student's interval of the mean difference over folds; folds share training graphs, so it is a little narrow."""
    from scipy.stats import t

    margins = [sign * (own - its) for own, its in zip(number.by_fold, other.by_fold, strict=True)]
    if len(margins) < 3:
        return None
    reach = float(t.ppf(0.975, len(margins) - 1)) * statistics.stdev(margins) / math.sqrt(len(margins))
    mean = statistics.mean(margins)
    return mean - reach, mean + reach


def _times(grid: Grid, contests: Sequence[ModelSelection], records: Records) -> ResultTable:
    """Milliseconds of forward and backward passes, ours in the paper's rows."""
    paper = PUBLISHED.get(grid.paper or "", {})
    times = {
        contest.column: record["times"]
        for contest in contests
        for run in contest.finals(records.get)
        if (record := records.get(run.key)) is not None and "times" in record
    }
    rows = []
    for system in ("GSPN", "GIN"):
        forward = {column: found[f"{system} forward ms"] for column, found in times.items()}
        backward = {column: found[f"{system} step ms"] - forward[column] for column, found in times.items()}
        for label, part in ((f"{system} forward", forward), (f"{system} backward", backward)):
            rows.append(Row(label, {column: Number(value) for column, value in part.items()}, paper.get(label, {})))
    parameters = "; ".join(
        f"{column} {found['GSPN parameters']:,} and {found['GIN parameters']:,}" for column, found in times.items()
    )
    columns = tuple(dict.fromkeys(contest.column for contest in contests))
    return ResultTable(
        grid.title, "milliseconds", None, columns, tuple(rows), 1, (f"Parameters of GSPN and GIN: {parameters}.",)
    )


def _pictures(contests: Sequence[ModelSelection], records: Records) -> list[Picture]:
    """Each molecule before and after, with the relative change of its atoms' log-likelihoods."""
    return [
        _picture(change, f" ({contest.row} on {contest.column})" if len(contests) > 1 else "")
        for contest in contests
        for run in contest.finals(records.get)
        for change in (records.get(run.key) or {}).get("changes", ())
    ]


def _picture(change: Mapping[str, Any], by_whom: str) -> Picture:
    before, after = change["smiles"], change["edited"]
    pairs = zip(read_molecule(before).GetAtoms(), read_molecule(after).GetAtoms(), strict=True)
    replaced = dict.fromkeys((old.GetSymbol(), new.GetSymbol()) for old, new in pairs)
    swaps = [(old, new) for old, new in replaced if old != new]
    title = (
        f"{', '.join(f'{old} replaced by {new}' for old, new in swaps)} in {before}" if swaps else f"{before} edited"
    )
    drawing = draw_molecules(
        [before, after],
        [[0.0] * len(change["relative"]), change["relative"]],
        label="relative change",
        titles=[
            f"{when}: {', '.join(dict.fromkeys(pair[side] for pair in swaps))}" if swaps else when
            for side, when in enumerate(("before", "after"))
        ],
    )
    notes = (
        f"After the change: {after}.",
        f"Change of the molecule's total log-likelihood: {sum(change['change']):+.2f} nats.",
    )
    return Picture(title + by_whom, drawing, notes)


def _test_scores(contest: ModelSelection, records: Records, measure: str) -> list[float]:
    """Test scores of a contest's final runs, as they are shown; empty until all of them are there."""
    factor = MEASURES[measure].factor
    finals = [records.get(run.key) for run in contest.finals(records.get)]
    if not finals or any(record is None for record in finals):
        return []
    made = [record for record in finals if record is not None and "error" not in record]
    return [factor * record["scores"]["test"][measure] for record in made]


def _searches(contests: Sequence[ModelSelection]) -> str:
    """Who could choose among how many: a longer search is an advantage."""
    numbers: dict[str, set[int]] = {}
    for contest in contests:
        numbers.setdefault(contest.row, set()).add(len(contest.candidates))
    each = (f"{row} {' or '.join(map(str, sorted(found)))}" for row, found in numbers.items())
    return f"Configurations among which the validation graphs chose: {', '.join(each)}."


def _failures(contests: Sequence[ModelSelection], records: Records) -> Iterable[str]:
    """What could not be trained, or not always."""
    for contest in contests:
        where = f"{contest.row} on {contest.column}, fold {contest.fold}"
        if contest.is_hopeless(records.get):
            yield f"{where}: no configuration could be trained."
        failed = sum("error" in (records.get(run.key) or {}) for run in contest.finals(records.get))
        if failed:
            yield f"{where}: {failed} of {contest.runs} final runs failed and are left out."


def _number(scores: Mapping[int, Sequence[float]], planned: int) -> Number:
    """Over folds where several are planned, the runs of each averaged first; else over the runs of the only one."""
    values = [statistics.mean(runs) for runs in scores.values()] if planned > 1 else list(*scores.values())
    mean, deviation = statistics.mean(values), statistics.stdev(values) if len(values) > 1 else None
    if planned == 1:
        return Number(mean, deviation, len(values))
    return Number(mean, deviation, folds=tuple(scores), by_fold=tuple(values))


def _levels(grid: Grid, contests: Sequence[ModelSelection], records: Records) -> list[ResultTable | Chart]:
    """Validation scores against the number of levels, one line for each model and pair of state numbers.

    Averaged over folds and over all other settings, as in the paper's figure; a table beside it has the numbers.
    """
    shown = MEASURES[grid.measure]
    parts: list[ResultTable | Chart] = []
    for column, own in _by_column(contests):
        # By line, number of levels and fold.
        scores: dict[str, dict[int, dict[int, list[float]]]] = {}
        several = len({contest.row for contest in own}) > 1
        for contest, run, record in _judged(own, records):
            numbers = [
                f"{symbol} = {run.settings[key]}"
                for symbol, key in (("C", "num_states"), ("C_g", "num_graph_states"))
                if key in run.settings
            ]
            label = ", ".join([contest.row, *numbers] if several or not numbers else numbers)
            points = scores.setdefault(label, {}).setdefault(run.settings["num_layers"], {})
            points.setdefault(contest.fold, []).append(shown.factor * record["scores"]["validation"][grid.measure])
        if scores:
            title, measure = f"{column}: number of levels", f"validation {shown.label}"
            lines = tuple(_line(label, points) for label, points in scores.items())
            note = "Bands are standard errors of the mean over folds and configurations."
            parts.append(Chart(title, "number of levels", measure, lines, (note,)))
            folds = len({contest.fold for contest in own})
            levels = sorted({number for points in scores.values() for number in points})
            rows = tuple(
                Row(label, {f"L = {n}": _over_folds(points[n], folds) for n in levels if n in points}, {})
                for label, points in scores.items()
            )
            columns = tuple(f"L = {n}" for n in levels)
            parts.append(ResultTable(f"{title}, in numbers", measure, shown.better, columns, rows, shown.digits))
    return parts


def _over_folds(scores: Mapping[int, Sequence[float]], planned: int) -> Number:
    """Other settings are averaged first, and are no runs whose deviation could be shown."""
    return _number({fold: [statistics.mean(own)] for fold, own in scores.items()}, planned)


def _line(label: str, points: Mapping[int, Mapping[int, Sequence[float]]]) -> Line:
    x = sorted(points)
    y = [[score for fold in points[i].values() for score in fold] for i in x]
    errors = [statistics.stdev(own) / len(own) ** 0.5 if len(own) > 1 else 0.0 for own in y]
    return Line(label, tuple(map(float, x)), tuple(statistics.mean(own) for own in y), tuple(errors))


def _curves(contests: Sequence[ModelSelection], records: Records) -> list[Chart]:
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
                losses = tuple(math.nan if loss is None else loss for loss in curve["validation"])
                lines.append(Line(contest.row, tuple(curve["epoch"]), losses))
        if lines:
            note = "Losses of different objectives are no measure of each other; the shapes can be compared."
            charts.append(Chart(f"{column}: validation loss", "epoch", "loss", tuple(lines), (note,)))
    return charts


def _by_column(contests: Sequence[ModelSelection]) -> Iterable[tuple[str, list[ModelSelection]]]:
    for column in dict.fromkeys(contest.column for contest in contests):
        yield column, [contest for contest in contests if contest.column == column]


def _judged(contests: Sequence[ModelSelection], records: Records) -> Iterable[tuple[ModelSelection, Run, Record]]:
    """Candidates that have been trained."""
    for contest in contests:
        for run in contest.candidates:
            record = records.get(run.key)
            if record is not None and "error" not in record:
                yield contest, run, record


def _made_with(made: Sequence[Record]) -> dict[str, str]:
    """Versions and commits, several of a kind side by side, and what all the training took."""
    kinds: dict[str, dict[str, Any]] = {}
    for record in made:
        for name, value in {**record["versions"], "commit": record["commit"], "threads": record["threads"]}.items():
            kinds.setdefault(name, {})[str(value)] = None
    shown = {name: ", ".join(values) for name, values in kinds.items()}
    # Heads of one model were trained together, and each of their records has the time of all.
    together = {digest({**record["run"], "head": None}): record for record in made}
    seconds = sum(sum(record["seconds"].values()) for record in together.values())
    if not seconds:  # nothing was trained
        return shown
    took = f"{seconds / 3600:.1f} hours" if seconds >= 3600 else f"{math.ceil(seconds / 60)} minutes"
    return shown | {"training time": f"{took} of one process"}
