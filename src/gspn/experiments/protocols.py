"""Protocols: which runs an experiment consists of, and which of them can be made with what is known by now.

Written once for all models. A contest is one model on one fold of one dataset: all configurations are trained and
judged on the validation graphs, then the best one is trained again, with other seeds, and judged on the test graphs.
Selection looks at the scores of validation graphs in records of the stage "selection", which have no others.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gspn.datasets.raw_files import without_downloads
from gspn.errors import GSPNError, InputError
from gspn.experiments.grids import YARDSTICKS, Grid
from gspn.experiments.measures import MEASURES, measure_of
from gspn.experiments.records import Record, Records
from gspn.experiments.runs import ASSESSMENT, SELECTION, Run
from gspn.experiments.sources import Division, Source, fold_digest
from gspn.experiments.vertices.sets import SETS as VERTEX_SETS
from gspn.experiments.vertices.sets import VertexSource
from gspn.experiments.yardstick.sets import SETS, YardstickSource
from gspn.targets import Target

_log = logging.getLogger(__name__)

NEIGHBOURLY = frozenset({"neighbours", "edges"})
"""Settings by which methods of yardsticks look at neighbours."""

Find = Callable[[str], Record | None]
"""From a key to its record, or None."""


@dataclass(frozen=True)
class ModelSelection:
    """The configurations of one row in one column and fold, as runs; `runs` of the winner are assessed."""

    row: str
    column: str
    fold: int
    measure: str
    candidates: tuple[Run, ...]
    runs: int

    @property
    def planned(self) -> int:
        """Number of training runs it consists of."""
        return (len(self.candidates) if self._is_contested else 0) + self.runs

    @property
    def _is_contested(self) -> bool:
        """One configuration wins without being tried, unless its validation score is all that is asked for."""
        return len(self.candidates) > 1 or not self.runs

    def known(self, find: Find) -> Iterator[Run]:
        """All its runs that are known by now, whether they have been made or not."""
        if self._is_contested:
            yield from self.candidates
        yield from self.finals(find)

    def finals(self, find: Find) -> tuple[Run, ...]:
        """The runs that assess the winner; none as long as there is no winner."""
        winner = self.winner(find) if self.runs else None
        if winner is None:
            return ()
        # Seed 0 has been selected with, and was lucky perhaps.
        return tuple(replace(winner, seed=seed, stage=ASSESSMENT) for seed in range(1, self.runs + 1))

    def winner(self, find: Find) -> Run | None:
        """The candidate with the best validation score, the first of equals.

        None until all are known, and where none could be trained.
        """
        if not self._is_contested:
            return self.candidates[0]
        records = [find(run.key) for run in self.candidates]
        if any(record is None for record in records):
            return None
        sign = 1.0 if MEASURES[self.measure].better == "higher" else -1.0
        judged = [
            (sign * record["scores"]["validation"][self.measure], -number)
            for number, record in enumerate(records)
            if record is not None and "error" not in record
        ]
        return self.candidates[-max(judged)[1]] if judged else None

    def is_hopeless(self, find: Find) -> bool:
        """Whether all candidates have failed: there will be no final runs."""
        return self._is_contested and all("error" in (find(run.key) or {}) for run in self.candidates)


@dataclass(frozen=True)
class Facts:
    """What has to be known of a column's data to plan its runs: fingerprints, and no graphs."""

    digest: str
    fold_digest: Callable[[Division], str]
    published: int
    """Number of published folds."""
    has_edges: bool
    target: Target | None = None


def loaded(source: Source) -> Facts:
    """From the data."""
    dataset = source.load()
    return Facts(
        digest=source.digest(),
        fold_digest=lambda division: fold_digest(division.of(dataset)),
        published=len(dataset.splits),
        has_edges=int(dataset.num_edges_per_graph().sum()) > 0,
        target=dataset.target,
    )


_YARDSTICKS: Mapping[str, type[Source]] = {"impute": YardstickSource, "label": VertexSource}
"""Questions that have sets of their own, under names that others have, too."""


def recorded(records: Records) -> Callable[[Source], Facts]:
    """As runs have recorded them, for whoever has no data but wants to know what was found; the last run counts."""
    runs = [record["run"] for record in sorted(records.all(), key=lambda record: str(record["finished"]))]

    def facts(source: Source) -> Facts:
        asked = [run for run in runs if _YARDSTICKS.get(run["question"], Source) is type(source)]
        own = [run for run in asked if {**run["data"], "digest": None} == source.spec() | {"digest": None}]
        digest = own[-1]["data"]["digest"] if own else ""
        own = [run for run in own if run["data"]["digest"] == digest]
        folds = {_spec(run["division"]): run["division"]["digest"] for run in own}
        return Facts(
            digest=digest,
            fold_digest=lambda division: folds.get(_spec(division.spec()), ""),
            published=1 + max((run["division"].get("published", -1) for run in own), default=-1),
            has_edges=any(not NEIGHBOURLY.isdisjoint(run["settings"]) for run in own),
        )

    return facts


def here_or_recorded(records: Records) -> Callable[[Source], Facts]:
    """From the data; of what is not here, as runs have recorded it. Nothing is downloaded."""
    known = recorded(records)

    def facts(source: Source) -> Facts:
        try:
            with without_downloads():
                return loaded(source)
        except GSPNError as error:
            found = known(source)
            if not found.digest:
                raise
            _log.info("%s is not here, its runs are found by what they have recorded: %s", source.name, error)
            return found

    return facts


def _spec(division: Mapping[str, Any]) -> str:
    return json.dumps({**division, "digest": None}, sort_keys=True)


def contests(
    grid: Grid,
    columns: Sequence[str] | None = None,
    rows: Sequence[str] | None = None,
    final: bool = False,
    facts_of: Callable[[Source], Facts] = loaded,
) -> list[ModelSelection]:
    """All contests of an experiment, or those in the named columns and rows; loads the data, unless facts are known.

    Of the yardstick's sets they are those for choosing, or the `final` ones.
    """
    for names, known, what in ((columns, grid.data, "dataset"), (rows, grid.models, "model")):
        for name in names or ():
            if name not in known:
                raise InputError(f"the grid has no {what} {name!r}; it has {', '.join(known)}")
    if grid.question in YARDSTICKS:
        return _of_yardstick(grid, columns, rows, final, facts_of)
    found, asked = [], grid.asked.model_dump()
    for column, source in grid.data.items():
        if columns and column not in columns:
            continue
        facts = facts_of(source)
        if grid.question == "predict" and facts.target is not None:
            _check_measure(column, facts.target, grid.measure)
        for number, division in _divisions(grid, column, facts.published):
            digests = (facts.digest, facts.fold_digest(division))
            for row, entry in grid.models.items():
                if (rows and row not in rows) or (entry.data and column not in entry.data):
                    continue
                candidates = tuple(
                    Run(
                        question=grid.question,
                        source=source,
                        division=division,
                        digests=digests,
                        model=entry.system,
                        settings=settings,
                        head=head,
                        seed=0,
                        stage=SELECTION,
                        asked=asked,
                    )
                    for settings, head in entry.configurations(column)
                )
                runs = grid.protocol.runs if entry.runs is None else entry.runs
                found.append(ModelSelection(row, column, number, grid.measure, candidates, runs))
    return found


def _of_yardstick(
    grid: Grid,
    columns: Sequence[str] | None,
    rows: Sequence[str] | None,
    final: bool,
    facts_of: Callable[[Source], Facts],
) -> list[ModelSelection]:
    """One contest for every mask and method; the first masks of all sets come before the second ones."""
    for column in columns or ():
        if column not in columns_of(grid, final):
            raise InputError(f"{column} is {'for choosing' if final else 'a final set: looking at it needs --final'}")
    known: dict[str, Facts] = {}
    for column in columns or columns_of(grid, final):
        try:
            known[column] = facts_of(grid.data[column])
        except GSPNError as error:
            _log.warning("%s is skipped: %s", column, error)
    asked = grid.asked.model_dump()
    return [
        ModelSelection(row, column, number, grid.measure, (_imputation(grid, row, column, case, seed, facts),), 0)
        for seed in range(asked["seeds"])
        for number, case in enumerate(asked["cases"])
        for column, facts in known.items()
        for row, entry in grid.models.items()
        if (not rows or row in rows) and (not entry.data or column in entry.data)
    ]


def _imputation(grid: Grid, row: str, column: str, case: tuple[str, float], seed: int, facts: Facts) -> Run:
    entry = grid.models[row]
    ((settings, _),) = entry.configurations(column)
    if not facts.has_edges:
        # Where there are none, those who look at neighbours and those who do not are one method: one run for both.
        settings = {key: value for key, value in settings.items() if key not in NEIGHBOURLY}
    return Run(
        question=grid.question,
        source=grid.data[column],
        division=Division(),
        digests=(facts.digest, ""),
        model=entry.system,
        settings=settings,
        head=None,
        seed=seed,
        stage=SELECTION,
        asked={"mechanism": case[0], "rate": case[1]},
    )


def _check_measure(column: str, target: Target, measure: str) -> None:
    try:
        wanted = measure_of(target)
    except InputError as error:
        raise InputError(f"{column}: {error}") from error
    if wanted != measure and (wanted, measure) != ("mean absolute error", "R²"):  # either will do for numbers
        raise InputError(f"{column} is judged by {wanted!r}, the grid's measure is {measure!r}")


def columns_of(grid: Grid, final: bool = False) -> list[str]:
    """All columns; of the yardstick's sets those for choosing, or the `final` ones, which no other experiment has."""
    if grid.question in YARDSTICKS:
        are_final = {name: one.final for name, one in (SETS if grid.question == "impute" else VERTEX_SETS).items()}
        return [column for column, source in grid.data.items() if are_final[source.name] == final]
    if final:
        raise InputError("only the yardsticks, imputation and vertices, have final sets")
    return list(grid.data)


def columns_with_records(grid: Grid, records: Records, final: bool = False) -> list[str]:
    """The columns of which some run has been made; data that nothing was made of need not be there."""
    known = [(run["question"], {**run["data"], "digest": None}) for run in (record["run"] for record in records.all())]
    likely = [name for name, source in grid.data.items() if (grid.question, source.spec() | {"digest": None}) in known]
    likely = [name for name in likely if name in columns_of(grid, final)]
    facts_of = here_or_recorded(records)
    return [name for name in likely if _has_records(grid, name, records, final, facts_of)]


def _has_records(grid: Grid, column: str, records: Records, final: bool, facts_of: Callable[[Source], Facts]) -> bool:
    try:
        planned = contests(grid, [column], final=final, facts_of=facts_of)
    except GSPNError as error:
        _log.warning("the report leaves out %s, which may have results: %s", column, error)
        return False
    return any(records.get(run.key) is not None for contest in planned for run in contest.known(records.get))


def _divisions(grid: Grid, column: str, published: int) -> list[tuple[int, Division]]:
    protocol, chosen = grid.protocol, grid.data[column].folds
    drawn = Division(seed=protocol.seed, **protocol.shares())
    if protocol.division == "hold-out":
        return [(0, drawn)]
    if protocol.folds is not None:
        numbers = range(protocol.folds) if chosen is None else chosen
        return [(number, replace(drawn, drawn=(number, protocol.folds))) for number in numbers]
    if not published:
        raise InputError(f"{column} has no published folds; the protocol's division can be 'hold-out' or 'k-fold'")
    return [(number, replace(drawn, published=number)) for number in (range(published) if chosen is None else chosen)]
