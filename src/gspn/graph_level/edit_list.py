"""What edits of a molecule do to a property: all molecules one edit away, ranked by the predicted change.

Which molecules these are is in `convert.molecule_edits`; predictions are those of a model with a target.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from gspn.attributes import Binary, Categorical, Schema
from gspn.convert.atoms import OGB_SCHEMA, features_of
from gspn.convert.files import import_pandas
from gspn.convert.foreign import DataFrame
from gspn.convert.molecule_edits import ELEMENTS, KINDS, edits_of
from gspn.convert.molecules import from_smiles
from gspn.errors import InputError

LEVEL = 0.9


def edit_list(
    model: Any, smiles: str, *, kinds: Sequence[str] = KINDS, elements: Sequence[str] = ELEMENTS, level: float = LEVEL
) -> DataFrame:
    """Molecules one edit away from a molecule, with the predicted change of the property, the largest increase first.

    Every molecule can be, as far as valences say, and is predicted as a whole: hydrogens and all else follow from
    the edit. Intervals of changes take the errors of the two predictions as independent. Molecules that differ in one
    place mostly have similar errors, so that these intervals are rather too wide.

    model: a fitted model with one target of graphs, whose graphs are molecules.
    smiles: the molecule; atoms are numbered from 0 in the order of this SMILES.
    kinds: "replace" an element, "add" an atom for a hydrogen, "remove" an atom at an end, make a "bond" single or
        double.
    elements: that replace others or are added.
    level: probability of the intervals.

    Returns a DataFrame with one row per molecule: edit (in words), kind, smiles; of numbers predicted, low, high,
    change, change_low, change_high; of classes predicted, and for each value its probability and the change of it.
    """
    target = getattr(model, "target", None)
    if target is None or getattr(model, "target_level", "") != "graph" or isinstance(target, Schema):
        raise InputError("an edit list needs a model with one target of graphs: gspn fit --target NAME makes one")
    if features_of(model.schema) is None:
        raise InputError("this model does not know molecules: its attributes are not those of atoms")
    found = edits_of(smiles, kinds, elements)
    if not found:
        raise InputError(f"no edit of these kinds gives a molecule that can be: {', '.join(kinds)}")
    features = "ogb" if model.schema == OGB_SCHEMA else list(model.schema.names)
    graphs = from_smiles([smiles, *(one.smiles for one in found)], features=features, on_error="raise", progress=False)
    said = model.predictive(graphs)
    columns: dict[str, Any] = {
        "edit": [one.words for one in found],
        "kind": [one.kind for one in found],
        "smiles": [one.smiles for one in found],
    }
    if isinstance(target, Categorical | Binary):
        columns |= _of_classes(target, said)
    else:
        columns |= _of_numbers(said, level)
    table: Any = import_pandas().DataFrame(columns)
    ranked: DataFrame = table.sort_values(ranked_by(table), ascending=False, kind="stable", ignore_index=True)
    return ranked


def ranked_by(table: Any) -> str:
    """The column by which an edit list is ordered: of classes, the change of the last one's probability."""
    return next((name for name in reversed(list(table.columns)) if name.startswith("change of")), "change")


def _of_numbers(said: Any, level: float) -> dict[str, Any]:
    mean, (low, high) = said.mean.double(), said.interval(level).double().T
    change, reach = mean[1:] - mean[0], torch.stack([mean - low, high - mean])
    below, above = (torch.hypot(reach[side, 1:], reach[1 - side, 0]) for side in (0, 1))
    return {
        "predicted": mean[1:].numpy(),
        "low": low[1:].numpy(),
        "high": high[1:].numpy(),
        "change": change.numpy(),
        "change_low": (change - below).numpy(),
        "change_high": (change + above).numpy(),
    }


def _of_classes(target: Categorical | Binary, said: Any) -> dict[str, Any]:
    probs = said.probs.double().numpy()
    found: dict[str, Any] = {"predicted": list(target.decode(said.mode.double())[1:])}
    for value, own in zip(said.categories, np.asarray(probs).T, strict=True):
        found |= {f"p({value})": own[1:], f"change of p({value})": own[1:] - own[0]}
    return found
