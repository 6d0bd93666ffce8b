"""Grids: what an experiment compares on what, as TOML files that people read and change.

    title = "Missing data"
    question = "fill"                     # or "predict"
    notes = ["said in the report"]

    [protocol]
    division = "hold-out"                 # or "published" folds
    runs = 3                              # of the selected configuration, with different seeds

    [data.benzene]                        # a column; `name` is the column's unless it is said
    options = { attributes = "continuous" }

    [models.GMM]                          # a row
    system = "GSPN"
    settings = { num_layers = 1 }
    search = { num_states = [5, 20] }     # all combinations; "none" is Python's None

Models that embed have `head` and `head_search` as well. Unknown keys are refused.
"""

from __future__ import annotations

import itertools
import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from gspn.columns import enumerate_briefly
from gspn.errors import InputError
from gspn.experiments.measures import MEASURES
from gspn.experiments.sources import Source
from gspn.experiments.systems import ABILITIES, EMBEDS, FILLS, PREDICTS, check_settings

QUESTIONS = {"predict": PREDICTS, "fill": FILLS, "time": PREDICTS, "draw": FILLS}
"""What is asked, and what a system without a head must be able to do for that."""

_SHIPPED = files("gspn.experiments") / "grids"


@dataclass(frozen=True)
class Protocol:
    """How models are selected and assessed.

    division:
        "published" takes the dataset's folds, each with its inner hold-out; "hold-out" draws one fold with shares
        `test` and `validation` (of the rest) from `seed`.
    runs:
        Final runs of the selected configuration on each fold; 0 for studies that look at validation scores alone.
    """

    division: str = "published"
    runs: int = 3
    test: float = 0.1
    validation: float = 0.1
    seed: int = 0


@dataclass(frozen=True)
class Entry:
    """A row of the table: a system and the configurations among which it is selected.

    data:
        The columns it takes part in (empty: all).
    instead:
        By column, settings that replace those of `settings`, `search`, `head` and `head_search` there.
    runs:
        Final runs on each fold (None: as many as the protocol says).
    published:
        How the row is called in the paper's table, if not as here.
    """

    system: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    search: Mapping[str, Any] = field(default_factory=dict)
    head: Mapping[str, Any] | None = None
    head_search: Mapping[str, Any] = field(default_factory=dict)
    data: tuple[str, ...] = ()
    instead: Mapping[str, Any] = field(default_factory=dict)
    runs: int | None = None
    published: str | None = None

    def configurations(self, column: str) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
        """All pairs of model settings and head settings for a column; those of one model stand together."""
        own = self.instead.get(column, {})
        models = _combinations({**self.settings, **own.get("settings", {})}, {**self.search, **own.get("search", {})})
        if self.head is None:
            return [(settings, None) for settings in models]
        heads = list(
            _combinations({**self.head, **own.get("head", {})}, {**self.head_search, **own.get("head_search", {})})
        )
        return [(settings, head) for settings in models for head in heads]


@dataclass(frozen=True)
class Grid:
    """One file: an experiment in one size.

    question:
        "predict" targets, "fill" missing entries, "time" training steps, "draw" what replaced atoms change.
    asked:
        What the question itself needs to know: for "fill" the `mask_seed`, for "draw" the `molecules`.
    paper:
        The published table that stands beside ours.
    figures:
        "curves" of the validation loss, scores against "levels".
    """

    title: str
    question: str
    protocol: Protocol
    data: Mapping[str, Source]
    models: Mapping[str, Entry]
    measure: str
    asked: Mapping[str, Any] = field(default_factory=dict)
    paper: str | None = None
    figures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def shipped() -> list[str]:
    """Names of all grids in the package, as "experiment/size"."""
    return sorted(
        f"{folder.name}/{entry.name.removesuffix('.toml')}"
        for folder in _SHIPPED.iterdir()
        if folder.is_dir()
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    )


def read_grid(experiment: str, size: str) -> Grid:
    """A grid of the package by its experiment and size; a size that ends in .toml is a file of one's own."""
    if size.endswith(".toml"):
        path = Path(size)
        try:
            return parse_grid(path.read_text(), size)
        except OSError as error:
            raise InputError(f"cannot read the grid {path}: {error.strerror}") from error
    if f"{experiment}/{size}" not in shipped():
        raise InputError(f"there is no grid {experiment}/{size}; there are {enumerate_briefly(shipped())}")
    return parse_grid((_SHIPPED / experiment / f"{size}.toml").read_text(), f"{experiment}/{size}")


def parse_grid(text: str, name: str) -> Grid:
    """A checked grid. Everything that can be wrong without looking at data is found here."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"grid {name}: {error}") from error
    for key in ("data", "models"):
        if not isinstance(table.get(key), dict) or not table[key]:
            raise InputError(f"grid {name}: there is no [{key}.NAME] in it")
    protocol = _table(Protocol, table.pop("protocol", {}), f"grid {name}, [protocol]")
    data = {
        column: _table(Source, {"name": column, **entry}, f"grid {name}, [data.{column}]")
        for column, entry in table.pop("data").items()
    }
    models = {row: _table(Entry, entry, f"grid {name}, [models.{row}]") for row, entry in table.pop("models").items()}
    grid: Grid = _table(Grid, {**table, "protocol": protocol, "data": data, "models": models}, f"grid {name}")
    _check(grid, f"grid {name}")
    return grid


def _check(grid: Grid, where: str) -> None:
    if grid.question not in QUESTIONS:
        raise InputError(f"{where}: question must be one of {', '.join(QUESTIONS)}, got {grid.question!r}")
    _check_asked(grid, where)
    if grid.protocol.division not in ("published", "hold-out"):
        raise InputError(f"{where}: division must be 'published' or 'hold-out', got {grid.protocol.division!r}")
    if grid.measure not in MEASURES:
        raise InputError(f"{where}: there is no measure {grid.measure!r}; there are {', '.join(MEASURES)}")
    for row, entry in grid.models.items():
        here = f"{where}, [models.{row}]"
        needed = QUESTIONS[grid.question] if entry.head is None else EMBEDS
        strangers = sorted(({*entry.data} | {*entry.instead}) - {*grid.data})
        if strangers:
            raise InputError(f"{here}: there is no [data.{strangers[0]}]")
        for column in entry.data or grid.data:
            for settings, head in entry.configurations(column):
                try:
                    check_settings(entry.system, settings)
                    if head is not None:
                        _check_head(head)
                except InputError as error:
                    raise InputError(f"{here}: {error}") from error
        if needed not in ABILITIES[entry.system]:
            raise InputError(f"{here}: {entry.system} is not a system that {needed}")


def _check_asked(grid: Grid, where: str) -> None:
    known: dict[str, dict[str, type]] = {"fill": {"mask_seed": int}, "draw": {"molecules": list}}
    needed = known.get(grid.question, {})
    if {key: type(value) for key, value in grid.asked.items()} != needed:
        wanted = ", ".join(f"{key} ({kind.__name__})" for key, kind in needed.items()) or "nothing"
        raise InputError(f"{where}, [asked]: the question '{grid.question}' needs {wanted}, got {dict(grid.asked)}")
    for molecule in grid.asked.get("molecules", ()):
        if not isinstance(molecule, dict) or {*molecule} != {"smiles", "edited"}:
            raise InputError(f"{where}, [asked]: a molecule has smiles and edited, got {molecule!r}")


def _check_head(head: Mapping[str, Any]) -> None:
    from gspn.attributes import Binary
    from gspn.predictors import DeepSets

    try:
        DeepSets(Binary("any"), **head)
    except TypeError as error:
        raise InputError(f"head: {error}") from error


def _combinations(settings: Mapping[str, Any], search: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The settings with one value of every searched one; a search for "a.b" goes into the table "a"."""
    for values in itertools.product(*search.values()):
        made = {key: dict(value) if isinstance(value, Mapping) else value for key, value in settings.items()}
        for name, value in zip(search, values, strict=True):
            *above, last = name.split(".")
            place = made
            for part in above:
                place = place.setdefault(part, {})
            place[last] = value
        yield _plain(made)


def _plain(settings: Any) -> Any:
    """TOML has no null: the word "none" stands for it."""
    if isinstance(settings, Mapping):
        return {key: _plain(value) for key, value in settings.items()}
    return None if settings == "none" else settings


def _table(cls: Any, table: Any, where: str) -> Any:
    """A dataclass from a TOML table: known keys only, of the right kind, none of the needed ones missing."""
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
        _check_kind(str(known[name].type), name, value, where)
    return cls(**values)


_KINDS: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "tuple": (tuple,),
    "Mapping": (dict,),
}


def _check_kind(annotation: str, name: str, value: Any, where: str) -> None:
    kind = annotation.split("[")[0].split(" ")[0]
    wanted = _KINDS.get(kind)
    if wanted is None:
        return  # a dataclass made here
    fits = isinstance(value, wanted) and not isinstance(value, bool)
    if not fits or (isinstance(value, float) and not math.isfinite(value)):
        raise InputError(f"{where}: {name} must be {annotation}, got {value!r}")
    if name in ("search", "head_search") and not all(isinstance(values, list) and values for values in value.values()):
        raise InputError(f"{where}: every entry of {name} must be a list of values")
