"""The built-in molecules: valid, small, each once, always the same, with targets that RDKit agrees to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from gspn.attributes import Binary, Continuous, Count, Schema
from gspn.convert.molecules import BOND_TYPES, OGB_SCHEMA
from gspn.datasets.builtin import MAX_HEAVY_ATOMS, builtin_molecules, load_builtin
from gspn.errors import InputError

Chem = pytest.importorskip("rdkit.Chem")
SOURCE = Path(__file__).resolve().parents[2] / "src"


@pytest.fixture(scope="module")
def smiles() -> list[str]:
    return builtin_molecules()


def test_there_are_a_few_thousand(smiles: list[str]) -> None:
    assert 2_000 <= len(smiles) <= 5_000


def test_all_are_valid_small_and_different(smiles: list[str]) -> None:
    canonical, elements = set(), set()
    for text in smiles:
        molecule = Chem.MolFromSmiles(text, sanitize=False)
        Chem.SanitizeMol(molecule)  # raises if a valence is impossible
        canonical.add(Chem.MolToSmiles(Chem.MolFromSmiles(text)))
        elements |= {atom.GetSymbol() for atom in molecule.GetAtoms()}
        assert 1 <= molecule.GetNumHeavyAtoms() <= MAX_HEAVY_ATOMS
        assert "." not in text
        assert not any(atom.GetNumRadicalElectrons() for atom in molecule.GetAtoms())
    assert len(canonical) == len(smiles)
    assert elements == {"C", "N", "O", "S", "F", "Cl", "Br", "P"}


def test_well_known_molecules_are_among_them(smiles: list[str]) -> None:
    known = {"benzene": "c1ccccc1", "toluene": "Cc1ccccc1", "aniline": "Nc1ccccc1", "indole": "c1ccc2[nH]ccc2c1"}
    known |= {"alanine": "C[C@H](N)C(=O)O", "coumarin": "O=c1ccc2ccccc2o1", "naphthalene": "c1ccc2ccccc2c1"}
    known |= {"nicotinic acid": "OC(=O)c1cccnc1", "ether": "CCOCC", "tributyl phosphate": "CCCCOP(=O)(OCCCC)OCCCC"}
    absent = [name for name, text in known.items() if Chem.CanonSmiles(text) not in smiles]
    assert absent == []


def test_the_order_does_not_depend_on_the_run(smiles: list[str]) -> None:
    code = "from gspn.datasets.builtin import builtin_molecules; print(*builtin_molecules(), sep='\\n')"
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "PYTHONHASHSEED": "7"}
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.split() == smiles


def test_the_list_is_the_callers_own(smiles: list[str]) -> None:
    builtin_molecules().clear()
    assert builtin_molecules() == smiles


def test_all_targets(smiles: list[str]) -> None:
    from rdkit.Chem import rdMolDescriptors

    qed = pytest.importorskip("rdkit.Chem.QED").qed
    dataset = load_builtin()
    target = dataset.target
    assert isinstance(target, Schema)
    names = ("logp", "tpsa", "weight", "qed", "donors", "acceptors", "rings", "has_halogen", "is_aromatic")
    assert target.names == names
    assert [type(attribute) for attribute in target] == [Continuous] * 4 + [Count] * 3 + [Binary] * 2
    assert dataset.y is not None
    assert dataset.y.shape == (len(smiles), 9)
    assert dataset.target_level == "graph"
    assert not dataset.y.isnan().any()
    assert (dataset.y.std(0) > 0).all()
    assert dataset.graph_names is not None
    assert dataset.graph_names.tolist() == smiles
    for i in range(0, len(smiles), 97):
        molecule = Chem.MolFromSmiles(smiles[i])
        logp, _ = rdMolDescriptors.CalcCrippenDescriptors(molecule)
        weight = sum(atom.GetMass() for atom in Chem.AddHs(molecule).GetAtoms())
        donors, acceptors = rdMolDescriptors.CalcNumHBD(molecule), rdMolDescriptors.CalcNumHBA(molecule)
        rings, symbols = molecule.GetRingInfo().NumRings(), {atom.GetSymbol() for atom in molecule.GetAtoms()}
        expected = [logp, rdMolDescriptors.CalcTPSA(molecule), weight, qed(molecule), donors, acceptors, rings]
        expected += [bool(symbols & {"F", "Cl", "Br"}), len(molecule.GetAromaticAtoms()) > 0]
        np.testing.assert_allclose(dataset.y[i], expected)
        assert dataset[i].num_nodes == molecule.GetNumAtoms()


def test_one_target_or_some() -> None:
    single = load_builtin(target="logp")
    assert single.target == Continuous("logp")
    assert single.y is not None
    assert single.y.shape == (len(single),)
    some = load_builtin("ogb", target=["rings", "has_halogen"])
    assert some.schema == OGB_SCHEMA
    assert some.target == Schema([Count("rings"), Binary("has_halogen")])
    assert some.y is not None
    assert some.y.shape == (len(single), 2)
    with pytest.raises(InputError, match="unknown target 'charm'; known: logp, tpsa"):
        load_builtin(target="charm")


def test_the_split_covers_everything_once() -> None:
    dataset = load_builtin(target="rings")
    (fold,) = dataset.splits
    everything = torch.cat([fold.train, fold.validation, fold.test])
    assert torch.equal(everything.sort().values, torch.arange(len(dataset)))
    assert min(len(fold.validation), len(fold.test)) > 300


def test_all_kinds_of_common_bonds_and_atoms_occur() -> None:
    dataset = load_builtin(target="rings")
    assert dataset.edge_type is not None
    assert {BOND_TYPES[code] for code in dataset.edge_type.unique().tolist()} == {
        "single",
        "double",
        "triple",
        "aromatic",
    }
    values = dataset.schema.decode(dataset.x.numpy())
    assert {"R", "S", "none"} <= set(values["chirality"])
    assert {-1, 0, 1} == set(values["formal_charge"])
    assert None not in values["partial_charge"]
