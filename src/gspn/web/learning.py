"""Where the page's models come from: the one of the built-in molecules, kept in the cache, and small ones for uploads.

Learning comes epoch by epoch, so that questions are answered in between, and the page can say how far it is. What suits
an upload is decided by `gspn.policy`, as it is for the same tables everywhere else.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gspn import __version__, policy
from gspn.convert.atoms import BOND_TYPES
from gspn.convert.molecules import from_smiles
from gspn.datasets.builtin import builtin_molecules
from gspn.datasets.raw_files import Folders
from gspn.errors import GSPNError
from gspn.graphs.dataset import GraphDataset
from gspn.models.gspn import GSPN
from gspn.models.loading import load
from gspn.web.limits import Limits

_log = logging.getLogger(__name__)

ATOM_FEATURES = ("element", "formal_charge", "aromatic", "degree")
"""What the page's own model knows of an atom.

Nothing that follows from the element (hydrogens, hybridisation, partial charge): an edit would leave such entries as
they were, and the model would rightly find that they do not fit any more. The degree follows edits of bonds.
"""

MOLECULES: dict[str, Any] = {"num_layers": 4, "num_states": 16, "lr": 0.05, "batch_size": 64, "epochs": 16}
"""Some ten seconds on one core"""


@dataclass
class Learning:
    """A model, or how far it has come."""

    model: GSPN | None = None
    share: float = 0.0
    error: str | None = None

    def report(self) -> dict[str, Any]:
        state = "failed" if self.error else "learning" if self.model is None else "ready"
        return {"state": state, "share": round(self.share, 3), "error": self.error}


def _shares(epochs: Iterator[dict[str, Any]], of: int) -> Iterator[float]:
    """The share of a training that is done, after every epoch."""
    for record in epochs:
        yield (record["epoch"] + 1) / of


def learn_molecules(learning: Learning) -> Iterator[float]:
    """The model of the built-in molecules, from the cache if it has been there before."""
    folder = _kept_at()
    model = _load(folder)
    if model is None:
        graphs = from_smiles(builtin_molecules(), features=ATOM_FEATURES, processes=1, progress=False)
        model = GSPN(graphs.schema, num_edge_types=len(BOND_TYPES), objective="masked", **MOLECULES)
        yield from _shares(model.fitting(graphs, progress=False), model.epochs)
        try:
            model.save(folder)
        except (OSError, GSPNError) as error:
            _log.warning("the model cannot be kept in %s (%s); it is learned anew next time", folder, error)
    learning.model = model


def learn_tables(learning: Learning, graphs: GraphDataset, limits: Limits) -> Iterator[float]:
    """A model of the graphs of an upload; what it has learned when the time is up will do."""
    model = policy.model_for(graphs)
    epochs = policy.fitting(model, graphs, progress=False, seconds=limits.fit_seconds)
    yield from _shares(epochs, model.epochs)
    learning.model = model


def _kept_at() -> Path:
    identity = json.dumps([__version__, ATOM_FEATURES, MOLECULES], sort_keys=True)
    key = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return Folders.choose(None, None).cache / "models" / f"what-if-{key}"


def _load(folder: Path) -> GSPN | None:
    if not folder.exists():
        return None
    try:
        model = load(folder)
    except GSPNError as error:
        _log.warning("the model in %s cannot be used (%s); learning it anew", folder, error)
        return None
    return model if isinstance(model, GSPN) else None
