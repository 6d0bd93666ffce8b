"""Molecules rebuilt from graphs are those that the graphs were made from, but for stereochemistry."""

from __future__ import annotations

import pytest
import torch
from rdkit import Chem

from gspn import Categorical, GSPNError, Schema, from_smiles
from gspn.convert.rebuilding import rebuild_molecule

MOLECULES = ["CCO", "c1ccccc1Cl", "C[N+](C)(C)C", "c1cc[nH]c1", "CC(=O)[O-]", "C#N", "[H][H]", "[2H]OC", "O=S(=O)(O)C"]


@pytest.mark.parametrize("features", ["default", "ogb"])
@pytest.mark.parametrize("hydrogens", [False, True])
def test_there_and_back(features: str, hydrogens: bool) -> None:
    dataset = from_smiles(MOLECULES, features=features, hydrogens=hydrogens, progress=False)
    for text, graph in zip(MOLECULES, dataset, strict=True):
        found = rebuild_molecule(graph, dataset.schema)
        expected = Chem.MolFromSmiles(text.replace("[2H]", "[H]"))  # isotopes are no feature of these
        assert Chem.MolToSmiles(Chem.RemoveHs(found)) == Chem.MolToSmiles(Chem.RemoveHs(expected))


def test_what_is_not_known_or_cannot_be_is_a_molecule_all_the_same() -> None:
    (graph,) = from_smiles(["c1ccccc1CC(F)(F)F"], progress=False)
    schema = from_smiles(["C"], progress=False).schema
    graph.x[:, 0] = torch.nan
    assert {atom.GetAtomicNum() for atom in rebuild_molecule(graph, schema).GetAtoms()} == {0}
    (wrong,) = from_smiles(["C(F)(F)(F)F"], progress=False)
    wrong.x[:, schema.names.index("hydrogens")] = 3
    assert rebuild_molecule(wrong, schema).GetNumAtoms() == 5
    with pytest.raises(GSPNError, match="describes no molecules"):
        rebuild_molecule(graph, Schema([Categorical("colour", ["red"])]))
