"""Makes the model that the page has for molecules, from many drug-like ones: `python -m gspn.web.make_default`.

MUV has 93,087 molecules, most of them such as medicinal chemists test. A part of them is drawn by a seed, so whoever
has MUV (`gspn datasets`) can make the model again. It is kept in `default`, beside this module; labels are not used.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

from gspn import datasets, policy
from gspn.convert.atoms import BOND_TYPES
from gspn.models.gspn import GSPN
from gspn.random_streams import keyed_generator
from gspn.web.learning import ATOM_FEATURES, DEFAULT

_DRAWN = 53
"""Names the stream of random numbers that draws molecules."""
_MOLECULES, _SEED = 20_000, 0
_SETTINGS: dict[str, Any] = {
    "num_layers": 4,
    "num_states": 20,
    "objective": "masked",
    "epochs": 8,
    "batch_size": 64,
    "lr": 0.05,
    "seed": _SEED,
}


def make(folder: Path = DEFAULT, molecules: int = _MOLECULES) -> GSPN:
    """Train and save; a tenth of the molecules is held out, and the best epoch by these is kept."""
    every = datasets.load("MUV", features=ATOM_FEATURES)
    drawn = torch.randperm(len(every), generator=keyed_generator(_SEED, _DRAWN))[:molecules].sort().values
    graphs = every[drawn]
    model = GSPN(graphs.schema, num_edge_types=len(BOND_TYPES), **_SETTINGS)
    training, held_out = policy.hold_out(model, graphs)
    model.fit(training, validation=held_out, keep_scores=False)
    model.save(folder)
    return model


if __name__ == "__main__":
    made = make(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT)
    best = min(epoch["validation"] for epoch in made.history_)
    print(f"{best:.4f} nats per held-out entry")
