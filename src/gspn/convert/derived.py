"""What follows from a change of a molecule: attributes that RDKit derives from elements, charges and bonds.

Set an atom to another element, and its hydrogens, its hybridisation and its partial charge are those of the old one.
Here they are derived anew where the changed molecule can be, and made unknown where it cannot. The molecule is built
from the graph itself, so nothing but a graph and its schema is needed. Where a graph does not say its hydrogens, those
of aromatic nitrogens (pyrrole's) are put where they fit; a change can be if it can be for one of these molecules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch_geometric.data import Data

from gspn.attributes import Schema
from gspn.convert import valences
from gspn.convert.atoms import BOND_TYPES, Feature, describe_atoms, features_of, import_rdkit
from gspn.convert.valences import CHARGE, ELEMENT
from gspn.errors import InputError, MissingExtraError
from gspn.graphs.edits import Edited, edit

_GIVEN = (*ELEMENT, CHARGE, "isotope")
"""Attributes from which the others follow."""

_OF_BONDS = ("degree", "in_ring")
"""These follow from the bonds alone, which may be as they were where elements are not."""

_TOLERANCE = 1e-5
"""Of partial charges, which graphs hold in single precision."""

_MOST_PLACED = 3
"""Hydrogens of aromatic nitrogens that are put where they fit; drugs have one or two."""

Entries = dict[int, dict[str, Any]]


@dataclass(frozen=True)
class Derived:
    """What follows from some changes."""

    entries: Entries = field(default_factory=dict)
    """Values by vertex and attribute, None for unknown; nothing that was said itself"""
    problem: str | None = None
    """Why entries are unknown; None where they were derived"""
    forbidden: bool = False
    """Whether that is because valences forbid the changed molecule"""


def decides_others(schema: Schema, attribute: str) -> bool:
    """Whether other attributes of atoms follow from this one."""
    return attribute in _GIVEN and features_of(schema) is not None


def changed(
    graph: Data,
    schema: Schema,
    changes: Mapping[int, Mapping[str, Any]],
    add_edges: Sequence[Any] = (),
    remove_edges: Sequence[Any] = (),
    **settings: Any,
) -> tuple[Edited, Derived]:
    """The graph after changes and what follows from them; arguments are those of `graphs.edits.edit`."""
    edited = edit(graph, schema, changes, add_edges, remove_edges, **settings)
    found = derive(graph, schema, changes, add_edges, remove_edges)
    if found.entries:
        every = {v: {**found.entries.get(v, {}), **changes.get(v, {})} for v in {*found.entries, *changes}}
        edited = edit(graph, schema, every, add_edges, remove_edges, **settings)
    return edited, found


def derive(
    graph: Data,
    schema: Schema,
    changes: Mapping[int, Mapping[str, Any]],
    added: Sequence[tuple[int, ...]] = (),
    removed: Sequence[tuple[int, ...]] = (),
) -> Derived:
    """The entries that follow from checked changes; none if the graph is no molecule, or nothing follows from them.

    Entries that are unknown stay so.
    """
    features = features_of(schema)
    touched = {v for v, said in changes.items() if any(said.get(name) is not None for name in _GIVEN)}
    touched |= {end for edge in (*added, *removed) for end in edge[:2]}
    if features is None or not touched:
        return Derived()
    present = graph.x.double().numpy()
    kept = () if added or removed else _OF_BONDS
    try:
        sides = [(one, valences.edited(one, changes, added, removed)) for one in molecules_of(graph, schema)]
        wrong = [valences.problems(after) for _, after in sides]
        if all(wrong):
            problem = "; ".join(f"atom {v}: {reason}" for v, reason in sorted(wrong[0].items()))
            return Derived(_unknown(schema, changes, touched, present, kept), problem, forbidden=True)
        old, new = (_described(molecule, features) for molecule in sides[wrong.index({})])
    except (MissingExtraError, InputError, ValueError, RuntimeError) as error:  # RDKit's own are of the last two
        return Derived(_unknown(schema, changes, touched, present, kept), " ".join(str(error).split()))
    return Derived(_what_changes(schema, changes, touched, present, old, new))


def _what_changes(
    schema: Schema,
    changes: Mapping[int, Mapping[str, Any]],
    touched: set[int],
    present: NDArray[np.float64],
    old: NDArray[np.float64],
    new: NDArray[np.float64],
) -> Entries:
    """Entries that are derived differently; what RDKit does not derive as the graph says becomes unknown if touched."""
    agree = np.isclose(old, present, rtol=0, atol=_TOLERANCE)
    same = np.isclose(old, new, rtol=0, atol=_TOLERANCE, equal_nan=True)
    found: Entries = {}
    for v, column in np.argwhere(~np.isnan(present)).tolist():
        attribute = schema[column]
        if attribute.name in changes.get(v, {}) or attribute.name in _GIVEN:
            continue
        if agree[v, column] and not same[v, column]:
            found.setdefault(v, {})[attribute.name] = attribute.decode(new[v : v + 1, column])[0]
        elif not agree[v, column] and v in touched:
            found.setdefault(v, {})[attribute.name] = None
    return found


def _unknown(
    schema: Schema,
    changes: Mapping[int, Mapping[str, Any]],
    touched: set[int],
    present: NDArray[np.float64],
    kept: Sequence[str],
) -> Entries:
    found: Entries = {}
    for v in sorted(touched):
        free = [name for name in schema.names if name not in (*_GIVEN, *kept, *changes.get(v, {}))]
        known = [name for name in free if not np.isnan(present[v, schema.index(name)])]
        if known:
            found[v] = dict.fromkeys(known)
    return found


def _described(molecule: Any, features: Sequence[Feature]) -> NDArray[np.float64]:
    Chem = import_rdkit()
    copy = Chem.Mol(molecule)
    Chem.SanitizeMol(copy)
    return describe_atoms(copy, features).astype(np.float64)


def molecules_of(graph: Data, schema: Schema) -> list[Any]:
    """RDKit's molecule in a Kekulé form, from elements, charges, hydrogens and bonds; an InputError says why not.

    Several, where hydrogens are not known and those of aromatic nitrogens may be at one or at another.
    """
    Chem = import_rdkit()
    columns = _decoded(graph, schema)
    name = next((name for name in ELEMENT if name in columns), None)
    if name is None or (graph.get("edge_type") is None and graph.edge_index.shape[1]):
        raise InputError("the graph does not say its elements and the types of its bonds")
    hydrogens = columns.get("hydrogens")
    made = Chem.RWMol()
    for v, element in enumerate(columns[name]):
        if element in (None, "other", "misc"):
            raise InputError(f"atom {v}: its element is not known")
        atom = Chem.Atom(element)
        charge = columns.get(CHARGE, [0] * len(columns[name]))[v]
        atom.SetFormalCharge(charge if isinstance(charge, int) else 0)
        made.AddAtom(atom)
    kinds = [getattr(Chem.BondType, kind.upper(), None) for kind in BOND_TYPES]
    types = [] if graph.get("edge_type") is None else graph.edge_type.tolist()
    for (u, v), code in zip(graph.edge_index.T.tolist(), types, strict=True):
        if u == v or made.GetBondBetweenAtoms(u, v) is not None:
            continue
        if kinds[code] is None:
            raise InputError(f"the bond of atoms {u} and {v} is of no usual type")
        made.AddBond(u, v, kinds[code])
        if kinds[code] == Chem.BondType.AROMATIC:
            made.GetBondBetweenAtoms(u, v).SetIsAromatic(True)
            for end in (u, v):
                made.GetAtomWithIdx(end).SetIsAromatic(True)
    if hydrogens is not None:
        for atom, count in zip(made.GetAtoms(), hydrogens, strict=True):
            if count is None or not isinstance(count, int | float):
                continue
            drawn = sum(other.GetAtomicNum() == 1 for other in atom.GetNeighbors())
            atom.SetNumExplicitHs(max(int(count) - drawn, 0))
            atom.SetNoImplicit(True)
    return _kekulised(Chem, made, may_place=hydrogens is None)


def _kekulised(Chem: Any, made: Any, may_place: bool) -> list[Any]:
    """The molecule, or those with as few hydrogens at aromatic nitrogens as make one."""
    from rdkit import rdBase

    free = [atom.GetIdx() for atom in made.GetAtoms() if may_place and _may_have_hydrogen(atom)]
    with rdBase.BlockLogs():
        for number in range(min(len(free), _MOST_PLACED) + 1):
            found = []
            for places in combinations(free, number):
                copy = Chem.RWMol(made)
                for v in places:
                    copy.GetAtomWithIdx(v).SetNumExplicitHs(1)
                try:
                    Chem.SanitizeMol(copy)
                    Chem.Kekulize(copy, clearAromaticFlags=True)
                    found.append(copy)
                except Chem.KekulizeException as error:
                    problem = str(error)
            if found:
                return found
    raise InputError(problem)


def _may_have_hydrogen(atom: Any) -> bool:
    """As pyrrole's nitrogen has."""
    is_free = atom.GetDegree() == 2 and not atom.GetFormalCharge()
    return bool(is_free and atom.GetSymbol() == "N" and atom.GetIsAromatic())


def _decoded(graph: Data, schema: Schema) -> dict[str, list[Any]]:
    x = graph.x.double()
    wanted = [name for name in (*ELEMENT, CHARGE, "hydrogens") if name in schema.names]
    return {name: list(schema[name].decode(x[:, schema.index(name)])) for name in wanted}
