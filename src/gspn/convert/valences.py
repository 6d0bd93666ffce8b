"""Which molecules can be: RDKit's opinion of an edited molecule's valences.

Bonds are looked at in a Kekulé form, so an edit of an aromatic ring is judged by the bonds of each atom alone. Whether
a molecule that can be is stable, or likely, is another question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gspn.convert.atoms import import_rdkit

ELEMENT, CHARGE = ("element", "atomic_number"), "formal_charge"
"""Names of the attributes that decide valences, in the schemas of atoms"""

Entries = Mapping[int, Mapping[str, Any]]


def read_molecule(smiles: str) -> Any:
    """An RDKit molecule in a Kekulé form, atoms in the order of the SMILES."""
    Chem = import_rdkit()
    molecule = Chem.MolFromSmiles(smiles)
    Chem.Kekulize(molecule, clearAromaticFlags=True)
    return molecule


def edited(
    molecule: Any, changes: Entries, added: Sequence[tuple[int, ...]] = (), removed: Sequence[tuple[int, ...]] = ()
) -> Any:
    """The molecule after edits, whether it can be or not; hydrogens that are not drawn come and go as they fit."""
    Chem = import_rdkit()
    orders = (Chem.BondType.SINGLE, Chem.BondType.DOUBLE, Chem.BondType.TRIPLE, Chem.BondType.ONEANDAHALF)
    copy = Chem.RWMol(molecule)
    for u, v, *_ in removed:
        if copy.GetBondBetweenAtoms(u, v) is not None:  # both directions of a bond may be listed
            copy.RemoveBond(u, v)
    for u, v, *kind in added:
        if copy.GetBondBetweenAtoms(u, v) is None and u != v:
            code = kind[0] if kind and kind[0] is not None else 0
            copy.AddBond(u, v, orders[code] if code < len(orders) else Chem.BondType.ZERO)
    touched = {v: values for v, values in changes.items() if any(name in values for name in (*ELEMENT, CHARGE))}
    for vertex in {*touched, *(end for u, v, *_ in (*added, *removed) for end in (u, v))}:
        atom = copy.GetAtomWithIdx(vertex)
        for name, value in touched.get(vertex, {}).items():
            if name in ELEMENT:
                atom.SetAtomicNum(_atomic_number(Chem, value))
            elif name == CHARGE:
                atom.SetFormalCharge(value if isinstance(value, int) else 0)
        atom.SetNoImplicit(False)
        atom.SetNumExplicitHs(0)
        atom.SetNumRadicalElectrons(0)
        atom.SetChiralTag(Chem.ChiralType.CHI_UNSPECIFIED)
    return copy


def problems(molecule: Any) -> dict[int, str]:
    """What is wrong with the valences, by atom."""
    Chem = import_rdkit()
    from rdkit import rdBase

    with rdBase.BlockLogs():
        found = Chem.DetectChemistryProblems(molecule, Chem.SanitizeFlags.SANITIZE_PROPERTIES)
    return {one.GetAtomIdx(): _reason(molecule.GetAtomWithIdx(one.GetAtomIdx())) for one in found}


def _reason(atom: Any) -> str:
    charge = atom.GetFormalCharge()
    symbol = atom.GetSymbol() + (f" with charge {charge:+d}" if charge else "")
    bonds = sum(bond.GetValenceContrib(atom) for bond in atom.GetBonds())
    return f"{symbol} cannot have valence {bonds:g}"


def _atomic_number(Chem: Any, value: Any) -> int:
    """0, an atom of no element, for "other" and unknown: it can have any bonds."""
    if isinstance(value, int):
        return value
    if value in (None, "other", "misc"):
        return 0
    return int(Chem.GetPeriodicTable().GetAtomicNumber(value))
