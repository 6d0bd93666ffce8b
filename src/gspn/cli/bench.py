"""`gspn bench`: the benchmarks, side by side with peers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gspn.cli import options


@options.bundled
def bench(
    name: Annotated[str | None, typer.Argument(help="What to measure; none lists what there is.")] = None,
    old: Annotated[
        Path | None,
        typer.Option("--old", help="For `versions`: the checkout to compare with.", show_default=False),
    ] = None,
    *,
    printing: options.Printing,
) -> None:
    """Measure speed, scale or memory beside other libraries, as `python -m gspn.benchmarks` does."""
    import json

    from gspn.benchmarks.__main__ import NAMES, main
    from gspn.errors import InputError

    if name is None:
        typer.echo(json.dumps(NAMES) if printing.as_json else "\n".join(NAMES))
        return
    if name not in NAMES:
        raise InputError(f"there is no benchmark {name!r}; known: {', '.join(NAMES)}")
    if (name == "versions") != (old is not None):
        raise InputError("versions needs --old, the checkout to compare with; other benchmarks do not take it")
    main([name, *([] if old is None else ["--old", str(old)]), *(["--json"] if printing.as_json else [])])
