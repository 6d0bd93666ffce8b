"""Models as files: `model.safetensors` beside a `model.json` that says everything else. Loading executes nothing.

Replacing a saved model is atomic although it is two files: the new tensors are written under another name, then the
JSON, which names the tensors' digest, is replaced, then the tensors are moved into place. Whichever of these steps was
the last before a crash, `read` finds the tensors that belong to the JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from gspn.attributes import Attribute, Schema, from_json, to_json
from gspn.circuits.structure import Unit, circuit_from_json, circuit_to_json
from gspn.errors import CheckpointError, InputError
from gspn.training.files import misfits, read_tensors, replace_file, sync_folder, tensor_bytes, write_through

if TYPE_CHECKING:
    from gspn.models.gspn import GSPN

FORMAT = 1
_NEW = "model.safetensors.new"
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


def save(model: GSPN, folder: Path) -> None:
    from gspn import __version__

    folder.mkdir(parents=True, exist_ok=True)
    tensors = tensor_bytes(model.network.state_dict())
    description = {
        "format": FORMAT,
        "gspn": __version__,
        "model": type(model).__name__,
        "dtype": str(model.hierarchy.raw_prior.dtype).removeprefix("torch."),
        "settings": settings_to_json(model.arguments()),
        "fitted": model.__sklearn_is_fitted__(),
        "history": getattr(model, "history_", []),
        "results": {name: getattr(model, f"{name}_", None) for name in ("leave_one_out_nll", "training_scores")},
        "tensors": hashlib.sha256(tensors).hexdigest(),
    }
    _finish_earlier_save(folder)
    new = folder / _NEW
    write_through(new, tensors)
    replace_file(folder / "model.json", json.dumps(description, indent=1).encode())
    os.replace(new, folder / "model.safetensors")
    sync_folder(folder)


def _finish_earlier_save(folder: Path) -> None:
    """Where a crash came between the JSON and the last move, the tensors still to be moved are the only good ones."""
    new = folder / _NEW
    if new.exists() and (folder / "model.json").exists():
        try:
            wanted = json.loads((folder / "model.json").read_bytes())["tensors"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return  # not ours to repair; it is about to be replaced
        if hashlib.sha256(new.read_bytes()).hexdigest() == wanted:
            os.replace(new, folder / "model.safetensors")


def load(folder: str | Path) -> GSPN:
    """A model that `save` wrote. Runs no code from the files and refuses what it does not know."""
    from gspn.models.gspn import GSPN
    from gspn.models.supervised import SupervisedGSPN

    folder = Path(folder)
    path = folder / "model.json"
    description = _read_description(path)
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
    if set(description) != set(_KINDS):
        raise CheckpointError(f"{path} has unknown or missing keys: {sorted(set(description) ^ set(_KINDS))}")
    for key, kind in _KINDS.items():
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
    for name in ("model.safetensors", _NEW):
        path = folder / name
        if path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == digest:
            tensors, _ = read_tensors(path)
            wrong = misfits(tensors, model.network.state_dict())
            if wrong:
                raise CheckpointError(f"{path} does not fit {folder / 'model.json'}: tensors {', '.join(wrong)}")
            model.network.load_state_dict(tensors)
            return
    raise CheckpointError(f"{folder} holds no model.safetensors that belongs to its model.json (damaged or exchanged)")


def settings_to_json(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Constructor arguments as JSON: schema and template by their structure, numbers as plain Python ones."""
    plain: dict[str, Any] = {}
    for name, value in settings.items():
        if (name == "aggregation" and value == "mean") or (name == "leaves" and value is None):
            continue  # as files were written when there was nothing else
        if name == "leaves":
            plain[name] = [[[key] if isinstance(key, str) else list(key), family] for key, family in value.items()]
        elif isinstance(value, Schema):
            plain[name] = value.to_json()
        elif isinstance(value, Attribute):
            plain[name] = to_json(value)
        elif isinstance(value, Unit):
            plain[name] = circuit_to_json(value)
        else:
            plain[name] = value.item() if hasattr(value, "item") else value
    return plain


def settings_from_json(plain: Mapping[str, Any]) -> dict[str, Any]:
    settings = dict(plain)
    settings["schema"] = Schema.from_json(settings["schema"])
    if "target" in settings:
        several = "attributes" in settings["target"]
        settings["target"] = Schema.from_json(settings["target"]) if several else from_json(settings["target"])
    if settings.get("leaves") is not None:
        settings["leaves"] = {tuple(names): family for names, family in settings["leaves"]}
    if settings.get("template") is not None:
        settings["template"] = circuit_from_json(settings["template"])
    return settings
