"""The systems that are compared, by name: from a grid's settings to a fitted estimator, and its training curves."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

import gspn
from gspn import baselines
from gspn.errors import InputError
from gspn.graphs import GraphDataset
from gspn.models.growing import fit_grown

PREDICTS, EMBEDS, FILLS = "predicts", "embeds", "fills"

_NETWORKS = ("GIN", "GraphSAGE", "DGCNN", "DiffPool", "ECC", "DeepMultisets")
_ENCODERS = ("GAE", "DGI")
_ANCESTORS = ("CGMM", "ECGMM", "ICGMM")

ABILITIES: Mapping[str, frozenset[str]] = {
    "GSPN": frozenset({EMBEDS, FILLS}),
    "GrownGSPN": frozenset({EMBEDS, FILLS}),
    "Mixture": frozenset({FILLS}),
    "SupervisedGSPN": frozenset({PREDICTS}),
    "Constant": frozenset({PREDICTS}),
    "StructureAgnostic": frozenset({PREDICTS}),
    "PooledAttributes": frozenset({PREDICTS}),
    "WeisfeilerLehman": frozenset({PREDICTS}),
    "MoleculeForest": frozenset({PREDICTS}),
    "SortedAttributes": frozenset({PREDICTS}),
    **dict.fromkeys(_NETWORKS, frozenset({PREDICTS})),
    **dict.fromkeys(_ENCODERS, frozenset({EMBEDS})),
    **dict.fromkeys(_ANCESTORS, frozenset({EMBEDS})),
}
"""What each system can be asked for. GrownGSPN is a GSPN that is a mixture for the first half of its epochs."""

_POINTS = 40


def build(name: str, settings: Mapping[str, Any], dataset: GraphDataset, seed: int) -> Any:
    """An estimator for the dataset's schema and target; `network` in the settings are those of a network itself."""
    arguments = {key: value for key, value in settings.items() if key != "network"}
    make = _constructor(name)
    if name in _NETWORKS or name in _ENCODERS:
        network = getattr(baselines, name)
        arguments["network"] = _checked(name, network, settings.get("network", {}))
    known = inspect.signature(make).parameters
    own: dict[str, Any] = {"schema": dataset.schema}
    if "target" in known:
        own["target"] = dataset.target
    if "seed" in known:
        own["seed"] = seed
    return _checked(name, make, own | arguments)


def fit(name: str, model: Any, training: GraphDataset, validation: GraphDataset, checkpoint: Path | None = None) -> Any:
    """The fitted model; with a checkpoint, and where the system has them, a killed training goes on from there."""
    if name == "GrownGSPN":
        return fit_grown(model, training, validation=validation, checkpoint=checkpoint, progress=False)
    offered = {"validation": validation, "checkpoint": checkpoint, "progress": False}
    known = inspect.signature(model.fit).parameters
    return model.fit(training, **{key: value for key, value in offered.items() if key in known})


def check_settings(name: str, settings: Mapping[str, Any]) -> None:
    """Refuse settings that a system does not have, before anything is trained."""
    if name not in ABILITIES:
        raise InputError(f"there is no system {name!r}; there are {', '.join(ABILITIES)}")
    taken = set(inspect.signature(_constructor(name)).parameters) - {"schema", "target", "seed", "network"}
    inner: set[str] = set()
    if name in _NETWORKS or name in _ENCODERS:
        taken.add("network")
        inner = set(inspect.signature(getattr(baselines, name)).parameters)
        if not isinstance(settings.get("network", {}), Mapping):
            raise InputError(f"network must be a table of settings of {name}, got {settings['network']!r}")
    for key, allowed in ((settings, taken), (settings.get("network", {}), inner)):
        unknown = sorted(set(key) - allowed)
        if unknown:
            raise InputError(f"{name} has no setting {', '.join(unknown)}; it has {', '.join(sorted(allowed))}")


def _constructor(name: str) -> Callable[..., Any]:
    if name in _NETWORKS:
        return baselines.GraphNetwork
    if name in _ENCODERS:
        return baselines.GraphEmbedder
    home = gspn if name in ("GSPN", "SupervisedGSPN", "GrownGSPN") else baselines
    made: Callable[..., Any] = getattr(home, name.removeprefix("Grown"))
    return made


def _checked(name: str, make: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    try:
        return make(**arguments)
    except TypeError as error:
        raise InputError(f"{name}: {error}") from error


def curve_of(model: Any) -> dict[str, list[float | None]]:
    """Losses and scores over the epochs, thinned out."""
    history: Sequence[Mapping[str, float]] = getattr(model, "history_", ())
    if not history:
        return {}
    steps = min(len(history), _POINTS)
    picked = [history[i] for i in torch.linspace(0, len(history) - 1, steps).round().long().tolist()]
    names = [name for name in ("epoch", "train", "validation", "score") if name in picked[0]]
    return {name: [_rounded(entry[name]) for entry in picked] for name in names}


def _rounded(value: float) -> float | None:
    """Six digits; None where a loss was no number, which JSON does not know."""
    return float(f"{value:.6g}") if math.isfinite(value) else None
