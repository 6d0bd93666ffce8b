"""Fingerprints and descriptors are RDKit's; a forest on them is a predictor like the others."""

from __future__ import annotations

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import rdMolDescriptors

from gspn import Continuous, GSPNError, from_smiles
from gspn.baselines import MoleculeForest
from gspn.baselines.molecule_rows import descriptors, fingerprints

CHAINS = [f"{'C' * n}{end}" for n in range(1, 13) for end in ("O", "N", "Cl", "F")]


def test_descriptors_by_name() -> None:
    molecules = [Chem.MolFromSmiles(text) for text in CHAINS[:6]]
    names, rows = descriptors(molecules)
    assert rows.shape == (6, len(names))
    expected = [rdMolDescriptors.CalcTPSA(one) for one in molecules]
    assert rows[:, names.index("TPSA")].tolist() == pytest.approx(expected)
    assert np.isfinite(rows).all()
    counted = fingerprints(molecules)
    assert counted.shape == (6, 2048)
    assert (counted.sum(1) > 0).all()


@pytest.mark.parametrize("columns", ["fingerprints", "descriptors"])
def test_predicts_and_says_nothing_new_twice(columns: str) -> None:
    y = [float(rdMolDescriptors.CalcExactMolWt(Chem.MolFromSmiles(text))) for text in CHAINS]
    target = Continuous("weight")
    dataset = from_smiles(CHAINS, y=y, target=target, progress=False)
    model = MoleculeForest(dataset.schema, target, columns).fit(dataset[:36], progress=False)
    assert model.score(dataset[::3]) > 0.8
    np.testing.assert_array_equal(model.predict(dataset[36:]), model.predict(list(dataset[36:])))


def test_columns_have_names() -> None:
    dataset = from_smiles(CHAINS, y=[1.0] * len(CHAINS), target=Continuous("y"), progress=False)
    with pytest.raises(GSPNError, match="columns"):
        MoleculeForest(dataset.schema, Continuous("y"), "words").fit(dataset)
