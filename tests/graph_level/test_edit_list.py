"""Edit lists: predictions are those of the molecules themselves, and changes are relative to the molecule edited."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import gspn
from gspn.attributes import Binary, Continuous
from gspn.errors import InputError
from gspn.graph_level.edit_list import edit_list

pytest.importorskip("rdkit")

CHAINS = ["C" * n + end for n in range(1, 13) for end in ("O", "N", "Cl", "")]
FEATURES = ["element", "hydrogens"]


@cache
def model(kind: str) -> gspn.GraphRegressor | gspn.GraphClassifier:
    dataset = gspn.from_smiles(CHAINS, features=FEATURES, processes=1, progress=False)
    inner = gspn.GSPN(dataset.schema, num_layers=2, num_states=3, num_edge_types=5, epochs=2)
    features = gspn.GraphFeatures(inner, attributes=True)
    size = np.array([len(smiles) for smiles in CHAINS], dtype=float)
    if kind == "number":
        regressor = gspn.GraphRegressor(dataset.schema, Continuous("size"), features=features, heads="linear")
        return regressor.fit(dataset, size, progress=False)
    classifier = gspn.GraphClassifier(dataset.schema, Binary("large"), features=features, heads="linear")
    return classifier.fit(dataset, size > 6, progress=False)


def test_changes_are_differences_of_predictions() -> None:
    found = edit_list(model("number"), "CCCCO")
    graphs = gspn.from_smiles(["CCCCO", *found["smiles"]], features=FEATURES, processes=1, progress=False)
    predicted = np.asarray(model("number").predict(graphs), dtype=float)
    assert found["predicted"].to_numpy() == pytest.approx(predicted[1:])
    assert found["change"].to_numpy() == pytest.approx(predicted[1:] - predicted[0])
    assert (found["change"].diff().dropna() <= 0).all()
    assert (found["change_low"] <= found["change"]).all()
    assert (found["change"] <= found["change_high"]).all()
    # Two predictions are less certain than one.
    assert (found["change_high"] - found["change_low"] >= found["high"] - found["low"] - 1e-9).all()


def test_sizes_grow_where_atoms_are_added() -> None:
    found = edit_list(model("number"), "CCCCO", kinds=["add", "remove"], elements=["C"]).set_index("kind")
    assert found.loc[["add"], "change"].mean() > 0 > found.loc[["remove"], "change"].mean()


def test_classes_have_changes_of_probabilities() -> None:
    found = edit_list(model("class"), "CCCCCO", kinds=["add"])
    assert found["p(True)"].to_numpy() + found["p(False)"].to_numpy() == pytest.approx(1.0)
    assert found["change of p(True)"].to_numpy() == pytest.approx(-found["change of p(False)"].to_numpy())
    assert (found["change of p(True)"].diff().dropna() <= 0).all()


def test_models_without_a_property_are_refused() -> None:
    dataset = gspn.from_smiles(CHAINS[:4], features=FEATURES, processes=1, progress=False)
    with pytest.raises(InputError, match="one target of graphs"):
        edit_list(gspn.GSPN(dataset.schema), "CCO")
    with pytest.raises(InputError, match="no SMILES"):
        edit_list(model("number"), "C(")
