"""Models as files: `model.safetensors` beside a `model.json` that says everything else; `loading` is the way back.

Replacing a saved model is atomic although it is two files: the new tensors are written under another name, then the
JSON, which names the tensors' digest, is replaced, then the tensors are moved into place. Whichever of these steps was
the last before a crash, `load` finds the tensors that belong to the JSON.

A stack of models is a `model.json` beside a folder with the models, each under a name that follows from its content: a
new stack disturbs no files of the old one, and is what the folder holds from the moment its JSON is in place.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gspn.attributes import Attribute, Schema, from_json, to_json
from gspn.circuits.structure import Unit, circuit_from_json, circuit_to_json
from gspn.files import replace_file, sync_folder, tensor_bytes, write_through
from gspn.models.arguments import chosen_atoms, chosen_leaves

if TYPE_CHECKING:
    from gspn.models.gspn import GSPN
    from gspn.models.stack import Stack

FORMAT = 1

LATER: Mapping[str, Any] = {
    "aggregation": "mean",
    "leaves": None,
    "covariance": "diagonal",
    "context": None,
    "context_variance": 0.0,
    "slopes": "tied",
    "prior": 0.0,
    "guard": 0.0,
    "start": "clusters",
    "halve_every": None,
    "atoms": None,
    "labels": "targets",
    "hidden": 16,
    "class_weight": None,
}
"""Settings that older files do not have, and what they mean there: written only where they are something else."""

NEW = "model.safetensors.new"

MEMBERS = "members"
"""The folder with the models of a stack"""


def save(model: GSPN, folder: Path) -> None:
    _write(*_content(model), folder)


def _content(model: GSPN) -> tuple[bytes, bytes]:
    """What `model.json` and `model.safetensors` hold."""
    from gspn import __version__

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
    return json.dumps(description, indent=1).encode(), tensors


def _write(description: bytes, tensors: bytes, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    _finish_earlier_save(folder)
    new = folder / NEW
    write_through(new, tensors)
    replace_file(folder / "model.json", description)
    os.replace(new, folder / "model.safetensors")
    sync_folder(folder)


def save_stack(stack: Stack, folder: Path) -> None:
    from gspn import __version__

    folder.mkdir(parents=True, exist_ok=True)
    members = []
    for model in stack.models:
        description, tensors = _content(model)
        members.append(hashlib.sha256(description).hexdigest())
        _write(description, tensors, member_folder(folder, members[-1]))
    sync_folder(folder / MEMBERS)
    sync_folder(folder)
    whole = {
        "format": FORMAT,
        "gspn": __version__,
        "model": "Stack",
        "members": members,
        "weights": list(stack.weights),
        "results": {"training_scores": stack.training_scores_}
        | ({} if stack.spread == 1 else {"spread": stack.spread}),
    }
    replace_file(folder / "model.json", json.dumps(whole, indent=1).encode())
    _remove_others(folder, members)


def member_folder(folder: Path, digest: str) -> Path:
    """Where a model of a stack is, by the digest of its description, which names that of its tensors."""
    return folder / MEMBERS / digest[:16]


def _remove_others(folder: Path, members: Sequence[str]) -> None:
    """Remove what was saved in the folder before, nothing else."""
    for name in ("model.safetensors", NEW):
        (folder / name).unlink(missing_ok=True)
    kept = {member_folder(folder, digest) for digest in members}
    for old in (folder / MEMBERS).iterdir():
        if old not in kept and re.fullmatch("[0-9a-f]{16}", old.name):
            for name in ("model.json", "model.safetensors", NEW):
                (old / name).unlink(missing_ok=True)
            with suppress(OSError):  # something that is not ours lies there
                old.rmdir()


def _finish_earlier_save(folder: Path) -> None:
    """Where a crash came between the JSON and the last move, the tensors still to be moved are the only good ones."""
    new = folder / NEW
    if new.exists() and (folder / "model.json").exists():
        try:
            wanted = json.loads((folder / "model.json").read_bytes())["tensors"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return  # not ours to repair; it is about to be replaced
        if hashlib.sha256(new.read_bytes()).hexdigest() == wanted:
            os.replace(new, folder / "model.safetensors")


def settings_to_json(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Constructor arguments as JSON: schema and template by their structure, numbers as plain Python ones."""
    plain: dict[str, Any] = {}
    for name, value in settings.items():
        if name in LATER and (value == LATER[name] or (name in ("leaves", "atoms") and not value)):
            continue
        if name == "labels" and value is None and settings["target_level"] == "graph":
            continue  # the same as in older files
        if name == "leaves":  # in one form, however it was written: a checkpoint belongs to the model it is of
            chosen = sorted(chosen_leaves(settings["schema"], value).items())
            plain[name] = [[list(names), family] for names, family in chosen]
        elif name == "atoms":
            plain[name] = {
                attribute: list(values) for attribute, values in chosen_atoms(settings["schema"], value).items()
            }
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
        if settings.get("target_level") == "vertex":  # None has come to mean something else
            settings.setdefault("labels", LATER["labels"])
    if settings.get("leaves") is not None:
        settings["leaves"] = {tuple(names): family for names, family in settings["leaves"]}
    if settings.get("template") is not None:
        settings["template"] = circuit_from_json(settings["template"])
    return settings
