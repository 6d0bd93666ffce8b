"""What can be said to several commands: arguments and options with their words of help, and how columns are to be read.

Options come in bundles: a dataclass whose fields are options. A command that is `bundled` may have one as a parameter;
on the command line its fields stand there instead. What was said of columns, or was kept beside a saved model, becomes
a `Reading`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from gspn.cli.console import Console
from gspn.errors import InputError

_COLUMNS, _TRAINING = "Tables and files", "Training"

KEPT = "reading.json"
"""Beside a saved model: how the graphs that it learned from were read."""

_KINDS = ("categorical", "continuous", "binary", "count")

Source = Annotated[
    str,
    typer.Argument(
        help="Graphs: a table of vertices, a SMILES or SD file, a dataset's name, smiles:CCO.",
        show_default=False,
    ),
]
Edges = Annotated[
    Path | None,
    typer.Argument(
        help="Table of edges, if SOURCE is one of vertices; of places: contiguity, nearest, nearest:8.",
        show_default=False,
    ),
]
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


@dataclass(frozen=True)
class Reading:
    """Which columns mean what, and which features atoms have."""

    id: str | None = "id"
    graph: str | None = None
    ends: tuple[str, ...] = ("source", "target")
    edge_type: str | None = None
    directed: bool = False
    parallel: bool = False
    ignore: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    delimiter: str | None = None
    encoding: str | None = None
    smiles: str = "smiles"
    features: str | tuple[str, ...] = "default"
    options: tuple[str, ...] = ()
    """of a named dataset, as NAME=VALUE"""
    edge_types: tuple[Any, ...] | None = None
    """what the edge types are called, by code; found by reading"""
    whole_numbers: tuple[str, ...] = ()
    """the continuous attributes of a table that are filled with whole numbers; found by reading"""

    @classmethod
    def of(cls, base: Reading | None = None, **said: Any) -> Reading:
        """What was said on the command line, and for all else what `base` or the defaults say."""
        given = {name: value for name, value in said.items() if value is not None}
        for name in ("ends", "ignore", "keep"):
            if name in given:
                given[name] = _listed(given[name])
        if given.get("id") == "none":
            given["id"] = None
        if len(given.get("ends", "ab")) != 2:
            raise InputError("--ends takes two columns: --ends source,target")
        if given.get("features", "default") not in ("default", "ogb"):
            given["features"] = _listed(given["features"])
        if "options" in given:
            given["options"] = tuple(given["options"])
        return replace(base or cls(), **given)

    @classmethod
    def beside(cls, model: Path) -> Reading:
        """How the graphs of a saved model were read; the defaults if nobody wrote it down."""
        from gspn.files import read_json

        path = model / KEPT
        if not path.exists():
            return cls()
        try:
            kept = read_json(path)
            known = {field.name for field in fields(cls)}
            return cls(**{name: _tuples(value) for name, value in kept.items() if name in known})
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise InputError(f"{path} is damaged: {error}") from error

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def parse_types(text: str | None) -> dict[str, str]:
    """`team=categorical,age=count` by name."""
    found = {}
    for part in _listed(text or ""):
        name, equals, kind = part.rpartition("=")
        if not equals or not name or kind not in _KINDS:
            raise InputError(f"--types: {part!r} is not NAME=KIND, with a kind of {', '.join(_KINDS)}")
        found[name] = kind
    return found


def dataset_options(said: Sequence[str]) -> dict[str, Any]:
    """`limit=500` and the like by name."""
    return dict(_option(text) for text in said)


def _option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InputError(f"--option: {text!r} is not NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
