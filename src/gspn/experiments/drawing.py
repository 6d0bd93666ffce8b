"""The question "draw": how the likelihood of a molecule's atoms changes when its SMILES is edited.

The record has the numbers; the pictures are drawn from them by `gspn.plots`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

import gspn
from gspn.errors import InputError
from gspn.experiments import systems
from gspn.experiments.records import Record
from gspn.experiments.runs import Run
from gspn.experiments.systems import curve_of


def draw(runs: Sequence[Run], place: Path) -> list[Record]:
    """Train on the training molecules of the only run, then edit the molecules that are asked for."""
    (run,) = runs
    dataset, start = run.source.load(), time.perf_counter()
    fold = run.fold(dataset)
    model = systems.build(run.model, run.settings, dataset, run.seed)
    model = systems.fit(run.model, model, dataset[fold.train], dataset[fold.validation], place / "model.safetensors")
    seconds = {"model": time.perf_counter() - start}
    features = run.source.options.get("features", "ogb")
    changes = [_change(model, features, molecule) for molecule in run.asked["molecules"]]
    return [{"changes": changes, "scores": {}, "curves": {"model": curve_of(model)}, "seconds": seconds}]


def _change(model: gspn.GSPN, features: Any, molecule: Mapping[str, str]) -> dict[str, Any]:
    molecules = gspn.from_smiles(
        [molecule["smiles"], molecule["edited"]], features=features, progress=False, on_error="raise"
    )
    if molecules.schema != model.schema:
        raise InputError(
            f"the molecules are read with the features {features!r}, the dataset has other attributes; its options can "
            "name its features"
        )
    before, after = molecules
    answer = model.what_if(before, edits(before, after, model.schema), leave_one_out=False, derived=False)
    return {
        **molecule,
        "before": answer.before.tolist(),
        "after": answer.after.tolist(),
        "change": answer.change.tolist(),
        "relative": answer.relative.tolist(),
    }


def edits(before: Data, after: Data, schema: gspn.Schema) -> dict[int, dict[str, Any]]:
    """What differs between two graphs with the same edges, as `what_if` takes it."""
    if before.x.shape != after.x.shape or not torch.equal(before.edge_index, after.edge_index):
        raise InputError("the edited SMILES must have the same atoms and bonds in the same order")
    found: dict[int, dict[str, Any]] = {}
    differ = (before.x != after.x) & ~(before.x.isnan() & after.x.isnan())
    for vertex, column in differ.nonzero().tolist():
        attribute = schema.attributes[column]
        found.setdefault(vertex, {})[attribute.name] = attribute.decode(after.x[vertex, [column]])[0]
    return found
