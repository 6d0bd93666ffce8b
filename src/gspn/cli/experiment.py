"""`gspn experiment list|run|report|compact`: the paper's experiments."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.progress import TaskID

    from gspn.experiments.running import Outcome, State

app = typer.Typer(help="Run the paper's experiments and show what they found.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Which experiment; `gspn experiment list` shows them.")]
Size = Annotated[str, typer.Option("--grid", help="Which grid: small, paper, or a TOML file of your own.")]
Data = Annotated[
    list[str] | None, typer.Option("--data", help="Only these datasets of the grid (may be given several times).")
]
Models = Annotated[
    list[str] | None, typer.Option("--model", help="Only these models of the grid (may be given several times).")
]
Results = Annotated[Path, typer.Option("--results", help="Folder of records and reports.")]
Final = Annotated[
    bool,
    typer.Option("--final", help="A yardstick's final sets in place of those for choosing; looks are recorded."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print for machines.")]


@app.command("list")
def show_list(as_json: AsJson = False) -> None:
    """Show all experiments and their grids."""
    from gspn.experiments.grids import read_grid, shipped

    grids = [(name, read_grid(*name.split("/"))) for name in shipped()]
    if as_json:
        import json

        rows = [
            {"grid": name, "title": grid.title, "data": list(grid.data), "models": list(grid.models)}
            for name, grid in grids
        ]
        typer.echo(json.dumps(rows))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("experiment", "grid", "what it compares", "on")
    for name, grid in grids:
        experiment, size = name.split("/")
        table.add_row(experiment, size, grid.title, ", ".join(grid.data))
    Console().print(table)


@app.command("run")
def run_experiment(
    experiment: Name,
    grid: Size = "small",
    data: Data = None,
    model: Models = None,
    results: Results = Path("results"),
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes at once (default: processors; times: one).")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads of each (times: two).")] = 1,
    ray: Annotated[
        str | None, typer.Option("--ray", help='Address of a Ray cluster, or "local" to start one here.')
    ] = None,
    retry_failed: Annotated[bool, typer.Option(help="Make runs again whose training failed.")] = False,
    final: Final = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run an experiment, or go on with it, and write its report."""
    from gspn.experiments.circumstances import commit
    from gspn.experiments.grids import read_grid
    from gspn.experiments.local import LocalRunner
    from gspn.experiments.on_ray import RayRunner
    from gspn.experiments.protocols import columns_of, columns_with_records, contests
    from gspn.experiments.records import Records
    from gspn.experiments.running import Runner, forget_failed, run

    read = read_grid(experiment, grid)
    chosen = contests(read, data, model, final)
    if read.question == "time":
        from gspn.benchmarks.step import THREADS

        workers, threads = 1, THREADS  # anything beside it would be measured as well
    records = Records(results)
    # What was made earlier stays in the report, whatever is run now. Asked before anything is trained: it may complain.
    shown = {*(data or columns_of(read, final)), *columns_with_records(read, records, final)}
    if final:
        _record_look(results, f"{experiment}/{grid}", list(shown), list(model or read.models))
    if retry_failed:
        forget_failed(chosen, records)
    runner: Runner
    if ray is None:
        runner = LocalRunner(results, workers=workers, threads=threads, commit=commit())
    else:
        address = None if ray == "local" else ray
        runner = RayRunner(results, address=address, workers=workers, threads=threads, commit=commit())
    try:
        with _Progress(quiet) as show:
            failed = run(chosen, records, runner, show)
    except KeyboardInterrupt:
        typer.echo("interrupted; the same command goes on from here", err=True)
        raise typer.Exit(130) from None
    finally:
        runner.close()
    for failure, labels in _by_failure(failed).items():
        typer.echo(f"failed: {'; '.join(labels)}\n{failure}", err=True)
    columns = [column for column in read.data if column in shown]
    _show_report(experiment, grid, columns, results=results, final=final, as_json=as_json)
    if failed:
        raise typer.Exit(1)


def _by_failure(failed: Sequence[Outcome]) -> dict[str, list[str]]:
    """What went wrong, each once, and where."""
    found: dict[str, list[str]] = {}
    for outcome in failed:
        labels = found.setdefault(outcome.failure or "", [])
        if outcome.piece.label not in labels:
            labels.append(outcome.piece.label)
    return found


@app.command("report")
def show_report(
    experiment: Name,
    grid: Size = "small",
    data: Data = None,
    model: Models = None,
    results: Results = Path("results"),
    final: Final = False,
    as_json: AsJson = False,
) -> None:
    """Write the report of what has been found so far, complete or not; of all datasets that have results.

    The datasets need not be here: what runs have recorded of them is enough, and nothing is downloaded.
    """
    if final:
        from gspn.experiments.grids import read_grid
        from gspn.experiments.protocols import columns_of

        read = read_grid(experiment, grid)
        _record_look(results, f"{experiment}/{grid}", data or columns_of(read, final), list(model or read.models))
    _show_report(experiment, grid, data, model, results, final, as_json)


@app.command("compact")
def compact_records(results: Results = Path("results")) -> None:
    """Move records of single runs into one file per question, which a repository can hold; runs may be under way."""
    from gspn.experiments.records import Records

    moved = Records(results).compact()
    typer.echo(f"{moved} records moved into {results / 'records'}")


def _show_report(
    experiment: str,
    grid: str,
    data: list[str] | None = None,
    model: list[str] | None = None,
    results: Path = Path("results"),
    final: bool = False,
    as_json: bool = False,
) -> None:
    import json
    import shlex
    from dataclasses import asdict

    from gspn.cli.console import plain
    from gspn.experiments.grids import read_grid
    from gspn.experiments.protocols import columns_of, columns_with_records, contests, here_or_recorded
    from gspn.experiments.records import Records
    from gspn.experiments.report import write_report
    from gspn.experiments.tables import findings

    read, records = read_grid(experiment, grid), Records(results)
    whole = columns_of(read, final)
    data = data or columns_with_records(read, records, final)
    words = ["gspn", "experiment", "run", experiment, "--grid", grid]
    if data and {*data} != {*whole}:
        words += [word for name in data or () for word in ("--data", name)]
    words += [word for name in model or () for word in ("--model", name)]
    words += ["--final"] if final else []
    command = shlex.join(words)
    found = findings(read, contests(read, data, model, final, here_or_recorded(records)), records, command, whole)
    folder = results / f"{experiment}-{Path(grid).stem}{'-final' if final else ''}"
    write_report(found, folder)
    if as_json:
        typer.echo(json.dumps(plain({"folder": str(folder), **asdict(found)}), allow_nan=False))
    else:
        typer.echo(f"{found.done} of {found.planned} training runs; the report is in {folder / 'report.html'}")


def _record_look(results: Path, grid: str, sets: Sequence[str], methods: Sequence[str]) -> None:
    from gspn.experiments.circumstances import commit
    from gspn.experiments.yardstick.looks import record_look

    record_look(results, grid=grid, sets=sets, methods=methods, commit=commit())


class _Progress:
    """A bar with the remaining time, reckoned from the runs made so far; without a terminal, a line now and then."""

    _SECONDS = 60.0
    """Between two lines where there is no terminal."""

    def __init__(self, quiet: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.progress import TimeRemainingColumn as Remaining

        self._console = Console(stderr=True, quiet=quiet)
        self._bar = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("runs,"),
            TimeElapsedColumn(),
            TextColumn("gone,"),
            Remaining(),
            TextColumn("left  {task.description}"),
            console=self._console,
            speed_estimate_period=24 * 3600,
            disable=not self._console.is_terminal,
        )
        self._task: TaskID | None = None
        self._said = -math.inf

    def __enter__(self) -> _Progress:
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def __call__(self, state: State) -> None:
        description = "; ".join(state.under_way)
        if self._task is None:
            self._task = self._bar.add_task(description, total=state.planned, completed=state.done)
        self._bar.update(self._task, completed=state.done, description=description)
        if not self._console.is_terminal and time.monotonic() - self._said > self._SECONDS:
            self._said = time.monotonic()
            left = self._bar.tasks[self._task].time_remaining
            remaining = "" if left is None else f", about {left / 60:.0f} minutes left"
            self._console.print(f"{state.done} of {state.planned} runs{remaining}; {description or 'starting'}")
