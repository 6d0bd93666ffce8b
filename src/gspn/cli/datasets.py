"""`gspn datasets list|show|fetch`: the named datasets."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gspn.cli import options
from gspn.cli.console import Console

app = typer.Typer(help="List the named datasets, show one, or fetch its files.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Which dataset; `gspn datasets list` shows them.")]


@app.command("list")
@options.bundled
def show_list(
    pattern: Annotated[str, typer.Argument(help="Only names that contain this.")] = "",
    here: Annotated[bool, typer.Option("--here", help="Only those that need no download.")] = False,
    *,
    printing: options.Printing,
) -> None:
    """List all names, their families and whether their files are here."""
    console = printing.console()
    from gspn.datasets.registry import catalogue

    rows = [row for row in catalogue() if pattern.lower() in str(row["name"]).lower() and (row["here"] or not here)]
    if not printing.as_json:
        typer.echo("", nl=False)
    console.result(rows)
    if not printing.as_json:
        _print_all(console, rows)


def _print_all(console: Console, rows: list[dict[str, Any]]) -> None:
    """Many names, so by family: what is here, and the rest in running text."""
    from itertools import groupby

    shown = [
        {"family": family, "here": ", ".join(row["name"] for row in group if row["here"]) or "–",
         "to be downloaded": _briefly([row["name"] for row in group if not row["here"]])}
        for family, group in ((family, list(rows)) for family, rows in groupby(rows, key=lambda row: row["family"]))
    ]  # fmt: skip
    console.table(shown)
    console.say(f"{len(rows)} names; `gspn datasets show NAME` tells more, --json lists all")


def _briefly(names: list[str]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "") or "–"


@app.command("show")
@options.bundled
def show_one(
    name: Name,
    option: options.DatasetOptions = None,
    *,
    printing: options.Printing,
) -> None:
    """Read a dataset and say what is in it."""
    console = printing.console()
    from gspn.cli.training import show_graphs

    dataset = _load(console, name, option)
    found = _described(name, dataset)
    show_graphs(Console(quiet=printing.quiet or printing.as_json), dataset)
    console.table([{"what": key, "value": value} for key, value in found.items() if key not in ("schema", "targets")])
    console.result(found)


@app.command("fetch")
@options.bundled
def fetch(
    name: Name,
    option: options.DatasetOptions = None,
    *,
    printing: options.Printing,
) -> None:
    """Download a dataset, if it is not here, and keep it ready for the next time."""
    console = printing.console()
    from gspn.datasets.raw_files import Folders

    dataset = _load(console, name, option)
    cache = str(Folders.choose(None, None).cache)
    console.say(f"{name}: {len(dataset):,} graphs are ready (cache: {cache})")
    console.result({"name": name, "graphs": len(dataset), "cache": cache})


def _load(console: Console, name: str, option: list[str] | None) -> Any:
    from gspn.cli.options import dataset_options
    from gspn.datasets import load

    return load(name, progress=console.progress, **dataset_options(option or ()))


def _described(name: str, dataset: Any) -> dict[str, Any]:
    from gspn.attributes import to_json
    from gspn.targets import target_schema

    sizes = dataset.num_vertices_per_graph()
    targets = [] if dataset.target is None else list(target_schema(dataset.target))
    return {
        "name": name,
        "graphs": len(dataset),
        "vertices": int(sizes.sum()),
        "edges": int(dataset.num_edges_per_graph().sum()),
        "largest graph": int(sizes.max()),
        "edge types": ", ".join(map(str, dataset.edge_types or ())),
        "target": f"{dataset.target_level}: {', '.join(a.name for a in targets)}" if targets else "none",
        "folds": len(dataset.splits),
        "schema": dataset.schema.to_json(),
        "targets": [to_json(attribute) for attribute in targets],
    }
