"""Rows of a grid: a system, and the configurations among which it is selected, fixed and searched.

What a system has to be for a question is checked where the grid is known (`grids`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field, model_validator

from gspn.errors import InputError
from gspn.experiments.toml_tables import Setting, Settings, TomlTable

Lists = dict[str, Annotated[list[Setting], Field(min_length=1)]]


class Choice(TomlTable):
    """Settings that are fixed and lists of those that are searched, of a system and of the head on its embeddings."""

    settings: Settings = Field(default={})
    search: Lists = Field(default={})
    head: Settings | None = None
    head_search: Lists = Field(default={})

    @model_validator(mode="after")
    def _check_search(self) -> Choice:
        for fixed, searched in (("settings", "search"), ("head", "head_search")):
            if both := sorted({*(getattr(self, fixed) or ())} & {*getattr(self, searched)}):
                raise InputError(f"{both[0]} is both in {fixed} and in {searched}")
        return self


class Entry(Choice):
    """A row of the table: a system and the configurations among which it is selected.

    data:
        The columns it takes part in (empty: all).
    instead:
        By column, what replaces single settings and lists there.
    runs:
        Final runs on each fold (None: as many as the protocol says).
    published:
        How the row is called in the paper's table, if not as here.
    """

    system: str
    data: Sequence[str] = ()
    instead: Mapping[str, Choice] = {}
    runs: int | None = Field(default=None, ge=0)
    published: str | None = None

    @model_validator(mode="after")
    def _check_instead(self) -> Entry:
        if self.head is None and self.head_search:
            raise InputError("head_search needs a head, which may be empty")
        for column, own in self.instead.items():
            if self.head is None and (own.head is not None or own.head_search):
                raise InputError(f"instead.{column} has a head, the row has none; that of the row may be empty")
            hidden = sorted(({*own.settings} & {*self.search}) | ({*(own.head or ())} & {*self.head_search}))
            if hidden:
                raise InputError(f"instead.{column}: {hidden[0]} is searched; give a list with one value instead")
        return self

    def configurations(self, column: str) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
        """All pairs of model settings and head settings for a column; those of one model stand together."""
        own = self.instead.get(column, Choice())
        models = _combinations({**self.settings, **own.settings}, {**self.search, **own.search})
        if self.head is None:
            return [(settings, None) for settings in models]
        heads = list(_combinations({**self.head, **(own.head or {})}, {**self.head_search, **own.head_search}))
        return [(settings, head) for settings in models for head in heads]


def _combinations(settings: Mapping[str, Any], search: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The settings with one value of every searched one; a search for "a.b" goes into the table "a"."""
    for values in itertools.product(*search.values()):
        made = {key: dict(value) if isinstance(value, Mapping) else value for key, value in settings.items()}
        for name, value in zip(search, values, strict=True):
            *above, last = name.split(".")
            place = made
            for part in above:
                place = place.setdefault(part, {})
                if not isinstance(place, dict):
                    raise InputError(f"{part} must be a table, as {name} is searched; got {place!r}")
            place[last] = value
        yield _plain(made)


def _plain(settings: Any) -> Any:
    """TOML has no null: the word "none" stands for it."""
    if isinstance(settings, Mapping):
        return {key: _plain(value) for key, value in settings.items()}
    return None if settings == "none" else settings
