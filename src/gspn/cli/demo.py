"""`gspn demo`: the demonstration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gspn.cli import options


def show_demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the pictures and the report.")] = Path(
        "gspn-demo"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Fixes everything random.")] = 0,
    force: options.Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Show in a minute or two what the library does, on molecules that it brings along."""
    raise NotImplementedError
