"""Small input and small settings for tests of the command line, and what its results are read by."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from typer.testing import Result

SMILES = "CCO ethanol\nc1ccccc1Cl\nCC(=O)O acid\nCCN amine\nCC(C)Cl\n"
SMALL = ("--layers", "2", "--states", "3", "--epochs", "2", "--quiet")

Run = Callable[..., Result]


def draw_people(count: int = 40, seed: int = 0) -> tuple[Any, Any]:
    """Vertices with gaps and the complete ones, in a ring; teams sit together."""
    rng = np.random.default_rng(seed)
    team = (np.arange(count) * 3 // count) % 3
    complete = pd.DataFrame(
        {
            "id": [f"p{i}" for i in range(count)],
            "team": np.array(["red", "green", "blue"])[team],
            "age": np.round(30 + 10 * team + rng.normal(0, 2, count), 1),
            "projects": rng.poisson(2 + 10 * team) + 20 * (np.arange(count) == 0),
            "remote": rng.random(count) < 0.3 + 0.2 * team,
        }
    )
    gappy = complete.astype(object)
    for column in complete.columns[1:]:
        gappy.loc[rng.random(count) < 0.25, column] = None
    return gappy, complete


def parsed(result: Result) -> Any:
    """What was printed for machines: one JSON value and nothing else."""
    return json.loads(result.stdout)
