"""The `gspn` command and what all its commands have in common: errors in one line, exit codes, Ctrl-C."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gspn import __version__
from gspn.cli import experiment

FAILED, MISUSED, INTERRUPTED = 1, 2, 130
"""Exit codes: something went wrong; the command or its input is wrong; Ctrl-C."""

app = typer.Typer(
    name="gspn",
    help="Graph-Induced Sum-Product Networks: fill gaps, embed and query graphs, with exact probabilities.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(experiment.app, name="experiment")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and end.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")] = False,
) -> None:
    sys.tracebacklimit = 1000 if debug else 0


def main() -> None:
    """What the console script calls."""
    from gspn.errors import GSPNError

    try:
        app()
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        sys.exit(INTERRUPTED)
    except GSPNError as error:
        if "--debug" in sys.argv:
            raise
        typer.echo(f"error: {error}", err=True)
        sys.exit(MISUSED)


if __name__ == "__main__":
    main()
