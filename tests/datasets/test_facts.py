"""The real files: every count that is known of them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch

from gspn.attributes import Binary, Categorical, Continuous, Count, Schema
from gspn.datasets import load, molecules
from gspn.datasets.archives import open_plain
from gspn.graphs.dataset import GraphDataset
from gspn.graphs.splits import Fold

pytestmark = pytest.mark.data

MD17 = ["benzene", "ethanol", "malonaldehyde", "naphthalene", "salicylic_acid", "toluene", "uracil"]


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every file is parsed once for all tests of this module."""
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize(
    ("name", "graphs", "vertices", "edges", "classes"),
    [
        ("NCI1", 4_110, 122_747, 265_506, [0, 1]),
        ("REDDIT-BINARY", 2_000, 859_254, 1_991_016, [-1, 1]),
        ("REDDIT-MULTI-5K", 4_999, 2_542_071, 5_947_556, [1, 2, 3, 4, 5]),
        ("COLLAB", 5_000, 372_474, 24_574_995, [0, 1, 2]),
    ],
)
def test_counts_of_the_tu_sets(
    data_root: Path, shared_cache: Path, name: str, graphs: int, vertices: int, edges: int, classes: list[int]
) -> None:
    dataset = load(name, root=data_root, cache=shared_cache, progress=False)
    assert len(dataset) == graphs
    assert int(dataset.num_vertices_per_graph().sum()) == vertices
    assert int(dataset.num_edges_per_graph().sum()) == edges
    assert dataset.target == Categorical("y", classes)
    assert dataset.y is not None
    assert dataset.y.unique().tolist() == list(range(len(classes)))
    assert dataset.edge_type is None
    check_folds(dataset)


def check_folds(dataset: GraphDataset) -> None:
    """Ten folds; disjoint test sets that cover everything; classes in their shares."""
    assert len(dataset.splits) == 10
    assert torch.cat([fold.test for fold in dataset.splits]).sort().values.equal(torch.arange(len(dataset)))
    assert dataset.y is not None
    overall = shares(dataset.y)
    for fold in dataset.splits:
        assert isinstance(fold, Fold)
        everything = torch.cat([fold.train, fold.validation, fold.test])
        assert everything.sort().values.equal(torch.arange(len(dataset)))
        assert torch.allclose(shares(dataset.y[fold.test]), overall, atol=0.01)
        assert torch.allclose(shares(dataset.y[fold.validation]), overall, atol=0.03)


def shares(y: torch.Tensor) -> torch.Tensor:
    return y.bincount(minlength=5) / len(y)


def test_nci1_has_37_labels_and_428_lonely_vertices(data_root: Path, shared_cache: Path) -> None:
    dataset = load("NCI1", root=data_root, cache=shared_cache, progress=False)
    assert len(dataset.schema) == 1
    label = dataset.schema["label"]
    assert isinstance(label, Categorical)
    assert len(label.categories) == 37
    assert all(isinstance(category, int) for category in label.categories)
    assert dataset.x.unique().tolist() == list(range(37))
    assert int((dataset.row_ptr.diff() == 0).sum()) == 428


@pytest.mark.parametrize("name", ["REDDIT-BINARY", "REDDIT-MULTI-5K", "COLLAB"])
def test_social_sets_have_the_degree(data_root: Path, shared_cache: Path, name: str) -> None:
    dataset = load(name, root=data_root, cache=shared_cache, progress=False)
    assert dataset.schema == Schema([Continuous("degree")])
    assert dataset.x[:, 0].long().equal(dataset.row_ptr.diff()), "incoming edges as in the file"


def test_most_vertices_of_reddit_have_degree_one(data_root: Path, shared_cache: Path) -> None:
    dataset = load("REDDIT-BINARY", root=data_root, cache=shared_cache, degree="count", progress=False)
    assert dataset.schema == Schema([Count("degree", distribution="negative_binomial")])
    assert float((dataset.x == 1).double().mean()) == pytest.approx(0.69, abs=0.005)


def test_collab_has_2837_self_loops(data_root: Path, shared_cache: Path) -> None:
    dataset = load("COLLAB", root=data_root, cache=shared_cache, progress=False)
    receiver = torch.repeat_interleave(torch.arange(len(dataset.x)), dataset.row_ptr.diff())
    sizes = dataset.num_vertices_per_graph()
    inside = receiver - torch.repeat_interleave(dataset.vertex_ptr[:-1], sizes)[receiver]
    assert int((dataset.source == inside).sum()) == 2_837


def test_collab_is_read_in_time_and_read_again_at_once(data_root: Path, tmp_path: Path) -> None:
    """Seconds of work, not of waiting for others on the same machine; both are far below what is asked."""
    seconds = []
    for _ in range(2):
        begin = time.process_time()
        load("COLLAB", root=data_root, cache=tmp_path, progress=False)
        seconds.append(time.process_time() - begin)
    assert seconds[0] < 30
    assert seconds[1] < 1


@pytest.mark.parametrize(
    ("name", "edges", "edges_of_every_tenth", "deviation"),
    [
        ("benzene", 64.94, 64.93, 2.34),
        ("ethanol", 36.00, 36.00, 4.12),
        ("malonaldehyde", 36.00, 36.00, 4.19),
        ("naphthalene", 127.48, 127.55, 5.57),
        ("salicylic_acid", 104.12, 104.10, 5.46),
        ("toluene", 96.15, 96.18, 5.09),
        ("uracil", 64.45, 64.42, 4.87),
    ],
)
def test_edges_and_energies_of_md17(
    data_root: Path, shared_cache: Path, name: str, edges: float, edges_of_every_tenth: float, deviation: float
) -> None:
    """Means over all frames, and over every tenth, for which they are known from elsewhere."""
    dataset = load(name, root=data_root, cache=shared_cache, progress=False)
    assert len(dataset) == 9_633
    undirected = dataset.num_edges_per_graph().double() / 2
    assert float(undirected.mean()) == pytest.approx(edges, abs=0.005)
    assert float(undirected[::10].mean()) == pytest.approx(edges_of_every_tenth, abs=0.005)
    assert dataset.y is not None
    assert float(dataset.y.std()) == pytest.approx(deviation, abs=0.005)
    assert dataset.target == Continuous("energy")


def test_elements_of_md17(data_root: Path, shared_cache: Path) -> None:
    found = {
        name: load(name, root=data_root, cache=shared_cache, attributes="element", limit=10, progress=False).schema[0]
        for name in MD17
    }
    assert found["benzene"] == Categorical("element", ["H", "C"])
    assert found["uracil"] == Categorical("element", ["H", "C", "N", "O"])


@pytest.mark.parametrize(
    ("name", "rows", "molecules_in_all", "targets", "missing"),
    [("MUV", 93_127, 93_087, 17, 0.84), ("Tox21", 8_014, 7_831, 12, 0.17), ("ESOL", 1_128, 1_128, 1, 0.0)],
)
def test_tables_of_molecules(
    data_root: Path, name: str, rows: int, molecules_in_all: int, targets: int, missing: float
) -> None:
    table = molecules.TABLES[name]
    path = data_root / table.path
    with open_plain(path) as stream:
        header, found, lines = molecules.read_csv(stream, str(path))
    columns = list(table.targets) or [column for column in header if column not in molecules.NO_TARGETS]
    assert (len(found), len(columns)) == (rows, targets)
    smiles = [row[header.index("smiles")].strip() for row in found]
    assert (len(set(smiles)) if table.duplicates == "merge" else len(smiles)) == molecules_in_all
    labels = molecules.read_labels(path, header, found, lines, columns)
    assert float(torch.from_numpy(labels).isnan().double().mean()) == pytest.approx(missing, abs=0.005)


@pytest.mark.parametrize(("name", "targets"), [("MUV", 17), ("Tox21", 12)])
def test_the_first_molecules_with_several_targets(data_root: Path, shared_cache: Path, name: str, targets: int) -> None:
    dataset = load(name, root=data_root, cache=shared_cache, limit=500, progress=False)
    assert len(dataset) == 500
    assert isinstance(dataset.target, Schema)
    assert len(dataset.target) == targets
    assert dataset.y is not None
    assert dataset.y.shape == (500, targets)
    assert bool(dataset.y.isnan().any())
    assert dataset.graph_names is not None


def test_all_of_esol(data_root: Path, shared_cache: Path) -> None:
    dataset = load("ESOL", root=data_root, cache=shared_cache, progress=False)
    assert len(dataset) == 1_128
    assert dataset.target == Continuous("log_solubility")


def test_the_first_molecules_of_molhiv(data_root: Path, shared_cache: Path) -> None:
    path = data_root / "molecules" / "ogbg-molhiv.csv.gz"
    with open_plain(path) as stream:
        header, rows, _ = molecules.read_csv(stream, str(path))
    assert len(rows) == 41_127
    dataset = load("ogbg-molhiv", root=data_root, cache=shared_cache, limit=1_000, progress=False)
    assert len(dataset) == 1_000
    assert dataset.target == Binary("HIV_active")
    assert dataset.y is not None
    assert dataset.y.tolist() == [float(row[header.index("HIV_active")]) for row in rows[:1_000]]
