"""`python -m gspn.benchmarks NAME [--json]`."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

from gspn.benchmarks.measure import show

NAMES = {
    "batches": "gspn.benchmarks.batches",
    "bounded": "gspn.benchmarks.bounded",
    "growth": "gspn.benchmarks.growth",
    "epoch": "gspn.benchmarks.epoch",
    "heads": "gspn.benchmarks.heads",
    "start": "gspn.benchmarks.start",
    "step": "gspn.benchmarks.step",
    "what_if": "gspn.benchmarks.what_if",
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m gspn.benchmarks", description="Measure, side by side with peers.")
    parser.add_argument("name", choices=sorted(NAMES), help="what to measure")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    options = parser.parse_args(arguments)
    show(import_module(NAMES[options.name]).run(), as_json=options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
