"""Looks at the final sets: who looked, when, with which code, at what. They are meant to be few."""

from __future__ import annotations

import getpass
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gspn.experiments.records import LOOKS


def record_look(folder: Path, *, grid: str, sets: Sequence[str], methods: Sequence[str], commit: str | None) -> None:
    """Add a line; it stays, whatever is found."""
    path = folder / "records" / LOOKS
    path.parent.mkdir(parents=True, exist_ok=True)
    look = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "who": _name(),
        "commit": commit,
        "grid": grid,
        "sets": list(sets),
        "methods": list(methods),
    }
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(look) + "\n")


def looks(folder: Path) -> list[dict[str, Any]]:
    """All looks so far, in their order."""
    path = folder / "records" / LOOKS
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []


def _name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a process without a user, as in some containers
        return "unknown"
