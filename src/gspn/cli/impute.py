"""`gspn impute`: fill the gaps of a table of vertices, with the uncertainty of each filled value."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gspn.cli import options
from gspn.cli.console import Console

if TYPE_CHECKING:
    from gspn.graphs import GraphDataset
    from gspn.models.gspn import GSPN
    from gspn.models.stack import Stack
    from gspn.policy import Selection

_LEVEL = 0.9


@options.bundled
def impute(
    nodes: Annotated[
        Path,
        typer.Argument(help="Table of vertices with gaps (CSV, TSV, Parquet, Excel, GeoPackage).", show_default=False),
    ],
    edges: Annotated[
        Path | None,
        typer.Argument(help="Table of edges; of places: contiguity, nearest, nearest:8.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The completed table: .csv, .tsv, .parquet or .json (default: CSV on stdout)."
        ),
    ] = None,
    types: options.Types = None,
    *,
    columns: options.Columns,
    effort: options.Effort = None,
    how: options.How = "closest",
    draws: options.Draws = None,
    layers: options.Layers = None,
    states: options.States = None,
    epochs: options.Epochs = None,
    seed: options.Seed = 0,
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="Ask this saved model instead of training.")
    ] = None,
    save_model: Annotated[Path | None, typer.Option(help="Keep the trained model in this folder.")] = None,
    report: options.Page = None,
    plain: Annotated[bool, typer.Option("--plain", help="Write the values alone, without their uncertainty.")] = False,
    force: options.Force = False,
    printing: options.Printing,
) -> None:
    """Fill every gap of a table of vertices from the rest of the row and its neighbours.

    Kinds of attributes are guessed and shown. Models of several sizes, with and without the edges, are judged by
    entries that are held out; what was tried is shown, and up to five that do best together fill the gaps. Where
    --layers, --states or --epochs says something about one model, that is trained by gradient descent instead.

    Beside each column with gaps stand NAME_filled and the uncertainty of what was filled in: NAME_sd, NAME_low,
    NAME_high (a 90 % interval) of numbers, NAME_probability and NAME_likely (the fewest values that hold 90 % together)
    of categories. What errs least is filled in, the mean of numbers, rounded where a column holds whole numbers alone,
    and the likeliest category; --how says otherwise. With --draws 5 there are five completed tables, one below the
    other, that differ where values are uncertain: analyse each, then pool what comes out by Rubin's rules.

    With --report a page shows how well observed values are filled that were hidden, beside means, nearest rows and
    regressions: who is best in each column, how often intervals hold the truth, what was chosen and why, the graph.

    Examples: gspn impute nodes.csv edges.csv -o done.csv; gspn impute nodes.csv edges.csv -o done.csv --report
    """
    console = printing.console()
    from gspn.cli.inputs import Wanted, read_tables
    from gspn.cli.options import Reading, parse_types
    from gspn.cli.outputs import check_file, check_folder, records, write_table
    from gspn.cli.outputs import save_model as save
    from gspn.cli.training import show_graphs
    from gspn.errors import InputError

    check_file(output, force)
    check_file(report, force, (".html",))
    check_folder(save_model, force)
    if model is not None and (types or save_model or effort):
        raise InputError("--types, --effort and --save-model are for training, but --model brings a trained model")
    sizes = {"num_layers": layers, "num_states": states, "epochs": epochs}
    kinds, fitted, reading = parse_types(types), None, None
    if model is not None:
        from gspn.models.saving import load

        fitted, reading = load(model), Reading.beside(model)
    graphs = read_tables(nodes, edges, Wanted(Reading.of(reading, **vars(columns)), fitted, kinds))
    if graphs.nodes is None:
        column = graphs.reading.smiles
        raise InputError(
            f"{nodes} is a table of molecules, in column {column!r}, and impute fills tables of vertices: gspn fit "
            f"--target NAME predicts a column of molecules; --ignore {column!r} fills the others without the molecules"
        )
    _check_effort(effort, sizes)
    _check_how(how, draws)
    # Imports torch, without which it can be said what is wrong with a table.
    from gspn.completing import complete, complete_often

    if draws is not None and "draw" in graphs.nodes.frame.columns:
        raise InputError("there is a column 'draw' already; rename it, as completed tables are numbered by it")
    selected, selection, learn = None, None, None
    if fitted is None:
        show_graphs(console, graphs.dataset, said=kinds, notes=graphs.notes)
        fitted, selected, selection = _trained(console, graphs.dataset, effort, sizes, seed)
    read = replace(graphs.nodes, frame=graphs.nodes.with_whole_numbers())
    of_table: Any = {"graph": graphs.reading.graph, "seed": seed, "whole": graphs.reading.whole_numbers}
    summary: list[dict[str, Any]] | None = None
    if draws is None:
        completed, spread = complete(fitted, read, graphs.dataset, level=_LEVEL, how=how, **of_table)
        assert spread is not None  # there is a level
        filled, table = len(spread), completed if plain else with_uncertainty(completed, spread, fitted)
        summary = _summary(fitted, completed, spread)
    else:
        filled = int(graphs.dataset.entries().isnan().sum())
        table = below_each_other(complete_often(fitted, read, graphs.dataset, draws, **of_table))
    if save_model is not None:
        save(fitted, graphs.reading, save_model)
    if output is not None:
        write_table(table, output)
    elif not printing.as_json:
        typer.echo(table.to_csv(index=False, lineterminator="\n"), nl=False)
    if summary is not None:
        (console.table if output is not None else console.note_table)(summary)
    if output is not None:
        times = "" if draws is None else f", {draws} times"
        console.say(f"{filled:,} gaps filled in {len(read.frame):,} rows{times}: {output}")
    told = None
    if report is not None:
        from gspn.cli.reporting import report_gaps

        asked = f"gspn impute {nodes.name}{f' {edges.name}' if edges else ''} --seed {seed} --report"
        if model is None:
            learn = _learning_again(fitted, selected, effort or "normal", seed, console.progress)
        told = report_gaps(
            console, graphs.dataset, fitted, report, nodes.name, asked, learn=learn, selection=selected, seed=seed
        )
    console.result(
        {"rows": len(table), "filled": filled, "output": output and str(output), "selection": selection,
         "model": save_model and str(save_model)}
        | ({} if told is None else told)
        | ({"draws": draws} if summary is None else {"attributes": summary})
        | ({} if output else {"table": records(table)})
    )  # fmt: skip


def _trained(
    console: Console, dataset: GraphDataset, effort: Any, sizes: dict[str, int | None], seed: int
) -> tuple[GSPN | Stack, Selection | None, dict[str, Any] | None]:
    """What the policy chooses, or one model where something is said about its size; and what there is to say of it."""
    import time

    from gspn.cli.training import choose, show_training, train
    from gspn.policy import model_for

    if not _says_one(sizes):
        selection, told = choose(dataset, effort or "normal", seed, console)
        return selection.stack, selection, told
    start = time.perf_counter()
    model = model_for(dataset, **sizes, seed=seed)
    of_columns = train(model, dataset, console)
    show_training(console, model, time.perf_counter() - start, of_columns)
    return model, None, None


def _learning_again(model: Any, selection: Selection | None, effort: Any, seed: int, progress: bool) -> Any:
    """How to do once more what has been done: to choose, or to train the one model."""
    from gspn.reports.making import choosing_again, relearning

    return relearning(model, progress) if selection is None else choosing_again(effort, seed, progress)


def _says_one(sizes: dict[str, int | None]) -> bool:
    return any(size is not None for size in sizes.values())


def _check_effort(effort: str | None, sizes: dict[str, int | None]) -> None:
    if effort is None:
        return
    from gspn.errors import InputError
    from gspn.policy import EFFORTS

    if effort not in EFFORTS:
        raise InputError(f"--effort is one of {', '.join(EFFORTS)}, not {effort!r}")
    if _says_one(sizes):
        raise InputError(
            "--effort is for choosing among models, but --layers, --states and --epochs specify a single one"
        )


def _check_how(how: str, draws: int | None) -> None:
    from gspn.errors import InputError
    from gspn.queries.entries import HOW

    if draws is not None and how != "closest":
        raise InputError("--how is for one completed table; with --draws values are drawn")

    if how not in HOW:
        raise InputError(f"--how is one of {', '.join(HOW)}, not {how!r}")


def with_uncertainty(completed: Any, spread: Any, model: GSPN | Stack) -> Any:
    """The completed table with columns of uncertainty beside every column that had gaps."""
    import pandas

    from gspn.errors import InputError

    columns: dict[str, Any] = {}
    for name in completed.columns:
        columns[name] = completed[name]
        if name not in model.schema or name not in set(spread["attribute"]):
            continue
        own = spread[spread["attribute"] == name].set_index("row")
        added: dict[str, Any] = {"filled": pandas.Series(completed.reset_index(drop=True).index.isin(own.index))}
        kind = model.schema[name].kind
        if kind in ("continuous", "count"):
            added |= {"sd": own["std"], "low": own["low"], "high": own["high"]}
        if kind != "continuous":
            added["probability"] = own["probability"]
        if kind in ("categorical", "binary"):
            added["likely"] = own["likely"].map(lambda values: " | ".join(map(str, values)))
        for what, values in added.items():
            new = f"{name}_{what}"
            if new in completed.columns:
                raise InputError(f"there is a column {new!r} already; rename it, or pass --plain")
            columns[new] = values.reindex(range(len(completed))).set_axis(completed.index)
    return pandas.DataFrame(columns)


def below_each_other(tables: list[Any]) -> Any:
    """One table of several, which a column `draw` numbers from 1, as programs for multiple imputation read them."""
    import pandas

    together = pandas.concat(tables, ignore_index=True)
    together.insert(0, "draw", [number for number, table in enumerate(tables, 1) for _ in range(len(table))])
    return together


def _summary(model: GSPN | Stack, completed: Any, spread: Any) -> list[dict[str, Any]]:
    rows = []
    for attribute in model.schema:
        own = spread[spread["attribute"] == attribute.name]
        rows.append(
            {
                "attribute": attribute.name,
                "kind": attribute.kind,
                "filled": len(own),
                "of": len(completed),
                "mean deviation": own["std"].mean(),
                "mean probability": own["probability"].mean(),
            }
        )
    return rows
