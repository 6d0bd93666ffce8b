"""Edits of molecules: each can be, is one edit away, and stands in the list once."""

from __future__ import annotations

import pytest

from gspn.convert.molecule_edits import KINDS, edits_of
from gspn.errors import InputError

Chem = pytest.importorskip("rdkit.Chem")


def results(smiles: str, *kinds: str) -> set[str]:
    return {one.smiles for one in edits_of(smiles, kinds or KINDS)}


def test_all_edits_of_ethanol() -> None:
    assert results("CCO", "remove") == {"CO", "CC"}
    assert results("CCO", "bond") == {"C=CO", "CC=O"}
    assert results("CCO", "replace") >= {"CCN", "CCF", "NCO", "COC"} - {"COC"}
    assert "OCC" not in results("CCO")
    assert "CC(C)O" in results("CCO", "add")


def test_what_valences_forbid_is_left_out() -> None:
    """Fluorine has one bond: it replaces ends alone."""
    for one in edits_of("CC(=O)NC", ["replace"], ["F"]):
        assert one.atoms[0] in (0, 4)
    assert results("FC(F)(F)F", "add") == set()


def test_every_result_is_a_molecule_that_can_be() -> None:
    found = edits_of("Clc1ccc(CNC(C)=O)cc1")
    assert len(found) > 40
    assert not any("[SH]" in one.smiles for one in found)  # four bonds and a hydrogen
    assert all("1" in one.smiles and "c" in one.smiles for one in found if one.kind == "bond")  # the ring stays
    assert len({one.smiles for one in found}) == len(found)
    for one in found:
        molecule = Chem.MolFromSmiles(one.smiles)
        assert molecule is not None
        assert len(Chem.GetMolFrags(molecule)) == 1
        assert Chem.MolToSmiles(molecule) == one.smiles
    words = {one.words: one.smiles for one in found}
    assert words["Cl → O at atom 0"] == Chem.CanonSmiles("Oc1ccc(CNC(C)=O)cc1")


def test_what_is_asked_is_checked() -> None:
    with pytest.raises(InputError, match="no SMILES"):
        edits_of("C(")
    with pytest.raises(InputError, match="kinds of edits"):
        edits_of("CC", ["swap"])
