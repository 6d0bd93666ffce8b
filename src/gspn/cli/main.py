"""The `gspn` command and what all its commands have in common: errors in one line, exit codes, Ctrl-C."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from inspect import cleandoc
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from gspn import __version__
from gspn.cli import bench, datasets, demo, embed, experiment, fit, impute, predict, score, serve, what_if
from gspn.cli.console import listen
from gspn.cli.options import with_page
from gspn.errors import Advice, GSPNError, InputError, MissingExtraError, NotFittedError

FAILED, MISUSED, INTERRUPTED = 1, 2, 130
"""Exit codes: something went wrong; the command or its input is wrong; Ctrl-C."""

_MOST_TOLD = 20
"""Problems of an input, in lines."""

_SAID = "gspn.said"
"""Where the arguments are kept, for a command to copy."""


class _Commands(TyperGroup):
    """All commands. Whatever goes wrong in one of them ends in a readable line and an exit code."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # People add it at the end of the line that failed, so it may stand anywhere.
        if "--debug" in args:
            args = ["--debug", *(argument for argument in args if argument != "--debug")]
        ctx.meta[_SAID] = list(args)
        return super().parse_args(ctx, with_page(args))

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _end("interrupted", INTERRUPTED)
        except SystemError as error:
            if not isinstance(error.__cause__, KeyboardInterrupt):
                raise
            _end("interrupted", INTERRUPTED)  # while Numba looked at the arguments of a compiled function
        except (GSPNError, OSError, MemoryError) as error:
            if isinstance(error, BrokenPipeError) or ctx.params.get("debug"):
                raise
            _end(f"error: {_in_options(error)}{_to_copy(error, ctx.meta[_SAID])}", _code(error))


app = typer.Typer(
    name="gspn",
    cls=_Commands,
    help="Graph-Induced Sum-Product Networks: fill gaps, embed and query graphs, with exact probabilities.",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong use or unusable input, 130 interrupted. Graphs come from SMILES or "
    "SD files, tables of vertices and edges (CSV, TSV, Parquet, Excel), names of datasets, or as smiles:CCO.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _add(name: str, command: Callable[..., None]) -> None:
    """A command, with its docstring as help; lines of a paragraph belong together, whatever the terminal's width."""
    paragraphs = cleandoc(command.__doc__ or "").split("\n\n")
    app.command(name, help="\n\n".join(" ".join(lines.split()) for lines in paragraphs))(command)


_add("demo", demo.show_demo)
_add("impute", impute.impute)
_add("fit", fit.fit)
_add("embed", embed.embed)
_add("score", score.score)
_add("what-if", what_if.what_if)
_add("predict", predict.predict)
app.add_typer(datasets.app, name="datasets")
app.add_typer(experiment.app, name="experiment")
_add("bench", bench.bench)
_add("serve", serve.serve)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and end.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from, and all messages.")] = False,
) -> None:
    listen(debug)


def _code(error: BaseException) -> int:
    """2 for what the user can mend in the command or its input, 1 for all else."""
    unusable = isinstance(error, InputError | NotFittedError | FileNotFoundError | IsADirectoryError)
    return MISUSED if unusable and not isinstance(error, MissingExtraError) else FAILED


def _in_options(error: BaseException) -> str:
    """The message with options in place of arguments; of several problems each in a line."""
    if not isinstance(error, InputError):
        return str(error) or type(error).__name__
    if error.parts:
        shown = [f"- {_in_options(part)}" for part in error.parts[:_MOST_TOLD]]
        more = len(error.parts) - len(shown)
        return "\n".join([f"{len(error.parts)} problems", *shown, *([f"- and {more} more"] if more else [])])
    options = [option for advice in error.advice if (option := _option(advice))]
    return f"{error.told}; pass {', or '.join(options)}" if options else error.told or type(error).__name__


def _option(advice: Advice) -> str | None:
    """What the command line calls an argument; None where it has nothing of the kind."""
    match advice.argument, advice.value:
        case "source" | "target", _:
            return "the right names with --ends FROM,TO"
        case "id", None:
            return f"--id none {advice.purpose}"
        case ("id" | "graph" | "edge_type" | "encoding") as name, value if value is ...:
            return f"--{name.replace('_', '-')} {advice.purpose}"
    said = _said(advice)
    return None if said is None else f"{shlex.join(filter(None, said))} {advice.purpose}"


def _said(advice: Advice) -> tuple[str, str] | None:
    """An option and its value, where both are known; of a flag the value is empty."""
    match advice.argument, advice.value:
        case ("ignore" | "keep") as name, [*columns]:
            return f"--{name}", ",".join(columns)
        case "overrides", {**kinds}:
            return "--types", ",".join(f"{name}={kind}" for name, kind in kinds.items())
        case ("parallel" | "directed") as name, True:
            return f"--{name}", ""
    return None


def _to_copy(error: BaseException, arguments: Sequence[str]) -> str:
    """The command again, with all that the advice is; nothing where there is none."""
    parts = () if not isinstance(error, InputError) else error.parts or (error,)
    said = [next((_said(one) for one in part.advice if _said(one) and not one.doubtful), None) for part in parts]
    again, mended = list(arguments), [option for option in said if option is not None]
    for option, value in mended:
        if option not in again:
            again += filter(None, (option, value))
        elif value and value not in again[again.index(option) + 1].split(","):
            again[again.index(option) + 1] += f",{value}"
    if not mended:
        return ""
    when = "to copy" if len(mended) == len(parts) else "to copy, once the rest is mended"
    return f"\n{when}: {shlex.join(['gspn', *again])}"


def _end(line: str, code: int) -> None:
    typer.echo(line, err=True)
    raise typer.Exit(code)


def main() -> None:
    """What the console script calls."""
    try:
        app()
    except KeyboardInterrupt:  # before or after a command had its say
        typer.echo("interrupted", err=True)
        sys.exit(INTERRUPTED)
    except Exception as error:
        if "--debug" in sys.argv:
            raise
        reason = " ".join(str(error).split())
        typer.echo(f"error: {type(error).__name__}: {reason} (unforeseen; --debug shows where)", err=True)
        sys.exit(FAILED)


if __name__ == "__main__":
    main()
