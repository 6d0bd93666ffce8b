"""`gspn bench`: the benchmarks, side by side with peers."""

from __future__ import annotations

from typing import Annotated

import typer

from gspn.cli import options


def bench(
    name: Annotated[str | None, typer.Argument(help="What to measure; none lists what there is.")] = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure speed, scale or memory beside other libraries, as `python -m gspn.benchmarks` does."""
    import json

    from gspn.benchmarks.__main__ import NAMES, main
    from gspn.errors import InputError

    if name is None:
        typer.echo(json.dumps(sorted(NAMES)) if as_json else "\n".join(sorted(NAMES)))
        return
    if name not in NAMES:
        raise InputError(f"there is no benchmark {name!r}; known: {', '.join(sorted(NAMES))}")
    main([name, *(["--json"] if as_json else [])])
