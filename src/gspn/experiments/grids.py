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

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    Strict,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from gspn.arguments import check_choice
from gspn.columns import enumerate_briefly, shorten
from gspn.errors import InputError
from gspn.experiments.entries import Entry
from gspn.experiments.measures import MEASURES
from gspn.experiments.published import PUBLISHED
from gspn.experiments.sources import Source
from gspn.experiments.systems import ABILITIES, EMBEDS, FILLS, PREDICTS, check_settings
from gspn.experiments.toml_tables import Settings, Share, TomlTable
from gspn.experiments.vertices.gaps import Mechanism as Gaps
from gspn.experiments.vertices.methods import check_method as check_vertex_method
from gspn.experiments.vertices.sets import VertexSource
from gspn.experiments.yardstick.masks import Mechanism
from gspn.experiments.yardstick.methods import check_method
from gspn.experiments.yardstick.sets import YardstickSource

QUESTIONS = {"predict": PREDICTS, "fill": FILLS, "time": PREDICTS, "draw": FILLS, "impute": FILLS, "label": PREDICTS}
"""What is asked, and what a system without a head must be able to do for that; yardsticks have methods of their own."""

YARDSTICKS = ("impute", "label")

SIZES = ("num_layers", "num_states", "num_graph_states")
"""Settings of the models whose training steps are timed."""

_KINDS = {"dict", "list", "str", "bool", "int", "float", "constrained-int", "constrained-float"}
"""What pydantic adds to the place of a value that may be of several kinds"""

_SHIPPED = files("gspn.experiments") / "grids"


class Protocol(TomlTable):
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

    division: Literal["published", "hold-out", "k-fold"] = "published"
    runs: int = Field(default=3, ge=0)
    test: Share | None = None
    validation: Share | None = None
    seed: int = Field(default=0, ge=0)
    folds: int | None = Field(default=None, ge=2)

    @model_validator(mode="after")
    def _check_use(self) -> Protocol:
        if (self.folds is None) == (self.division == "k-fold"):
            raise InputError("the division 'k-fold', and no other, needs a number of folds")
        used = {"published": (), "hold-out": ("test", "validation"), "k-fold": ("validation",)}[self.division]
        for name in self.shares():
            if name not in used:
                raise InputError(f"the division '{self.division}' has no use for {name}")
        return self

    def shares(self) -> dict[str, Any]:
        """Those that are given, by name."""
        shares = {"test": self.test, "validation": self.validation}
        return {name: share for name, share in shares.items() if share is not None}


def _check_source(source: Source, info: ValidationInfo) -> Source:
    protocol = info.data.get("protocol")
    if protocol is None:  # which is wrong itself
        return source
    if source.folds is not None and protocol.division == "hold-out":
        raise InputError("the division 'hold-out' has no folds")
    if protocol.folds is not None and max(source.folds or (0,)) >= protocol.folds:
        raise InputError(f"there are {protocol.folds} folds, counted from 0")
    if source.graphs is not None and protocol.division == "published":
        raise InputError("published folds are of all graphs; with 'graphs' the division can be 'hold-out' or 'k-fold'")
    return source


def _check_entry(entry: Entry, info: ValidationInfo) -> Entry:
    if "protocol" not in info.data or "data" not in info.data:  # which are wrong themselves
        return entry
    question, protocol, data = (info.data[key] for key in ("question", "protocol", "data"))
    if strangers := sorted(({*entry.data} | {*entry.instead}) - {*data}):
        raise InputError(f"there is no [data.{strangers[0]}]")
    paper = info.data.get("paper") or ""
    if entry.published is not None and entry.published not in PUBLISHED.get(paper, {}):
        raise InputError(f"published: the paper's table has no row {entry.published!r}")
    check = {"impute": check_method, "label": check_vertex_method}.get(question, check_settings)
    # Columns that have nothing of their own have the same configurations: one of them is enough.
    for column in {column if column in entry.instead else None: column for column in entry.data or data}.values():
        configurations = entry.configurations(column)
        for settings, head in configurations:
            check(entry.system, settings)
            if head is not None:
                _check_head(head)
            if "levels" in info.data.get("figures", ()) and "num_layers" not in settings:
                raise InputError("the figure 'levels' needs num_layers in settings or search")
        if len({repr(one) for one in configurations}) < len(configurations):
            raise InputError(f"the searches hold the same configuration twice for {column}")
        if question not in ("predict", "fill"):
            runs = protocol.runs if entry.runs is None else entry.runs
            _check_single(question, runs, entry.system, configurations)
    if entry.head is not None and question != "predict":
        raise InputError(f"the question '{question}' has no use for a head")
    needed = QUESTIONS[question] if entry.head is None else EMBEDS
    if question not in YARDSTICKS and needed not in ABILITIES[entry.system]:
        raise InputError(f"{entry.system} is not a system that {needed}")
    return entry


def _check_single(question: str, runs: int, system: str, configurations: Sequence[tuple[Settings, Any]]) -> None:
    """Questions without scores cannot select among configurations, and methods of yardsticks choose themselves."""
    if len(configurations) > 1 or (not runs and question not in YARDSTICKS):
        raise InputError(f"the question '{question}' takes one configuration, without search, and at least one run")
    if question == "time" and runs > 1:
        raise InputError(f"the question 'time' takes one run, which repeats its steps itself, got {runs}")
    if question == "time" and (system != "SupervisedGSPN" or {*configurations[0][0]} != {*SIZES}):
        raise InputError(f"the question 'time' takes SupervisedGSPN with the settings {', '.join(SIZES)} and no others")


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


Columns = Mapping[str, Annotated[Source, AfterValidator(_check_source)]]
Rows = Mapping[str, Annotated[Entry, AfterValidator(_check_entry)]]


class NothingAsked(TomlTable):
    """What a question itself needs to know: most need nothing."""


class Grid(TomlTable):
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
    measure: str
    protocol: Protocol = Protocol()
    paper: str | None = None
    figures: Sequence[Literal["curves", "levels"]] = ()
    data: Columns = Field(min_length=1)
    models: Rows = Field(min_length=1)
    asked: NothingAsked = NothingAsked()
    against: str | None = None
    notes: Sequence[str] = ()

    @field_validator("data", mode="before")
    @classmethod
    def _name_columns(cls, data: Any) -> Any:
        tables = data.items() if isinstance(data, dict) else ()
        return {name: {"name": name, **table} if isinstance(table, dict) else table for name, table in tables}

    @model_validator(mode="after")
    def _check_names(self) -> Grid:
        check_choice("measure", self.measure, [*MEASURES])
        check_choice("paper", self.paper, [None, *PUBLISHED])
        check_choice("against", self.against, [None, *self.models])
        if self.question in ("predict", "fill") and (self.question == "fill") != self.measure.startswith("nll"):
            raise InputError(f"the question '{self.question}' is not judged by the measure {self.measure!r}")
        return self


class PredictGrid(Grid):
    """Targets, by their scores."""

    question: Literal["predict"]


class MaskSeed(NothingAsked):
    mask_seed: Annotated[int, Field(ge=0)]


class FillGrid(Grid):
    """Missing entries, by their densities."""

    question: Literal["fill"]
    asked: MaskSeed


class TimeGrid(Grid):
    """Training steps of one model, which is timed beside GIN."""

    question: Literal["time"]
    models: Rows = Field(min_length=1, max_length=1)


class EditedMolecule(TomlTable):
    smiles: str
    edited: str


class EditedMolecules(NothingAsked):
    molecules: list[EditedMolecule]


class DrawGrid(Grid):
    """What replaced atoms change."""

    question: Literal["draw"]
    asked: EditedMolecules


class HiddenCases(NothingAsked):
    cases: list[Annotated[tuple[Mechanism, Share], Strict(False)]]
    seeds: int


class ImputeGrid(Grid):
    """What is hidden of the yardstick's sets."""

    question: Literal["impute"]
    data: Mapping[str, YardstickSource] = Field(min_length=1)
    asked: HiddenCases


class VertexCases(NothingAsked):
    cases: list[Annotated[tuple[Gaps, Annotated[float, Field(ge=0, lt=1)]], Strict(False)]]
    seeds: int


class LabelGrid(Grid):
    """The vertices of the other yardstick's sets."""

    question: Literal["label"]
    data: Mapping[str, VertexSource] = Field(min_length=1)
    asked: VertexCases


_GRIDS: TypeAdapter[Grid] = TypeAdapter(
    Annotated[PredictGrid | FillGrid | TimeGrid | DrawGrid | ImputeGrid | LabelGrid, Field(discriminator="question")]
)


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
        return _GRIDS.validate_python(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"grid {name}: {error}") from error
    except ValidationError as error:
        raise InputError("\n".join(f"grid {name}{_said(found)}" for found in error.errors())) from error


def _said(found: ErrorDetails) -> str:
    """One thing that is wrong, with its table and key."""
    # The first part of the place is the question, by which the kind of grid is chosen.
    place = [str(part) for part in found["loc"][1:] if part not in _KINDS]
    depth = {"data": 2, "models": 2, "protocol": 1, "asked": 1}.get("".join(place[:1]), 0)
    table = f", [{'.'.join(place[:depth])}]" if depth else ""
    key = f": {'.'.join(place[depth:])}" if place[depth:] else ""
    speaks = found["type"] in ("value_error", "missing") or found["type"].startswith("union_tag")
    given = "" if speaks else f", got {shorten(found['input'])}"
    return f"{table}{key}: {found['msg'].removeprefix('Value error, ')}{given}"
