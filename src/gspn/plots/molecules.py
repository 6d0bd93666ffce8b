"""Molecules with a number at every atom, several of them on one scale with their atoms in the same places.

All atoms are drawn with their symbols, on discs that have the colours of the numbers. Stereochemistry is not drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch_geometric.data import Data

from gspn.attributes import Categorical, Schema
from gspn.columns import shorten
from gspn.convert.atoms import BOND_TYPES, DEFAULT_SCHEMA, import_rdkit
from gspn.errors import InputError
from gspn.plots.drawings import Edge, Panel, Points, draw
from gspn.plots.inputs import check_length, read_numbers
from gspn.plots.scales import scale_for

MOST_ATOMS = 500
SIZE = (360, 260)
_SOME_OTHER = ("other", "misc")
_SUPERSCRIPTS = str.maketrans("0123456789+-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻")


def draw_molecule(
    molecule: Any,
    values: Any,
    *,
    label: str = "",
    title: str = "",
    centre: float | None = 0.0,
    limit: float | None = None,
    schema: Schema | None = None,
    size: tuple[int, int] = SIZE,
) -> str:
    """One molecule with a value per atom, as SVG text; everything is as for `draw_molecules`."""
    return draw_molecules(
        [molecule], [values], label=label, titles=[title], centre=centre, limit=limit, schema=schema, size=size
    )


def draw_molecules(
    molecules: Sequence[Any],
    values: Sequence[Any],
    *,
    label: str = "",
    titles: Sequence[str] | None = None,
    same_positions: bool = True,
    centre: float | None = 0.0,
    limit: float | None = None,
    schema: Schema | None = None,
    size: tuple[int, int] = SIZE,
) -> str:
    """Molecules side by side on one scale, as SVG text.

    molecules: SMILES, RDKit molecules, or graphs as `from_smiles` makes them; then `schema` says what their columns are
        (that of `from_smiles` if not given). An atom whose element is missing is drawn as "?".
    values: one number per atom for each molecule, in the order of its atoms; NaN is drawn without colour.
    label: what the numbers are, with their unit; it stands in the legend.
    same_positions: atom i stands in the same place in all drawings, that of the first molecule, as for a molecule
        before and after an edit. False lays each molecule out for itself.
    centre, limit: the neutral number, and how far from it the colours reach (by default as far as the values do).
        A centre of None takes a scale from the least to the greatest value.
    size: of one drawing, in pixels; the legend comes below.
    """
    if not len(molecules):
        raise InputError("there are no molecules to draw")
    titles = [""] * len(molecules) if titles is None else titles
    for name, several in (("values", values), ("titles", titles)):
        if len(several) != len(molecules):
            raise InputError(f"there are {len(molecules)} molecules, but {len(several)} {name}")
    read = [read_molecule(molecule, schema) for molecule in molecules]
    numbers = [read_numbers(each, f"values[{i}]", gaps=True) for i, each in enumerate(values)]
    for i, molecule in enumerate(read):
        check_length(numbers[i], molecule.GetNumAtoms(), f"values[{i}]", "atoms")
    if same_positions:
        first = atom_positions(read[0])
        for i, molecule in enumerate(read):
            if molecule.GetNumAtoms() != len(first):
                raise InputError(
                    f"molecule {i} has {molecule.GetNumAtoms()} atoms and the first one {len(first)}: they cannot "
                    "stand in the same positions; pass same_positions=False"
                )
        places = [first] * len(read)
    else:
        places = [atom_positions(molecule) for molecule in read]
    panels = [_panel(*each) for each in zip(read, places, numbers, map(str, titles), strict=True)]
    return draw(panels, scale_for(numbers, centre, limit), label, size)


def read_molecule(molecule: Any, schema: Schema | None = None) -> Any:
    """An RDKit molecule from SMILES, from a graph with its schema, or from one."""
    Chem = import_rdkit()
    if isinstance(molecule, Data):
        read = _from_graph(Chem, molecule, DEFAULT_SCHEMA if schema is None else schema)
    elif isinstance(molecule, str):
        from rdkit import rdBase

        with rdBase.BlockLogs():
            read = Chem.MolFromSmiles(molecule)
        if read is None:
            raise InputError(f"{shorten(molecule)} is no SMILES of a molecule")
    elif isinstance(molecule, Chem.Mol):
        read = Chem.Mol(molecule)
    else:
        raise InputError(f"a molecule is SMILES, an RDKit molecule or a graph; got {type(molecule).__name__}")
    if not 0 < read.GetNumAtoms() <= MOST_ATOMS:
        raise InputError(f"a molecule of {read.GetNumAtoms()} atoms cannot be drawn: 1 … {MOST_ATOMS:,} are possible")
    Chem.FastFindRings(read)
    return read


def atom_positions(molecule: Any) -> Points:
    """[N, 2] where the atoms of an RDKit molecule stand in a drawing, in Å, y upwards."""
    from rdkit.Chem import rdDepictor

    flat = type(molecule)(molecule)
    flat.UpdatePropertyCache(strict=False)
    rdDepictor.Compute2DCoords(flat)
    rdDepictor.NormalizeDepiction(flat)
    rdDepictor.StraightenDepiction(flat)
    positions: Points = np.array(flat.GetConformer().GetPositions())[:, :2]
    return positions


def _panel(molecule: Any, positions: Points, values: Any, title: str) -> Panel:
    rings = [positions[list(ring)].mean(0) for ring in molecule.GetRingInfo().AtomRings()]
    of_bond: dict[int, tuple[float, float]] = {}
    # A bond between two rings belongs to the smaller one, as chemists draw it.
    by_size = sorted(zip(molecule.GetRingInfo().BondRings(), rings, strict=True), key=lambda pair: -len(pair[0]))
    for bonds, middle in by_size:
        of_bond |= dict.fromkeys(bonds, (float(middle[0]), float(middle[1])))
    edges = [
        Edge(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), bond.GetBondType().name.lower(), of_bond.get(bond.GetIdx()))
        for bond in molecule.GetBonds()
    ]
    labels = [_symbol(atom) for atom in molecule.GetAtoms()]
    names = [f"atom {v} ({label})" for v, label in enumerate(labels)]
    return Panel(positions, labels, names, values, edges, title)


def _symbol(atom: Any) -> str:
    charge = atom.GetFormalCharge()
    amount = "" if abs(charge) < 2 else str(abs(charge))
    sign = "" if not charge else f"{amount}{'+' if charge > 0 else '-'}"
    symbol: str = atom.GetProp("gspn_symbol") if atom.HasProp("gspn_symbol") else atom.GetSymbol()
    return symbol + sign.translate(_SUPERSCRIPTS)


def _from_graph(Chem: Any, graph: Data, schema: Schema) -> Any:
    """Elements, charges and bonds are read from the graph; whatever else it says of its atoms is not drawn."""
    x = read_numbers(graph.x, "x of the graph", ndim=2, gaps=True)
    if x.shape[1] != len(schema):
        raise InputError(f"the graph has {x.shape[1]} columns, but the schema {len(schema)}: pass its schema")
    known = {attribute.name: (column, attribute) for column, attribute in enumerate(schema)}
    name = next((name for name in ("element", "atomic_number") if name in known), None)
    if name is None:
        raise InputError("the schema has no attribute 'element' or 'atomic_number': it describes no molecules")
    elements = _decoded(x, *known[name])
    charges = _decoded(x, *known["formal_charge"]) if "formal_charge" in known else [0] * len(x)
    made = Chem.RWMol()
    for element, charge in zip(elements, charges, strict=True):
        atom = _atom(Chem, element)
        atom.SetFormalCharge(charge if isinstance(charge, int) else 0)
        atom.SetNoImplicit(True)
        made.AddAtom(atom)
    kinds = [getattr(Chem.BondType, kind.upper()) for kind in BOND_TYPES]
    types = [0] * graph.num_edges if graph.get("edge_type") is None else graph.edge_type.tolist()
    for (source, target), code in zip(graph.edge_index.T.tolist(), types, strict=True):
        if source != target and made.GetBondBetweenAtoms(source, target) is None:
            made.AddBond(source, target, kinds[code] if code < len(kinds) else kinds[-1])
    return made.GetMol()


def _decoded(x: Points, column: int, attribute: Any) -> list[Any]:
    """The categories of a column; None where one is missing."""
    fault = attribute.find_fault(x[:, column])
    if fault is not None or not isinstance(attribute, Categorical):
        reason = "must be categorical" if fault is None else fault[1]
        raise InputError(reason, attribute=attribute.name, row=None if fault is None else fault[0])
    return [None if np.isnan(code) else attribute.categories[int(code)] for code in x[:, column]]


def _atom(Chem: Any, element: Any) -> Any:
    """An atom of the element, by symbol or number; "?" where it is missing and "*" where it is some other one."""
    if element is not None and element not in _SOME_OTHER:
        return Chem.Atom(element)
    unknown = Chem.Atom(0)
    unknown.SetProp("gspn_symbol", "?" if element is None else "*")
    return unknown
