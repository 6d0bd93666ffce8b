"""Tables of SMILES: labels, repeated molecules, and what is said about tables that are not right."""

from __future__ import annotations

import gzip
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gspn.attributes import Binary, Continuous, Schema
from gspn.convert.atoms import OGB_SCHEMA
from gspn.datasets import load, molecules
from gspn.errors import InputError
from gspn.graphs.dataset import GraphDataset

TABLE = """A,B,mol_id,smiles
1,,M1,CCO
,0,M2,C#N
0,1,M3,c1ccccc1
,1,M4,CCO
1,,M5,C#N
0,0,M6,c1ccccc1
"""


@pytest.fixture
def read(root: Path) -> Callable[..., GraphDataset]:
    def write_and_read(text: str = TABLE, name: str = "Tox21", **options: Any) -> GraphDataset:
        path = root / molecules.TABLES[name].path
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
        return load(name, root=root, progress=False, **options)

    return write_and_read


def targets(dataset: GraphDataset) -> list[list[float | None]]:
    assert dataset.y is not None
    return [[None if value != value else value for value in row] for row in dataset.y.tolist()]


def test_rows_of_the_same_molecule_are_one_graph(
    read: Callable[..., GraphDataset], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        dataset = read()
    assert dataset.schema == OGB_SCHEMA
    assert dataset.target == Schema([Binary("A"), Binary("B")])
    assert dataset.splits == ()
    assert dataset.graph_names is not None
    assert dataset.graph_names.tolist() == ["M1", "M2", "M3"]
    assert targets(dataset) == [[1, 1], [1, 0], [0, None]]
    assert dataset.num_vertices_per_graph().tolist() == [3, 2, 6]
    assert dataset[1].edge_type.tolist() == [2, 2]
    assert "3 rows repeat a SMILES and are merged; 1 labels that contradict each other are now missing" in caplog.text


def test_rows_can_be_kept(read: Callable[..., GraphDataset]) -> None:
    dataset = read(duplicates="keep")
    assert targets(dataset) == [[1, None], [None, 0], [0, 1], [None, 1], [1, None], [0, 0]]
    assert len(dataset) == 6


def test_the_first_molecules(read: Callable[..., GraphDataset]) -> None:
    assert read(limit=2).digest() == read()[:2].digest()


def test_other_features(read: Callable[..., GraphDataset]) -> None:
    assert read(features=["element", "in_ring"]).schema.names == ("element", "in_ring")
    assert "partial_charge" in read(features="default").schema
    with pytest.raises(InputError, match="unknown atom feature 'colour'"):
        read(features=["colour"])
    with pytest.raises(InputError, match="duplicates must be one of None, 'merge', 'keep'"):
        read(duplicates="drop")


def test_esol_has_one_continuous_target_and_keeps_its_rows(read: Callable[..., GraphDataset]) -> None:
    column = "measured log solubility in mols per litre"
    dataset = read(f"Compound ID,ESOL predicted,{column},smiles\nx,1,-0.77,CCO \ny,2,-3.3,CC\nz,0,-1,CCO\n", "ESOL")
    assert dataset.target == Continuous("log_solubility")
    assert dataset.y is not None
    assert dataset.y.tolist() == [-0.77, -3.3, -1]
    with pytest.raises(InputError, match=rf"esol\.csv has no column '{column}'; its columns: smiles, x"):
        read("smiles,x\nC,1\n", "ESOL")


def test_what_cannot_be_read_is_reported_and_left_out(
    read: Callable[..., GraphDataset], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        dataset = read("A,B,mol_id,smiles\n1,0,M1,CCO\n0,0,M2,C(C\n,1,M3,CC\n")
    assert dataset.graph_names is not None
    assert dataset.graph_names.tolist() == ["M1", "M3"]
    assert targets(dataset) == [[1, 0], [None, 1]]
    assert "1 of 3 molecules cannot be read" in caplog.text
    assert "C(C" in caplog.text


def test_unusual_valences_are_kept(read: Callable[..., GraphDataset]) -> None:
    assert len(read("A,mol_id,smiles\n1,M1,CC\n0,M2,C[N](C)(C)(C)C\n")) == 2


def test_a_plain_file_does_as_well(root: Path) -> None:
    (root / "molecules").mkdir()
    (root / "molecules" / "muv.csv").write_text("MUV-466,mol_id,smiles\n1,CID1,CC\n")
    assert load("MUV", root=root, progress=False).target == Binary("MUV-466")


def test_a_table_is_downloaded(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(molecules, "SITE", server.url)
    server.serve("/tox21.csv.gz", gzip.compress(TABLE.encode()))
    assert len(load("Tox21", progress=False)) == 3
    server.serve("/delaney-processed.csv", b"not what it was")
    with pytest.raises(InputError, match=r"SHA-256 checksum .* instead of 8c06a76f"):
        load("ESOL", progress=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"tox21\.csv\.gz is empty"),
        ("A,smiles\n", r"tox21\.csv\.gz has no line after its header"),
        ("A,mol_id\n1,x\n", r"tox21\.csv\.gz has no column 'smiles'; its columns: A, mol_id"),
        ("mol_id,smiles\nx,CC\n", r"tox21\.csv\.gz has no column 'of labels'"),
        ("A,smiles\n1,CC\n1,CC,0\n", r"tox21\.csv\.gz, line 3: 3 cells, but the header has 2"),
        ("A,smiles\n1,CC\n\nyes,C\n\n", r"tox21\.csv\.gz, line 4: could not convert.*'yes'"),
        ('A,smiles\n1,"CC\n', r"tox21\.csv\.gz, line 2: unexpected end of data"),
        ("A,smiles\n2,CC\n", r"2\.0 is neither True nor False"),
    ],
)
def test_what_is_wrong_is_named(read: Callable[..., GraphDataset], text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(text)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (gzip.compress(b"A,smiles\n1,\xff\xfe\n"), r"tox21\.csv\.gz, line .*codec can't decode"),
        (gzip.compress(TABLE.encode())[:-9], r"tox21\.csv\.gz cannot be read"),
    ],
    ids=["no text", "truncated"],
)
def test_damaged_files_are_named(root: Path, content: bytes, named: str) -> None:
    (root / "molecules").mkdir()
    (root / "molecules" / "tox21.csv.gz").write_bytes(content)
    with pytest.raises(InputError, match=named):
        load("Tox21", root=root, progress=False)
