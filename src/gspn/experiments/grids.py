"""Grids: what an experiment compares on what, as TOML files that people read and change.

    title = "Missing data"
    question = "fill"                     # or "predict", "impute", …
    notes = ["said in the report"]

    [protocol]
    division = "hold-out"                 # or "published" folds, or "k-fold"
    runs = 3                              # of the selected configuration, with different seeds

    [data.benzene]                        # a column; `name` is the column's unless it is said
    options = { attributes = "continuous" }

    [models.GMM]                          # a row
    system = "GSPN"
    settings = { num_layers = 1 }
    search = { num_states = [5, 20] }     # all combinations; "none" is Python's None

Models that embed have `head` and `head_search` as well: arguments of DeepSets, or with `heads` (names of families)
those of heads on rows of graphs (`experiments.row_heads`). Unknown keys are refused.
"""

from __future__ import annotations

import itertools
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from gspn.arguments import check_choice, check_integer
from gspn.columns import enumerate_briefly
from gspn.errors import InputError
from gspn.experiments.measures import MEASURES
from gspn.experiments.published import PUBLISHED
from gspn.experiments.sources import Source
from gspn.experiments.systems import ABILITIES, EMBEDS, FILLS, PREDICTS, check_settings
from gspn.experiments.toml_tables import read_table
from gspn.experiments.vertices.gaps import MECHANISMS as GAPS
from gspn.experiments.vertices.methods import check_method as check_vertex_method
from gspn.experiments.vertices.sets import VertexSource
from gspn.experiments.yardstick.masks import MECHANISMS
from gspn.experiments.yardstick.methods import check_method
from gspn.experiments.yardstick.sets import YardstickSource

QUESTIONS = {"predict": PREDICTS, "fill": FILLS, "time": PREDICTS, "draw": FILLS, "impute": FILLS, "label": PREDICTS}
"""What is asked, and what a system without a head must be able to do for that; yardsticks have methods of their own."""

YARDSTICKS = ("impute", "label")

FIGURES = ("curves", "levels")
SIZES = ("num_layers", "num_states", "num_graph_states")
"""Settings of the models whose training steps are timed."""

_SHIPPED = files("gspn.experiments") / "grids"


@dataclass(frozen=True)
class Protocol:
    """How models are selected and assessed.

    division:
        "published" takes the dataset's folds, each with its inner hold-out; "hold-out" draws one fold with shares
        `test` and `validation` (of the rest; None: 0.1 each); "k-fold" draws `folds`, which between them test every
        graph, with a share `validation` of the rest.
    seed:
        Decides what is drawn: the division, and which graphs have labels where only some have.
    runs:
        Final runs of the selected configuration on each fold; 0 for studies that look at validation scores alone.
    """

    division: str = "published"
    runs: int = 3
    test: float | None = None
    validation: float | None = None
    seed: int = 0
    folds: int | None = None

    def __post_init__(self) -> None:
        check_choice("division", self.division, ("published", "hold-out", "k-fold"))
        if (self.folds is None) == (self.division == "k-fold"):
            raise InputError("the division 'k-fold', and no other, needs a number of folds")
        if self.folds is not None:
            check_integer("folds", self.folds, 2)
        check_integer("runs", self.runs, 0)
        check_integer("seed", self.seed, 0)
        used = {"published": (), "hold-out": ("test", "validation"), "k-fold": ("validation",)}[self.division]
        for name, share in self.shares().items():
            if name not in used:
                raise InputError(f"the division '{self.division}' has no use for {name}")
            if not 0 < share < 1:
                raise InputError(f"{name} must be a share above 0 and below 1, got {share}")

    def shares(self) -> dict[str, Any]:
        """Those that are given, by name."""
        shares = {"test": self.test, "validation": self.validation}
        return {name: share for name, share in shares.items() if share is not None}


@dataclass(frozen=True)
class Choice:
    """Settings that are fixed and lists of those that are searched, of a system and of the head on its embeddings."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    search: Mapping[str, Any] = field(default_factory=dict)
    head: Mapping[str, Any] | None = None
    head_search: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for fixed, searched in (("settings", "search"), ("head", "head_search")):
            lists = getattr(self, searched)
            for key, values in lists.items():
                if not isinstance(values, list) or not values:
                    raise InputError(f"every entry of {searched} must be a list of values, got {key} = {values!r}")
            both = sorted({*(getattr(self, fixed) or ())} & {*lists})
            if both:
                raise InputError(f"{both[0]} is both in {fixed} and in {searched}")


@dataclass(frozen=True, kw_only=True)
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
    data: tuple[str, ...] = ()
    instead: Mapping[str, Choice] = field(default_factory=dict)
    runs: int | None = None
    published: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.runs is not None:
            check_integer("runs", self.runs, 0)
        if self.head is None and self.head_search:
            raise InputError("head_search needs a head, which may be empty")
        for column, own in self.instead.items():
            if self.head is None and (own.head is not None or own.head_search):
                raise InputError(f"instead.{column} has a head, the row has none; that of the row may be empty")
            hidden = sorted(({*own.settings} & {*self.search}) | ({*(own.head or ())} & {*self.head_search}))
            if hidden:
                raise InputError(f"instead.{column}: {hidden[0]} is searched; give a list with one value instead")

    def configurations(self, column: str) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
        """All pairs of model settings and head settings for a column; those of one model stand together."""
        own = self.instead.get(column, Choice())
        models = _combinations({**self.settings, **own.settings}, {**self.search, **own.search})
        if self.head is None:
            return [(settings, None) for settings in models]
        heads = list(_combinations({**self.head, **(own.head or {})}, {**self.head_search, **own.head_search}))
        return [(settings, head) for settings in models for head in heads]


@dataclass(frozen=True)
class Grid:
    """One file: an experiment in one size.

    question:
        "predict" targets, "fill" missing entries, "time" training steps, "draw" what replaced atoms change, "impute"
        what is hidden of the yardstick's sets, "label" the vertices of the other yardstick's.
    asked:
        What the question itself needs to know: for "fill" the `mask_seed`, for "draw" the `molecules`, for yardsticks
        the `cases`, pairs of a mechanism and a rate, and how many `seeds`.
    paper:
        The published table that stands beside ours.
    against:
        The row whose mean the others' are held against, in a table of margins.
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
    against: str | None = None
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
            return parse_grid(path.read_text(encoding="utf-8"), size)
        except OSError as error:
            raise InputError(f"cannot read the grid {path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise InputError(f"the grid {path} is not UTF-8, as TOML files are: {error}") from error
    if f"{experiment}/{size}" not in shipped():
        raise InputError(f"there is no grid {experiment}/{size}; there are {enumerate_briefly(shipped())}")
    return parse_grid((_SHIPPED / experiment / f"{size}.toml").read_text(encoding="utf-8"), f"{experiment}/{size}")


def parse_grid(text: str, name: str) -> Grid:
    """A checked grid. Everything that can be wrong without looking at data is found here."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"grid {name}: {error}") from error
    _check_values(table, f"grid {name}")
    for key in ("data", "models"):
        if not isinstance(table.get(key), dict) or not table[key]:
            raise InputError(f"grid {name}: there is no [{key}.NAME] in it")
    where = f"grid {name}"
    protocol = read_table(Protocol, table.pop("protocol", {}), f"{where}, [protocol]")
    kind: type[Source] = Source
    if table.get("question") in YARDSTICKS:
        kind = YardstickSource if table["question"] == "impute" else VertexSource
    data = {
        column: read_table(kind, {"name": column, **_table(entry, here)}, here)
        for column, entry in table.pop("data").items()
        if (here := f"{where}, [data.{column}]")
    }
    models = {row: _entry(entry, f"{where}, [models.{row}]") for row, entry in table.pop("models").items()}
    grid: Grid = read_table(Grid, {**table, "protocol": protocol, "data": data, "models": models}, where)
    _check(grid, where)
    return grid


def _check_values(value: Any, where: str) -> None:
    """TOML has dates and numbers that are none, which no setting is and records cannot hold."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            _check_values(inner, f"{where}, {key}")
    elif not isinstance(value, str | int) and not (isinstance(value, float) and math.isfinite(value)):
        raise InputError(f"{where}: text, a finite number, true or false is expected, got {value}")


def _entry(table: Any, where: str) -> Entry:
    table = dict(_table(table, where))
    if "instead" in table:
        table["instead"] = {
            column: read_table(Choice, own, f"{where}, instead.{column}")
            for column, own in _table(table["instead"], f"{where}, instead").items()
        }
    made: Entry = read_table(Entry, table, where)
    return made


def _table(table: Any, where: str) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise InputError(f"{where}: a table is expected, got {table!r}")
    return table


def _check(grid: Grid, where: str) -> None:
    """What no table can know of itself."""
    if grid.question not in QUESTIONS:
        raise InputError(f"{where}: question must be one of {', '.join(QUESTIONS)}, got {grid.question!r}")
    _check_asked(grid, where)
    if grid.measure not in MEASURES:
        raise InputError(f"{where}: there is no measure {grid.measure!r}; there are {', '.join(MEASURES)}")
    if grid.question in ("predict", "fill") and (grid.question == "fill") != grid.measure.startswith("nll"):
        raise InputError(f"{where}: the question '{grid.question}' is not judged by the measure {grid.measure!r}")
    strangers = sorted({*grid.figures} - {*FIGURES})
    if strangers:
        raise InputError(f"{where}: figures can be {', '.join(FIGURES)}, got {strangers[0]!r}")
    if grid.paper is not None and grid.paper not in PUBLISHED:
        raise InputError(f"{where}: paper must be one of {', '.join(PUBLISHED)}, got {grid.paper!r}")
    if grid.against is not None and grid.against not in grid.models:
        raise InputError(f"{where}: against must be one of {', '.join(grid.models)}, got {grid.against!r}")
    for column, source in grid.data.items():
        if source.folds is not None and grid.protocol.division == "hold-out":
            raise InputError(f"{where}, [data.{column}]: the division 'hold-out' has no folds")
        if grid.protocol.folds is not None and max(source.folds or (0,)) >= grid.protocol.folds:
            raise InputError(f"{where}, [data.{column}]: there are {grid.protocol.folds} folds, counted from 0")
        if source.graphs is not None and grid.protocol.division == "published":
            raise InputError(
                f"{where}, [data.{column}]: published folds are of all graphs; with 'graphs' the division can be "
                "'hold-out' or 'k-fold'"
            )
    if grid.question == "time" and len(grid.models) > 1:
        raise InputError(f"{where}: the question 'time' takes one model, which is timed beside GIN")
    for row, entry in grid.models.items():
        try:
            _check_entry(grid, entry)
        except InputError as error:
            raise InputError(f"{where}, [models.{row}]: {error}") from error


def _check_entry(grid: Grid, entry: Entry) -> None:
    strangers = sorted(({*entry.data} | {*entry.instead}) - {*grid.data})
    if strangers:
        raise InputError(f"there is no [data.{strangers[0]}]")
    if entry.published is not None and entry.published not in PUBLISHED.get(grid.paper or "", {}):
        raise InputError(f"published: the paper's table has no row {entry.published!r}")
    # Columns that have nothing of their own have the same configurations: one of them is enough.
    for column in {column if column in entry.instead else None: column for column in entry.data or grid.data}.values():
        configurations = entry.configurations(column)
        for settings, head in configurations:
            checks = {"impute": check_method, "label": check_vertex_method}
            checks.get(grid.question, check_settings)(entry.system, settings)
            if head is not None:
                _check_head(head)
            if "levels" in grid.figures and "num_layers" not in settings:
                raise InputError("the figure 'levels' needs num_layers in settings or search")
        if len({repr(one) for one in configurations}) < len(configurations):
            raise InputError(f"the searches hold the same configuration twice for {column}")
        if grid.question in YARDSTICKS and len(configurations) > 1:
            raise InputError(
                f"the question '{grid.question}' takes one configuration, without search: methods choose themselves"
            )
        if grid.question in ("time", "draw"):
            _check_single(grid, entry, configurations)
    if entry.head is not None and grid.question != "predict":
        raise InputError(f"the question '{grid.question}' has no use for a head")
    if grid.question in YARDSTICKS:
        return
    needed = QUESTIONS[grid.question] if entry.head is None else EMBEDS
    if needed not in ABILITIES[entry.system]:
        raise InputError(f"{entry.system} is not a system that {needed}")


def _check_single(grid: Grid, entry: Entry, configurations: Sequence[tuple[dict[str, Any], Any]]) -> None:
    """Questions without scores cannot select among configurations."""
    runs = grid.protocol.runs if entry.runs is None else entry.runs
    if len(configurations) > 1 or not runs:
        raise InputError(
            f"the question '{grid.question}' takes one configuration, without search, and at least one run"
        )
    if grid.question == "time" and runs > 1:
        raise InputError(f"the question 'time' takes one run, which repeats its steps itself, got {runs}")
    if grid.question == "time" and (entry.system != "SupervisedGSPN" or {*configurations[0][0]} != {*SIZES}):
        raise InputError(f"the question 'time' takes SupervisedGSPN with the settings {', '.join(SIZES)} and no others")


def _check_asked(grid: Grid, where: str) -> None:
    known: dict[str, dict[str, type]] = {
        "fill": {"mask_seed": int},
        "draw": {"molecules": list},
        "impute": {"cases": list, "seeds": int},
        "label": {"cases": list, "seeds": int},
    }
    needed = known.get(grid.question, {})
    if {key: type(value) for key, value in grid.asked.items()} != needed:
        wanted = ", ".join(f"{key} ({kind.__name__})" for key, kind in needed.items()) or "nothing"
        raise InputError(f"{where}, [asked]: the question '{grid.question}' needs {wanted}, got {dict(grid.asked)}")
    if grid.asked.get("mask_seed", 0) < 0:
        raise InputError(f"{where}, [asked]: mask_seed must be at least 0, got {grid.asked['mask_seed']}")
    mechanisms = GAPS if grid.question == "label" else MECHANISMS
    for case in grid.asked.get("cases", ()):
        if not (isinstance(case, list) and len(case) == 2 and case[0] in mechanisms and isinstance(case[1], float)):
            raise InputError(f"{where}, [asked]: a case is one of {', '.join(mechanisms)} and a rate, got {case!r}")
        if not 0 <= case[1] < 1 or (case[1] == 0 and grid.question == "impute"):
            raise InputError(f"{where}, [asked]: a rate is a share above 0 and below 1, got {case[1]}")
    for molecule in grid.asked.get("molecules", ()):
        texts = isinstance(molecule, dict) and all(isinstance(text, str) for text in molecule.values())
        if not texts or {*molecule} != {"smiles", "edited"}:
            raise InputError(f"{where}, [asked]: a molecule has smiles and edited, got {molecule!r}")


def _check_head(head: Mapping[str, Any]) -> None:
    from gspn.attributes import Binary
    from gspn.experiments.row_heads import check_row_head, is_row_head
    from gspn.predictors import DeepSets

    if "seed" in head:
        raise InputError("head: the seed is that of the run")
    try:
        if is_row_head(head):
            check_row_head(head)
        else:
            DeepSets(Binary("any"), **head)
    except (InputError, TypeError) as error:
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
                if not isinstance(place, dict):
                    raise InputError(f"{part} must be a table, as {name} is searched; got {place!r}")
            place[last] = value
        yield _plain(made)


def _plain(settings: Any) -> Any:
    """TOML has no null: the word "none" stands for it."""
    if isinstance(settings, Mapping):
        return {key: _plain(value) for key, value in settings.items()}
    return None if settings == "none" else settings
