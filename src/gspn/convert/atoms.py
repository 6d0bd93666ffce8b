"""Atoms and bonds as numbers: the catalogue of atom features, their schemas, and one chunk of molecules as flat arrays.

Here belongs what RDKit says about one molecule and how it is coded. Where molecules come from, their targets, several
processes and packing belong to `gspn.convert.molecules`. Worker processes import this module and no more, so it stays
free of torch; rdkit is imported when a molecule is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gspn.attributes import Attribute, Binary, Categorical, Continuous, Count, Schema
from gspn.columns import enumerate_briefly, is_missing, shorten
from gspn.errors import InputError, from_extra

BOND_TYPES = ("single", "double", "triple", "aromatic", "other")
"""Meaning of the edge types 0 … 4; "other" are dative, ionic, zero-order and all further bonds that RDKit knows."""

# The common elements of organic chemistry and its salts; every other one, and the dummy atom *, is "other".
_ELEMENTS = {1: "H", 3: "Li", 5: "B", 6: "C", 7: "N", 8: "O", 9: "F", 11: "Na", 14: "Si", 15: "P", 16: "S", 17: "Cl"}
_ELEMENTS |= {19: "K", 34: "Se", 35: "Br", 53: "I"}

_HYBRIDISATIONS = ("s", "sp", "sp2", "sp2d", "sp3", "sp3d", "sp3d2")
_CHIRAL_LABELS = {"R": 1, "S": 2}


@dataclass(frozen=True)
class Feature:
    """One column: its attribute, and how a number is read off an RDKit atom.

    For a categorical attribute `keys` says which number means which category; all other numbers mean the last one. The
    numbers of RDKit's enumerations differ from version to version: they are looked up in the one named `enumeration`.
    """

    attribute: Attribute
    read: Callable[[Any], Any]
    keys: Mapping[int, Any] | None = None
    enumeration: str | None = None


def _ask(method: str, *arguments: object) -> Callable[[Any], Any]:
    return methodcaller(method, *arguments)


def _integers(name: str, method: str, categories: Sequence[int], rest: str) -> Feature:
    """Whole numbers as categories, and one for all others."""
    return Feature(Categorical(name, [*categories, rest]), _ask(method), {value: value for value in categories})


def _read_label(atom: Any) -> int:
    """Code of the chirality: 0 none, 1 R, 2 S, 3 other."""
    tag = int(atom.GetChiralTag())
    if not tag:
        return 0
    tetrahedral = tag in (1, 2)  # clockwise, counter-clockwise
    return _CHIRAL_LABELS.get(atom.GetProp("_CIPCode"), 3) if tetrahedral and atom.HasProp("_CIPCode") else 3


_LABELS = ("none", "R", "S", "other")
_FEATURES = (
    Feature(Categorical("element", [*_ELEMENTS.values(), "other"]), _ask("GetAtomicNum"), _ELEMENTS),
    _integers("formal_charge", "GetFormalCharge", range(-3, 4), "other"),
    Feature(
        Categorical("hybridisation", [*_HYBRIDISATIONS, "other"]),
        _ask("GetHybridization"),
        enumeration="HybridizationType",
    ),
    Feature(Binary("aromatic"), _ask("GetIsAromatic")),
    Feature(Count("hydrogens"), _ask("GetTotalNumHs", True)),  # True: also those that are vertices of their own
    Feature(Continuous("partial_charge"), _ask("GetDoubleProp", "_GasteigerCharge")),
    Feature(Categorical("chirality", _LABELS), _read_label, dict(enumerate(_LABELS))),
    Feature(Binary("in_ring"), _ask("IsInRing")),
    Feature(Count("degree"), _ask("GetDegree")),
    Feature(Count("radical_electrons"), _ask("GetNumRadicalElectrons")),
    Feature(Count("valence"), _ask("GetTotalValence")),
    Feature(Count("isotope"), _ask("GetIsotope")),
)
FEATURES = {feature.attribute.name: feature for feature in _FEATURES}
"""All features that can be asked for by name."""
DEFAULT_FEATURES = tuple(FEATURES)[:9]
"""Those that `features="default"` stands for: element … degree."""

_OGB_CHIRALITY = ("CHI_UNSPECIFIED", "CHI_TETRAHEDRAL_CW", "CHI_TETRAHEDRAL_CCW", "CHI_OTHER", "misc")
_OGB_HYBRIDISATION = ("SP", "SP2", "SP3", "SP3D", "SP3D2", "misc")
_OGB_FEATURES = (
    _integers("atomic_number", "GetAtomicNum", range(1, 119), "misc"),
    Feature(Categorical("chirality", _OGB_CHIRALITY), _ask("GetChiralTag"), enumeration="ChiralType"),
    _integers("degree", "GetTotalDegree", range(11), "misc"),  # with the hydrogens that are no vertices
    _integers("formal_charge", "GetFormalCharge", range(-5, 6), "misc"),
    _integers("hydrogens", "GetTotalNumHs", range(9), "misc"),
    _integers("radical_electrons", "GetNumRadicalElectrons", range(5), "misc"),
    Feature(
        Categorical("hybridisation", _OGB_HYBRIDISATION), _ask("GetHybridization"), enumeration="HybridizationType"
    ),
    Feature(Binary("aromatic"), _ask("GetIsAromatic")),
    Feature(Binary("in_ring"), _ask("IsInRing")),
)

DEFAULT_SCHEMA = Schema(FEATURES[name].attribute for name in DEFAULT_FEATURES)
OGB_SCHEMA = Schema(feature.attribute for feature in _OGB_FEATURES)
"""The nine atom features of the Open Graph Benchmark; codes are the integers in its raw files."""

# Up to a blank inside a SMILES, with or without an extension between bars.
_BLANK = re.compile(r"\s*+\S++(?:\s+\|[^|]*\|)?+\s(?=\s*\S)")

_OF_BOND = (_ask("GetBeginAtomIdx"), _ask("GetEndAtomIdx"), _ask("GetBondType"))


def choose_features(features: str | Sequence[str]) -> tuple[Feature, ...]:
    """The columns for "default", "ogb" or a sequence of names out of `FEATURES`."""
    if isinstance(features, str):
        if features == "ogb":
            return _OGB_FEATURES
        if features != "default":
            raise InputError(f"features must be 'default', 'ogb' or a list of names, got {features!r}")
        features = DEFAULT_FEATURES
    chosen = list(features) if isinstance(features, Iterable) else [features]
    for name in chosen:
        if not isinstance(name, str) or name not in FEATURES:
            raise InputError(f"unknown atom feature {shorten(name)}; known: {enumerate_briefly(FEATURES, 20)}")
    if not chosen or len(set(chosen)) < len(chosen):
        raise InputError(f"features must name at least one feature and none twice, got {shorten(chosen)}")
    return tuple(FEATURES[name] for name in chosen)


@dataclass(frozen=True)
class Recipe:
    """How molecules become graphs; small and plain, for it travels to other processes."""

    form: Literal["smiles", "molblock"]
    features: str | tuple[str, ...]
    hydrogens: bool
    check_valence: bool


@dataclass(frozen=True)
class Chunk:
    """Some molecules as flat arrays, one after another, and why the others are not among them."""

    x: NDArray[np.float32]
    edges: NDArray[np.int32]
    """[2, E] numbered inside each molecule, both directions of a bond after each other"""
    bond_types: NDArray[np.int8]
    num_atoms: NDArray[np.int64]
    num_edges: NDArray[np.int64]
    rejected: list[tuple[int, str]]
    """position in the chunk and reason"""


def import_rdkit() -> Any:
    """`rdkit.Chem`, or an error that names the extra."""
    with from_extra("chem", "molecules are read with rdkit"):
        from rdkit import Chem
    return Chem


def convert_chunk(recipe: Recipe, texts: Sequence[object]) -> Chunk:
    """Read every text as a molecule and its atoms and bonds as numbers."""
    Chem = import_rdkit()
    from rdkit import rdBase
    from rdkit.Chem.rdCIPLabeler import AssignCIPLabels
    from rdkit.Chem.rdPartialCharges import ComputeGasteigerCharges

    features = choose_features(recipe.features)
    with_charges = FEATURES["partial_charge"] in features
    # Only RDKit's older perception of stereochemistry, which is its default, labels R and S while it reads a molecule.
    with_labels = FEATURES["chirality"] in features and not Chem.GetUseLegacyStereoPerception()
    columns: list[list[Any]] = [[] for _ in features]
    ask_atoms = [(column.extend, feature.read) for column, feature in zip(columns, features, strict=True)]
    bond_columns: list[list[Any]] = [[], [], []]
    ask_bonds = [(column.extend, ask) for column, ask in zip(bond_columns, _OF_BOND, strict=True)]
    num_atoms, num_bonds, rejected = [], [], []
    read = _MoleculeReader(Chem, recipe)
    with rdBase.BlockLogs():  # what RDKit has to say about a molecule that it refuses is in the reason
        for position, text in enumerate(texts):
            try:
                molecule = read(text)
                if with_charges:
                    ComputeGasteigerCharges(molecule, throwOnParamFailure=False)
                if with_labels:
                    AssignCIPLabels(molecule)
            except (ValueError, RuntimeError) as error:
                rejected.append((position, " ".join(str(error).split())))
                continue
            # Whole columns by map, and atoms by number: half the time of loops over GetAtoms() and GetBonds().
            atoms = list(map(molecule.GetAtomWithIdx, range(molecule.GetNumAtoms())))
            for extend, ask in ask_atoms:
                extend(map(ask, atoms))
            bonds = list(map(molecule.GetBondWithIdx, range(molecule.GetNumBonds())))
            for extend, ask in ask_bonds:
                extend(map(ask, bonds))
            num_atoms.append(len(atoms))
            num_bonds.append(len(bonds))
    pairs = np.array(bond_columns[:2], dtype=np.int32)
    codes = _look_up(np.array(bond_columns[2], dtype=np.int64), _keys(Chem.BondType, BOND_TYPES), BOND_TYPES)
    return Chunk(
        x=np.stack([_encode(Chem, *column) for column in zip(features, columns, strict=True)], axis=1),
        edges=np.stack([pairs, pairs[::-1]], axis=2).reshape(2, -1),
        bond_types=np.repeat(codes, 2).astype(np.int8),
        num_atoms=np.array(num_atoms, dtype=np.int64),
        num_edges=2 * np.array(num_bonds, dtype=np.int64),
        rejected=rejected,
    )


def describe_atoms(molecule: Any, features: Sequence[Feature]) -> NDArray[np.float32]:
    """[N, d] the features of one sanitised RDKit molecule, encoded."""
    Chem = import_rdkit()
    from rdkit.Chem.rdCIPLabeler import AssignCIPLabels
    from rdkit.Chem.rdPartialCharges import ComputeGasteigerCharges

    if FEATURES["partial_charge"] in features:
        ComputeGasteigerCharges(molecule, throwOnParamFailure=False)
    if FEATURES["chirality"] in features:
        AssignCIPLabels(molecule)
    atoms = list(molecule.GetAtoms())
    return np.stack([_encode(Chem, feature, list(map(feature.read, atoms))) for feature in features], axis=1)


def features_of(schema: Schema) -> tuple[Feature, ...] | None:
    """The features that give a schema; None if it is none of atoms."""
    if schema == OGB_SCHEMA:
        return _OGB_FEATURES
    chosen = tuple(FEATURES[name] for name in schema.names if name in FEATURES)
    return chosen if [feature.attribute for feature in chosen] == list(schema) else None


def _encode(Chem: Any, feature: Feature, values: list[Any]) -> NDArray[np.float32]:
    if isinstance(feature.attribute, Categorical):
        categories = feature.attribute.categories
        keys = feature.keys or _keys(getattr(Chem, str(feature.enumeration)), categories)
        return _look_up(np.array(values, dtype=np.int64), keys, categories).astype(np.float32)
    column = np.array(values, dtype=np.float32)
    column[~np.isfinite(column)] = np.nan  # RDKit has no parameters for an element: its charges are missing
    return column


def _keys(enumeration: Any, categories: Sequence[Any]) -> dict[int, Any]:
    """The members of one of RDKit's enumerations as numbers, with the names that the categories give them."""
    return {int(member): name if name in categories else name.lower() for name, member in enumeration.names.items()}


def _look_up(numbers: NDArray[np.int64], keys: Mapping[int, Any], categories: Sequence[Any]) -> NDArray[np.int64]:
    """The codes of numbers; whatever has no category is of the last one."""
    codes = {category: code for code, category in enumerate(categories)}
    rest, low, high = len(codes) - 1, min(keys), max(keys)
    table = np.full(high - low + 3, rest)  # one more at either end, for numbers below and above
    for number, category in keys.items():
        table[number - low + 1] = codes.get(category, rest)
    return table[np.clip(numbers, low - 1, high + 1) - low + 1]


class _MoleculeReader:
    """From text to an RDKit molecule, or to a ValueError that says why not."""

    def __init__(self, Chem: Any, recipe: Recipe) -> None:
        self._chem, self._recipe = Chem, recipe
        self._settings = Chem.SmilesParserParams()
        self._settings.removeHs = not recipe.hydrogens

    def __call__(self, text: object) -> Any:
        if not isinstance(text, str):
            raise ValueError("it is missing" if is_missing(text) else f"it is no text but {type(text).__name__}")
        if self._recipe.form == "smiles":
            _refuse_blank(text)
        molecule = self._parse(text, sanitize=True)
        if molecule is None:
            molecule = self._parse_leniently(text)
        if not molecule.GetNumAtoms():
            raise ValueError("the molecule has no atoms")
        return self._chem.AddHs(molecule) if self._recipe.hydrogens else molecule

    def _parse(self, text: str, sanitize: bool) -> Any:
        Chem, recipe = self._chem, self._recipe
        if recipe.form == "molblock":
            return Chem.MolFromMolBlock(text, sanitize=sanitize, removeHs=not recipe.hydrogens)
        self._settings.sanitize = sanitize
        return Chem.MolFromSmiles(text, self._settings)

    def _parse_leniently(self, text: str) -> Any:
        """A molecule that RDKit has refused, without its check of valences if that is wanted; else the reason."""
        from rdkit import rdBase

        Chem = self._chem
        # RDKit 2026.3 and later can hand out what it would log.
        capture = getattr(rdBase, "CaptureErrorLog", rdBase.BlockLogs)()
        with capture:
            molecule = self._parse(text, sanitize=False)
        if molecule is None:
            raise ValueError(_reason(getattr(capture, "messages", "")) or f"it is no valid {self._recipe.form}")
        steps = Chem.SanitizeFlags.SANITIZE_ALL
        if not self._recipe.check_valence:
            steps ^= Chem.SanitizeFlags.SANITIZE_PROPERTIES
            molecule.UpdatePropertyCache(strict=False)
        Chem.SanitizeMol(molecule, steps)  # raises a ValueError
        if not self._recipe.hydrogens:
            molecule = Chem.RemoveHs(molecule, sanitize=False)
        Chem.AssignStereochemistry(molecule, cleanIt=True, force=True)
        return molecule


def _refuse_blank(text: str) -> None:
    """RDKit would take what follows a blank for a name; an extension between bars belongs to the SMILES."""
    found = _BLANK.match(text)
    if found is not None:
        raise ValueError(f"it has a blank at position {found.end() - 1}")


def _reason(messages: str) -> str:
    """What RDKit has logged, without time, repetition of the text and drawing."""
    first = re.sub(r"^\[[\d:]+\]\s*", "", messages.partition("\n")[0])
    first = re.sub(r"^SMILES Parse Error:\s*| while parsing:.*| for input:.*", "", first).strip()
    position = re.search(r"around position (\d+)", messages)
    return f"{first} near position {position[1]}" if position else first
