"""Where the page's models come from: the one of the built-in molecules, kept in the cache, and small ones for uploads.

Learning is cut into steps, so that questions are answered in between, and the page can say how far it is.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gspn import __version__
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
TABLES: dict[str, Any] = {"num_layers": 3, "num_states": 8, "lr": 0.05, "batch_size": 32, "epochs": 160}

_STEPS = 8


@dataclass
class Learning:
    """A model, or how far it has come."""

    model: GSPN | None = None
    share: float = 0.0
    error: str | None = None

    def report(self) -> dict[str, Any]:
        state = "failed" if self.error else "learning" if self.model is None else "ready"
        return {"state": state, "share": round(self.share, 3), "error": self.error}


def learn(model: GSPN, graphs: GraphDataset, seconds: float = float("inf")) -> Iterator[float]:
    """Fit the model step by step, giving the share that is done; ends early when the time is up.

    Every step goes on from the weights of the last one. With one seed it would hide the same entries again.
    """
    start, epochs = time.monotonic(), -(-model.epochs // _STEPS)
    for step in range(_STEPS):
        model.fit(graphs, epochs=epochs, seed=step, warm_start=step > 0, progress=False)
        yield (step + 1) / _STEPS
        if time.monotonic() - start > seconds:
            _log.info("fitting ends after %d of %d steps: the time is up", step + 1, _STEPS)
            return


def learn_molecules(learning: Learning) -> Iterator[float]:
    """The model of the built-in molecules, from the cache if it has been there before."""
    folder = _kept_at()
    model = _load(folder)
    if model is None:
        graphs = from_smiles(builtin_molecules(), features=ATOM_FEATURES, processes=1, progress=False)
        model = GSPN(graphs.schema, num_edge_types=len(BOND_TYPES), objective="masked", **MOLECULES)
        yield from learn(model, graphs)
        try:
            model.save(folder)
        except (OSError, GSPNError) as error:
            _log.warning("the model cannot be kept in %s (%s); it is learned anew next time", folder, error)
    learning.model = model


def learn_tables(learning: Learning, graphs: GraphDataset, limits: Limits) -> Iterator[float]:
    """A small model of the graphs of an upload."""
    types = 1 if graphs.edge_type is None else max(1, len(graphs.edge_types or ()))
    model = GSPN(graphs.schema, num_edge_types=types, objective="masked", **TABLES)
    yield from learn(model, graphs, limits.fit_seconds)
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
