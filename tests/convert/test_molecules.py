"""Molecules as graphs: every number against RDKit's own answer, errors with their places, processes, files."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from refusals import refused
from small_tables import graph_names_of, targets_of, values_of

from gspn.attributes import Binary, Categorical, Continuous, Count, Schema
from gspn.convert.molecules import (
    BOND_TYPES,
    DEFAULT_FEATURES,
    DEFAULT_SCHEMA,
    FEATURES,
    OGB_SCHEMA,
    from_sdf,
    from_smiles,
)
from gspn.errors import InputError, MissingExtraError
from gspn.graphs.dataset import GraphDataset

Chem = pytest.importorskip("rdkit.Chem")
SOURCE = Path(__file__).resolve().parents[2] / "src"

VARIED = [
    "CCO",
    "c1ccccc1C#N",
    "c1cc[nH]c1",
    "C[N+](C)(C)CC([O-])=O",  # charges
    "[Fe+3].[O-]S(=O)(=O)[O-]",
    "[U+4]",  # beyond the listed charges
    "[C-4]",
    "N[C@@H](C)C(=O)O",  # chirality
    "N[C@H](C)C(=O)O",
    "N[C@@H](CS)C(=O)O",
    "C[C@H]1CC[C@@H](O)CC1",  # relative, without a label of its own
    "F/C=C/F",
    "[CH3]",  # radicals
    "C[CH]C",
    "[O][O]",
    "[C]",
    "[2H]C([2H])([2H])O",  # isotopes
    "[13CH4]",
    "[H][H]",  # explicit hydrogens
    "[H]OC([H])=O",
    "[Na+].CC(=O)[O-]",  # salts
    "O.O.[Cl-].[K+]",
    "[He]",  # single atoms
    "C",
    "O=S(=O)(O)c1ccccc1",
    "FS(F)(F)(F)(F)F",
    "ClP(Cl)(Cl)(Cl)Cl",
    "C[Si](C)(C)C",
    "O=[Se]=O",
    "OB(O)O",
    "C[Hg]C",  # unusual elements
    "[Cu-3]([O+]=C)[O+]=C",
    "*C",
    "F[Pt@SP1](Cl)(Br)I",
    "C1CC2CCC1C2",
    "O=C1C=CC(=O)C=C1",
    "C=C=C",
    "N->[Fe]",  # a dative bond
    "C~C",
    "[C-]#[O+]",
]


def molecule_of(smiles: str) -> Any:
    from rdkit import rdBase

    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(smiles)
    assert molecule is not None, smiles
    return molecule


def code_or_last(categories: list[Any], value: Any) -> int:
    return categories.index(value) if value in categories else len(categories) - 1


@pytest.mark.parametrize("smiles", VARIED)
def test_default_features_are_what_rdkit_says(smiles: str) -> None:
    from rdkit.Chem.rdPartialCharges import ComputeGasteigerCharges

    dataset = from_smiles([smiles], features=tuple(FEATURES))
    molecule = molecule_of(smiles)
    ComputeGasteigerCharges(molecule)
    values, atoms = values_of(dataset), list(molecule.GetAtoms())
    elements = FEATURES["element"].attribute
    assert isinstance(elements, Categorical)
    symbols = [atom.GetSymbol() for atom in atoms]
    assert values["element"] == [symbol if symbol in elements.categories else "other" for symbol in symbols]
    charges = [atom.GetFormalCharge() for atom in atoms]
    assert values["formal_charge"] == [charge if abs(charge) <= 3 else "other" for charge in charges]
    hybrids = [str(atom.GetHybridization()).lower() for atom in atoms]
    assert values["hybridisation"] == ["other" if name == "unspecified" else name for name in hybrids]
    assert values["aromatic"] == [atom.GetIsAromatic() for atom in atoms]
    assert values["hydrogens"] == [atom.GetTotalNumHs(includeNeighbors=True) for atom in atoms]
    assert values["in_ring"] == [atom.IsInRing() for atom in atoms]
    assert values["degree"] == [len(atom.GetNeighbors()) for atom in atoms]
    assert values["radical_electrons"] == [atom.GetNumRadicalElectrons() for atom in atoms]
    assert values["valence"] == [atom.GetTotalValence() for atom in atoms]
    assert values["isotope"] == [atom.GetIsotope() for atom in atoms]
    gasteiger = np.array([atom.GetDoubleProp("_GasteigerCharge") for atom in atoms])
    gasteiger[~np.isfinite(gasteiger)] = np.nan
    np.testing.assert_allclose(dataset.x[:, dataset.schema.index("partial_charge")], gasteiger, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("smiles", VARIED)
def test_ogb_features_are_what_rdkit_says(smiles: str) -> None:
    chiralities = ["CHI_UNSPECIFIED", "CHI_TETRAHEDRAL_CW", "CHI_TETRAHEDRAL_CCW", "CHI_OTHER", "misc"]
    hybridisations = ["SP", "SP2", "SP3", "SP3D", "SP3D2", "misc"]
    expected = [
        [
            code_or_last([*range(1, 119), "misc"], atom.GetAtomicNum()),
            code_or_last(chiralities, str(atom.GetChiralTag())),
            code_or_last([*range(11), "misc"], atom.GetTotalDegree()),
            code_or_last([*range(-5, 6), "misc"], atom.GetFormalCharge()),
            code_or_last([*range(9), "misc"], atom.GetTotalNumHs()),
            code_or_last([*range(5), "misc"], atom.GetNumRadicalElectrons()),
            code_or_last(hybridisations, str(atom.GetHybridization())),
            int(atom.GetIsAromatic()),
            int(atom.IsInRing()),
        ]
        for atom in molecule_of(smiles).GetAtoms()
    ]
    assert from_smiles([smiles], features="ogb")[0].x.tolist() == expected


def test_ogb_codes_by_hand() -> None:
    """Atomic number - 1, chirality, neighbours with hydrogens, charge + 5, hydrogens, radicals, sp2 1, sp3 2, …"""
    dataset = from_smiles(["N[C@@H](C)C(=O)[O-]", "c1cc[nH]c1", "[CH3]", "*"], features="ogb")
    assert dataset.schema == OGB_SCHEMA
    alanine = [
        [6, 0, 3, 5, 2, 0, 2, 0, 0],
        [5, 1, 4, 5, 1, 0, 2, 0, 0],
        [5, 0, 4, 5, 3, 0, 2, 0, 0],
        [5, 0, 3, 5, 0, 0, 1, 0, 0],
        [7, 0, 1, 5, 0, 0, 1, 0, 0],
        [7, 0, 1, 4, 0, 0, 1, 0, 0],
    ]
    assert dataset[0].x.tolist() == alanine
    assert dataset[1].x.tolist()[3] == [6, 0, 3, 5, 1, 0, 1, 1, 1]
    assert dataset[2].x.tolist() == [[5, 0, 3, 5, 3, 1, 2, 0, 0]]
    assert dataset[3].x.tolist() == [[118, 0, 0, 5, 0, 0, 5, 0, 0]]


def test_the_shape_of_the_ogb_schema() -> None:
    sizes = [len(attribute.categories) if isinstance(attribute, Categorical) else 2 for attribute in OGB_SCHEMA]
    assert sizes == [119, 5, 12, 12, 10, 6, 6, 2, 2]
    assert [attribute.kind for attribute in OGB_SCHEMA] == ["categorical"] * 7 + ["binary"] * 2


@pytest.mark.parametrize(
    ("smiles", "expected"),
    [
        ("N[C@@H](C)C(=O)O", "S"),
        ("C[C@H](N)C(=O)O", "S"),  # the same molecule with its atoms in another order
        ("N[C@H](C)C(=O)O", "R"),
        ("N[C@@H](CS)C(=O)O", "R"),
        ("NC(C)C(=O)O", "none"),
        ("C[C@H]1CC[C@@H](O)CC1", "other"),
        ("F[Pt@SP1](Cl)(Br)I", "other"),
    ],
)
def test_chirality_by_hand(smiles: str, expected: str) -> None:
    assert set(values_of(from_smiles([smiles]))["chirality"]) - {"none"} == {expected} - {"none"}


def test_chirality_with_the_newer_perception() -> None:
    legacy = Chem.GetUseLegacyStereoPerception()
    try:
        Chem.SetUseLegacyStereoPerception(False)
        dataset = from_smiles(["N[C@@H](C)C(=O)O", "N[C@@H](CS)C(=O)O", "C[C@H]1CC[C@@H](O)CC1"])
    finally:
        Chem.SetUseLegacyStereoPerception(legacy)
    assert [values_of(dataset, i)["chirality"][1] for i in range(3)] == ["S", "R", "other"]


def test_atoms_keep_the_order_of_the_smiles() -> None:
    dataset = from_smiles(["OC(F)=N", "N=C(F)O", "FC(=N)O", "[Cl-].CN.[Na+]", "[H]OC([H])F"])
    found = [values_of(dataset, i)["element"] for i in range(5)]
    assert found == [list("OCFN"), list("NCFO"), list("FCNO"), ["Cl", "C", "N", "Na"], list("OCF")]


@pytest.mark.parametrize("smiles", VARIED)
def test_every_bond_is_two_edges_of_its_type(smiles: str) -> None:
    graph = from_smiles([smiles])[0]
    edges = list(zip(*graph.edge_index.tolist(), graph.edge_type.tolist(), strict=True))
    expected = []
    for bond in molecule_of(smiles).GetBonds():
        name = str(bond.GetBondType()).lower()
        code = BOND_TYPES.index(name) if name in BOND_TYPES else BOND_TYPES.index("other")
        begin, end = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        expected += [(begin, end, code), (end, begin, code)]
    assert edges == expected


def test_bond_types_by_hand() -> None:
    graphs = from_smiles(["CC", "C=C", "C#C", "c1ccccc1", "N->[Fe]", "[Na+].[Cl-]"])
    assert [sorted(set(graph.edge_type.tolist())) for graph in graphs] == [[0], [1], [2], [3], [4], []]
    assert graphs.num_edges_per_graph().tolist() == [2, 2, 2, 12, 2, 0]
    assert graphs.num_vertices_per_graph().tolist() == [2, 2, 2, 6, 2, 2]


def test_the_schema_does_not_depend_on_the_molecules() -> None:
    first, second = from_smiles(["C"]), from_smiles(["[U+4].[Cl-]", "N[C@@H](C)C(=O)O"])
    assert first.schema == second.schema == DEFAULT_SCHEMA
    assert first.schema.names == DEFAULT_FEATURES
    kinds = {name: DEFAULT_SCHEMA[name].kind for name in DEFAULT_FEATURES}
    assert kinds["element"] == kinds["formal_charge"] == kinds["hybridisation"] == kinds["chirality"] == "categorical"
    assert kinds["hydrogens"] == kinds["degree"] == "count"
    assert kinds["aromatic"] == kinds["in_ring"] == "binary"
    assert kinds["partial_charge"] == "continuous"


def test_features_by_name_keep_their_order() -> None:
    dataset = from_smiles(["CO"], features=["degree", "isotope", "element"])
    assert dataset.schema == Schema([Count("degree"), Count("isotope"), FEATURES["element"].attribute])
    assert dataset.x[:, :2].tolist() == [[1, 0], [1, 0]]
    assert from_smiles(["CO"], features=iter(["degree"])).schema == Schema([Count("degree")])  # type: ignore[arg-type]


def test_charges_that_cannot_be_computed_are_missing() -> None:
    values = values_of(from_smiles(["C[Hg]C"]))
    assert values["partial_charge"] == [None, None, None]


def test_hydrogens_as_vertices() -> None:
    dataset = from_smiles(["[H]OC", "[2H]C"], hydrogens=True)
    values = values_of(dataset)
    assert values["element"] == ["H", "O", "C", "H", "H", "H"]  # those in the SMILES keep their place
    assert values["hydrogens"] == [0, 1, 3, 0, 0, 0]
    assert values["degree"] == [1, 2, 4, 1, 1, 1]
    assert values_of(dataset, 1)["element"] == ["H", "C", "H", "H", "H"]
    without = values_of(from_smiles(["[H]OC"]))
    assert without["element"] == ["O", "C"]
    assert without["hydrogens"] == [1, 3]
    np.testing.assert_allclose(without["partial_charge"], values["partial_charge"][1:3], rtol=1e-5)
    chiral = values_of(from_smiles(["N[C@@]([H])(C)C(=O)O"], hydrogens=True))["chirality"]
    assert [label for label in chiral if label != "none"] == ["S"]


BAD = ["CCO", "CC(", "C", "C(C)(C)(C)(C)C", "", "c1cccc1", "N"]


def test_bad_smiles_are_left_out_and_reported(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.WARNING):
        dataset = from_smiles(BAD, y=[0.5, 1, 2, 3, 4, 5, None], target=Continuous("y"), names=list("abcdefg"))
    assert [graph.num_nodes for graph in dataset] == [3, 1, 1]
    np.testing.assert_array_equal(dataset.y, [0.5, 2, np.nan])
    assert graph_names_of(dataset) == ["a", "c", "g"]
    (record,) = caplog.records
    lines = record.getMessage().splitlines()
    assert lines[0] == "4 of 7 molecules cannot be read and are left out:"
    assert lines[1].startswith("  row 1: 'CC(': syntax error")
    assert lines[2] == "  row 3: 'C(C)(C)(C)(C)C': Explicit valence for atom # 0 C, 5, is greater than permitted"
    assert lines[3] == "  row 4: '': the molecule has no atoms"
    assert lines[4].startswith("  row 5: 'c1cccc1': Can't kekulize")
    assert len(lines) == 5
    assert capfd.readouterr() == ("", "")  # RDKit itself keeps quiet


def test_a_long_list_of_bad_smiles_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    from_smiles(["C", *["("] * 12])
    lines = caplog.records[0].getMessage().splitlines()
    assert len(lines) == 7
    assert lines[-1] == "  … and 7 more"


@pytest.mark.parametrize("processes", [1, 2])
def test_bad_smiles_can_be_fatal(processes: int) -> None:
    source = ["CC"] * 2600
    source[701] = "C1CC"
    source[702] = source[2100] = "X"
    with pytest.raises(InputError, match=r"^row 701: 'C1CC': unclosed ring$"):
        from_smiles(source, on_error="raise", processes=processes)


def test_blanks_around_a_smiles_and_before_its_extension() -> None:
    dataset = from_smiles([" CC", "CC \n", "CC |$a;b$|", "CC  |$a b;c$| "], on_error="raise")
    assert dataset.num_vertices_per_graph().tolist() == [2, 2, 2, 2]


def test_valences_need_not_be_checked() -> None:
    source = ["O=C1O[Al]23(OC1=O)(OC(=O)C(=O)O2)OC(=O)C(=O)O3", "Cc1ccc([B-2]2(c3ccc(C)cc3)=NCCO2)cc1", "CC"]
    assert len(from_smiles(source)) == 1
    kept = from_smiles(source, check_valence=False, on_error="raise")
    assert kept.num_vertices_per_graph().tolist() == [19, 19, 2]
    assert sum(values_of(kept, 1)["aromatic"]) == 12


def test_targets_of_all_forms() -> None:
    source = ["C", "CC", "CCC"]
    given = from_smiles(source, y=["toxic", None, "safe"], target=Categorical("effect", ["safe", "toxic"]))
    assert given.target == Categorical("effect", ["safe", "toxic"])
    np.testing.assert_array_equal(given.y, [1, np.nan, 0])
    assert given.target_level == "graph"
    inferred = from_smiles(source, y=["toxic", "mild", "safe"])
    assert inferred.target == Categorical("y", ["mild", "safe", "toxic"])
    binary = from_smiles(source, y=torch.tensor([0, 1, 1]))
    assert binary.target == Binary("y")
    several = from_smiles(source, y=np.array([[0, 1.5], [1, np.nan], [np.nan, 2]]))
    assert several.target == Schema([Binary("y0"), Continuous("y1")])
    np.testing.assert_array_equal(several.y, [[0, 1.5], [1, np.nan], [np.nan, 2]])
    assert several[1].y.shape == (1, 2)
    typed = Schema([Binary("a"), Continuous("b")])
    for y in (np.array([[0, 1.0], [1, 2], [1, 3]]), {"a": [0, 1, 1], "b": [1, 2, 3]}):
        np.testing.assert_array_equal(from_smiles(source, y=y, target=typed).y, [[0, 1], [1, 2], [1, 3]])
    table = pd.DataFrame({"b": [1.0, 2, 3], "a": [False, True, True]})
    assert from_smiles(source, y=table, target=typed)[2].y.tolist() == [[1, 3]]
    assert from_smiles(source).y is None


def strictly(source: Any, **arguments: Any) -> GraphDataset:
    return from_smiles(source, on_error="raise", **arguments)


BLANKS = {"CC CC": 2, " CC\tethane": 3, "CC |$a;b$| CC": 10, "CC |CC": 2, "CC \nCC": 2}
UNKNOWN_FEATURES = ["all", [], ["element", "element"], ["mood"], [3], 3]
NO_SOURCES = ["CCO", "C" * 5000, b"C", {"C": 1}, {"C"}, 7, None]
NOTHING: list[Any] = [[], np.array([], str), pd.Series([], dtype=str)]
THREE = ["C", "CC", "CCC"]


@pytest.mark.parametrize(
    ("call", "named"),
    [
        *(refused("feature", from_smiles, ["C"], features=features) for features in UNKNOWN_FEATURES),
        *(refused("list", from_smiles, source) for source in NO_SOURCES),
        *(refused("no molecules", from_smiles, empty) for empty in NOTHING),
        *(refused(f"^row 1: .* blank at position {at}$", strictly, ["C", smiles]) for smiles, at in BLANKS.items()),
        refused("^row 1: .* blank at position 2$", strictly, pd.DataFrame({"smiles": ["C", "CC CC"]})),
        refused("none of the 2 molecules can be read:\n  row 0: 'X': ", from_smiles, ["X", ""]),
        refused("^row 1: None: it is missing", strictly, ["C", None]),
        refused("^row 0: 3: it is no text but int", strictly, [3]),
        refused("^row 1: .*: it is missing", strictly, pd.Series(["C", pd.NA], dtype="string")),
        refused("kekulize", strictly, ["c1cccc1"], check_valence=False),
        refused(r"y \(y\) has 2 values, but there are 3 molecules", from_smiles, THREE, y=[1, 2]),
        refused("y='label' names a column, but the source has none", from_smiles, THREE, y="label"),
        refused("names='id' names a column, but the source has none", from_smiles, THREE, names="id"),
        refused("there are 1 names for 3 molecules", from_smiles, THREE, names=["a"]),
        refused("there is no y", from_smiles, THREE, target=Binary("y")),
        refused("row 2, attribute 'y': 2 is neither", from_smiles, THREE, y=[0, 1, 2], target=Binary("y")),
        refused("y has 2 columns, .* 1: y", from_smiles, THREE, y=np.zeros((3, 2)), target=Binary("y")),
        refused("a schema", from_smiles, THREE, y={"a": [0, 1, 1], "b": [0, 1, 1]}, target=Binary("a")),
        refused("on_error must be 'skip' or 'raise', got 'ignore'", from_smiles, THREE, on_error="ignore"),
        *(refused("processes must be None or a whole number", from_smiles, THREE, processes=no) for no in (0, True)),
    ],
)
def test_refusals(call: Callable[[], object], named: str) -> None:
    with pytest.raises(InputError, match=named):
        call()


def test_processes_do_not_matter() -> None:
    source = [smiles for smiles in VARIED if smiles != "C~C"] * 40 + BAD
    y = np.arange(len(source), dtype=float)
    one = from_smiles(source, y=y, target=Continuous("y"), processes=1)
    two = from_smiles(source, y=y, target=Continuous("y"), processes=2)
    assert len(one) == len(source) - 4
    assert one.digest() == two.digest()
    assert torch.equal(one.row_ptr, two.row_ptr)
    assert one.edge_order is not None
    assert two.edge_order is not None
    assert torch.equal(one.edge_order, two.edge_order)


def test_a_script_without_a_guard_may_use_processes(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "print('start')\n"
        "from gspn.convert.molecules import from_smiles\n"
        "print(len(from_smiles(['CC', 'CO'] * 600, processes=2)))\n",
        encoding="utf-8",
    )
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    found = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["start", "1200"]


def test_nothing_is_kept_for_each_graph() -> None:
    dataset = from_smiles(["CC", "CO"] * 50, names=[f"m{i}" for i in range(100)])
    for name, value in vars(dataset).items():
        if isinstance(value, (list, tuple, dict)):
            assert len(value) < 10, name
        if isinstance(value, np.ndarray):
            assert value.dtype != object, name
    assert dataset.x.dtype == torch.float32
    assert dataset.edge_type is not None
    assert dataset.edge_type.dtype == torch.int8


def test_without_rdkit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "rdkit", None)
    reads: list[tuple[Any, Any]] = [(from_smiles, ["C"]), (from_sdf, tmp_path / "some.sdf")]
    for read, source in reads:
        with pytest.raises(MissingExtraError, match=r"gspn\[chem\]"):
            read(source)


def test_a_worker_needs_no_torch() -> None:
    code = "import sys, gspn.convert.atoms; print('torch' in sys.modules, 'rdkit' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False"]


@pytest.mark.data
def test_molhiv(data_root: Path) -> None:
    table = pd.read_csv(data_root / "molecules" / "ogbg-molhiv.csv.gz", nrows=400)
    dataset = from_smiles(table, features="ogb", y="HIV_active", target=Binary("HIV_active"), check_valence=False)
    assert len(dataset) == 400
    assert targets_of(dataset) == table["HIV_active"].tolist()
    # A copper complex: ethyl, a carbon and an oxygen of the chelate ring, the metal (-3, of no listed hybridisation).
    copper = [[5, 0, 4, 5, 3, 0, 2, 0, 0], [5, 0, 4, 5, 2, 0, 2, 0, 0], [5, 0, 3, 5, 0, 0, 1, 0, 1]]
    copper += [[7, 0, 2, 6, 0, 0, 1, 0, 1], [28, 0, 4, 2, 0, 0, 5, 0, 1]]
    assert dataset[0].x[:5].tolist() == copper
    assert dataset[0].edge_index[:, :4].tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    for i in range(0, 400, 7):
        if (molecule := Chem.MolFromSmiles(table["smiles"][i])) is not None:
            assert (dataset[i].x[:, 0] + 1).tolist() == [atom.GetAtomicNum() for atom in molecule.GetAtoms()]
            assert dataset[i].num_edges == 2 * molecule.GetNumBonds()
