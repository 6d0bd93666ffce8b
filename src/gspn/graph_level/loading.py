"""Loading saved models, stacks and predictors of graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias, TypeVar, overload

from gspn import graph_level  # its predictors are imported when somebody asks for them, or for the types of `load`
from gspn.errors import InputError
from gspn.files import read_json
from gspn.models.gspn import GSPN
from gspn.models.saving import load as load_model
from gspn.models.stack import Stack

Saved: TypeAlias = "GSPN | Stack | graph_level.GraphClassifier | graph_level.GraphRegressor"
Wanted = TypeVar("Wanted", bound=Saved)


@overload
def load(folder: str | Path) -> Saved: ...
@overload
def load(folder: str | Path, kind: type[Wanted]) -> Wanted: ...
def load(folder: str | Path, kind: type[Any] | None = None) -> Saved:
    """A model, a stack of models or a predictor of graphs that `save` wrote.

    Runs no code from the files, and refuses unknown contents.

    folder: where it was saved.
    kind: the class that it must have, for instance `gspn.GSPN`; None accepts all.
    """
    found = _loaded(Path(folder))
    if kind is not None and not isinstance(found, kind):
        raise InputError(f"{folder} holds a {type(found).__name__}, but a {kind.__name__} is needed")
    return found


def _loaded(folder: Path) -> Saved:
    note = _note(folder)
    if note is None:
        return load_model(folder)
    from gspn.graph_level import saving

    found: graph_level.GraphClassifier | graph_level.GraphRegressor = saving.load(folder, note)
    return found


def _note(folder: Path) -> dict[str, Any] | None:
    """The content of a predictor's `model.json`; None for anything else."""
    try:
        note = read_json(folder / "model.json")
    except (OSError, ValueError):
        return None
    own = isinstance(note, dict) and note.get("model") in ("GraphClassifier", "GraphRegressor")
    return note if own else None
