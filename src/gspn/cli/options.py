"""Arguments and options that several commands share, with their words of help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

_COLUMNS, _TRAINING = "Tables and files", "Training"

Source = Annotated[
    str,
    typer.Argument(
        help="Graphs: a table of vertices, a SMILES or SD file, saved PyG data (.pt), a dataset's name, smiles:CCO.",
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
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes, just results and errors.")]

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
Id = Annotated[str | None, _column("--id", "Column of vertex ids; of molecules' names (default: id).")]
Graph = Annotated[
    str | None, _column("--graph", "Column that tells the graph of a vertex (default: all are one graph).")
]
Ends = Annotated[
    str | None, _column("--ends", "The two columns of ids in the table of edges (default: source,target).")
]
EdgeType = Annotated[str | None, _column("--edge-type", "Column with the type of an edge.")]
Directed = Annotated[bool | None, _column("--directed", "A row is one edge from source to target, not both ways.")]
Parallel = Annotated[bool | None, _column("--parallel", "Rows that repeat an edge count as often as they stand there.")]
Ignore = Annotated[str | None, _column("--ignore", "Columns to leave out: name,comment.")]
Smiles = Annotated[str | None, _column("--smiles", "Column of SMILES in a table of molecules (default: smiles).")]
Features = Annotated[str | None, _column("--features", "Of atoms: default, ogb, or names such as element,aromatic.")]
DatasetOptions = Annotated[
    list[str] | None,
    _column("--option", "Option of a named dataset: limit=500 (may be given several times)."),
]

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
Layers = Annotated[int | None, _size("Levels; 1 ignores the edges")]
States = Annotated[int | None, _size("States of a sum unit")]
Epochs = Annotated[int | None, _size("Passes over the data at most")]
Seed = Annotated[int, typer.Option(min=0, help="Fixes everything random.", rich_help_panel=_TRAINING)]
