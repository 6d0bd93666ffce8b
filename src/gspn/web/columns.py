"""Which columns of uploaded tables mean what: those of the loaded model's own tables, or the usual names."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gspn.errors import InputError

_KEPT = "reading.json"
"""Beside a model that `gspn fit` or `gspn impute --save-model` has saved"""


@dataclass(frozen=True)
class TableColumns:
    """Names of columns; id, source and target have to be there, the others are used where they are."""

    id: str | None = "id"
    """None: vertices are called by the numbers of their rows"""
    graph: str = "graph"
    source: str = "source"
    target: str = "target"
    edge_type: str = "type"

    @classmethod
    def beside(cls, model: Path) -> TableColumns:
        """As the tables were read that a saved model has learned from."""
        path = model / _KEPT
        if not path.exists():
            return cls()
        try:
            kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            source, target = kept.get("ends") or (cls.source, cls.target)
            return cls(
                kept.get("id", cls.id),
                kept.get("graph") or cls.graph,
                source,
                target,
                kept.get("edge_type") or cls.edge_type,
            )
        except (ValueError, TypeError, AttributeError) as error:
            raise InputError(f"{path} is damaged: {error}") from error
