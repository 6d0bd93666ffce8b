"""Arguments that make no sense are refused, by a message that names the argument and shows what was given."""

from __future__ import annotations

import math
from typing import Any

import pytest
from small_graphs import EVERY_KIND, draw_graphs

import gspn
from gspn import GSPN, Categorical, Continuous, Schema
from gspn.circuits import Leaf, Product, Sum, naive_bayes


def small_model(**settings: Any) -> GSPN:
    return GSPN(EVERY_KIND, **{"num_layers": 2, "num_states": 2, "epochs": 1} | settings)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_layers", 0),
        ("num_layers", -1),
        ("num_layers", 2.0),
        ("num_layers", True),
        ("num_layers", None),
        ("num_states", 0),
        ("num_states", "20"),
        ("num_edge_types", 0),
        ("num_edge_types", 1.5),
        ("shortcut", "x"),
        ("shortcut", True),
        ("shortcut", 1),
        ("objective", "x"),
        ("objective", None),
        ("mask_rate", 0),
        ("mask_rate", 0.0),
        ("mask_rate", 2),
        ("mask_rate", -0.1),
        ("mask_rate", math.nan),
        ("mask_rate", "0.15"),
        ("epochs", -1),
        ("epochs", 1.5),
        ("batch_size", 0),
        ("batch_size", 32.0),
        ("lr", 0),
        ("lr", -0.1),
        ("lr", math.inf),
        ("lr", math.nan),
        ("lr", "fast"),
        ("weight_decay", -1e-3),
        ("weight_decay", math.inf),
        ("clip", -1),
        ("clip", 0.0),
        ("clip", "yes"),
        ("patience", 0),
        ("patience", None),
        ("n_init", 0),
        ("n_init", 1.0),
        ("seed", -1),
        ("seed", None),
        ("seed", 0.5),
        ("seed", 2**64),
        ("template", "naive Bayes"),
        ("template", [Leaf("charge")]),
        ("schema", None),
        ("schema", "charge"),
        ("schema", [Continuous("charge")]),
    ],
)
def test_constructor_arguments(name: str, value: Any) -> None:
    arguments: dict[str, Any] = {"schema": EVERY_KIND, name: value}
    with pytest.raises(gspn.GSPNError, match=rf"^{name} must be ") as raised:
        GSPN(**arguments)
    # The message shows what was given: the value, or the kind of thing where its value would be no help.
    assert str(value) in str(raised.value) or type(value).__name__ in str(raised.value)


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


def test_a_template_with_the_wrong_number_of_children() -> None:
    with pytest.raises(gspn.GSPNError, match=r"Sum 0 has the wrong number of children: 3 instead of num_states = 4"):
        GSPN(EVERY_KIND, num_states=4, template=naive_bayes(EVERY_KIND, 3))


def test_a_template_that_does_not_cover_the_schema() -> None:
    schema = Schema([Continuous("charge"), Categorical("element", ["C", "N"])])
    with pytest.raises(gspn.GSPNError, match=r"Sum 0 is the root but does not cover the attributes 'element'"):
        GSPN(schema, num_states=2, template=Sum(Leaf("charge"), Leaf("charge")))
    product = Product(Leaf("charge"), Leaf("element"))
    with pytest.raises(gspn.GSPNError, match=r"Product 1 is not decomposable.*'charge'"):
        GSPN(schema, num_states=2, template=Sum(product, Product(product, Leaf("charge"))))
    with pytest.raises(gspn.GSPNError, match=r"Sum 0 is not smooth.*'charge'.*'element'"):
        GSPN(schema, num_states=2, template=Sum(Leaf("charge"), Leaf("element")))


@pytest.mark.parametrize("override", ["num_layers", "num_states", "schema", "shortcut", "learning_rate"])
def test_fit_overrides_nothing_that_shapes_the_model(override: str) -> None:
    overrides: dict[str, Any] = {override: 1}
    with pytest.raises(gspn.GSPNError, match=rf"fit cannot override {override}; it takes objective, mask_rate, epochs"):
        small_model().fit(draw_graphs(2, seed=0), progress=False, **overrides)


def test_fit_checks_what_it_overrides() -> None:
    with pytest.raises(gspn.GSPNError, match=r"lr must be a number above 0, got -1"):
        small_model().fit(draw_graphs(2, seed=0), progress=False, lr=-1)
    with pytest.raises(gspn.GSPNError, match=r"objective must be one of 'pseudo', 'masked', 'leave_one_out', got 'x'"):
        small_model().fit(draw_graphs(2, seed=0), progress=False, objective="x")
