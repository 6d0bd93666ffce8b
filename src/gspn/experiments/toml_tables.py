"""Dataclasses from the tables of a TOML file: known keys of the right kinds, none of the needed ones missing.

What values mean together is checked by the classes themselves and by those who read the file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from gspn.errors import InputError

_KINDS: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "tuple": (tuple,),
    "Mapping": (dict,),
}


def read_table(cls: Any, table: Any, where: str) -> Any:
    """An instance of the dataclass; whatever is wrong is said with its place."""
    if not isinstance(table, dict):
        raise InputError(f"{where}: a table is expected, got {table!r}")
    known = {entry.name: entry for entry in fields(cls)}
    unknown = sorted(set(table) - set(known))
    if unknown:
        raise InputError(f"{where}: unknown key {', '.join(unknown)}; known are {', '.join(known)}")
    lacking = [
        name
        for name, entry in known.items()
        if entry.default is MISSING and entry.default_factory is MISSING and name not in table
    ]
    if lacking:
        raise InputError(f"{where}: {', '.join(lacking)} is missing")
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in table.items()}
    for name, value in values.items():
        if not _fits(str(known[name].type), value):
            raise InputError(f"{where}: {name} must be {known[name].type}, got {table[name]!r}")
    try:
        return cls(**values)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def _fits(annotation: str, value: Any) -> bool:
    """Whether a value is of the annotated kind; annotations that TOML knows nothing of are dataclasses made earlier."""
    kind, _, inner = annotation.partition("[")
    wanted = _KINDS.get(kind.split(" ")[0])
    if wanted is None:
        return True
    if not isinstance(value, wanted) or isinstance(value, bool):
        return False
    if isinstance(value, tuple):
        return all(_fits(inner.split(",")[0], element) for element in value)
    return not isinstance(value, float) or math.isfinite(value)
