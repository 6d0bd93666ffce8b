"""Which single edits of a molecule change a property, and by how much: `gspn.edit_list` as plain JSON values.

For pages whose model was fitted to a property of molecules; what one edit does to all atoms is in `answers`.
"""

from __future__ import annotations

from typing import Any

from gspn.attributes import Schema
from gspn.errors import InputError
from gspn.graph_level.edit_list import LEVEL, edit_list, ranked_by
from gspn.web.limits import Limits
from gspn.web.subjects import Subject, features_of


def property_of(model: Any) -> str | None:
    """The name of what a model predicts of a molecule; None if it does not."""
    target = getattr(model, "target", None)
    if target is None or isinstance(target, Schema) or getattr(model, "target_level", "") != "graph":
        return None
    return None if features_of(model.schema) is None else str(target.name)


def edits(model: Any, subject: Subject, smiles: str | None, limits: Limits) -> dict[str, Any]:
    """All molecules one edit away from the unedited one, the largest predicted increase first."""
    if property_of(model) is None or smiles is None:
        raise InputError("edits are listed of molecules, by a model that was fitted to a property of theirs")
    if len(subject.graph.x) > limits.edited_atoms:
        raise InputError(f"edits are listed of molecules of at most {limits.edited_atoms} atoms")
    table = edit_list(model, smiles)
    change = ranked_by(table)
    is_number = change == "change"  # of classes it is that of a probability, which has no interval
    predicted = "predicted" if is_number else change.removeprefix("change of ")
    columns = {"change": change, "predicted": predicted, "low": "change_low", "high": "change_high"}
    return {
        "property": property_of(model) if is_number else predicted,
        "level": LEVEL if is_number else None,
        "rows": [
            {"edit": row["edit"], "smiles": row["smiles"], **{name: row.get(own) for name, own in columns.items()}}
            for row in table.to_dict("records")
        ],
    }
