"""Numbers that README.md and docs/measured.md state, from records: `make numbers` puts them in, a test finds others.

A number stands between two comments, which nobody sees on a page. The first says where it comes from, in words as a
shell has them: one of `WORDS`, then what it takes.

    a step takes <!--= measured step dataset=NCI1 "step ratio" .2f -->0.17 to 0.22<!--/--> of GIN's

What a command measured is a line of results/measurements.jsonl, with the command, the date, the machine and versions:

    python docs/dev/measured.py record NAME COMMAND…     # runs a command that prints JSON, and keeps what it printed

What experiments found is computed from the records of their runs, as their reports are; no data are needed.
"""

from __future__ import annotations

import json
import re
import shlex
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from gspn.experiments.circumstances import commit, machine, versions
from gspn.experiments.findings import Findings, ResultTable, Row
from gspn.experiments.formatting import mean_and_deviation
from gspn.experiments.grids import read_grid
from gspn.experiments.protocols import columns_of, contests, recorded
from gspn.experiments.records import Records
from gspn.experiments.report import markdown_table
from gspn.experiments.tables import findings

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
MEASUREMENTS = RESULTS / "measurements.jsonl"
TEXTS = (ROOT / "README.md", ROOT / "docs" / "measured.md")

UNFINISHED = {
    "imputation/small": ("GSPN (no edges)",),
    "imputation/small/final": ("GSPN (before)", "GSPN (EM)", "GSPN (quick)", "GSPN (no edges)"),
}
"""Rows that are behind the others: with them, only the cases that they have finished would be compared."""

_MARKED = re.compile(r"<!--= (.*?) -->(.*?)<!--/-->", re.DOTALL)
_FIRST_ON_ITS_LINE = re.compile(r"^ {0,3}<!--= (?!table )", re.MULTILINE)
_MEASURED = re.compile(r"^\| what \| measured \| how \|\n(?:\|.*\n)*", re.MULTILINE)


def filled(text: str) -> str:
    """The text with all its numbers as the records have them."""
    if not text.count("<!--= ") == text.count("<!--/-->") == len(_MARKED.findall(text)):
        raise ValueError("a comment that begins a number is without the one that ends it, or the other way round")
    if found := _FIRST_ON_ITS_LINE.search(text):
        line = text[: found.start()].count("\n") + 1
        raise ValueError(f"line {line} begins with a comment, so that Markdown takes all of it for HTML")
    return _MARKED.sub(lambda found: f"<!--= {found[1]} -->{value(found[1])}<!--/-->", text)


def unmarked(text: str) -> list[str]:
    """What in the column "measured" of tables has digits that come from no record."""
    rows = [row for table in _MEASURED.findall(text) for row in table.splitlines()[2:]]
    cells = [_MARKED.sub("", row).split("|")[2].strip() for row in rows]
    return [cell for cell in cells if re.search(r"\d", cell)]


def value(expression: str) -> str:
    """What an expression stands for."""
    word, *rest = shlex.split(expression)
    try:
        return WORDS[word](*rest)
    except (LookupError, ValueError, TypeError) as error:
        raise ValueError(f"{expression}: there is no such number ({type(error).__name__}: {error})") from error


# What commands measured.


@cache
def measurements() -> Sequence[Mapping[str, Any]]:
    return [json.loads(line) for line in MEASUREMENTS.read_text(encoding="utf-8").splitlines()]


def measured(name: str, *path: str) -> str:
    """One number, or the range of those that all records of this name have: `step dataset=NCI1 "step ratio" .2f`."""
    *path_, spec = path
    return _range([number for one in _named(name) for number in _walk(one["found"], path_)], spec)


def last(name: str, *path: str) -> str:
    """What the last record of this name has; of several numbers, repetitions of one, mean and deviation."""
    *path_, spec = path
    numbers = _walk(_named(name)[-1]["found"], path_)
    centre = _put(statistics.mean(numbers), spec)
    return centre if len(numbers) == 1 else f"{centre} ± {_put(statistics.pstdev(numbers), spec)}"


def _named(name: str) -> list[Mapping[str, Any]]:
    found = sorted((one for one in measurements() if one["name"] == name), key=lambda one: str(one["date"]))
    if not found:
        raise LookupError(f"nothing is called {name}")
    return found


def _walk(found: Any, path: Sequence[str]) -> list[float]:
    """Down by keys; of a list of rows, those that have `key=value`."""
    for step in path:
        key, is_choice, wanted = step.partition("=")
        if is_choice:
            found = [row for row in found if str(row[key]) == wanted]
        elif isinstance(found, list):
            found = [row[step] for row in found]
        else:
            found = found[step]
    numbers = found if isinstance(found, list) else [found]
    return [float(number) for number in numbers]


# What experiments found.


@cache
def _findings(name: str) -> Findings:
    """Of an experiment's grid, "imputation/small"; of a yardstick's final sets, "imputation/small/final"."""
    final = name.endswith("/final")
    grid, records = read_grid(*name.removesuffix("/final").split("/")), _records()
    facts_of = _facts()
    columns = [column for column in columns_of(grid, final) if facts_of(grid.data[column]).digest]
    rows = [row for row in grid.models if row not in UNFINISHED.get(name, ())]
    return findings(grid, contests(grid, columns, rows, final=final, facts_of=facts_of), records, "")


@cache
def _records() -> Records:
    return Records(RESULTS)


@cache
def _facts() -> Callable[..., Any]:
    return recorded(_records())


def _table(name: str, title: str) -> ResultTable:
    (found,) = [part for part in _findings(name).parts if isinstance(part, ResultTable) and part.title == title]
    return found


def _row(name: str, title: str, label: str) -> Row:
    (found,) = [row for row in _table(name, title).rows if row.label == label]
    return found


def table(name: str, title: str) -> str:
    """A whole table of a report."""
    return "\n\n" + "\n\n".join(markdown_table(_table(name, title))) + "\n\n"


def score(name: str, title: str, row: str, column: str, spec: str = "") -> str:
    """A number of a table, with its deviation or interval."""
    number = _row(name, title, row).ours[column]
    spec = spec or f".{_table(name, title).digits}f"
    if number.interval is not None:
        return f"{_put(number.mean, spec)} ({_range(number.interval, spec)})"
    return _put(number.mean, spec) + ("" if number.deviation is None else f" ± {_put(number.deviation, spec)}")


def mean(name: str, title: str, row: str, column: str, spec: str) -> str:
    """The same without."""
    return _put(_row(name, title, row).ours[column].mean, spec)


def paper(name: str, title: str, row: str, column: str) -> str:
    """The mean that the paper has there."""
    return mean_and_deviation(_row(name, title, row).published[column], _table(name, title).digits)[0]


def over(name: str, title: str, row: str, spec: str) -> str:
    """From where to where a row's numbers go over the columns."""
    return _range([number.mean for number in _row(name, title, row).ours.values()], spec)


def margins(name: str, title: str, row: str, base: str, spec: str) -> str:
    """From where to where it goes, over the columns, by how much a row is better than another."""
    return _range(_margins(name, title, row, base), spec)


def mean_margin(name: str, title: str, row: str, base: str, spec: str) -> str:
    return _put(statistics.mean(_margins(name, title, row, base)), spec)


def ahead(name: str, title: str, row: str, base: str) -> str:
    """In how many columns a row is better than another."""
    found = _margins(name, title, row, base)
    return f"{sum(margin > 0 for margin in found)} of {len(found)}"


def _margins(name: str, title: str, row: str, base: str) -> list[float]:
    ours, theirs = _row(name, title, row).ours, _row(name, title, base).ours
    sign = 1 if _table(name, title).better == "higher" else -1
    return [sign * (ours[column].mean - theirs[column].mean) for column in ours if column in theirs]


def rows(name: str) -> str:
    """How many rows the first table has."""
    return str(len(next(part for part in _findings(name).parts if isinstance(part, ResultTable)).rows))


def cases(name: str, what: str) -> str:
    """How many "cases" or "sets" of a yardstick all its methods have finished."""
    (found,) = re.findall(r"(\d+) cases of (\d+) sets", " ".join(_findings(name).notes))
    return str(found[("cases", "sets").index(what)])


def time_taken(name: str) -> str:
    """What all the training took."""
    return (_findings(name).made_with or {})["training time"]


def replaced(name: str, element: str, spec: str) -> str:
    """Changes of the log-likelihoods of molecules in which this element is replaced."""
    question = read_grid(*name.split("/")).question
    changes = [change for one in _records().all() if one["run"]["question"] == question for change in one["changes"]]
    return _range([sum(c["change"]) for c in changes if c["smiles"].count(element) > c["edited"].count(element)], spec)


WORDS: Mapping[str, Callable[..., str]] = {
    each.__name__: each
    for each in (
        measured, last, table, score, mean, paper, over, margins, mean_margin, ahead, rows, cases, time_taken, replaced
    )
}  # fmt: skip


def _range(numbers: Sequence[float], spec: str) -> str:
    low, high = _put(min(numbers), spec), _put(max(numbers), spec)
    return low if low == high else f"{low} to {high}"


def _put(number: float, spec: str) -> str:
    """As Python formats it, with a proper minus and a space before the sign of percent."""
    text = format(number, spec)
    return (text if re.search("[1-9]", text) else text.lstrip("-")).replace("-", "−").replace("%", " %")


def record(name: str, command: Sequence[str]) -> None:
    """Run a command that prints JSON, and add what it printed, with all that belongs to it."""
    program = {"python": [sys.executable], "gspn": [sys.executable, "-m", "gspn.cli.main"]}[command[0]]
    done = subprocess.run([*program, *command[1:]], stdout=subprocess.PIPE, text=True, check=True)
    line = {
        "name": name,
        "command": shlex.join(command),
        "found": json.loads(done.stdout, parse_constant=lambda constant: None),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": versions(),
        "commit": commit(),
    }
    with MEASUREMENTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def main(arguments: Sequence[str]) -> None:
    if arguments:
        _, name, *command = arguments
        record(name, command)
        return
    for path in TEXTS:
        text = path.read_text(encoding="utf-8")
        if (new := filled(text)) != text:
            path.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
