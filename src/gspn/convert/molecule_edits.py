"""Molecules that are one edit away from a given one: every one of them can be, as far as valences say.

Replaced elements, substituents added and taken away, bonds outside of aromatic rings made single or double. What
replaces has its usual valence: no sulphur with four bonds and a hydrogen. Whether a molecule is stable, or can
be made, is another question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Any

from gspn.columns import shorten
from gspn.convert.atoms import import_rdkit
from gspn.convert.valences import edited
from gspn.errors import InputError

KINDS = ("replace", "add", "remove", "bond")
ELEMENTS = ("C", "N", "O", "F", "S", "Cl", "Br")
"""That replace others, and that are added; those of most drugs."""

_SINGLE, _DOUBLE = 0, 1


@dataclass(frozen=True)
class MoleculeEdit:
    """An edit in words, with what comes of it."""

    kind: str
    atoms: tuple[int, ...]
    """Numbers from 0 on, in the order of the SMILES that is edited"""
    words: str
    smiles: str
    """Canonical"""


def edits_of(smiles: str, kinds: Sequence[str] = KINDS, elements: Sequence[str] = ELEMENTS) -> list[MoleculeEdit]:
    """All single edits of the kinds that give a molecule of one part that can be; each result once."""
    Chem = import_rdkit()
    from rdkit import rdBase

    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise InputError(f"kinds of edits are {', '.join(KINDS)}, not {shorten(unknown[0])}")
    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(smiles)
        if molecule is None or not molecule.GetNumAtoms():
            raise InputError(f"{shorten(smiles)} is no SMILES that RDKit can read")
        same, parts = Chem.MolToSmiles(molecule), len(Chem.GetMolFrags(molecule))
        aromatic = {bond.GetIdx() for bond in molecule.GetBonds() if bond.GetIsAromatic()}
        Chem.Kekulize(molecule, clearAromaticFlags=True)
        found = dict[str, MoleculeEdit]()
        for kind, atoms, words, change in _proposed(Chem, molecule, aromatic, kinds, elements):
            text = _written(Chem, kind, atoms, change, parts)
            if text is not None and text != same and text not in found:
                found[text] = MoleculeEdit(kind, atoms, words, text)
    return list(found.values())


def _written(Chem: Any, kind: str, atoms: tuple[int, ...], change: Callable[[], Any], parts: int) -> str | None:
    """The SMILES of what a change gives; None if it cannot be, has radicals or falls apart."""
    try:
        changed = change().GetMol()
        Chem.SanitizeMol(changed)
        new = None if kind != "replace" else changed.GetAtomWithIdx(atoms[0])
        if new is not None and new.GetTotalValence() != Chem.GetPeriodicTable().GetDefaultValence(new.GetAtomicNum()):
            return None
    except (ValueError, RuntimeError):  # RDKit's own
        return None
    if any(atom.GetNumRadicalElectrons() for atom in changed.GetAtoms()) or len(Chem.GetMolFrags(changed)) > parts:
        return None
    return str(Chem.MolToSmiles(changed))


def _proposed(
    Chem: Any, molecule: Any, aromatic: Set[int], kinds: Sequence[str], elements: Sequence[str]
) -> Iterator[tuple[str, tuple[int, ...], str, Callable[[], Any]]]:
    for atom in molecule.GetAtoms():
        v, symbol = atom.GetIdx(), atom.GetSymbol()
        if symbol == "H":
            continue
        for element in elements:
            if "replace" in kinds and element != symbol:
                what = f"{symbol} → {element} at atom {v}"
                yield "replace", (v,), what, partial(_replaced, molecule, v, element)
            if "add" in kinds and atom.GetTotalNumHs():
                what = f"{element} at atom {v} ({symbol})"
                yield "add", (v,), f"add {what}", partial(_added, Chem, molecule, v, element)
        if "remove" in kinds and atom.GetDegree() == 1 and molecule.GetNumAtoms() > 1:
            yield "remove", (v,), f"remove {symbol} at atom {v}", partial(_removed, Chem, molecule, v)
    for bond in molecule.GetBonds() if "bond" in kinds else ():
        if bond.GetIdx() in aromatic:
            continue
        ends = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        order = _DOUBLE if bond.GetBondType() == Chem.BondType.SINGLE else _SINGLE
        words = f"{'double' if order == _DOUBLE else 'single'} bond between atoms {ends[0]} and {ends[1]}"
        yield "bond", ends, words, partial(edited, molecule, {}, [(*ends, order)], [ends])


def _replaced(molecule: Any, vertex: int, element: str) -> Any:
    return edited(molecule, {vertex: {"element": element, "formal_charge": 0}})


def _added(Chem: Any, molecule: Any, vertex: int, element: str) -> Any:
    changed = Chem.RWMol(molecule)
    new = changed.AddAtom(Chem.Atom(element))
    return edited(changed, {}, [(vertex, new, _SINGLE)])


def _removed(Chem: Any, molecule: Any, vertex: int) -> Any:
    neighbour = molecule.GetAtomWithIdx(vertex).GetNeighbors()[0].GetIdx()
    changed = edited(molecule, {}, (), [(vertex, neighbour)])
    changed.RemoveAtom(vertex)
    return changed
