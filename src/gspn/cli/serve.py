"""`gspn serve`: the what-if page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gspn.cli import options
from gspn.cli.console import Console


def serve(
    nodes: Annotated[
        Path | None, typer.Argument(help="Table of vertices (CSV) that the page shows first.", show_default=False)
    ] = None,
    edges: Annotated[Path | None, typer.Argument(help="Table of edges (CSV).", show_default=False)] = None,
    model: Annotated[
        Path | None,
        typer.Option("--model", "-m", help="Folder of a saved model (default: one of drug-like molecules)."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; the default is this machine alone.")] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="Port (default: 8000, or a free one if that is taken).", show_default=False
        ),
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
    quiet: options.Quiet = False,
) -> None:
    """Serve the what-if page: edit a molecule or a graph and see what becomes more and less likely. Ctrl-C ends it.

    Example: gspn serve people.csv friends.csv -m people-model
    """
    Console(quiet=quiet)
    from gspn.errors import InputError, MissingExtraError

    if model is not None and not (model / "model.json").is_file():
        raise InputError(f"{model} is not a saved model; `gspn fit` makes one")
    try:
        from gspn.web import serve as run
    except MissingExtraError:
        raise
    except ImportError as error:
        raise MissingExtraError(f"the page needs the extra `web` ({error}): pip install 'gspn[web,chem]'") from error
    for path in (nodes, edges):
        if path is not None and not path.is_file():
            raise InputError(f"{path}: there is no such file")
    tables = None if nodes is None else (nodes, edges)
    run(model, host=host, port=port, open_browser=open_browser, tables=tables)
