"""Which rows a model with a target has learned from: written beside it, and found again when it predicts.

A row is known by a digest of its graph or vertex (`gspn.graphs.digests`), so that it is known in another file, too.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gspn.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gspn.graphs import GraphDataset

KEPT = "learned_from.json"
COLUMN = "learned_from"
"""Of predictions: whether the model has seen the row's label."""


def note_of(dataset: GraphDataset) -> bytes:
    """The digests of everything that has a label, as a file."""
    rows = sorted({digest for digest, known in zip(_digests(dataset), _labelled(dataset), strict=True) if known})
    return (json.dumps({"level": dataset.target_level, "digests": rows}) + "\n").encode()


def known_rows(model: Path, dataset: GraphDataset, level: str) -> list[bool] | None:
    """Of every graph or vertex whether the model has learned from its label; None if nobody wrote it down."""
    from gspn.files import read_json

    path = model / KEPT
    if not path.exists():
        return None
    try:
        known = set(read_json(path)["digests"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path} is damaged: {error}") from error
    return [digest in known for digest in _digests(dataset, level)]


def _digests(dataset: GraphDataset, level: str | None = None) -> list[str]:
    from gspn.graphs.digests import graph_digests, vertex_digests

    return (vertex_digests if (level or dataset.target_level) == "vertex" else graph_digests)(dataset)


def _labelled(dataset: GraphDataset) -> NDArray[Any]:
    """Which rows have a label."""
    import numpy as np

    from gspn.reports.targets import labels_of

    return np.asarray(~np.isnan(labels_of(dataset)).all(axis=1))
