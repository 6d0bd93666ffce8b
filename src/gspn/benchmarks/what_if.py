"""Every single replacement on a molecule of 30 atoms and 10 elements: `what_if_all` against the loop over `what_if`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from gspn import GSPN, Categorical, Schema
from gspn.benchmarks.measure import medians

ATOMS, ELEMENTS = 30, (*"CNOFPSBI", "Cl", "Br")
STATES = 20
REPETITIONS = 3
SETTINGS = ((5, False), (10, False), (5, True))
"""levels, and whether vertices are left out of their own trees"""


def run() -> list[dict[str, Any]]:
    """One row a setting: milliseconds of both, how many times faster all at once is, and how far apart they are."""
    return [_compare(*setting) for setting in SETTINGS]


def _compare(levels: int, leave_one_out: bool) -> dict[str, Any]:
    molecule = _molecule()
    schema = Schema([Categorical("element", ELEMENTS)])
    model = GSPN(schema, num_layers=levels, num_states=STATES).fit(molecule, epochs=0, progress=False)

    def at_once() -> Tensor:
        changes: Tensor = model.what_if_all(molecule, "element", leave_one_out=leave_one_out)
        return changes

    def one_by_one() -> Tensor:
        rows = [
            [model.what_if(molecule, {atom: {"element": one}}, leave_one_out=leave_one_out).total for one in ELEMENTS]
            for atom in range(ATOMS)
        ]
        return torch.tensor(rows)

    found = medians({"all": at_once, "loop": one_by_one}, REPETITIONS, warm_up=1)
    return {
        "levels": levels,
        "leave one out": leave_one_out,
        "what_if_all ms": 1e3 * found["all"],
        "loop ms": 1e3 * found["loop"],
        "times faster": found["loop"] / found["all"],
        "largest difference": f"{(at_once() - one_by_one()).abs().max().item():.1e}",
        "threads": torch.get_num_threads(),
    }


def _molecule() -> Data:
    """Three rings of six on a chain, the way of a drug: atoms in a row, each ring closed by one more bond."""
    rng = np.random.default_rng(0)
    bonds = [(i, i + 1) for i in range(ATOMS - 1)] + [(first, first + 5) for first in (0, 10, 20)]
    one_way = torch.tensor(bonds).T
    x = torch.from_numpy(rng.choice(len(ELEMENTS), size=(ATOMS, 1), p=[0.64, *[0.04] * 9]).astype(np.float64))
    return Data(x=x, edge_index=torch.cat([one_way, one_way.flip(0)], dim=1))
