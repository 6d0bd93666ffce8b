"""OGB's raw layout, on small files of that layout, and SMILES where there is nothing better."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from gspn.attributes import Binary, Schema
from gspn.convert.atoms import OGB_SCHEMA
from gspn.datasets import load, ogb, text_tables
from gspn.errors import InputError
from gspn.graphs.dataset import GraphDataset

# Three molecules: ethanol's heavy atoms, a lone oxygen, and two carbons with a double bond.
FILES: dict[str, str] = {
    "raw/num-node-list": "3\n1\n2\n",
    "raw/num-edge-list": "2\n0\n1\n",
    "raw/node-feat": "5,0,4,5,3,0,2,0,0\n5,0,4,5,2,0,2,0,0\n7,0,2,5,1,0,2,0,0\n7,0,2,5,2,0,2,0,0\n"
    "5,0,3,5,2,0,1,0,0\n5,0,3,5,2,0,1,0,0\n",
    "raw/edge": "0,1\n1,2\n0,1\n",
    "raw/edge-feat": "0,0,0\n0,0,1\n1,0,0\n",
    "raw/graph-label": "0.0,,1.0\n,1.0,\n1,0,0\n",
    "split/scaffold/train": "2\n",
    "split/scaffold/valid": "0\n",
    "split/scaffold/test": "1\n",
    "mapping/mol": "PCBA-1,PCBA-2,PCBA-3,smiles,mol_id\n0.0,,1.0,CCO,CID1\n,1.0,,O,CID2\n1,0,0,C=C,CID3\n",
}
Place = Callable[..., None]
Zipped = Callable[..., Path]


@pytest.fixture(params=["folder", "zip"])
def put(request: pytest.FixtureRequest, root: Path, zipped: Zipped) -> Place:
    """Write the files, some changed or (None) left out, in one of the two ways they may lie there."""

    def write(name: str = "ogbg-molpcba", **changed: str | None) -> None:
        changed = {key.replace("__", "/").replace("_", "-"): value for key, value in changed.items()}
        files = {f"{key}.csv.gz": text for key, text in {**FILES, **changed}.items() if text is not None}
        packed = {key: gzip.compress(text.encode()) for key, text in files.items()}
        if request.param == "zip":
            members = {f"pcba/{key}": content for key, content in packed.items()}
            zipped(root / "ogb" / f"{name}.zip", {"pcba/RELEASE_v1.txt": "", **members})
            return
        for key, content in packed.items():
            file = root / "ogb" / name / key
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)

    return write


@pytest.fixture
def read(put: Place, root: Path) -> Callable[..., GraphDataset]:
    def write_and_read(options: dict[str, Any] | None = None, **changed: str | None) -> GraphDataset:
        put(**changed)
        return load("ogbg-molpcba", root=root, progress=False, **(options or {}))

    return write_and_read


def test_graphs_targets_names_and_fold(read: Callable[..., GraphDataset]) -> None:
    dataset = read()
    assert dataset.schema == OGB_SCHEMA
    assert dataset.target == Schema([Binary("PCBA-1"), Binary("PCBA-2"), Binary("PCBA-3")])
    assert dataset.graph_names is not None
    assert dataset.graph_names.tolist() == ["CID1", "CID2", "CID3"]
    ethanol, water, ethene = dataset
    assert ethanol.x[2].tolist() == [7, 0, 2, 5, 1, 0, 2, 0, 0]
    assert ethanol.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]], "a bond is two edges, one after the other"
    assert ethanol.edge_type.tolist() == [0, 0, 0, 0]
    assert (water.num_nodes, water.num_edges) == (1, 0)
    assert ethene.edge_type.tolist() == [1, 1]
    assert torch.equal(ethanol.y, torch.tensor([[0, torch.nan, 1]])) or ethanol.y[0].isnan().tolist() == [
        False,
        True,
        False,
    ]
    assert water.y.isnan().tolist() == [[True, False, True]]
    assert ethene.y.tolist() == [[1, 0, 0]]
    (fold,) = dataset.splits
    assert (fold.train.tolist(), fold.validation.tolist(), fold.test.tolist()) == ([2], [0], [1])


def test_atoms_mean_what_they_mean_for_smiles(read: Callable[..., GraphDataset], root: Path) -> None:
    from gspn.convert.molecules import from_smiles

    assert (
        from_smiles(["CCO", "O", "C=C"], features="ogb", progress=False).digest().split("-")[:4]
        == (read().digest().split("-")[:4])
    )


def test_one_target(put: Place, root: Path) -> None:
    mapping = "HIV_active,smiles,mol_id\n0,CCO,\n1,O,\n0,C=C,\n"
    put("ogbg-molhiv", raw__graph_label="0\n1\n0\n", mapping__mol=mapping)
    dataset = load("ogbg-molhiv", root=root, progress=False)
    assert dataset.target == Binary("HIV_active")
    assert dataset.y is not None
    assert dataset.y.tolist() == [0, 1, 0]
    assert dataset.graph_names is None


def test_without_mapping_and_fold(read: Callable[..., GraphDataset]) -> None:
    changed = dict.fromkeys([f"split__scaffold__{part}" for part in ("train", "valid", "test")])
    dataset = read(mapping__mol=None, **changed)
    assert isinstance(dataset.target, Schema)
    assert dataset.target.names == ("task_0", "task_1", "task_2")
    assert (dataset.graph_names, dataset.splits) == (None, ())


@pytest.mark.parametrize("limit", [1, 2, 3, 9])
def test_the_first_molecules(read: Callable[..., GraphDataset], limit: int) -> None:
    dataset, whole = read({"limit": limit}), read()
    assert len(dataset) == min(limit, 3)
    assert dataset.digest() == whole[: len(dataset)].digest()
    assert len(dataset.splits) == (1 if limit >= 3 else 0)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"raw__edge": None}, r"holds no raw/edge\.csv\.gz"),
        ({"raw__node_feat": None}, r"holds no raw/node-feat\.csv\.gz"),
        ({"split__scaffold__valid": None}, r"holds no split/scaffold/valid\.csv\.gz"),
        ({"raw__num_edge_list": "2\n0\n"}, r"raw/num-edge-list\.csv\.gz has 2 lines, but num-node-list has 3"),
        ({"raw__num_node_list": "3\n0\n2\n"}, r"raw/num-node-list\.csv\.gz, line 2: expected at least 1, found 0"),
        ({"raw__num_node_list": "3\n1\n3\n"}, r"raw/node-feat\.csv\.gz has 6 lines, but the lists of sizes ask for 7"),
        ({"raw__num_node_list": "3\n1\n1\n"}, r"raw/node-feat\.csv\.gz has 6 lines, but the lists of sizes ask for 5"),
        ({"raw__num_node_list": ""}, r"raw/num-node-list\.csv\.gz is empty"),
        ({"raw__edge": "0,1\n1,2\n0,2\n"}, r"edge\.csv\.gz, line 3: bond \(0, 2\) is of molecule 2, which has 2 at"),
        ({"raw__edge": "0,1\n1,3\n0,1\n"}, r"raw/edge\.csv\.gz, line 2: column 2 must be from 0 to 2, found 3"),
        ({"raw__edge": "0,1\n1,-1\n0,1\n"}, r"raw/edge\.csv\.gz, line 2: column 2 must be from 0 to 2, found -1"),
        ({"raw__edge": "0,1\n1,x\n0,1\n"}, r"raw/edge\.csv\.gz, line 2: expected 2 cells, each an integer"),
        ({"raw__edge": "0,1\n1,2\n"}, r"raw/edge\.csv\.gz has 2 lines, but the lists of sizes ask for 3"),
        ({"raw__edge_feat": "0,0\n"}, r"raw/edge-feat\.csv\.gz has 1 lines, but the lists of sizes ask for 3"),
        ({"raw__edge_feat": "0\n9\n0\n"}, r"raw/edge-feat\.csv\.gz, line 2: column 1 must be from 0 to 4, found 9"),
        (
            {"raw__node_feat": FILES["raw/node-feat"].replace("7,0,2,5,1,0,2,0,0", "7,0,2,5,1,0,2,2,0")},
            r"line 3: column 8",
        ),
        ({"raw__node_feat": FILES["raw/node-feat"].replace("7,0,2,5,1,0,2,0,0", "119,0,2,5,1,0,2,0,0")}, r"found 119"),
        ({"raw__graph_label": "0,1,1\n,,\n"}, r"raw/graph-label\.csv\.gz has 2 lines, but num-node-list has 3"),
        ({"raw__graph_label": "0,1,1\n,2,\n,,\n"}, r"graph-label\.csv\.gz, line 2: expected 0, 1 .*found 2"),
        ({"mapping__mol": "smiles,mol_id\nC,1\n"}, r"mapping/mol\.csv\.gz has 1 lines after its header, but"),
        ({"split__scaffold__test": "3\n"}, r"split/scaffold/test\.csv\.gz, line 1: there is no molecule 3"),
        ({"split__scaffold__test": "0\n"}, r"some molecule occurs twice in split/scaffold"),
    ],
)
def test_what_is_wrong_is_named(read: Callable[..., GraphDataset], changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(**changed)


@pytest.mark.parametrize("part", ["edge", "node-feat", "edge-feat"])
def test_too_many_lines_in_several_blocks(
    read: Callable[..., GraphDataset], part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_tables, "_BLOCK_BYTES", 200)
    lines = FILES[f"raw/{part}"].splitlines()
    with pytest.raises(InputError, match=rf"raw/{part}\.csv\.gz has {len(lines) + 199} lines, but the lists of sizes"):
        read(**{f"raw__{part.replace('-', '_')}": "\n".join([*lines, *lines[:1] * 199])})


def test_a_changed_file_in_the_folder_is_noticed(put: Place, root: Path) -> None:
    put()
    assert load("ogbg-molpcba", root=root, progress=False)[2].edge_type.tolist() == [1, 1]
    put(raw__edge_feat="0,0,0\n0,0,1\n2,0,0\n")
    assert load("ogbg-molpcba", root=root, progress=False)[2].edge_type.tolist() == [2, 2]


def test_the_archive_is_downloaded(server: Any, root: Path, zipped: Zipped, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ogb, "SITE", server.url)
    members = {f"pcba/{key}.csv.gz": gzip.compress(text.encode()) for key, text in FILES.items()}
    server.serve("/pcba.zip", zipped(root / "x.zip", members).read_bytes())
    assert len(load("ogbg-molpcba", progress=False)) == 3


def test_smiles_stand_in(root: Path, put: Place, caplog: pytest.LogCaptureFixture) -> None:
    (root / "molecules").mkdir()
    table = "HIV_active,smiles,mol_id\n0,CCO,\n1,O,\n0,C=C,\n"
    (root / "molecules" / "ogbg-molhiv.csv.gz").write_bytes(gzip.compress(table.encode()))
    dataset = load("ogbg-molhiv", root=root, progress=False)
    assert "ogbg-molhiv is made from the SMILES in" in caplog.text
    assert (dataset.schema, dataset.target, dataset.splits) == (OGB_SCHEMA, Binary("HIV_active"), ())
    assert len(load("ogbg-molhiv", root=root, progress=False, limit=2)) == 2
    put("ogbg-molhiv", raw__graph_label="0\n1\n0\n", mapping__mol=table)
    better = load("ogbg-molhiv", root=root, progress=False)
    assert len(better.splits) == 1, "the raw layout is preferred"
    assert better.digest().split("-")[:3] == dataset.digest().split("-")[:3]
