"""Forged folders, with digests that fit: what compiled code must never be given is refused, each case by its name."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gspn import Categorical, Continuous, Schema, StoredGraph, pack, store_graph
from gspn.errors import GSPNError, InputError
from gspn.graphs.storage import digest_file, read_dataset, write_dataset

SCHEMA = Schema([Continuous("value"), Categorical("label", ["a", "b", "c"])])
VERTICES, EDGES = 30, 80


def random_data(vertices: int = VERTICES) -> Data:
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(vertices, generator=generator), torch.randint(3, (vertices,), generator=generator)
    return Data(
        x=torch.stack(values, dim=1).double(),
        edge_index=torch.randint(vertices, (2, EDGES), generator=generator),
        edge_type=torch.randint(4, (EDGES,), generator=generator),
    )


def forge(folder: Path, array: str, change: Callable[[Any], Any]) -> None:
    """Change an array, and its shape and digest in the description."""
    path = next(folder.glob("*.json"))
    changed = change(np.load(folder / f"{array}.npy"))
    np.save(folder / f"{array}.npy", changed, allow_pickle=False)
    description = json.loads(path.read_text())
    entry = {"shape": list(changed.shape), "digest": digest_file(folder / f"{array}.npy")}
    description["arrays"][array] = entry
    path.write_text(json.dumps(description))


def put(place: Any, value: Any) -> Callable[[Any], Any]:
    def change(array: Any) -> Any:
        array[place] = value
        return array

    return change


OF_BOTH: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "a sender far away": ("source", put(3, 2_000_000_000), "source has 2000000000"),
    "a negative sender": ("source", put(3, -1), "source has -1 at 3"),
    "a sender just outside": ("source", put(3, VERTICES), f"source has {VERTICES}"),
    "senders of 64 bits": ("source", lambda a: a.astype(np.int64), "source has dtype int64"),
    "a row far away": ("row_ptr", put(10, 10**12), "row_ptr falls at 11"),
    "rows that begin late": ("row_ptr", put(0, 1), "row_ptr goes from 1"),
    "rows that end early": ("row_ptr", put(-1, EDGES - 1), f"row_ptr goes from 0 to {EDGES - 1}"),
    "too few rows": ("row_ptr", lambda a: a[:-1], "row_ptr has shape"),
    "entries in one dimension": ("x", lambda a: a[:, 0], "x has shape"),
    "three columns": ("x", lambda a: np.concatenate([a, a[:, :1]], axis=1), "x has shape"),
    "an unknown category": ("x", put((7, 1), 3.0), "vertex 7, attribute 'label'"),
    "an infinite value": ("x", put((7, 0), np.inf), "vertex 7, attribute 'value'"),
    "complex entries": ("x", lambda a: a.astype(complex), "x has dtype complex128"),
    "entries of text": ("x", lambda a: a.astype(str), "x has dtype <U"),
    "a negative type": ("edge_type", put(5, -2), "edge_type has -2 at 5"),
    "too few types": ("edge_type", lambda a: a[:-1], "edge_type has shape"),
}


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    data = random_data()
    return store_graph(tmp_path / "graph", data.x, data.edge_index, SCHEMA, edge_type=data.edge_type).folder


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    write_dataset(pack([random_data(), random_data(VERTICES + 5)], SCHEMA), tmp_path / "set")
    return tmp_path / "set"


@pytest.mark.parametrize("case", OF_BOTH)
def test_forged_stored_graphs(case: str, graph: Path) -> None:
    array, change, message = OF_BOTH[case]
    forge(graph, array, change)
    with pytest.raises(InputError, match=f"damaged graph: .*{message}"):
        StoredGraph.open(graph)


OF_DATASETS: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    case: found for case, found in OF_BOTH.items() if case != "rows that end early"
} | {
    "graphs that overlap": ("vertex_ptr", put(1, 2 * VERTICES + 6), "vertex_ptr falls at 2"),
    "a sender of the next graph": ("source", put(3, VERTICES), f"source has {VERTICES} in graph 0"),
    "a graph that is not there": ("positions", put(1, 2), "positions has 2 at 1"),
    "an order that leads outside": ("edge_order", put(0, EDGES), f"edge_order has {EDGES}"),
}


@pytest.mark.parametrize("case", OF_DATASETS)
def test_forged_datasets(case: str, dataset: Path) -> None:
    array, change, message = OF_DATASETS[case]
    forge(dataset, array, change)
    with pytest.raises(InputError, match=f"damaged dataset: .*{message}"):
        read_dataset(dataset)


DESCRIPTIONS: dict[str, Callable[[dict[str, Any]], object]] = {
    "a list of arrays": lambda d: d.update(arrays=[1]),
    "no arrays": lambda d: d.update(arrays={}),
    "an array of numbers": lambda d: d["arrays"].update(x=3),
    "a path as an array's name": lambda d: d["arrays"].update({"../x": d["arrays"]["x"]}),
    "a lying largest type": lambda d: d.update(largest_type=[9, 0]),
    "half a largest type": lambda d: d.update(largest_type=[3]),
    "a schema that is none": lambda d: d.update(schema=[]),
}


@pytest.mark.parametrize("case", DESCRIPTIONS)
def test_forged_descriptions(case: str, graph: Path) -> None:
    description = json.loads((graph / "graph.json").read_text())
    DESCRIPTIONS[case](description)
    (graph / "graph.json").write_text(json.dumps(description))
    with pytest.raises(InputError, match="damaged graph"):
        StoredGraph.open(graph)


def test_json_that_is_nested_without_end(graph: Path, dataset: Path) -> None:
    for path in (graph / "graph.json", dataset / "dataset.json"):
        path.write_text("[" * 200_000)
    with pytest.raises(InputError, match="does not describe a stored graph"):
        StoredGraph.open(graph)
    with pytest.raises(InputError, match=r"no readable dataset\.json"):
        read_dataset(dataset)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes on this system")
def test_a_pipe_in_place_of_a_file(graph: Path) -> None:
    (graph / "source.npy").unlink()
    os.mkfifo(graph / "source.npy")
    with pytest.raises(InputError, match="no plain file"):
        StoredGraph.open(graph)


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="rooms cannot be reserved on this system")
def test_a_full_disk_is_an_error_before_anything_is_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing to a map without room behind it would end the process."""

    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    data = random_data()
    with pytest.raises(GSPNError, match=r"graph cannot be written: No space left on device; nothing is left of it"):
        store_graph(tmp_path / "graph", data.x, data.edge_index, SCHEMA)
    assert list(tmp_path.iterdir()) == []


def test_two_that_store_at_one_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = random_data()
    rename = os.rename

    def after_another(source: Any, target: Any) -> None:
        monkeypatch.setattr(os, "rename", rename)
        store_graph(tmp_path / "graph", data.x, data.edge_index, SCHEMA)
        rename(source, target)

    monkeypatch.setattr(os, "rename", after_another)
    with pytest.raises(InputError, match=r"graph has been stored by somebody else meanwhile; theirs stays"):
        store_graph(tmp_path / "graph", data.x, data.edge_index[:, :5], SCHEMA)
    assert StoredGraph.open(tmp_path / "graph").num_edges == EDGES
    assert [path.name for path in tmp_path.iterdir()] == ["graph"]
