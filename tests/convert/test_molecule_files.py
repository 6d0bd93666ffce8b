"""Where molecules come from: lists, tables and files, their targets and names, and the places of what is wrong."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from small_tables import graph_names_of, targets_of, values_of

from gspn.attributes import Binary, Categorical, Continuous, Count, Schema
from gspn.convert.molecules import from_sdf, from_smiles
from gspn.errors import InputError

Chem = pytest.importorskip("rdkit.Chem")
ALANINE = "N[C@@H](C)C(=O)O"


def test_sources_in_memory() -> None:
    expected = from_smiles(["CC", "CO"]).digest()
    table = pd.DataFrame({"smiles": ["CC", "CO"], "id": [7, 8], "active": [True, None]})
    for source in (("CC", "CO"), np.array(["CC", "CO"]), pd.Series(["CC", "CO"], index=[5, 9]), iter(["CC", " CO "])):
        assert from_smiles(source).digest() == expected
    dataset = from_smiles(table, y="active", names="id")
    assert dataset.target == Binary("active")
    np.testing.assert_array_equal(dataset.y, [1, np.nan])
    assert graph_names_of(dataset) == ["7", "8"]
    with pytest.raises(InputError, match="the table: no column 'SMILES'; there are smiles, id, active"):
        from_smiles(table, smiles="SMILES")


def test_a_file_of_smiles(tmp_path: Path) -> None:
    path = tmp_path / "some.smi"
    path.write_text("SMILES name\nCCO ethanol\n\nCC(\tbroken\n  N\nF[C@H](Cl)O |$a;b;c;d$| a chiral one\r\n", "utf-8")
    dataset = from_smiles(path)
    assert graph_names_of(dataset) == ["ethanol", "", "a chiral one"]
    assert dataset.num_vertices_per_graph().tolist() == [3, 1, 4]
    with pytest.raises(InputError, match=r"^some\.smi, line 4: 'CC\(': syntax error"):
        from_smiles(str(path), on_error="raise")
    with gzip.open(tmp_path / "packed.txt.gz", "wt") as packed:
        packed.write("CCO\nCC\n")
    unnamed = from_smiles(tmp_path / "packed.txt.gz", y=[1, 2], target=Count("n"))
    assert unnamed.graph_names is None
    assert targets_of(unnamed) == [1, 2]


CSV = (
    'id,smiles,active,assay,solubility,grade\n1,CCO,1,,-0.5,A\n2,"C(",0,1,2,B\n3,N,NA,0,1e-3,null\n\n4,CC ,0,1, 7 ,A\n'
)


def test_a_table_of_smiles(tmp_path: Path) -> None:
    path = tmp_path / "some.csv"
    path.write_text(CSV, encoding="utf-8")
    dataset = from_smiles(path, y=["active", "assay", "solubility", "grade"], names="id")
    kinds = Schema([Binary("active"), Binary("assay"), Continuous("solubility"), Categorical("grade", ["A", "B"])])
    assert dataset.target == kinds
    nan = np.nan
    np.testing.assert_array_equal(dataset.y, [[1, nan, -0.5, 0], [nan, 0, 1e-3, nan], [0, 1, 7, 0]])
    assert graph_names_of(dataset) == ["1", "3", "4"]
    single = from_smiles(path, y="grade", target=Categorical("quality", ["C", "B", "A"]))
    np.testing.assert_array_equal(single.y, [2, nan, 2])
    assert from_smiles(path).graph_names is None
    with pytest.raises(InputError, match=r"^some\.csv, line 3: 'C\(': "):
        from_smiles(path, on_error="raise")
    with pytest.raises(InputError, match=r"^some\.csv, line 2, attribute 'solubility': -0\.5 is neither"):
        from_smiles(path, y=["solubility"], target=Schema([Binary("solubility")]), on_error="raise")


@pytest.mark.parametrize(
    ("name", "content", "arguments", "named"),
    [
        ("some.csv", CSV, {"smiles": "SMILES"}, r"no column 'SMILES'; there are id, smiles"),
        ("some.csv", CSV, {"y": "mood"}, r"no column 'mood'; there are id, smiles"),
        ("some.csv", "smiles,smiles\nC,C\n", {}, r"more than one column 'smiles'"),
        ("some.csv", "smiles,a\nC,1\nCC\n", {}, r"line 3: 1 cells, but the heading has 2"),
        ("some.csv", "smiles,a\nC,1.5\nCC,x\n", {"y": "a"}, r"line 3, column 'a': 'x' is not a number"),
        ("some.csv", "smiles,a\nC,1.5\nCC,x\n", {"y": "a", "target": Continuous("a")}, r"line 3, attribute 'a': 'x'"),
        ("some.csv", "smiles,a\n", {}, r"no molecules"),
        ("some.csv", "", {}, r"no column 'smiles'"),
        ("absent.smi", None, {}, "cannot be read: .*No such file"),
        ("some.xlsx", "", {}, r"the suffix '\.xlsx' is not known"),
        ("cut.csv.gz", gzip.compress(b"smiles\n" + b"CCO\n" * 1000, mtime=0)[:40], {}, "cannot be read"),
        ("latin.smi", b"CC \xe9thane\n", {}, "cannot be read: .*utf-8"),
    ],
)
def test_refusals(
    tmp_path: Path, name: str, content: str | bytes | None, arguments: dict[str, Any], named: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InputError, match=named) as error:
        from_smiles(tmp_path / name, **arguments)
    assert name in str(error.value) or named == "no molecules"


def write_sdf(path: Path, *, hydrogens: bool = False) -> None:
    from rdkit.Chem.rdDepictor import Compute2DCoords

    writer = Chem.SDWriter(str(path))
    for name, smiles, label in (("ethanol", "OCC", "1"), ("", "[Na+].[Cl-]", None), ("alanine", ALANINE, "0")):
        molecule = Chem.MolFromSmiles(smiles)
        if hydrogens:
            molecule = Chem.AddHs(molecule)
            molecule = Chem.RenumberAtoms(molecule, list(reversed(range(molecule.GetNumAtoms()))))
        Compute2DCoords(molecule)
        molecule.SetProp("_Name", name)
        molecule.SetProp("note", "two\nlines")
        if label is not None:
            molecule.SetProp("active", label)
        writer.write(molecule)
    writer.close()


def test_an_sd_file(tmp_path: Path) -> None:
    path = tmp_path / "some.sdf"
    write_sdf(path)
    dataset = from_sdf(path, y="active")
    assert graph_names_of(dataset) == ["ethanol", "", "alanine"]
    np.testing.assert_array_equal(dataset.y, [1, np.nan, 0])
    assert dataset.target == Binary("active")
    smiles = from_smiles(["OCC", "[Na+].[Cl-]", ALANINE])
    assert [graph.x.tolist() for graph in dataset][:2] == [graph.x.tolist() for graph in smiles][:2]
    assert values_of(dataset, 2)["chirality"] == values_of(smiles, 2)["chirality"]
    assert values_of(dataset, 2)["element"] == values_of(smiles, 2)["element"]
    noted = from_sdf(path, names="note")
    assert graph_names_of(noted) == ["two\nlines"] * 3
    with pytest.raises(InputError, match=r"some\.sdf \(SD properties\): no column 'mood'; there are note, active"):
        from_sdf(path, y="mood")
    with gzip.open(tmp_path / "packed.sdf.gz", "wb") as packed:
        packed.write(path.read_bytes().replace(b"\n", b"\r\n"))
    assert from_sdf(tmp_path / "packed.sdf.gz", y="active").digest() == dataset.digest()


def test_hydrogens_of_an_sd_file_keep_their_place(tmp_path: Path) -> None:
    path = tmp_path / "some.sdf"
    write_sdf(path, hydrogens=True)
    assert values_of(from_sdf(path, hydrogens=True))["element"] == list("HHHHHHCCO")
    assert values_of(from_sdf(path))["element"] == list("CCO")


def test_bad_records_of_an_sd_file(tmp_path: Path) -> None:
    path = tmp_path / "some.sdf"
    write_sdf(path)
    text = path.read_text("utf-8")
    first = text.split("$$$$\n")[0]
    damaged = first.replace("ethanol", "broken").replace("  3  2", "  9  9", 1)
    path.write_text(
        first + "$$$$\n" + damaged + "$$$$\nempty\n\n\n  0  0  0  0  0  0  0  0  0  0999 V2000\nM  END\n", "utf-8"
    )
    assert len(from_sdf(path)) == 1
    line = first.count("\n") + 2
    with pytest.raises(InputError, match=rf"^some\.sdf, record 2 \(line {line}\): 'broken': "):
        from_sdf(path, on_error="raise")
    path.write_text("", "utf-8")
    with pytest.raises(InputError, match="no molecules"):
        from_sdf(path)
    with pytest.raises(InputError, match=r"an SD file ends in \.sdf, \.sd, \.mol"):
        from_sdf(tmp_path / "some.csv")
    with pytest.raises(InputError, match="by its path"):
        from_sdf(["C"])  # type: ignore[arg-type]


@pytest.mark.data
def test_molhiv_from_its_file(data_root: Path, tmp_path: Path) -> None:
    with gzip.open(data_root / "molecules" / "ogbg-molhiv.csv.gz", "rt", encoding="utf-8") as whole:
        lines = [next(whole) for _ in range(301)]
    (tmp_path / "part.csv").write_text("".join(lines), encoding="utf-8")
    dataset = from_smiles(tmp_path / "part.csv", y="HIV_active")
    assert len(dataset) == 299  # an aluminium complex
    with pytest.raises(InputError, match=r"^part\.csv, line 139: 'O=C1O\[Al\]23.*: Explicit valence for atom # 3 Al"):
        from_smiles(tmp_path / "part.csv", on_error="raise")
