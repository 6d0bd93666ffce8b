"""A fitted head as one safetensors file with a JSON note that says everything else. Loading executes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gspn.attributes import Schema, from_json, to_json
from gspn.errors import CheckpointError, GSPNError
from gspn.files import misfits, read_tensors, replace_file, tensor_bytes
from gspn.predictors.heads import INPUTS, shapes
from gspn.predictors.outputs import Outputs
from gspn.targets import Target

if TYPE_CHECKING:
    from gspn.predictors.deep_sets import DeepSets

FORMAT = 1
FILE = "deep_sets.safetensors"
_KINDS: dict[str, type] = {"format": int, "gspn": str, "model": str, "settings": dict, "units": list, "history": list}


def save(head: DeepSets, folder: Path) -> None:
    from gspn import __version__

    folder.mkdir(parents=True, exist_ok=True)
    outputs: Outputs = head.outputs_
    note = {
        "format": FORMAT,
        "gspn": __version__,
        "model": "DeepSets",
        # What was learned has the last word, should somebody have changed an argument since.
        "settings": settings_to_json(head)
        | {
            "target": _target_to_json(outputs.target),
            "pooling": head.pooling_,
            "hidden": len(head.weights_["graph.bias"]),
        },
        "units": outputs.units.tolist(),
        "history": head.history_,
    }
    replace_file(folder / FILE, tensor_bytes(head.weights_, note))


def load(folder: Path) -> DeepSets:
    from gspn.predictors.deep_sets import DeepSets

    path = folder / FILE
    if not path.exists():
        raise CheckpointError(f"{path} does not exist; DeepSets.load takes the folder that save wrote")
    tensors, note = read_tensors(path)
    _check_note(note, path)
    try:
        settings = note["settings"] | {"target": _target_from_json(note["settings"]["target"])}
        head = DeepSets(**settings)
        outputs = Outputs(head.target, np.array(note["units"], dtype=np.float64))
        columns, dtype = tensors["vertex.weight"].shape[1], tensors["vertex.weight"].dtype
        wanted = dict.fromkeys(INPUTS, (columns,)) | shapes(columns, head.hidden, int(outputs.ends[-1]))
        if not any(name in tensors for name in INPUTS):  # a head of the time before inputs were standardised
            tensors |= dict(
                zip(INPUTS, (torch.zeros(columns, dtype=dtype), torch.ones(columns, dtype=dtype)), strict=True)
            )
    except (GSPNError, TypeError, KeyError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise CheckpointError(f"{path} describes a head that cannot be built: {error}") from error
    wrong = misfits(tensors, {name: torch.empty(shape, dtype=dtype, device="meta") for name, shape in wanted.items()})
    if wrong or dtype not in (torch.float32, torch.float64):
        raise CheckpointError(f"{path} does not fit its own description: tensors {', '.join(wrong) or dtype}")
    if outputs.units.shape != (len(outputs.ends), 2):
        raise CheckpointError(f"{path} does not fit its own description: units of shape {list(outputs.units.shape)}")
    head._keep(tensors, head.pooling, outputs, note["history"])
    return head


def _check_note(note: Any, path: Path) -> None:
    if not isinstance(note, dict) or note.get("model") != "DeepSets":
        raise CheckpointError(f"{path} does not describe a DeepSets")
    if note.get("format") != FORMAT:
        raise CheckpointError(f"{path} has format {note.get('format')!r}, this version reads format {FORMAT}")
    if set(note) != set(_KINDS):
        raise CheckpointError(f"{path} has unknown or missing keys: {sorted(set(note) ^ set(_KINDS))}")
    for key, kind in _KINDS.items():
        if type(note[key]) is not kind:
            raise CheckpointError(f"{path}: {key} must be a {kind.__name__}, got {note[key]!r}")


def settings_to_json(head: DeepSets) -> dict[str, Any]:
    """The constructor's arguments as plain numbers and text."""
    settings = {name: value.item() if hasattr(value, "item") else value for name, value in head.get_params().items()}
    return settings | {"target": _target_to_json(head.target)}


def _target_to_json(target: Target) -> dict[str, Any]:
    return target.to_json() if isinstance(target, Schema) else to_json(target)


def _target_from_json(plain: Any) -> Target:
    return Schema.from_json(plain) if isinstance(plain, dict) and "attributes" in plain else from_json(plain)
