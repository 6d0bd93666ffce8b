"""The TU format: what small archives mean, and what is said about those that are not right."""

from __future__ import annotations

import gzip
import json
import logging
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gspn.attributes import Categorical, Continuous, Count, Schema
from gspn.datasets import load, text_tables, tu
from gspn.errors import InputError
from gspn.graphs.dataset import GraphDataset

Archive = Callable[..., Path]


@pytest.fixture
def read(tu_archive: Archive, root: Path) -> Callable[..., GraphDataset]:
    """Write the small archive with some files changed, and load it."""

    def write_and_read(options: dict[str, Any] | None = None, **changed: str | None) -> GraphDataset:
        tu_archive(**changed)
        return load("TINY", root=root, progress=False, **(options or {}))

    return write_and_read


def test_labels_edges_and_classes(read: Callable[..., GraphDataset]) -> None:
    dataset = read()
    assert dataset.schema == Schema([Categorical("label", [0, 3, 7])])
    assert dataset.target == Categorical("y", [-1, 1])
    assert dataset.splits == ()
    assert len(dataset) == 2
    first, second = dataset
    assert first.x.tolist() == [[2], [1], [2]]
    assert first.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert second.x.tolist() == [[0], [1]]
    assert second.edge_index.tolist() == [[0, 1, 1], [1, 0, 1]]
    assert (first.y.tolist(), second.y.tolist()) == ([1], [0])
    assert "edge_type" not in first


def test_an_edge_line_is_an_edge_from_the_first_to_the_second(read: Callable[..., GraphDataset]) -> None:
    dataset = read(A="3, 1\n1, 2\n1, 2\n4, 5\n", node_labels=None)
    assert dataset[0].edge_index.tolist() == [[2, 0, 0], [0, 1, 1]], "repetitions count, the order stays"
    assert dataset[0].x.tolist() == [[1], [2], [0]], "the degree is that of incoming edges"
    assert dataset[1].x.tolist() == [[0], [1]]


def test_without_labels_the_degree_is_the_attribute(read: Callable[..., GraphDataset]) -> None:
    dataset = read(node_labels=None)
    assert dataset.schema == Schema([Continuous("degree")])
    assert dataset.entries().tolist() == [[1], [2], [1], [1], [2]], "a self-loop counts once"


@pytest.mark.parametrize(
    ("degree", "attribute"),
    [("continuous", Continuous("degree")), ("count", Count("degree", distribution="negative_binomial"))],
)
def test_the_degree_can_be_asked_for(read: Callable[..., GraphDataset], degree: str, attribute: Any) -> None:
    assert read({"degree": degree}, node_labels=None).schema == Schema([attribute])
    labelled = read({"degree": degree})
    assert labelled.schema == Schema([Categorical("label", [0, 3, 7]), attribute])
    assert labelled.entries().tolist() == [[2, 1], [1, 2], [2, 1], [0, 1], [1, 2]]


def test_the_degree_as_a_category(read: Callable[..., GraphDataset]) -> None:
    labelled = read({"degree": "category"})
    assert labelled.schema.names == ("label", "incoming_edges")
    assert labelled.entries().tolist() == [[2, 1], [1, 2], [2, 1], [0, 1], [1, 2]]


def test_node_attributes_edge_labels_and_regression_targets(read: Callable[..., GraphDataset]) -> None:
    dataset = read(
        node_attributes="0.5, -1e3\n1, 2\n3, nan\n4, 5\n0.1, 7\n",
        edge_labels="5\n5\n2\n2\n9\n5\n2\n",
        graph_labels=None,
        graph_attributes="0.25\n-3\n",
    )
    assert dataset.schema == Schema(
        [Categorical("label", [0, 3, 7]), Continuous("attribute_0"), Continuous("attribute_1")]
    )
    assert dataset.x.dtype == torch.float64
    assert dataset[1].x.tolist() == [[0, 4, 5], [1, 0.1, 7]]
    assert torch.isnan(dataset[0].x[2, 2]), "NaN is a missing entry"
    assert dataset[0].edge_type.tolist() == [1, 1, 0, 0]
    assert dataset[1].edge_type.tolist() == [2, 1, 0]
    assert dataset.target == Continuous("y")
    assert dataset.y is not None
    assert dataset.y.tolist() == [0.25, -3]


def test_several_columns(read: Callable[..., GraphDataset]) -> None:
    dataset = read(
        node_labels="1, 0\n1, 5\n2, 0\n2, 0\n1, 5\n",
        edge_labels="0, 1\n0, 1\n0, 0\n0, 0\n1, 0\n1, 0\n0, 1\n",
        graph_labels=None,
        graph_attributes="1, 2\n3, 4\n",
    )
    assert dataset.schema == Schema([Categorical("label_0", [1, 2]), Categorical("label_1", [0, 5])])
    assert dataset[0].edge_type.tolist() == [1, 1, 0, 0]
    assert dataset[1].edge_type.tolist() == [2, 2, 1]
    assert dataset.target == Schema([Continuous("y_0"), Continuous("y_1")])
    assert dataset[1].y.tolist() == [[3, 4]]


def test_one_column_of_attributes(read: Callable[..., GraphDataset]) -> None:
    dataset = read(node_labels=None, node_attributes="1\n2\n3\n4\n5\n")
    assert dataset.schema == Schema([Continuous("attribute")])


def test_classes_win_over_regression_targets(read: Callable[..., GraphDataset]) -> None:
    assert read(graph_attributes="1.5\n2.5\n").target == Categorical("y", [-1, 1])


def test_no_edges_at_all(read: Callable[..., GraphDataset]) -> None:
    dataset = read(A="", node_labels=None)
    assert dataset[0].edge_index.shape == (2, 0)
    assert dataset.entries().tolist() == [[0]] * 5


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(16, 400))
def test_vertices_and_edges_in_any_order(tmp_path_factory: pytest.TempPathFactory, seed: int, block: int) -> None:
    """Whatever the order of the lines, a graph has its own lines in their order."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(1, 5, size=4)
    owner = draw.permutation(np.repeat(np.arange(4), sizes))
    inside = np.array([np.count_nonzero(owner[:v] == owner[v]) for v in range(len(owner))])
    edges = [(u, v) for u, v in draw.integers(0, len(owner), size=(60, 2)) if owner[u] == owner[v]]
    types = draw.integers(0, 3, size=len(edges))
    labels = draw.integers(0, 9, size=len(owner))
    texts = {
        "A": "".join(f"{u + 1}, {v + 1}\n" for u, v in edges),
        "graph_indicator": "".join(f"{g + 1}\n" for g in owner),
        "graph_labels": "4\n2\n4\n3\n",
        "node_attributes": "".join(f"{value}\n" for value in labels),
        "edge_labels": "".join(f"{value}\n" for value in types),
    }
    path = tmp_path_factory.getbasetemp() / "T.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for part, text in texts.items():
            archive.writestr(f"T/T_{part}.txt", text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_tables, "_BLOCK_BYTES", block)
        dataset = tu.FAMILY.read("T", {"graphs": path, "folds": None}, {"degree": None}, False)
    present = sorted(set(types.tolist()))
    for graph, data in enumerate(dataset):
        own = [(inside[u], inside[v]) for u, v in edges if owner[u] == graph]
        assert data.edge_index.T.tolist() == [list(edge) for edge in own]
        if edges:
            wanted = [present.index(t) for (u, _), t in zip(edges, types, strict=True) if owner[u] == graph]
            assert data.edge_type.tolist() == wanted
        assert data.x[:, 0].tolist() == labels[owner == graph].tolist()


def write_folds(path: Path, compressed: bool) -> None:
    path.parent.mkdir(exist_ok=True)
    folds = json.dumps([{"test": [1], "model_selection": [{"train": [0], "validation": []}]}]).encode()
    path.write_bytes(gzip.compress(folds) if compressed else folds)


@pytest.mark.parametrize("file", ["TINY.json.gz", "TINY.json"])
def test_published_folds(read: Callable[..., GraphDataset], root: Path, file: str) -> None:
    assert read().splits == ()
    write_folds(root / "splits" / file, file.endswith(".gz"))
    (fold,) = read().splits
    assert (fold.train.tolist(), fold.validation.tolist(), fold.test.tolist()) == ([0], [], [1])


def test_folds_for_other_graphs_are_refused(read: Callable[..., GraphDataset], root: Path) -> None:
    write_folds(root / "splits" / "TINY.json", False)
    with pytest.raises(InputError, match=r"TINY\.json, fold 0: a graph number is out of range"):
        read(A="", graph_indicator="1\n1\n1\n1\n1\n", graph_labels="1\n")


def test_graphs_and_folds_are_downloaded(
    server: Any, tu_archive: Archive, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tu, "COLLECTION", f"{server.url}/collection")
    monkeypatch.setattr(tu, "FOLDS", f"{server.url}/folds")
    archive = tu_archive()
    content = archive.read_bytes().replace(b"TINY", b"NCI1")
    archive.unlink()
    write_folds(root / "folds", False)
    server.serve("/collection/NCI1.zip", content)
    server.serve("/folds/CHEMICAL/NCI1_splits.json", (root / "folds").read_bytes())
    for _ in range(2):
        dataset = load("NCI1", progress=False)
        assert (len(dataset), len(dataset.splits)) == (2, 1)
    assert len(server.requests) == 2


def test_folds_that_cannot_be_had_are_done_without(
    server: Any, tu_archive: Archive, root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tu, "FOLDS", f"{server.url}/folds")
    archive = tu_archive()
    (root / "tu" / "NCI1.zip").write_bytes(archive.read_bytes().replace(b"TINY", b"NCI1"))
    with caplog.at_level(logging.WARNING):
        assert load("NCI1", root=root, progress=False).splits == ()
    assert "NCI1 is loaded without its folds: splits/NCI1.json is not here" in caplog.text
    assert str(root / "splits" / "NCI1.json") in caplog.text
    write_folds(root / "splits" / "NCI1.json.gz", True)
    assert len(load("NCI1", root=root, progress=False).splits) == 1, "what was kept without folds is not served"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"A": None}, r"TINY\.zip holds no TINY_A\.txt"),
        ({"graph_indicator": None}, r"TINY\.zip holds no TINY_graph_indicator\.txt"),
        ({"graph_labels": None}, r"TINY\.zip holds no TINY_graph_labels\.txt"),
        ({"A": "1, 2\n2; 1\n"}, r"TINY\.zip, TINY_A\.txt, line 2: expected 2 cells, each an integer, but found '2; 1'"),
        ({"A": "1, 2\n3, 4\n"}, r"TINY_A\.txt, line 2: edge \(3, 4\) joins graph 1 with graph 2"),
        ({"A": "1, 2\n2, 1\n0, 1\n"}, r"TINY_A\.txt, line 3: edge \(0, 1\), but vertices are numbered 1 to 5"),
        ({"A": "1, 2\n5, 6\n"}, r"TINY_A\.txt, line 2: edge \(5, 6\), but vertices are numbered 1 to 5"),
        ({"graph_indicator": ""}, r"TINY_graph_indicator\.txt is empty"),
        ({"graph_indicator": "1\n0\n1\n2\n2\n"}, r"TINY_graph_indicator\.txt, line 2: graphs are numbered from 1 on"),
        ({"graph_indicator": "1\n1\n1\n3\n3\n"}, r"graph_indicator\.txt: graph 2 has no vertex, although .* graph 3"),
        ({"graph_indicator": "1\n1\n1\n2\n900000000000000\n"}, r"graph 3 has no vertex"),
        ({"graph_indicator": "1\n1\n1\n2\n2.5\n"}, r"graph_indicator\.txt, line 5: expected an integer in the line"),
        ({"graph_labels": "1\n"}, r"TINY_graph_labels\.txt has 1 lines, but there are 2 graphs in TINY_graph_ind"),
        ({"graph_labels": "1\n2\n3\n"}, r"TINY_graph_labels\.txt has 3 lines, but there are 2 graphs"),
        ({"graph_labels": "1\n\n2\n"}, r"TINY_graph_labels\.txt, line 2: expected an integer in the line but found ''"),
        ({"node_labels": "1\n2\n3\n4\n"}, r"TINY_node_labels\.txt has 4 lines, but there are 5 vertices in TINY_gr"),
        ({"node_labels": "1\n2\n3, 4\n4\n5\n"}, r"TINY_node_labels\.txt, line 3: expected an integer in the line"),
        ({"edge_labels": "1\n2\n"}, r"TINY_edge_labels\.txt has 2 lines, but there are 7 edges in TINY_A\.txt"),
        ({"node_attributes": "1\n2\n"}, r"TINY_node_attributes\.txt has 2 lines, but there are 5 vertices"),
        ({"node_attributes": "1\n2\nx\n4\n5\n"}, r"TINY_node_attributes\.txt, line 3: expected a number in the line"),
        ({"node_attributes": "1\n2\n3\ninf\n5\n"}, r"TINY_node_attributes\.txt, line 4: .* infinite"),
        ({"graph_labels": None, "graph_attributes": "1\n"}, r"TINY_graph_attributes\.txt has 1 lines, but there are 2"),
    ],
)
def test_what_is_wrong_is_named(read: Callable[..., GraphDataset], changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(**changed)


def test_a_truncated_archive_is_named_and_can_be_replaced(tu_archive: Archive, root: Path) -> None:
    path = tu_archive()
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=r"TINY\.zip cannot be read"):
        load("TINY", root=root, progress=False)
    path.write_bytes(content)
    assert len(load("TINY", root=root, progress=False)) == 2


@pytest.mark.parametrize("degree", ["Count", True, 1, "both"])
def test_options_are_checked(tu_archive: Archive, root: Path, degree: Any) -> None:
    tu_archive()
    with pytest.raises(InputError, match="degree must be one of None, 'continuous', 'count'"):
        load("TINY", root=root, degree=degree)
