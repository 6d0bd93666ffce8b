"""Saved models back from their files, which `saving` wrote. Loading executes nothing."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any, TypeVar, overload

import torch

from gspn.columns import shorten
from gspn.errors import CheckpointError, InputError, NotFittedError
from gspn.files import misfits, read_tensors
from gspn.hierarchy.label_readout import LabelReadout
from gspn.models.gspn import GSPN
from gspn.models.saving import FORMAT, NEW, member_folder, settings_from_json
from gspn.models.stack import Stack
from gspn.models.supervised import SupervisedGSPN

_KINDS: dict[str, type] = {
    "format": int,
    "gspn": str,
    "model": str,
    "dtype": str,
    "settings": dict,
    "fitted": bool,
    "history": list,
    "results": dict,
    "tensors": str,
}
_DTYPES = {"float32": torch.float32, "float64": torch.float64}


_KINDS_OF_A_STACK: dict[str, type] = {
    "format": int,
    "gspn": str,
    "model": str,
    "members": list,
    "weights": list,
    "results": dict,
}


Model = TypeVar("Model", bound=GSPN | Stack)


@overload
def load(folder: str | Path) -> GSPN | Stack: ...
@overload
def load(folder: str | Path, kind: type[Model]) -> Model: ...
def load(folder: str | Path, kind: type[Any] | None = None) -> GSPN | Stack:
    """A model, or a stack of models, that `save` wrote. Runs no code from the files, refuses what it does not know.

    `kind` says what it has to be, for instance `gspn.GSPN`; anything else is an error then.
    """
    folder = Path(folder)
    description = _read_description(folder / "model.json")
    found = _stack(folder, description) if description["model"] == "Stack" else _model(folder, description)
    if kind is not None and not isinstance(found, kind):
        raise InputError(f"{folder} holds a {type(found).__name__}, but a {kind.__name__} is needed")
    return found


def _model(folder: Path, description: dict[str, Any]) -> GSPN:
    path = folder / "model.json"
    models: dict[str, type[GSPN]] = {"GSPN": GSPN, "SupervisedGSPN": SupervisedGSPN}
    if description["model"] not in models:
        raise CheckpointError(f"{path} describes a {description['model']!r}, which is not known here")
    if description["dtype"] not in _DTYPES:
        raise CheckpointError(f"{path} names the dtype {description['dtype']!r}, which is not known here")
    try:
        model = models[description["model"]](**settings_from_json(description["settings"]))
    except (InputError, TypeError, KeyError, AttributeError, ValueError, OverflowError, RecursionError) as error:
        raise CheckpointError(f"{path} describes a model that cannot be built: {error}") from error
    model.to(_DTYPES[description["dtype"]])
    _put_tensors(model, folder, description["tensors"])
    model._fitted.fill_(description["fitted"])
    if description["fitted"]:
        model.history_ = description["history"]
        model.leave_one_out_nll_ = description["results"].get("leave_one_out_nll")
        # Not there in models that were saved before scores were kept.
        model.training_scores_ = _checked_scores(description["results"].get("training_scores"), path)
    return model


def _stack(folder: Path, description: dict[str, Any]) -> Stack:
    path = folder / "model.json"
    models = [_member(folder, digest) for digest in description["members"]]
    try:
        # Where it is 1, and in older files, there is none.
        stack = Stack(models, description["weights"], spread=description["results"].get("spread", 1.0))
    except (InputError, NotFittedError) as error:
        raise CheckpointError(f"{path} describes a stack that cannot be built: {error}") from error
    stack.training_scores_ = _checked_scores(description["results"].get("training_scores"), path)
    return stack


def _member(folder: Path, digest: Any) -> GSPN:
    path = folder / "model.json"
    if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
        raise CheckpointError(f"{path}: members must be named by digests, got {shorten(digest)}")
    own = member_folder(folder, digest)
    described = own / "model.json"
    if described.exists() and hashlib.sha256(described.read_bytes()).hexdigest() != digest:
        raise CheckpointError(f"{described} does not belong to {path} (damaged or exchanged)")
    return _model(own, _read_description(described))


def _read_description(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise CheckpointError(f"{path} does not exist; gspn.load takes the folder that save wrote")
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(description, dict) or "format" not in description:
        raise CheckpointError(f"{path} does not describe a gspn model")
    if description["format"] != FORMAT:
        raise CheckpointError(f"{path} has format {description['format']!r}, this version reads format {FORMAT}")
    kinds = _KINDS_OF_A_STACK if description.get("model") == "Stack" else _KINDS
    if set(description) != set(kinds):
        raise CheckpointError(f"{path} has unknown or missing keys: {sorted(set(description) ^ set(kinds))}")
    for key, kind in kinds.items():
        if type(description[key]) is not kind:
            raise CheckpointError(f"{path}: {key} must be a {kind.__name__}, got {description[key]!r}")
    return description


def _checked_scores(scores: Any, path: Path) -> dict[str, list[float]] | None:
    lists = list(scores.values()) if isinstance(scores, dict) else []
    numbers = all(isinstance(one, list) and all(type(score) is float for score in one) for one in lists)
    if scores is not None and not (numbers and len(lists) == 2 and {"vertices", "graphs"} == set(scores)):
        raise CheckpointError(f"{path}: training_scores must hold numbers of vertices and graphs")
    return scores if lists else None


def _put_tensors(model: GSPN, folder: Path, digest: str) -> None:
    for name in ("model.safetensors", NEW):
        path = folder / name
        if path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == digest:
            tensors, _ = read_tensors(path)
            readout = getattr(model.network, "readout", None)
            if isinstance(readout, LabelReadout):
                readout.make_room(tensors, "readout.")
            wrong = misfits(tensors, model.network.state_dict())
            if wrong:
                raise CheckpointError(f"{path} does not fit {folder / 'model.json'}: tensors {', '.join(wrong)}")
            model.network.load_state_dict(tensors)
            if isinstance(readout, LabelReadout) and not readout.is_sound():
                raise CheckpointError(f"{path} holds trees that do not fit each other")
            return
    raise CheckpointError(f"{folder} holds no model.safetensors that belongs to its model.json (damaged or exchanged)")
