"""`gspn impute`: fill the gaps of a table of vertices, and say beside each filled value how sure it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gspn.cli import options
from gspn.cli.screen import Screen

if TYPE_CHECKING:
    from gspn.cli.inputs import Reading
    from gspn.models.gspn import GSPN
    from gspn.models.stack import Stack

_LEVEL = 0.9
_WHOLE_NUMBER = r"[+-]?\d+"


def impute(
    nodes: Annotated[Path, typer.Argument(help="Table of vertices with gaps (CSV, TSV, Parquet).", show_default=False)],
    edges: Annotated[Path | None, typer.Argument(help="Table of edges.", show_default=False)] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The completed table: .csv, .tsv, .parquet or .json (default: CSV on stdout)."
        ),
    ] = None,
    types: options.Types = None,
    id: options.Id = None,
    graph: options.Graph = None,
    ends: options.Ends = None,
    edge_type: options.EdgeType = None,
    directed: options.Directed = None,
    parallel: options.Parallel = None,
    ignore: options.Ignore = None,
    effort: options.Effort = None,
    how: options.How = "closest",
    layers: options.Layers = None,
    states: options.States = None,
    epochs: options.Epochs = None,
    seed: options.Seed = 0,
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="Ask this saved model instead of training.")
    ] = None,
    save_model: Annotated[Path | None, typer.Option(help="Keep the trained model in this folder.")] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Write the values alone, without their uncertainty.")] = False,
    force: options.Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Fill every gap of a table of vertices by what the rest of the row and its neighbours say.

    Kinds of attributes are guessed and shown. Models of several sizes, with and without the edges, are judged by
    entries that are held out; what was tried is shown, and up to five that do best together fill the gaps. Where
    --layers, --states or --epochs says something about one model, that is trained by gradient descent instead.

    Beside each column with gaps stand NAME_filled and the uncertainty of what was filled in: NAME_sd, NAME_low,
    NAME_high (a 90 % interval) of numbers, NAME_probability and NAME_likely (the fewest values that hold 90 % together)
    of categories. What errs least is filled in, the mean of numbers, rounded where a column holds whole numbers alone,
    and the likeliest category; --how says otherwise.

    Example: gspn impute nodes.csv edges.csv -o done.csv
    """
    screen = Screen(as_json=as_json, quiet=quiet)
    from gspn.cli.inputs import Reading, parse_types
    from gspn.cli.outputs import check_file, check_folder, records, write_table
    from gspn.cli.outputs import save_model as save
    from gspn.errors import InputError

    check_file(output, force)
    check_folder(save_model, force)
    if model is not None and (types or save_model or effort):
        raise InputError("--types, --effort and --save-model are for training, but --model brings a trained model")
    sizes = {"num_layers": layers, "num_states": states, "epochs": epochs}
    _check_effort(effort, sizes)
    _check_how(how)
    for path in (nodes, edges):
        if path is not None and not path.is_file():
            raise InputError(f"{path}: there is no such file")
    said = Reading.of(
        None if model is None else Reading.beside(model),
        id=id, graph=graph, ends=ends, edge_type=edge_type, directed=directed, parallel=parallel, ignore=ignore,
    )  # fmt: skip
    selection: dict[str, Any] | None = None
    if model is None:
        asked = {"effort": effort, "sizes": sizes, "seed": seed}
        fitted, reading, selection = _train(screen, nodes, edges, said, parse_types(types), asked)
    else:
        from gspn.models.loading import load

        fitted, reading = load(model), said
    completed, spread = _fill(fitted, reading, nodes, edges, how, seed)
    if save_model is not None:
        save(fitted, reading, save_model)
    table = completed if plain else with_uncertainty(completed, spread, fitted)
    summary = _summary(fitted, completed, spread)
    if output is not None:
        write_table(table, output)
    elif not as_json:
        typer.echo(table.to_csv(index=False, lineterminator="\n"), nl=False)
    show = screen.table if output is not None else screen.note_table
    show(summary)
    if output is not None:
        screen.say(f"{len(spread):,} gaps filled in {len(table):,} rows: {output}")
    screen.result(
        {"rows": len(table), "filled": len(spread), "attributes": summary, "output": output and str(output),
         "selection": selection, "model": save_model and str(save_model)}
        | ({} if output else {"table": records(table)})
    )  # fmt: skip


def _train(
    screen: Screen,
    nodes: Path,
    edges: Path | None,
    said: Reading,
    types: dict[str, str],
    asked: dict[str, Any],
) -> tuple[GSPN | Stack, Reading, dict[str, Any] | None]:
    """What the policy chooses, or one model where something is said about its size; and what there is to say of it."""
    import time

    from gspn.cli.choosing import choose
    from gspn.cli.inputs import read_tables
    from gspn.cli.training import show_graphs, show_training, train
    from gspn.policy import model_for

    graphs = read_tables(nodes, edges, said, types=types)
    show_graphs(screen, graphs.dataset, said=types)
    if not _says_one(asked["sizes"]):
        selection, told = choose(graphs.dataset, asked["effort"] or "normal", asked["seed"], screen)
        return selection.stack, graphs.reading, told
    start = time.perf_counter()
    model = model_for(graphs.dataset, **asked["sizes"], seed=asked["seed"])
    of_columns = train(model, graphs.dataset, screen)
    show_training(screen, model, time.perf_counter() - start, of_columns)
    return model, graphs.reading, None


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
            "--effort is for choosing among models, but --layers, --states and --epochs say that it is one"
        )


def _check_how(how: str) -> None:
    from gspn.errors import InputError
    from gspn.queries.missing import HOW

    if how not in HOW:
        raise InputError(f"--how is one of {', '.join(HOW)}, not {how!r}")


def _fill(
    model: GSPN | Stack, reading: Reading, nodes: Path, edges: Path | None, how: str, seed: int
) -> tuple[Any, Any]:
    """The completed table, and one row for each entry that was filled."""
    from gspn.cli.inputs import read_nodes
    from gspn.convert.files import read_table
    from gspn.imputation import TableImputer

    table = read_nodes(nodes, reading, model.schema).frame
    table = with_whole_numbers(table, nodes)
    roles = {*model.schema.names, reading.id, reading.graph}
    edge_table = None if edges is None else read_table(edges, "edges", [*reading.ends, reading.graph]).frame
    imputer = TableImputer.with_model(
        model,
        reading.edge_types if edges is not None else None,
        whole_numbers=reading.whole_numbers,
        id=reading.id,
        graph=reading.graph,
        source=reading.ends[0],
        target=reading.ends[1],
        edge_type=reading.edge_type if edges is not None else None,
        directed=reading.directed,
        parallel=reading.parallel,
        ignore=[*(name for name in table.columns if name not in roles), *reading.ignore],
        how=how,
        level=_LEVEL,
        seed=seed,
    )
    completed, spread = imputer.transform(table, edge_table, return_spread=True)
    return completed, spread


def with_whole_numbers(table: Any, path: Path) -> Any:
    """A column of whole numbers with gaps as such: read from text it would come back as 41.0."""
    if path.suffix.lower() in (".parquet", ".pq"):
        return table
    import pandas

    gappy = [name for name in table.columns if table[name].dtype == float and table[name].isna().any()]
    if not gappy:
        return table
    separator = "\t" if ".tsv" in path.suffixes else ","
    written = pandas.read_csv(path, sep=separator, dtype=str, keep_default_na=False, usecols=gappy, index_col=False)
    for name in gappy:
        present = written[name][table[name].notna().to_numpy()]
        if len(present) and present.str.strip().str.fullmatch(_WHOLE_NUMBER).all():
            table[name] = table[name].astype("Int64")
    return table


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
