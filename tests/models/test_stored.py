"""Stored graphs, level by level over ranges: the same numbers as in memory, whatever stops the run in between."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_graphs import EVERY_KIND, draw_graph
from small_models import TEMPLATES, random_model, template
from torch_geometric.data import Data

import gspn
from gspn import GSPN, Shards, StoredGraph, store_graph
from gspn.benchmarks.anonymous import anonymous
from gspn.errors import CheckpointError, GSPNError, InputError
from gspn.models import bounded


def run_script(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A script beside this file, in a process of its own."""
    here = Path(__file__)
    paths = os.pathsep.join(map(str, [Path(gspn.__file__).parents[1], here.parents[1]]))
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(here.with_name(name)), *map(str, arguments)]
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)


def store(data: Data, folder: Path) -> StoredGraph:
    return store_graph(folder, data.x, data.edge_index, EVERY_KIND, edge_type=data.get("edge_type"))


def hub(vertices: int) -> Data:
    """A vertex that hears from more than sums in single precision are made of, and some who hear nobody."""
    data = draw_graph(np.random.default_rng(5), vertices, edge_types=2)
    inward = torch.stack([torch.arange(vertices), torch.full((vertices,), 3)])
    data.edge_index = torch.cat([data.edge_index[:, : vertices // 2], inward], dim=1)
    data.edge_type = torch.arange(data.edge_index.shape[1]) % 2
    return data


def isolated() -> Data:
    data = draw_graph(np.random.default_rng(6), 12, missing=0.5, edge_types=2)
    data.x[4] = torch.nan
    data.edge_index, data.edge_type = data.edge_index[:, :5], data.edge_type[:5]
    return data


def without_edges(vertices: int) -> Data:
    data = draw_graph(np.random.default_rng(7), max(vertices, 3))
    return Data(x=data.x[:vertices], edge_index=torch.empty(2, 0).long(), edge_type=torch.empty(0).long())


GRAPHS: dict[str, Callable[[], Data]] = {
    "ring with chords": lambda: draw_graph(np.random.default_rng(4), 40, missing=0.3, edge_types=2),
    "isolated and empty vertices": isolated,
    "one vertex": lambda: without_edges(1),
    "no edges": lambda: without_edges(9),
    "a hub": lambda: hub(1500),
}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(("shape", "kernel"), [("naive Bayes", "fast"), *((shape, "reference") for shape in TEMPLATES)])
def test_agrees_with_memory(
    shape: str, name: str, kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSPN_KERNEL", kernel)
    data = GRAPHS[name]()
    monkeypatch.setattr(bounded, "MOST_VERTICES", 7 if data.num_nodes < 100 else 400)
    for types in (1, 2):
        model = random_model(EVERY_KIND, 1, template=template(shape, EVERY_KIND, 3), num_edge_types=types)
        graph = store(data, tmp_path / f"graph {types}")
        shards = model.evaluate_stored(graph, tmp_path / f"results {types}", embeddings=True)
        assert len(shards) == -(-data.num_nodes // shards.size)
        # In float64 both sum the same few numbers in another order.
        torch.testing.assert_close(shards.log_likelihood(), model.log_likelihood(data), rtol=0, atol=1e-10)
        torch.testing.assert_close(shards.embeddings(), model.embed(data), rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    "arguments",
    [{"num_layers": 1}, {"shortcut": "mean"}, {"shortcut": "learned", "num_layers": 4}, {"num_states": 20}],
    ids=str,
)
@pytest.mark.parametrize("layout", ["npy", "parquet"])
def test_arguments_and_layouts(
    arguments: dict[str, Any], layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "MOST_VERTICES", 9)
    data = draw_graph(np.random.default_rng(8), 30)
    model = random_model(EVERY_KIND, 2, **arguments).float()
    shards = model.evaluate_stored(store(data, tmp_path / "g"), tmp_path / "r", embeddings=True, format=layout)
    assert len(shards) == 4
    # Float32: rounding in the leaves' sums, relative to log-likelihoods of about 10.
    torch.testing.assert_close(shards.log_likelihood(), model.log_likelihood(data), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(shards.embeddings(), model.embed(data), rtol=0, atol=1e-5)
    again = Shards.open(tmp_path / "r")
    assert again == shards
    torch.testing.assert_close(again.embeddings(7, 20), shards.embeddings()[7:20], rtol=0, atol=0)
    torch.testing.assert_close(again.log_likelihood(9, 9), torch.empty(0), rtol=0, atol=0)
    assert list(shards) == [(0, 9), (9, 18), (18, 27), (27, 30)]
    with pytest.raises(InputError, match="there are 30"):
        shards.log_likelihood(0, 31)


def test_parquet_is_a_table(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    data = draw_graph(np.random.default_rng(8), 30)
    model = random_model(EVERY_KIND, 2)
    shards = model.evaluate_stored(store(data, tmp_path / "g"), tmp_path / "r", embeddings=True, format="parquet")
    frame = pandas.read_parquet(shards.files(0)["log_likelihood"])
    assert list(frame) == ["vertex", "log_likelihood", "embeddings"]
    assert frame["vertex"].tolist() == list(range(30))
    np.testing.assert_allclose(np.stack(frame["embeddings"]), model.embed(data).numpy(), atol=1e-10)


def test_no_vertices(tmp_path: Path) -> None:
    model = random_model(EVERY_KIND)
    shards = model.evaluate_stored(store(without_edges(0), tmp_path / "g"), tmp_path / "r", embeddings=True)
    assert shards.log_likelihood().shape == (0,)
    assert shards.embeddings().shape == (0, 9)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


class Stopped(Exception):  # noqa: N818
    pass


def stop_at(monkeypatch: pytest.MonkeyPatch, when: Callable[[int], bool]) -> None:
    """After the work of a step, before it counts as done."""
    add, steps = bounded._Journal.add, count(1)

    def stop(journal: Any, *entry: int) -> None:
        if when(next(steps)):
            raise Stopped
        add(journal, *entry)

    monkeypatch.setattr(bounded._Journal, "add", stop)


@pytest.mark.parametrize("embeddings", [False, True])
def test_failures_at_every_moment_lose_nothing(
    embeddings: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "MOST_VERTICES", 9)
    data = draw_graph(np.random.default_rng(9), 30)
    model, graph = random_model(EVERY_KIND, 3), store(data, tmp_path / "g")
    model.evaluate_stored(graph, tmp_path / "whole", embeddings=embeddings)
    stop_at(monkeypatch, lambda step: step % 2 == 0)
    stops = 0
    while True:
        try:
            model.evaluate_stored(graph, tmp_path / "stopped", embeddings=embeddings)
            break
        except Stopped:
            stops += 1
            with pytest.raises(CheckpointError, match="unfinished results"):
                Shards.open(tmp_path / "stopped")
    assert stops == 3 * 4 - 1, "every call finishes one more range of one more level"
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")
    assert not (tmp_path / "stopped" / bounded.WORK).exists()
    monkeypatch.setattr(bounded, "_run", None)  # a finished run is not run again
    assert model.evaluate_stored(graph, tmp_path / "stopped", embeddings=embeddings).num_vertices == 30


@pytest.mark.parametrize("damage", ["rows", "journal", "no rows"])
def test_damage_behind_a_stopped_run_is_noticed(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bounded, "MOST_VERTICES", 9)
    data = draw_graph(np.random.default_rng(9), 30)
    model, graph = random_model(EVERY_KIND, 3), store(data, tmp_path / "g")
    with monkeypatch.context() as patch:
        stop_at(patch, lambda step: step == 7)
        with pytest.raises(Stopped):
            model.evaluate_stored(graph, tmp_path / "r")
    work = tmp_path / "r" / bounded.WORK
    if damage == "journal":  # the last line was cut
        (work / "journal").write_bytes((work / "journal").read_bytes()[:-3])
    elif damage == "rows":
        with (work / "level-0.rows").open("r+b") as file:
            file.write(bytes(8))
    else:
        (work / "level-0.rows").unlink()
    shards = model.evaluate_stored(graph, tmp_path / "r")
    assert ("starting afresh" in caplog.text) == (damage != "journal")
    torch.testing.assert_close(shards.log_likelihood(), model.log_likelihood(data), rtol=0, atol=1e-10)


def test_ctrl_c_while_a_shard_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = draw_graph(np.random.default_rng(9), 30)
    model, graph = random_model(EVERY_KIND, 3), store(data, tmp_path / "g")

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(np, "save", interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.evaluate_stored(graph, tmp_path / "r")
    assert not list((tmp_path / "r").glob(".*.partial"))
    (tmp_path / "r" / ".log-likelihood.npy.0123abcd.partial").write_bytes(b"left by a kill")
    shards = model.evaluate_stored(graph, tmp_path / "r")
    torch.testing.assert_close(shards.log_likelihood(), model.log_likelihood(data), rtol=0, atol=1e-10)
    assert not list((tmp_path / "r").glob(".*.partial"))


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_killed_runs_end_like_one_never_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = draw_graph(np.random.default_rng(0), 230)
    graph, model = store(data, tmp_path / "graph"), random_model(EVERY_KIND, 1)
    for ranges in (5, 9):  # of 5 ranges at 3 levels: in the last range of level 0, then among those of level 2
        assert (
            run_script("run_stored.py", tmp_path / "graph", tmp_path / "killed", ranges).returncode == -signal.SIGKILL
        )
    assert (tmp_path / "killed" / bounded.WORK / "level-1.rows").exists()
    monkeypatch.setattr(bounded, "MOST_VERTICES", 50)
    for folder in ("killed", "never killed"):
        model.evaluate_stored(graph, tmp_path / folder, embeddings=True)
    assert contents(tmp_path / "killed") == contents(tmp_path / "never killed")


def test_other_runs_and_foreign_folders_are_refused(tmp_path: Path) -> None:
    data = draw_graph(np.random.default_rng(9), 30)
    model, graph = random_model(EVERY_KIND, 3), store(data, tmp_path / "g")
    model.evaluate_stored(graph, tmp_path / "r")
    others: list[tuple[str, GSPN, StoredGraph, dict[str, Any]]] = [
        ("weights", random_model(EVERY_KIND, 4), graph, {}),
        ("embeddings", model, graph, {"embeddings": True}),
        ("memory", model, graph, {"memory": "1 GiB"}),
        ("graph", model, store(hub(30), tmp_path / "h"), {}),
    ]
    for different, other, its_graph, given in others:
        with pytest.raises(CheckpointError, match=rf"another run \(different: {different}\)"):
            other.evaluate_stored(its_graph, tmp_path / "r", **given)
    shutil.copy(__file__, tmp_path / "g" / "notes.txt")
    before = sorted((tmp_path / "g").iterdir())
    with pytest.raises(CheckpointError, match="is in use"):
        model.evaluate_stored(graph, tmp_path / "g")
    assert sorted((tmp_path / "g").iterdir()) == before
    with pytest.raises(CheckpointError, match="no results"):
        Shards.open(tmp_path / "g")
    description = tmp_path / "r" / "results.json"
    description.write_text(json.dumps(json.loads(description.read_text()) | {"format": 99}))
    with pytest.raises(CheckpointError, match="format 99"):
        Shards.open(tmp_path / "r")


def test_clear_refusals(tmp_path: Path) -> None:
    data = draw_graph(np.random.default_rng(9), 30, edge_types=3)
    graph, model = store(data, tmp_path / "g"), random_model(EVERY_KIND)

    def refused(named: str, model: GSPN = model, graph: StoredGraph = graph, **given: Any) -> None:
        with pytest.raises(GSPNError, match=named):
            model.evaluate_stored(graph, tmp_path / "r", **given)

    refused("not fitted", GSPN(EVERY_KIND))
    refused("format must be one of npy, parquet", format="csv")
    refused("memory of 90 MiB is too little for this model; it takes at least 97 MiB", memory="90 MiB")
    refused("schema differs", random_model(gspn.Schema([gspn.Continuous("other")])))
    two_types, far = random_model(EVERY_KIND, num_edge_types=2), data.clone()
    refused(r"edge \d+: edge type 2 is out of range, the model has num_edge_types=2", two_types)
    refused("no edge_type", two_types, store_graph(tmp_path / "u", data.x, data.edge_index, EVERY_KIND))
    far.x[17, 0] = 1e9
    refused(r"vertex 17, attribute 'charge': 1e\+09 is more than 1e\+06", model, store(far, tmp_path / "far"))
    with pytest.raises(InputError, match="embeddings were not asked for"):
        model.evaluate_stored(graph, tmp_path / "plain").embeddings()


def test_path_instead_of_a_graph(tmp_path: Path) -> None:
    data = draw_graph(np.random.default_rng(9), 30)
    store(data, tmp_path / "g")
    model = random_model(EVERY_KIND)
    shards = model.evaluate_stored(str(tmp_path / "g"), str(tmp_path / "r"))
    torch.testing.assert_close(shards.log_likelihood(), model.log_likelihood(data), rtol=0, atol=1e-10)


@pytest.mark.slow
@pytest.mark.skipif(anonymous() is None, reason="anonymous memory is told by /proc only")
def test_memory_stays_below_the_setting(tmp_path: Path) -> None:
    """The posteriors of this graph take twice the setting; what is used is measured in a process of its own."""
    finished = run_script("run_bounded.py", tmp_path)
    assert finished.returncode == 0
    assert int(finished.stdout) < 128 << 20
