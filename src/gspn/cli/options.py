"""Arguments and options that several commands share, with their words of help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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

Types = Annotated[
    str | None,
    typer.Option(
        help="Kinds of attributes where the guess is wrong: team=categorical,age=count (or continuous, binary).",
        rich_help_panel=_COLUMNS,
        show_default=False,
    ),
]
Id = Annotated[
    str | None,
    typer.Option(
        "--id", help="Column of vertex ids; of molecules' names (default: id).", rich_help_panel=_COLUMNS,
        show_default=False,
    ),
]  # fmt: skip
Graph = Annotated[
    str | None,
    typer.Option(
        "--graph", help="Column that tells the graph of a vertex (default: all are one graph).",
        rich_help_panel=_COLUMNS, show_default=False,
    ),
]  # fmt: skip
Ends = Annotated[
    str | None,
    typer.Option(
        "--ends", help="The two columns of ids in the table of edges (default: source,target).",
        rich_help_panel=_COLUMNS, show_default=False,
    ),
]  # fmt: skip
EdgeType = Annotated[
    str | None,
    typer.Option(
        "--edge-type", help="Column with the type of an edge.", rich_help_panel=_COLUMNS, show_default=False
    ),
]  # fmt: skip
Directed = Annotated[
    bool | None,
    typer.Option(
        "--directed", help="A row is one edge from source to target, not both ways.", rich_help_panel=_COLUMNS,
        show_default=False,
    ),
]  # fmt: skip
Parallel = Annotated[
    bool | None,
    typer.Option(
        "--parallel", help="Rows that repeat an edge count as often as they stand there.", rich_help_panel=_COLUMNS,
        show_default=False,
    ),
]  # fmt: skip
Ignore = Annotated[
    str | None,
    typer.Option(
        "--ignore", help="Columns to leave out: name,comment.", rich_help_panel=_COLUMNS, show_default=False
    ),
]  # fmt: skip
Smiles = Annotated[
    str | None,
    typer.Option(
        "--smiles", help="Column of SMILES in a table of molecules (default: smiles).", rich_help_panel=_COLUMNS,
        show_default=False,
    ),
]  # fmt: skip
Features = Annotated[
    str | None,
    typer.Option(
        "--features", help="Of atoms: default, ogb, or names such as element,aromatic.", rich_help_panel=_COLUMNS,
        show_default=False,
    ),
]  # fmt: skip
DatasetOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option", help="Option of a named dataset: limit=500 (may be given several times).",
        rich_help_panel=_COLUMNS, show_default=False,
    ),
]  # fmt: skip

# How to train.

Layers = Annotated[
    int | None,
    typer.Option(min=1, help="Levels; 1 ignores the edges (default: by size).", rich_help_panel=_TRAINING,
                 show_default=False),
]  # fmt: skip
States = Annotated[
    int | None,
    typer.Option(min=1, help="States of a sum unit (default: by size).", rich_help_panel=_TRAINING,
                 show_default=False),
]  # fmt: skip
Epochs = Annotated[
    int | None,
    typer.Option(min=1, help="Passes over the data at most (default: by size).", rich_help_panel=_TRAINING,
                 show_default=False),
]  # fmt: skip
Seed = Annotated[int, typer.Option(min=0, help="Fixes everything random.", rich_help_panel=_TRAINING)]
