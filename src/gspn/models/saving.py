"""Models as files: `model.safetensors` beside a `model.json` that says all else. Loading executes nothing.

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
from typing import TYPE_CHECKING, Any, TypeVar, overload

import torch
from torch import Tensor

from gspn.attributes import Attribute, Schema, from_json, to_json
from gspn.circuits.structure import Unit, circuit_from_json, circuit_to_json
from gspn.columns import shorten
from gspn.errors import CheckpointError, InputError, NotFittedError
from gspn.files import (
    digest_of_file,
    misfits,
    read_json,
    read_tensors,
    replace_file,
    sync_folder,
    tensor_bytes,
    write_through,
)
from gspn.hierarchy.label_readout import LabelReadout
from gspn.models.checks import chosen_atoms, chosen_leaves

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
    "gaps": "ignorable",
    "labels": "targets",
    "hidden": 16,
    "class_weight": None,
    "pretraining": 0,
}
"""Settings that older files do not have, and what they mean there: written only where they are something else."""

TENSORS, NEW = "model.safetensors", "model.safetensors.new"

MEMBERS = "members"
"""The folder with the models of a stack"""

_SHARED: dict[str, type] = {"format": int, "gspn": str, "model": str, "results": dict}
_KINDS = _SHARED | {"dtype": str, "settings": dict, "fitted": bool, "history": list, "tensors": str}
_KINDS_OF_A_STACK = _SHARED | {"members": list, "weights": list}
"""What a `model.json` holds, by key."""
_DTYPES = {"float32": torch.float32, "float64": torch.float64}
Model = TypeVar("Model", bound="GSPN | Stack")


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
    return _sealed(description), tensors


def _write(description: bytes, tensors: bytes, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    _finish_earlier_save(folder)
    new = folder / NEW
    write_through(new, tensors)
    replace_file(folder / "model.json", description)
    os.replace(new, folder / TENSORS)
    sync_folder(folder)


def _sealed(description: dict[str, Any]) -> bytes:
    """A description as JSON, with a fingerprint of all that it says."""
    return json.dumps(description | {"seal": _seal(description)}, indent=1).encode()


def _seal(description: Mapping[str, Any]) -> str:
    said = json.dumps({name: value for name, value in description.items() if name != "seal"})
    return hashlib.sha256(said.encode()).hexdigest()


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
    replace_file(folder / "model.json", _sealed(whole))
    _remove_others(folder, members)


def member_folder(folder: Path, digest: str) -> Path:
    """Where a model of a stack is, by the digest of its description, which names that of its tensors."""
    return folder / MEMBERS / digest[:16]


def _remove_others(folder: Path, members: Sequence[str]) -> None:
    """Remove what was saved in the folder before, nothing else."""
    for name in (TENSORS, NEW):
        (folder / name).unlink(missing_ok=True)
    kept = {member_folder(folder, digest) for digest in members}
    for old in (folder / MEMBERS).iterdir():
        if old not in kept and re.fullmatch("[0-9a-f]{16}", old.name):
            for name in ("model.json", TENSORS, NEW):
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
            os.replace(new, folder / TENSORS)


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
    # Here, because models import this module.
    from gspn.models.gspn import GSPN
    from gspn.models.supervised import SupervisedGSPN

    path = folder / "model.json"
    models: dict[str, type[GSPN]] = {"GSPN": GSPN, "SupervisedGSPN": SupervisedGSPN}
    if description["model"] not in models:
        raise CheckpointError(f"{path} describes a {description['model']!r}, which is not known here")
    if description["dtype"] not in _DTYPES:
        raise CheckpointError(f"{path} names the dtype {description['dtype']!r}, which is not known here")
    tensors = _read_tensors(folder, description["tensors"])
    _check_sizes(description["settings"], tensors, path)
    try:
        model = models[description["model"]](**settings_from_json(description["settings"]))
    except (InputError, TypeError, KeyError, AttributeError, ValueError, OverflowError, RecursionError) as error:
        raise CheckpointError(f"{path} describes a model that cannot be built: {error}") from error
    model.to(_DTYPES[description["dtype"]])
    readout = getattr(model.network, "readout", None)
    if isinstance(readout, LabelReadout):
        readout.make_room(tensors, "readout.")
    wrong = misfits(tensors, model.network.state_dict())
    if wrong:
        raise CheckpointError(f"{folder / TENSORS} does not fit {path}: tensors {', '.join(wrong)}")
    model.network.load_state_dict(tensors)
    if isinstance(readout, LabelReadout) and not readout.is_sound():
        raise CheckpointError(f"{folder / TENSORS} holds trees that do not fit each other")
    model._fitted.fill_(description["fitted"])
    if description["fitted"]:
        model.history_ = description["history"]
        model.leave_one_out_nll_ = description["results"].get("leave_one_out_nll")
        # Not there in models that were saved before scores were kept.
        model.training_scores_ = _checked_scores(description["results"].get("training_scores"), path)
    return model


def _stack(folder: Path, description: dict[str, Any]) -> Stack:
    from gspn.models.stack import Stack

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
    if described.exists() and digest_of_file(described) != digest:
        raise CheckpointError(f"{described} does not belong to {path} (damaged or exchanged)")
    return _model(own, _read_description(described))


def _read_description(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise CheckpointError(f"{path} does not exist; gspn.load takes the folder that save wrote")
    try:
        description = read_json(path)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    except ValueError as error:
        raise CheckpointError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(description, dict) or "format" not in description:
        raise CheckpointError(f"{path} does not describe a gspn model")
    if description["format"] != FORMAT:
        raise CheckpointError(f"{path} has format {description['format']!r}, this version reads format {FORMAT}")
    kinds = _KINDS_OF_A_STACK if description.get("model") == "Stack" else _KINDS
    unknown = set(description) ^ set(kinds) ^ ({"seal"} & set(description))  # older files have no seal
    if unknown:
        raise CheckpointError(f"{path} has unknown or missing keys: {sorted(unknown)}")
    if description.pop("seal", None) not in (None, _seal(description)):
        raise CheckpointError(f"{path} is damaged: it does not say what was written")
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


def _read_tensors(folder: Path, digest: str) -> dict[str, Tensor]:
    """The tensors that belong to the description, all of them finite."""
    for path in (folder / "model.safetensors", folder / NEW):
        if path.exists() and digest_of_file(path) == digest:
            tensors, _ = read_tensors(path)
            for name, tensor in tensors.items():
                if not bool(tensor.isfinite().all()):
                    raise CheckpointError(f"{path} is damaged: {name} has non-finite numbers")
            return tensors
    raise CheckpointError(f"{folder} holds no model.safetensors that belongs to its model.json (damaged or exchanged)")


def _check_sizes(settings: Mapping[str, Any], tensors: Mapping[str, Tensor], path: Path) -> None:
    """Refuse a model that is larger than its tensors before there is memory allocated for it."""
    sizes: list[Any] = [settings.get(name) for name in ("num_layers", "num_edge_types", "num_states")]
    if not all(type(size) is int for size in sizes):
        return  # that is for whoever builds the model to refuse
    levels, types, states = sizes
    shapes = {name.removeprefix("hierarchy."): tuple(tensor.shape) for name, tensor in tensors.items()}
    prior, transitions = shapes.get("raw_prior", ()), shapes.get("raw_transitions", ())  # a readout has its own
    if prior[1:] != (states,) or transitions[:2] + transitions[3:] != (levels - 1, types, states, states):
        what = f"{levels} levels, {states} states and {types} edge types"
        raise CheckpointError(f"{path.with_name(TENSORS)} does not fit {path}: raw_prior, raw_transitions: not {what}")
    most = sum(tensor.numel() for tensor in tensors.values())
    for name in ("num_graph_states", "hidden"):
        if isinstance(settings.get(name), int) and settings[name] > most:
            what = f"{name} = {settings[name]}"
            raise CheckpointError(f"{path.with_name(TENSORS)} does not fit {path}: too small for {what}")
