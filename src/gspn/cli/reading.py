"""How people's columns are to be read: what was said on the command line, and what was kept beside a saved model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from gspn.errors import InputError

KEPT = "reading.json"
"""Beside a saved model: how the graphs that it learned from were read."""

_KINDS = ("categorical", "continuous", "binary", "count")


@dataclass(frozen=True)
class Reading:
    """Which columns mean what, and which features atoms have."""

    id: str | None = "id"
    graph: str | None = None
    ends: tuple[str, ...] = ("source", "target")
    edge_type: str | None = None
    directed: bool = False
    parallel: bool = False
    ignore: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    delimiter: str | None = None
    encoding: str | None = None
    smiles: str = "smiles"
    features: str | tuple[str, ...] = "default"
    options: tuple[str, ...] = ()
    """of a named dataset, as NAME=VALUE"""
    edge_types: tuple[Any, ...] | None = None
    """what the edge types are called, by code; found by reading"""
    whole_numbers: tuple[str, ...] = ()
    """the continuous attributes of a table that are filled with whole numbers; found by reading"""

    @classmethod
    def of(cls, base: Reading | None = None, **said: Any) -> Reading:
        """What was said on the command line, and for all else what `base` or the defaults say."""
        given = {name: value for name, value in said.items() if value is not None}
        for name in ("ends", "ignore", "keep"):
            if name in given:
                given[name] = _listed(given[name])
        if given.get("id") == "none":
            given["id"] = None
        if len(given.get("ends", "ab")) != 2:
            raise InputError("--ends takes two columns: --ends source,target")
        if given.get("features", "default") not in ("default", "ogb"):
            given["features"] = _listed(given["features"])
        if "options" in given:
            given["options"] = tuple(given["options"])
        return replace(base or cls(), **given)

    @classmethod
    def beside(cls, model: Path) -> Reading:
        """How the graphs of a saved model were read; the defaults if nobody wrote it down."""
        path = model / KEPT
        if not path.exists():
            return cls()
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            known = {field.name for field in fields(cls)}
            return cls(**{name: _tuples(value) for name, value in kept.items() if name in known})
        except (ValueError, TypeError, AttributeError) as error:
            raise InputError(f"{path} is damaged: {error}") from error

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def parse_types(text: str | None) -> dict[str, str]:
    """`team=categorical,age=count` by name."""
    found = {}
    for part in _listed(text or ""):
        name, equals, kind = part.rpartition("=")
        if not equals or not name or kind not in _KINDS:
            raise InputError(f"--types: {part!r} is not NAME=KIND, with a kind of {', '.join(_KINDS)}")
        found[name] = kind
    return found


def dataset_options(said: Sequence[str]) -> dict[str, Any]:
    """`limit=500` and the like by name."""
    return dict(_option(text) for text in said)


def _option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InputError(f"--option: {text!r} is not NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
