"""Molecules back from graphs: what a graph that `from_smiles` made says of atoms and bonds, as an RDKit molecule.

Elements, charges, hydrogens and bonds are rebuilt, so far as the schema has them. Stereochemistry is not, and an atom
whose element is missing is a dummy: there is a molecule for every graph. `derived.molecules_of` says why there is none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch_geometric.data import Data

from gspn.attributes import Categorical, Schema
from gspn.convert.atoms import BOND_TYPES, import_rdkit
from gspn.convert.valences import CHARGE, ELEMENT
from gspn.errors import InputError


def rebuild_molecule(graph: Data, schema: Schema) -> Any:
    """An RDKit molecule; where valences or aromaticity make no sense to RDKit, one with rings known and no more."""
    Chem = import_rdkit()
    columns = _AtomColumns(graph, schema)
    name = next((name for name in ELEMENT if name in schema.names), None)
    if name is None:
        raise InputError(f"the schema has no attribute {' or '.join(map(repr, ELEMENT))}: it describes no molecules")
    made = Chem.RWMol()
    charges, hydrogens = columns.numbers(CHARGE), columns.numbers("hydrogens")
    radicals = columns.numbers("radical_electrons")
    for row, element in enumerate(columns.values(name)):
        atom = Chem.Atom(element if element is not None and element not in ("other", "misc") else 0)
        atom.SetFormalCharge(charges[row] or 0)
        atom.SetNumRadicalElectrons(radicals[row] or 0)
        made.AddAtom(atom)
    kinds = [getattr(Chem.BondType, kind.upper()) for kind in BOND_TYPES]
    types = [0] * graph.num_edges if graph.get("edge_type") is None else graph.edge_type.tolist()
    for (source, target), code in zip(graph.edge_index.T.tolist(), types, strict=True):
        if source == target or made.GetBondBetweenAtoms(source, target) is not None:
            continue
        made.AddBond(source, target, kinds[code] if code < len(kinds) else kinds[-1])
        if code == BOND_TYPES.index("aromatic"):
            for atom in (source, target):
                made.GetAtomWithIdx(atom).SetIsAromatic(True)
            made.GetBondBetweenAtoms(source, target).SetIsAromatic(True)
    for atom, count in zip(made.GetAtoms(), hydrogens, strict=True):
        if count is not None:  # those that are vertices are counted, too
            drawn = sum(other.GetAtomicNum() == 1 for other in atom.GetNeighbors())
            atom.SetNumExplicitHs(max(count - drawn, 0))
            atom.SetNoImplicit(True)
    molecule = made.GetMol()
    from rdkit import rdBase

    with rdBase.BlockLogs():
        if Chem.SanitizeMol(molecule, catchErrors=True) != Chem.SanitizeFlags.SANITIZE_NONE:
            molecule.UpdatePropertyCache(strict=False)
            Chem.FastFindRings(molecule)
    return molecule


class _AtomColumns:
    """The attributes of a graph's atoms, None where one is missing or unknown."""

    def __init__(self, graph: Data, schema: Schema) -> None:
        self._x, self._schema = np.asarray(graph.x, dtype=np.float64), schema

    def values(self, name: str) -> list[Any]:
        column = self._schema.names.index(name)
        attribute = self._schema[column]
        codes = self._x[:, column]
        if isinstance(attribute, Categorical):
            return [None if np.isnan(code) else attribute.categories[int(code)] for code in codes]
        return [None if np.isnan(code) else int(code) for code in codes]

    def numbers(self, name: str) -> list[int | None]:
        if name not in self._schema.names:
            return [None] * len(self._x)
        return [value if isinstance(value, int) else None for value in self.values(name)]
