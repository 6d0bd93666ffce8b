"""Arguments and options that several commands share, with their words of help, and in bundles.

A bundle is a dataclass whose fields are options. A command that is `bundled` may have one as a parameter: on the
command line its fields stand there instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from gspn.cli.console import Console

_COLUMNS, _TRAINING = "Tables and files", "Training"

Source = Annotated[
    str,
    typer.Argument(
        help="Graphs: a table of vertices, a SMILES or SD file, a dataset's name, smiles:CCO.",
        show_default=False,
    ),
]
Edges = Annotated[Path | None, typer.Argument(help="Table of edges, if SOURCE is one of vertices.", show_default=False)]
Model = Annotated[
    Path,
    typer.Option(
        "--model", "-m", help="Folder of a saved model, as `gspn fit` writes it (default: model).", show_default=False
    ),
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Overwrite what exists already.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for machines.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes, only results and errors.")]

Page = Annotated[
    Path | None,
    typer.Option(
        "--report",
        help="Write a page on how good this is: observed values are hidden and filled, beside simple methods "
        "(default: report.html). Takes as long again.",
        metavar="[PATH]",
        show_default=False,
    ),
]

# What columns mean.


def _column(flag: str, words: str) -> Any:
    return typer.Option(flag, help=words, rich_help_panel=_COLUMNS, show_default=False)


Types = Annotated[
    str | None,
    _column(
        "--types",
        "Kinds of attributes where the guess is wrong: team=categorical,age=count (or continuous, binary).",
    ),
]
Features = Annotated[str | None, _column("--features", "Of atoms: default, ogb, or names such as element,aromatic.")]
DatasetOptions = Annotated[
    list[str] | None,
    _column("--option", "Option of a named dataset: limit=500 (may be given several times)."),
]


@dataclass(frozen=True)
class Columns:
    """What the columns of tables mean."""

    id: Annotated[
        str | None,
        _column("--id", "Column of vertex ids, or none; of molecules' names (default: id, else what edges name)."),
    ] = None
    graph: Annotated[
        str | None, _column("--graph", "Column that tells the graph of a vertex (default: all are one graph).")
    ] = None
    ends: Annotated[
        str | None, _column("--ends", "The two columns of ids in the table of edges (default: source,target).")
    ] = None
    edge_type: Annotated[str | None, _column("--edge-type", "Column with the type of an edge.")] = None
    directed: Annotated[
        bool | None, _column("--directed", "A row is one edge from source to target, not both ways.")
    ] = None
    parallel: Annotated[bool | None, _column("--parallel", "Keep duplicate edges.")] = None
    ignore: Annotated[str | None, _column("--ignore", "Columns to leave out: name,comment.")] = None
    keep: Annotated[str | None, _column("--keep", "Columns that would be left out as uninformative: name,comment.")] = (
        None
    )
    delimiter: Annotated[
        str | None, _column("--delimiter", "Between cells of text: ; or tab (default: found in the file).")
    ] = None
    encoding: Annotated[str | None, _column("--encoding", "Of text: latin-1, utf-16 (default: found in the file).")] = (
        None
    )


@dataclass(frozen=True)
class Forms(Columns):
    """The same, and what is said of graphs that come as molecules or as a named dataset."""

    smiles: Annotated[
        str | None, _column("--smiles", "Column of SMILES in a table of molecules (default: smiles).")
    ] = None
    options: DatasetOptions = None


@dataclass(frozen=True)
class Printing:
    """What is printed, and how."""

    as_json: AsJson = False
    quiet: Quiet = False

    def console(self) -> Console:
        return Console(as_json=self.as_json, quiet=self.quiet)


_PAGE, _NAMED = "--report", "report.html"


def with_page(arguments: Sequence[str]) -> list[str]:
    """The arguments with a file behind `--report` where none is said: what follows is one only if it ends in .html."""
    found = []
    for place, argument in enumerate(arguments):
        found.append(argument)
        following = arguments[place + 1] if place + 1 < len(arguments) else ""
        if argument == _PAGE and not following.lower().endswith(".html"):
            found.append(_NAMED)
    return found


def bundled(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of its bundles in place of the bundles."""
    hints = get_type_hints(command, include_extras=True)
    bundles: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    parameters: list[Parameter] = []
    for parameter in signature(command).parameters.values():
        if parameter.name in bundles:
            own = get_type_hints(bundles[parameter.name], include_extras=True)
            parameters += [
                Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=own[field.name])
                for field in fields(bundles[parameter.name])
            ]
        else:
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[parameter.name]))

    @wraps(command)
    def run(**said: Any) -> None:
        for name, bundle in bundles.items():
            said[name] = bundle(**{field.name: said.pop(field.name) for field in fields(bundle)})
        command(**said)

    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


# How to train.


def _size(words: str) -> Any:
    return typer.Option(min=1, help=f"{words} (default: by size).", rich_help_panel=_TRAINING, show_default=False)


Effort = Annotated[
    str | None,
    typer.Option(
        help="How much is tried: quick, normal (the default) or thorough.",
        rich_help_panel=_TRAINING,
        show_default=False,
    ),
]
How = Annotated[str, typer.Option(help="What is filled in: closest, mean, median, mode or sample.", show_default=True)]
Draws = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Write this many completed tables below each other, for multiple imputation, numbered by the column draw.",
        show_default=False,
    ),
]
Layers = Annotated[int | None, _size("Levels; 1 ignores the edges")]
States = Annotated[int | None, _size("States of a sum unit")]
Epochs = Annotated[int | None, _size("Passes over the data at most")]
Seed = Annotated[int, typer.Option(min=0, help="Fixes everything random.", rich_help_panel=_TRAINING)]
