"""`python -m gspn.benchmarks NAME [--json]`, and the settings that `versions` has."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

from gspn.benchmarks.measure import show

NAMES = (
    "batches",
    "bounded",
    "covariances",
    "epoch",
    "growth",
    "heads",
    "start",
    "step",
    "versions",
    "vertices",
    "what_if",
)
"""The modules beside this one that have something to run."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m gspn.benchmarks", description="Measure, side by side with peers.")
    parser.add_argument("name", choices=NAMES, help="what to measure")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    alone = parser.add_argument_group("versions", "what only this one takes")
    alone.add_argument("--old", type=Path, metavar="CHECKOUT", help="the version to compare with; needed")
    alone.add_argument("--rounds", type=int, metavar="N", help="how often both are timed (20)")
    alone.add_argument("--data", action="append", metavar="NAME", help="a dataset; may be given several times (all)")
    options = parser.parse_args(arguments)
    given = {name: getattr(options, name) for name in ("old", "rounds", "data") if getattr(options, name) is not None}
    if options.name == "versions" and "old" not in given:
        parser.error("versions needs --old CHECKOUT, the version to compare with")
    if options.name != "versions" and given:
        parser.error(f"{options.name} takes no {' and no '.join(f'--{name}' for name in given)}")
    show(import_module(f"gspn.benchmarks.{options.name}").run(**given), as_json=options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
