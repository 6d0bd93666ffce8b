"""Stored graphs hold what `pack` holds, whatever the memory setting, and refuse what it refuses."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_graphs import EVERY_KIND, draw_graph
from torch_geometric.data import Data

from gspn import Categorical, Continuous, Schema, StoredGraph, pack, store_graph
from gspn.errors import InputError
from gspn.graphs import stored
from gspn.graphs.memory import RESERVE, parse_memory

VALUE = Schema([Continuous("value"), Categorical("label", ["a", "b", "c"])])


def random_graph(vertices: int, edges: int, types: int = 3, seed: int = 0) -> Data:
    """With parallel edges, self-loops, vertices without edges, and one that half of all edges go to."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(vertices, size=(2, edges))
    ends[1, rng.random(edges) < 0.5] = vertices // 3
    x = np.stack([rng.normal(size=vertices), rng.integers(3, size=vertices)], axis=1)
    x[rng.random(x.shape) < 0.2] = np.nan
    return Data(
        x=torch.from_numpy(x),
        edge_index=torch.from_numpy(ends),
        edge_type=torch.from_numpy(rng.integers(types, size=edges)),
    )


def check_equal(graph: StoredGraph, data: Data, schema: Schema) -> None:
    wanted = pack(data, schema)
    assert graph.schema == schema
    np.testing.assert_array_equal(graph.x, wanted.x.numpy())
    np.testing.assert_array_equal(graph.row_ptr, wanted.row_ptr.numpy())
    np.testing.assert_array_equal(graph.source, wanted.source.numpy())
    assert (graph.edge_type is None) == (wanted.edge_type is None)
    if graph.edge_type is not None and wanted.edge_type is not None:
        np.testing.assert_array_equal(graph.edge_type, wanted.edge_type.numpy())


@pytest.mark.parametrize("free", [1 << 29, 1 << 20])
def test_holds_what_pack_holds(tmp_path: Path, free: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Small chunks, and with the smaller setting several files of receivers.
    monkeypatch.setattr(stored, "LEAST_AT_ONCE", 1 << 7)
    monkeypatch.setattr(stored, "MOST_AT_ONCE", 1000)
    data = random_graph(40_000, 150_000)
    parts: list[int] = []
    spread = stored._distribute

    def counting(*given: Any) -> Any:
        parts.append(len(given[2]) - 1)
        return spread(*given)

    monkeypatch.setattr(stored, "_distribute", counting)
    graph = store_graph(
        tmp_path / "graph", data.x, data.edge_index, VALUE, edge_type=data.edge_type, memory=RESERVE + free
    )
    assert parts == ([] if free > 1 << 20 else [3])
    check_equal(graph, data, VALUE)
    check_equal(StoredGraph.open(tmp_path / "graph"), data, VALUE)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["graph"]
    assert isinstance(graph.x.base, np.memmap)
    largest, edge = graph.largest_type
    assert largest == 2
    assert edge == int((data.edge_type == 2).nonzero()[0])


@pytest.mark.parametrize(("vertices", "edges"), [(1, 0), (5, 0), (1, 4), (0, 0)])
def test_small_extremes(tmp_path: Path, vertices: int, edges: int) -> None:
    data = random_graph(vertices, edges) if vertices else Data(x=torch.empty(0, 2), edge_index=torch.empty(2, 0).long())
    check_equal(
        store_graph(tmp_path / "a", data.x, data.edge_index, VALUE), Data(x=data.x, edge_index=data.edge_index), VALUE
    )


@pytest.mark.parametrize("kind", ["tensor", "array", "memory map", "path", "path as text"])
def test_sources(tmp_path: Path, kind: str) -> None:
    data = draw_graph(np.random.default_rng(3), 30, edge_types=2)
    arrays: dict[str, Any] = {name: data[name].numpy() for name in ("x", "edge_index", "edge_type")}
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    ways: dict[str, Callable[[str], Any]] = {
        "tensor": lambda name: data[name],
        "array": lambda name: arrays[name],
        "memory map": lambda name: np.load(tmp_path / f"{name}.npy", mmap_mode="r"),
        "path": lambda name: tmp_path / f"{name}.npy",
        "path as text": lambda name: str(tmp_path / f"{name}.npy"),
    }
    given = ways[kind]
    graph = store_graph(tmp_path / "g", given("x"), given("edge_index"), EVERY_KIND, edge_type=given("edge_type"))
    check_equal(graph, data, EVERY_KIND)


def test_dtypes(tmp_path: Path) -> None:
    edges = torch.tensor([[0, 1], [1, 0]])
    for i, dtype in enumerate((torch.float32, torch.float64, torch.float16, torch.int32)):
        x = torch.tensor([[1, 2], [0, 1]]).to(dtype)
        graph = store_graph(tmp_path / str(i), x, edges.int(), VALUE)
        assert graph.x.dtype == (np.float32 if dtype == torch.float32 else np.float64)
        assert graph.x.tolist() == [[1, 2], [0, 1]]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "infinite": ({"x": [[0, 0], [np.inf, 1]]}, "vertex 1, attribute 'value': the value is infinite"),
    "category": ({"x": [[0, 0], [1, 7]]}, "vertex 1, attribute 'label'"),
    "columns": ({"x": [[0.0], [1.0]]}, r"x has shape \(2, 1\), the schema asks for 2 columns"),
    "text": ({"x": [["a", "b"]]}, "x has dtype"),
    "too large an end": ({"edge_index": [[0, 1], [1, 2]]}, r"edge 1: edge index \(1, 2\) is out of range"),
    "negative end": ({"edge_index": [[0, -1], [1, 1]]}, r"edge 1: edge index \(-1, 1\) is out of range"),
    "shape of edges": ({"edge_index": [[0, 1]]}, r"edge_index must have shape \[2, E\]"),
    "edges of floats": ({"edge_index": [[0.0], [1.0]]}, "edge_index must hold integers"),
    "negative type": ({"edge_type": [0, -1]}, "edge 1: edge type -1 is negative"),
    "large type": ({"edge_type": [0, 2**40]}, "edge 1: edge type 1099511627776 is too large"),
    "shape of types": ({"edge_type": [0]}, r"edge_type must have shape \[2\]"),
    "types of floats": ({"edge_type": [0.0, 1.0]}, "edge_type must hold integers"),
    "memory": ({"memory": "lots"}, "memory must be a number of bytes or text such as '512 MiB'"),
    "little memory": ({"memory": "1 MiB"}, "memory of 1 MiB is too little .*; it takes at least 9[6-9] MiB"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(tmp_path: Path, case: str) -> None:
    given, message = REFUSED[case]
    arguments: dict[str, Any] = {"x": [[0, 0], [1, 1]], "edge_index": [[0, 1], [1, 0]], "edge_type": [0, 1]} | given
    arguments = {name: np.array(value) if isinstance(value, list) else value for name, value in arguments.items()}
    with pytest.raises(InputError, match=message):
        store_graph(tmp_path / "graph", schema=VALUE, **arguments)
    assert not list(tmp_path.iterdir())


def test_faults_far_inside_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "LEAST_AT_ONCE", 10)
    monkeypatch.setattr(stored, "MOST_AT_ONCE", 10)
    data = random_graph(100, 200)
    x, edges = data.x.clone(), data.edge_index.clone()
    x[77, 0] = -np.inf
    edges[0, 155] = 100
    with pytest.raises(InputError, match="vertex 77, attribute 'value'"):
        store_graph(tmp_path / "graph", x, data.edge_index, VALUE)
    with pytest.raises(InputError, match="edge 155: edge index"):
        store_graph(tmp_path / "graph", data.x, edges, VALUE)


def test_interrupted_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(stored, "make_lasting", fail)
    data = random_graph(10, 20)
    with pytest.raises(KeyboardInterrupt):
        store_graph(tmp_path / "graph", data.x, data.edge_index, VALUE)
    assert not list(tmp_path.iterdir())


def test_what_is_there_is_not_touched(tmp_path: Path) -> None:
    data = random_graph(10, 20)
    store_graph(tmp_path / "graph", data.x, data.edge_index, VALUE)
    with pytest.raises(InputError, match=r"exists already; StoredGraph\.open"):
        store_graph(tmp_path / "graph", data.x, data.edge_index, VALUE)


def test_damaged_and_foreign_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not describe a stored graph"):
        StoredGraph.open(tmp_path)
    data = random_graph(10, 20)
    store_graph(tmp_path / "graph", data.x, data.edge_index, VALUE)
    file = tmp_path / "graph" / "source.npy"
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(InputError, match=r"damaged graph.*source\.npy"):
        StoredGraph.open(tmp_path / "graph")
    path = tmp_path / "graph" / "graph.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))
    with pytest.raises(InputError, match="graph format 99"):
        StoredGraph.open(tmp_path / "graph")


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("free", "passes"), [(1 << 26, 3), (1 << 20, 4)], ids=["at once", "in parts"])
def test_a_bar_shows_how_far_it_is(tmp_path: Path, free: int, passes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "LEAST_AT_ONCE", 1 << 7)
    data = random_graph(40_000, 150_000)

    def shown(name: str, **arguments: Any) -> str:
        screen = Screen()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", screen)
            store_graph(tmp_path / name, data.x, data.edge_index, VALUE, memory=RESERVE + free, **arguments)
        return screen.getvalue()

    count = f"{40 + 150 * passes}k"
    assert re.search(rf"store: 100%\|.*\| {count}/{count} \[", shown("a"))
    assert shown("b", progress=False) == ""


def test_digest_tells_graphs_apart(tmp_path: Path) -> None:
    data = random_graph(10, 20)
    graphs = [store_graph(tmp_path / str(i), data.x, data.edge_index, VALUE) for i in range(2)]
    other = store_graph(tmp_path / "other", data.x, data.edge_index.flip(0), VALUE)
    assert graphs[0].digest == graphs[1].digest != other.digest


def test_amounts_of_memory() -> None:
    amounts: dict[Any, int] = {7: 7, "512 MiB": 2**29, "2GB": 2 * 10**9, "1.5 kib": 1536, "10": 10}
    assert {amount: parse_memory(amount) for amount in amounts} == amounts
    for wrong in (0, -1, True, 1.5, None, "", "MiB", "-1 MiB", "0 MiB", "1 parsec"):
        with pytest.raises(InputError, match="memory must be"):
            parse_memory(wrong)  # type: ignore[arg-type]
