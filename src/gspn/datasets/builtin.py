"""The built-in set of molecules: a few thousand real small molecules written down by rule, with computed properties.

Here belong the lists of scaffolds and substituents, their enumeration, and the targets. There is no file behind it: it
needs neither network nor disk, only rdkit. Atoms and bonds become numbers in `gspn.convert.molecules`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gspn.attributes import Attribute, Binary, Continuous, Count, Schema
from gspn.columns import enumerate_briefly, shorten
from gspn.convert.atoms import import_rdkit
from gspn.convert.molecules import from_smiles
from gspn.errors import InputError
from gspn.graphs.dataset import GraphDataset
from gspn.graphs.splits import holdout

NAME = "molecules"
MAX_HEAVY_ATOMS = 25

# What is put into the places of a scaffold. Rings in here are numbered 8 and 9, those of scaffolds 1 and 2.
_SAFE_GROUPS = (
    "[H] C CC C(C)C C(C)(C)C C9CC9 C=C C#C C#N CO C(F)(F)F F Cl Br OC N(C)C NC(C)=O N9CCOCC9 [N+](=O)[O-] C=O C(C)=O "
    "C(=O)O C(=O)OC C(N)=O SC S(C)(=O)=O S(N)(=O)=O P(=O)(OC)OC c9ccccc9"
)
_SHORT_CHAINS = "C CC CCC CCCC C(C)C"
_TEXTS = {
    "a": f"{_SAFE_GROUPS} O N NC",  # any group on carbon
    "s": _SAFE_GROUPS,  # on furan, thiophene and their relatives, where hydroxyl and amino groups do not last
    "b": "[H] C OC",  # a second group on the same ring system
    "c": "[H] C C(C)C CO C(F)(F)F C(=O)OC c9ccccc9",  # beside a nitrogen, or at the end of a chain
    "n": "[H] C Cc9ccccc9 C(C)=O S(C)(=O)=O",  # on nitrogen
    "m": "[H] C(C)=O",  # on the nitrogen of an amino acid
    "r": "C C(C)C CC(C)C [C@@H](C)CC CO [C@@H](C)O CS CCSC CC(N)=O CCC(N)=O CC(=O)O CCC(=O)O CCCCN Cc9ccccc9 "
    "Cc9ccc(O)cc9 Cc9cnc[nH]9 Cc9c[nH]c8ccccc98",  # side chain of an amino acid
    "t": "O [O-] OC OCC N NC",  # what makes an acyl group an acid, its anion, an ester, an amide
    "k": f"{_SHORT_CHAINS} CC(C)C CCCCCC C9CCCC9 C9CCCCC9 Cc9ccccc9 CCO CCOC",
    "l": _SHORT_CHAINS,
}
_PLACES = {name: text.split() for name, text in _TEXTS.items()}

_SCAFFOLDS = (
    # aromatic rings: benzene, pyridines, diazines, five-membered rings
    "c1({a})ccc({b})cc1",
    "c1({a})cccc({b})c1",
    "c1({a})c({b})cccc1",
    "c1({a})cncc({b})c1",
    "c1({a})ccnc({b})c1",
    "c1({a})cnc({b})nc1",
    "c1({a})cnc({b})cn1",
    "c1({a})ccc({b})nn1",
    "c1({s})ccc({b})o1",
    "c1({s})ccc({b})s1",
    "c1({a})ncc({b})s1",
    "c1({a})ncc({b})o1",
    "c1({a})cc({b})on1",
    "n1({n})cc({c})c({b})c1",
    "n1({n})nc({c})cc1{b}",
    "n1({n})cnc({c})c1",
    "n1({n})cc({c})nn1",
    "n1({n})nnc({c})n1",
    # two rings: naphthalene, quinolines, indole and its relatives, coumarin, chromone
    "c1({a})ccc2cc({b})ccc2c1",
    "c1({a})cnc2ccc({b})cc2c1",
    "c1({a})cc2cc({b})ccc2cn1",
    "c1({a})nc2cc({b})ccc2s1",
    "c1({a})nc2cc({b})ccc2o1",
    "c1({s})cc2cc({b})ccc2o1",
    "c1({s})cc2cc({b})ccc2s1",
    "n1({n})cc({c})c2cc({b})ccc12",
    "n1({n})c({c})nc2cc({b})ccc12",
    "c1({c})cc(=O)oc2cc({b})ccc12",
    "c1({c})oc2cc({b})ccc2c(=O)c1",
    "c1({a})ccc(cc1)c1ccc({b})cc1",
    "c1({c})ccc(cc1)/C=C/c1ccc({b})cc1",
    "c1({c})ccc(cc1)Oc1ccc({b})cc1",
    # saturated rings
    "C1({a})CCCCC1",
    "C1({c})CCC({b})CC1",
    "C1({a})CCCC1",
    "C1({a})CCOCC1",
    "N1({n})CCC({a})CC1",
    "N1({n})CCC({c})C1",
    "N1({n})CCOC({c})C1",
    "N1({n})CCN({k})CC1",
    "N1({n})C(=O)CCC1{c}",
    # open chains and linkers: acids, amides, ethers, sulphides, sulphonamides, ureas, phosphates, salts of amines
    "C({a})CCCC",
    "C({a})CCC{c}",
    "C(=O)({t})CCC{c}",
    "C(=O)({t})/C=C/{l}",
    "C(=O)(N({n}){l})C{c}",
    "C(=O)(N({n})C)c1ccc({b})cc1",
    "S(=O)(=O)(N({n})C)c1ccc({b})cc1",
    "C(=O)(NC)Nc1ccc({a})cc1",
    "O({k}){l}",
    "S({k}){l}",
    "S(=O)({k}){l}",
    "P(=O)(O{l})(O{l})O{k}",
    "P(=O)(C)(O)O{k}",
    "[N+](C)(C)({l}){k}",
    # amino acids and their derivatives, both hands
    "N({m})[C@@H]({r})C(=O){t}",
    "N[C@H]({r})C(=O){t}",
    "NCC(=O)N[C@@H]({r})C(=O){t}",
)

Measure = Callable[[Any], float]


def _measures() -> dict[str, tuple[Attribute, Measure]]:
    import_rdkit()
    from rdkit.Chem import QED, rdMolDescriptors

    descriptors: Any = import_module("rdkit.Chem.Descriptors")  # its stubs lack what it shows
    halogens = {9, 17, 35}
    listed: list[tuple[Attribute, Measure]] = [
        (Continuous("logp"), lambda mol: rdMolDescriptors.CalcCrippenDescriptors(mol)[0]),
        (Continuous("tpsa"), rdMolDescriptors.CalcTPSA),
        (Continuous("weight"), descriptors.MolWt),
        (Continuous("qed"), QED.qed),
        (Count("donors"), rdMolDescriptors.CalcNumHBD),
        (Count("acceptors"), rdMolDescriptors.CalcNumHBA),
        (Count("rings"), rdMolDescriptors.CalcNumRings),
        (Binary("has_halogen"), lambda mol: any(atom.GetAtomicNum() in halogens for atom in mol.GetAtoms())),
        (Binary("is_aromatic"), lambda mol: any(atom.GetIsAromatic() for atom in mol.GetAtoms())),
    ]
    return {attribute.name: (attribute, measure) for attribute, measure in listed}


def builtin_molecules() -> list[str]:
    """Canonical SMILES of all molecules of the built-in set, each once, always in the same order."""
    return list(_enumerate())


def load_builtin(
    features: str | Sequence[str] = "default", *, target: str | Sequence[str] | None = None, progress: bool = False
) -> GraphDataset:
    """The built-in set as a dataset with graph targets computed by RDKit and one hold-out split (80 : 10 : 10, about).

    features: as for `gspn.from_smiles`.
    target: a name gives y [G], a list of names y [G, T]; None, the default, gives all of them, in this order. logp
        (Crippen), tpsa (polar surface, Å²), weight (g/mol) and qed (drug-likeness) are continuous; donors, acceptors
        (of hydrogen bonds) and rings are counts; has_halogen and is_aromatic are binary. qed takes most of the time,
        some seconds; values are kept for further calls.

    `graph_names` are the SMILES. Molecules of one scaffold fall on both sides of the split, so scores on it say how
    well a model interpolates within these families, not how it does on new ones.
    """
    measures = _measures()
    names = list(measures) if target is None else [target] if isinstance(target, str) else list(target)
    for name in names:
        if name not in measures:
            raise InputError(f"unknown target {shorten(name)}; known: {enumerate_briefly(measures)}")
    smiles = builtin_molecules()
    y: Any = {name: _values(name) for name in names}
    meaning: Attribute | Schema = Schema(measures[name][0] for name in names)
    if isinstance(target, str):
        y, meaning = y[target], measures[target][0]
    dataset = from_smiles(
        smiles, features=features, y=y, target=meaning, names=smiles, on_error="raise", processes=1, progress=progress
    )
    return replace(dataset, splits=(holdout(len(dataset)),))


@cache
def _values(target: str) -> NDArray[np.float64]:
    Chem = import_rdkit()
    from rdkit import rdBase

    measure = _measures()[target][1]
    with rdBase.BlockLogs():
        return np.array([measure(Chem.MolFromSmiles(text)) for text in _enumerate()], dtype=np.float64)


@cache
def _enumerate() -> tuple[str, ...]:
    Chem = import_rdkit()
    from rdkit import rdBase

    found: dict[str, None] = {}
    with rdBase.BlockLogs():
        for text in _write_down():
            molecule = Chem.MolFromSmiles(text)
            if molecule.GetNumHeavyAtoms() <= MAX_HEAVY_ATOMS:
                found[Chem.MolToSmiles(molecule)] = None
    return tuple(found)


def _write_down() -> Iterator[str]:
    """Every scaffold with everything that fits into its places, as SMILES; the same molecule may come twice."""
    for scaffold in _SCAFFOLDS:
        places = [name for name in _PLACES if f"{{{name}}}" in scaffold]
        for chosen in product(*(_PLACES[name] for name in places)):
            yield scaffold.format(**dict(zip(places, chosen, strict=True)))
