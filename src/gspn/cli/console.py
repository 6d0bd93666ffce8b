"""Where words go: results to stdout, everything else to stderr, so that pipes get results and nothing else.

Also what the library says through `logging` becomes lines on stderr here.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    import rich.console

MOST_ROWS = 20
"""Rows of a long table that are printed; files get all."""

_WIDTH_OF_PIPES = 120


class Console:
    """What a command has to say. `quiet` leaves errors and results, `as_json` makes the result one JSON value."""

    def __init__(self, *, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json, self.quiet = as_json, quiet
        _set_levels(quiet)

    @property
    def progress(self) -> bool:
        """Whether bars may be shown; they show themselves on a terminal only."""
        return not self.quiet

    def note(self, text: str) -> None:
        """A line about what is going on."""
        if not self.quiet:
            typer.echo(text, err=True)

    def note_table(self, rows: Sequence[Mapping[str, Any]], title: str = "") -> None:
        """A table about what is going on."""
        if not self.quiet:
            _print(_console(err=True), rows, title)

    def result(self, data: Any) -> None:
        """The whole result for machines, if that is what was asked for."""
        if self.as_json:
            typer.echo(json.dumps(plain(data), ensure_ascii=False, allow_nan=False))

    def table(self, rows: Sequence[Mapping[str, Any]], title: str = "", hint: str = "") -> None:
        """The result for people. Of a long table the first rows are shown, and `hint` says how to get the others."""
        if self.as_json:
            return
        console = _console()
        _print(console, rows[:MOST_ROWS], title)
        if len(rows) > MOST_ROWS:
            console.print(f"… and {len(rows) - MOST_ROWS:,} more rows{f'; {hint}' if hint else ''}", markup=False)

    def say(self, text: str) -> None:
        """A line of the result for people."""
        if not self.as_json:
            typer.echo(text)


def plain(data: Any) -> Any:
    """Numbers, text, lists and objects as JSON has them; non-finite numbers is null."""
    if isinstance(data, Mapping):
        return {str(key): plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [plain(value) for value in data]
    if hasattr(data, "tolist"):  # tensors, arrays and numpy's numbers
        return plain(data.tolist())
    if data is None or isinstance(data, bool | int | str):
        return data
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    return None if data != data or str(data) in ("<NA>", "NaT") else str(data)


def write_cell(value: Any) -> str:
    """A value in a table for people."""
    value = plain(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _print(console: rich.console.Console, rows: Sequence[Mapping[str, Any]], title: str) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    if title:  # a title of the table's own would be broken to its width
        console.print(Text(title))
    shown = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in rows[0] if rows else ():
        values = [plain(row.get(name)) for row in rows]
        numeric = all(isinstance(value, int | float | None) and not isinstance(value, bool) for value in values)
        shown.add_column(Text(name), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        shown.add_row(*(Text(write_cell(row[name])) for name in rows[0]))
    console.print(shown)


def _console(err: bool = False) -> rich.console.Console:
    """On a terminal as wide as that is; a pipe has no width, and gets lines that are not broken early."""
    import os

    import rich.console

    console = rich.console.Console(stderr=err, highlight=False)
    if console.is_terminal or "COLUMNS" in os.environ:
        return console
    return rich.console.Console(stderr=err, highlight=False, width=_WIDTH_OF_PIPES)


class _Lines(logging.Handler):
    """The library's messages as lines on stderr, wherever that leads at the moment."""

    def emit(self, record: logging.LogRecord) -> None:
        word = "" if record.levelno < logging.WARNING else f"{record.levelname.lower()}: "
        typer.echo(f"{word}{record.getMessage()}", err=True)


_debugging = False


def listen(debug: bool) -> None:
    """Let the library's messages through: warnings, and with `debug` everything."""
    global _debugging
    _debugging = debug
    logger = logging.getLogger("gspn")
    if not any(isinstance(handler, _Lines) for handler in logger.handlers):
        logger.addHandler(_Lines())
    _set_levels(quiet=False)


def _set_levels(quiet: bool) -> None:
    level = logging.DEBUG if _debugging else logging.ERROR if quiet else logging.WARNING
    logging.getLogger("gspn").setLevel(level)
    # That loops are compiled is said: the first command on a machine would seem to stand still.
    logging.getLogger("gspn.kernels").setLevel(level if quiet else min(level, logging.INFO))
