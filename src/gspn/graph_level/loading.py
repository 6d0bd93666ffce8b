"""Whatever was saved, back from its folder: models, stacks of them, predictors of graphs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from gspn.errors import InputError
from gspn.models import loading
from gspn.models.gspn import GSPN
from gspn.models.stack import Stack

if TYPE_CHECKING:
    from gspn.graph_level.predicting import GraphPredictor

    Saved = TypeVar("Saved", bound=GSPN | Stack | GraphPredictor)


@overload
def load(folder: str | Path) -> GSPN | Stack | GraphPredictor: ...
@overload
def load(folder: str | Path, kind: type[Saved]) -> Saved: ...
def load(folder: str | Path, kind: type[Any] | None = None) -> Any:
    """A model, a stack of models or a predictor of graphs that `save` wrote.

    Runs no code from the files, refuses what it does not know. `kind` says what it has to be, for instance
    `gspn.GSPN`; anything else is an error then.
    """
    note = _note(Path(folder))
    if note is None:
        found: Any = loading.load(folder)
        return _checked(found, folder, kind)
    from gspn.graph_level import saving

    return _checked(saving.load(Path(folder), note), folder, kind)


def _checked(found: Any, folder: str | Path, kind: type[Any] | None) -> Any:
    if kind is not None and not isinstance(found, kind):
        raise InputError(f"{folder} holds a {type(found).__name__}, but a {kind.__name__} is needed")
    return found


def _note(folder: Path) -> dict[str, Any] | None:
    """The content of a predictor's `model.json`; None for anything else, of which others know more."""
    try:
        note = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    own = isinstance(note, dict) and note.get("model") in ("GraphClassifier", "GraphRegressor")
    return note if own else None
