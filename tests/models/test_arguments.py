"""Arguments that make no sense are refused, by a message that names the argument and shows what was given."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from small_graphs import EVERY_KIND, draw_graphs
from small_models import small_model

import gspn
from gspn import GSPN, Continuous
from gspn.circuits import Leaf, naive_bayes

WRONG: dict[str, list[Any]] = {
    "num_layers": [0, -1, 2.0, True, None],
    "num_states": [0, "20"],
    "num_edge_types": [0, 1.5],
    "shortcut": ["x", True, 1],
    "objective": ["x", None],
    "mask_rate": [0, 0.0, 1.5, 2, -0.1, math.nan, "0.15"],
    "epochs": [-1, 1.5],
    "batch_size": [0, 32.0],
    "lr": [0, 0.0, -0.1, math.inf, math.nan, "fast"],
    "weight_decay": [-1e-3, math.inf],
    "clip": [-1, 0.0, "yes"],
    "patience": [0, None],
    "n_init": [0, 1.0],
    "seed": [-1, None, True, 0.5, 2**63, 2**64],
    "template": ["naive Bayes", [Leaf("charge")]],
    "schema": ["charge", [Continuous("charge")]],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_constructor_arguments(name: str, value: Any) -> None:
    arguments: dict[str, Any] = {"schema": EVERY_KIND, name: value}
    with pytest.raises(gspn.GSPNError, match=rf"^{name} must be ") as raised:
        GSPN(**arguments)
    # The message shows what was given: the value, or the kind of thing where its value would be no help.
    assert str(value) in str(raised.value) or type(value).__name__ in str(raised.value)
    if name in small_model().goal.arguments:
        with pytest.raises(gspn.GSPNError, match=rf"^{name} must be .*got {re.escape(repr(value))}$"):
            small_model().fit(draw_graphs(2, seed=0), progress=False, **{name: value})


@pytest.mark.parametrize(
    ("atoms", "message"),
    [
        (["charge"], "atoms must map"),
        ({"charge": 0.0}, "atoms of 'charge' must be a list"),
        ({"charge": "0"}, "atoms of 'charge' must be a list"),
        ({"charge": [0.0, math.nan]}, "atoms of 'charge' must be finite numbers, got nan"),
        ({"charge": [0.0, -0.0]}, "atoms of 'charge' name a value twice"),
        ({"element": [0.0]}, "'element' is categorical"),
        ({"nothing": [0.0]}, "no attribute 'nothing'"),
    ],
)
def test_atoms_that_are_none(atoms: Any, message: str) -> None:
    with pytest.raises(gspn.GSPNError, match=message):
        small_model(atoms=atoms)


def test_a_seed_that_construction_accepts_can_be_trained_with() -> None:
    graphs = draw_graphs(2, seed=7)
    for seed in (0, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1):
        try:
            model = small_model(seed=seed, objective="masked", mask_rate=1.0)
        except gspn.GSPNError as error:
            assert "seed" in str(error)  # noqa: PT017 (either outcome is fine, half of each is not)
            assert seed >= 2**53
        else:
            model.fit(graphs, progress=False)


def test_a_shortcut_needs_two_levels() -> None:
    for shortcut in ("mean", "learned"):
        with pytest.raises(gspn.GSPNError, match=r"shortcut needs at least two levels.*num_layers=1"):
            GSPN(EVERY_KIND, num_layers=1, shortcut=shortcut)
        GSPN(EVERY_KIND, num_layers=2, shortcut=shortcut)


def test_a_template_is_validated() -> None:
    """All that can be wrong with one: `circuits/test_validity.py`."""
    with pytest.raises(gspn.GSPNError, match=r"Sum 0 has the wrong number of children: 3 instead of num_states = 4"):
        GSPN(EVERY_KIND, num_states=4, template=naive_bayes(EVERY_KIND, 3))
