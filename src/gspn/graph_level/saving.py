"""Predictors of graphs as files, and back: a `model.json`, one safetensors file, and the models below `members`.

The safetensors file and the members are named by digests of their content, so what `model.json` names is never there by
half: it is written last. Loading executes nothing, and refuses what it does not know or what does not fit.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gspn.attributes import Attribute, Schema, from_json, to_json
from gspn.baselines.attribute_columns import AttributeColumns
from gspn.baselines.features import Features
from gspn.baselines.subtrees import Subtrees
from gspn.errors import CheckpointError, GSPNError, InputError
from gspn.files import digest_of_file, read_tensors, replace_file, sync_folder, tensor_bytes
from gspn.graph_level.features import GraphFeatures, Learned
from gspn.models.gspn import GSPN
from gspn.models.saving import load as load_model
from gspn.models.saving import member_folder
from gspn.predictors.outputs import Outputs
from gspn.predictors.vectors import FAMILIES, Chosen
from gspn.predictors.vectors.calibration import Calibration
from gspn.predictors.vectors.linear import Linear
from gspn.predictors.vectors.support import Support
from gspn.predictors.vectors.target_head import Part, TargetHead, Units
from gspn.rows.trees import Trees
from gspn.targets import target_schema

if TYPE_CHECKING:
    from gspn.graph_level.predicting import GraphPredictor

FORMAT = 1
NAMES = ("GraphClassifier", "GraphRegressor")

_WRONG = (GSPNError, TypeError, KeyError, ValueError, IndexError, AttributeError, OverflowError)


def save(predictor: GraphPredictor, folder: Path) -> None:
    from gspn import __version__

    learned = predictor.features_.learned_
    for model in learned.models:
        if not isinstance(model, GSPN):
            raise InputError(f"a {type(model).__name__} cannot be saved: only features of GSPNs can")
    folder.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, Tensor] = {}
    note = {
        "format": FORMAT,
        "gspn": __version__,
        "model": type(predictor).__name__,
        "settings": {
            "schema": predictor.schema.to_json(),
            "target": _to_json(predictor.target),
            "heads": predictor.heads if isinstance(predictor.heads, str) else list(predictor.heads),
            "monitor": predictor.monitor,
            "refit": predictor.refit,
            "seed": int(predictor.seed),
        },
        "features": _features_to_plain(predictor.features_, tensors),
        "heads": [_head_to_plain(head, f"head{i}", tensors) for i, head in enumerate(predictor.chosen_.heads)],
        "units": predictor.meaning_.units.tolist(),
    }
    note["members"] = [_save_member(model, folder) for model in learned.models]
    content = tensor_bytes(tensors)
    note["tensors"] = hashlib.sha256(content).hexdigest()
    replace_file(_tensors_of(folder, note["tensors"]), content)
    replace_file(folder / "model.json", json.dumps(note, indent=1).encode())
    for old in folder.glob("graphs-*.safetensors"):
        if old != _tensors_of(folder, note["tensors"]):
            old.unlink()


def load(folder: Path, note: Mapping[str, Any]) -> GraphPredictor:
    """A predictor from the content of its `model.json`."""
    from gspn.graph_level.predicting import GraphClassifier, GraphRegressor

    path = folder / "model.json"
    if note.get("format") != FORMAT:
        raise CheckpointError(f"{path} has format {note.get('format')!r}, this version reads format {FORMAT}")
    try:
        name = note["tensors"]
        if not isinstance(name, str) or not re.fullmatch("[0-9a-f]{64}", name):
            raise CheckpointError(f"{path} does not name its tensors by a digest")
        file = _tensors_of(folder, name)
        if digest_of_file(file) != name:
            raise CheckpointError(
                f"{folder} holds no {file.name} that belongs to its model.json (damaged or exchanged)"
            )
        tensors, _ = read_tensors(file)
        settings = dict(note["settings"])
        settings["schema"] = Schema.from_json(settings["schema"])
        settings["target"] = _from_json(settings["target"])
        kind = GraphClassifier if note["model"] == "GraphClassifier" else GraphRegressor
        predictor = kind(**settings)
        predictor._check()
        members = tuple(_load_member(folder, digest) for digest in note["members"])
        features = _features_from_plain(note["features"], predictor.schema, members, tensors)
        targets = target_schema(predictor.target)
        heads = tuple(
            _head_from_plain(own, f"head{i}", attribute, features.n_features_out_, tensors)
            for i, (own, attribute) in enumerate(zip(note["heads"], targets, strict=True))
        )
        units = np.array(note["units"], dtype=np.float64)
        if units.shape != (len(targets), 2):
            raise CheckpointError(f"{path}: units of shape {list(units.shape)}")
    except _WRONG as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{path} describes a predictor that cannot be built: {error}") from error
    predictor.features_, predictor.chosen_ = features, Chosen(heads, ())
    predictor.meaning_ = Outputs(predictor.target, units)
    return predictor


# Models.


def _save_member(model: GSPN, folder: Path) -> str:
    """Saved under the digest of its description, which names that of its tensors."""
    own = folder / "members" / "new"
    model.save(own)
    digest = hashlib.sha256((own / "model.json").read_bytes()).hexdigest()
    place = member_folder(folder, digest)
    if place.exists():
        for file in own.iterdir():
            file.unlink()
        own.rmdir()
    else:
        own.rename(place)
    sync_folder(folder / "members")
    return digest


def _load_member(folder: Path, digest: Any) -> GSPN:
    if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
        raise CheckpointError(f"{folder / 'model.json'}: members must be named by digests")
    own = member_folder(folder, digest)
    described = own / "model.json"
    if digest_of_file(described) != digest:
        raise CheckpointError(f"{described} does not belong to {folder / 'model.json'} (damaged or exchanged)")
    return load_model(own, GSPN)


# Features.


def _features_to_plain(features: GraphFeatures, tensors: dict[str, Tensor]) -> dict[str, Any]:
    learned = features.learned_
    assert learned.kept is not None
    tensors["features.kept"] = torch.from_numpy(learned.kept)
    tensors["features.centre"] = torch.from_numpy(features.centre_)
    tensors["features.scale"] = torch.from_numpy(features.scale_)
    tensors["features.vocabulary"] = torch.from_numpy(learned.vocabulary.view(np.int64))
    settings = {name: value for name, value in features.get_params(deep=False).items() if name != "model"}
    plain: dict[str, Any] = {"settings": settings, "extra": list(learned.extra)}
    if learned.attributes is not None:
        own = learned.attributes
        tensors["attributes.degrees"] = own.degrees
        for number, name in enumerate(own.features.schema.names):
            tensors[f"attributes.fill{number}"] = own.features.fill[name]
        spread = [float(own.features.spread[name]) for name in own.features.schema.names]
        plain["attributes"] = {"edge_types": own.edge_types, "spread": spread}
    if learned.subtrees is not None:
        plain["subtrees"] = [cuts is not None for cuts in learned.subtrees.cuts]
        for number, cuts in enumerate(learned.subtrees.cuts):
            if cuts is not None:
                tensors[f"subtrees.cuts{number}"] = cuts
    return plain


def _features_from_plain(
    plain: Mapping[str, Any], schema: Schema, members: tuple[GSPN, ...], tensors: Mapping[str, Tensor]
) -> GraphFeatures:
    models: Any = list(members) if len(members) != 1 else members[0]
    features = GraphFeatures(models if members else None, **plain["settings"])
    attributes, subtrees = None, None
    if "attributes" in plain:
        own = plain["attributes"]
        names = schema.names
        fill = {name: tensors[f"attributes.fill{number}"] for number, name in enumerate(names)}
        spread = dict(zip(names, map(float, own["spread"]), strict=True))
        attributes = AttributeColumns(
            Features(schema, fill, spread), tensors["attributes.degrees"], int(own["edge_types"])
        )
    if "subtrees" in plain:
        if len(plain["subtrees"]) != len(schema):
            raise CheckpointError("subtrees of other attributes")
        cuts = tuple(tensors[f"subtrees.cuts{i}"] if has else None for i, has in enumerate(plain["subtrees"]))
        subtrees = Subtrees(features.subtrees, cuts)
    vocabulary = tensors["features.vocabulary"].numpy().view(np.uint64)
    everything = Learned(members, (0,) * len(members), attributes, subtrees, vocabulary, None, tuple(plain["extra"]))
    kept = tensors["features.kept"].numpy()
    width = sum(1 for _ in features._names(everything))
    centre, scale = tensors["features.centre"].numpy(), tensors["features.scale"].numpy()
    if kept.ndim != 1 or not len(kept) or kept.min() < 0 or kept.max() >= width:
        raise CheckpointError("features are kept that there are none of")
    if centre.shape != kept.shape or scale.shape != kept.shape:
        raise CheckpointError("features with units of other ones")
    features.schema_, features.n_features_out_ = schema, len(kept)
    features.learned_ = Learned(members, everything.widths, attributes, subtrees, vocabulary, kept, everything.extra)
    features.centre_, features.scale_ = centre, scale
    return features


# Heads.


def _head_to_plain(head: TargetHead, name: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    tensors[f"{name}.errors"] = torch.from_numpy(head.errors)
    parts = []
    for number, part in enumerate(head.parts):
        for field in fields(part.head):  # type: ignore[arg-type]
            tensors[f"{name}.{number}.{field.name}"] = torch.from_numpy(np.array(getattr(part.head, field.name)))
        if part.view is not None:
            tensors[f"{name}.{number}.view"] = torch.from_numpy(part.view)
        own = part.calibration
        calibration = None if own is None else {"scale": float(own.scale), "shift": own.shift.tolist()}
        parts.append({"family": part.family, "settings": part.settings, "calibration": calibration})
    units = {"present": head.units.present.tolist(), "centre": head.units.centre, "scale": head.units.scale}
    return {"units": units, "parts": parts}


def _head_from_plain(
    plain: Mapping[str, Any], name: str, attribute: Attribute, width: int, tensors: Mapping[str, Tensor]
) -> TargetHead:
    own = plain["units"]
    units = Units(attribute, np.array(own["present"], dtype=np.int64), float(own["centre"]), float(own["scale"]))
    outputs = len(units.present) if len(units.present) > 2 else 1
    parts = []
    for number, part in enumerate(plain["parts"]):
        kind = FAMILIES[part["family"]].kind
        arrays = {field.name: tensors[f"{name}.{number}.{field.name}"].numpy() for field in fields(kind)}
        head = kind(**arrays)
        _check_head(head, width, outputs, f"{name}.{number}")
        scaling = part["calibration"]
        calibration = None
        if scaling is not None:
            calibration = Calibration(float(scaling["scale"]), np.array(scaling["shift"], dtype=np.float64))
        view = tensors.get(f"{name}.{number}.view")
        if view is not None and view.shape != (width,):
            raise CheckpointError(f"{name}.{number}.view has shape {list(view.shape)} instead of [{width}]")
        columns = None if view is None else view.double().numpy()
        parts.append(Part(part["family"], part["settings"], head, calibration, columns))
    return TargetHead(units, tuple(parts), tensors[f"{name}.errors"].numpy())


def _check_head(head: Any, width: int, outputs: int, name: str) -> None:
    """What is computed from damaged numbers may be wrong, but nothing may be read that is not there."""
    if isinstance(head, Linear):
        fits = head.weights.shape == (width, outputs) and head.bias.shape == (outputs,)
    elif isinstance(head, Support):
        supporting = (len(head.vectors), outputs)
        fits = head.vectors.shape[1:] == (width,) and head.coefficients.shape == supporting
        fits = fits and head.bias.shape == (outputs,) and head.rate.shape == (1,)
    else:
        fits = isinstance(head, Trees) and head.is_sound(width, outputs)
    if not fits:
        raise CheckpointError(f"the tensors of {name} do not fit each other")


def _tensors_of(folder: Path, digest: str) -> Path:
    return folder / f"graphs-{digest[:16]}.safetensors"


def _to_json(target: Attribute | Schema) -> dict[str, Any]:
    return target.to_json() if isinstance(target, Schema) else to_json(target)


def _from_json(plain: Any) -> Attribute | Schema:
    return Schema.from_json(plain) if isinstance(plain, dict) and "attributes" in plain else from_json(plain)
