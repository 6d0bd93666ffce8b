"""Packed datasets on disk: everything comes back, memory-mapped; what is damaged or half-written is refused."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gspn import Binary, Categorical, Continuous, GraphDataset, Schema, pack
from gspn.errors import InputError
from gspn.graphs import storage
from gspn.graphs.splits import kfold
from gspn.graphs.storage import read_dataset, write_dataset

SCHEMA = Schema([Categorical("colour", ["red", "green"]), Continuous("size")])


def make_dataset() -> GraphDataset:
    generator = torch.Generator().manual_seed(0)
    graphs = []
    for n in (3, 0, 5, 1):
        x = torch.stack([torch.randint(2, (n,), generator=generator).float(), torch.randn(n, generator=generator)], 1)
        x[torch.rand(n, 2, generator=generator) < 0.2] = torch.nan
        edges = torch.randint(n, (2, 2 * n), generator=generator) if n else torch.zeros(2, 0, dtype=torch.long)
        types = torch.randint(3, (2 * n,), generator=generator)
        graphs.append(Data(x=x, edge_index=edges, edge_type=types, y=torch.tensor([[1.0, torch.nan]])))
    return replace(
        pack(graphs, SCHEMA),
        target=Schema([Binary("active"), Continuous("energy")]),
        splits=kfold(4, 2),
        edge_types=("single", 2, True),
        vertex_names=np.array(["a", 1, "1", ("b", 2), None, 1.5, True, "g", "h"], dtype=object),
        graph_names=np.array([10, 20, 30, 40]),
    )


def test_everything_comes_back(tmp_path: Path) -> None:
    dataset = make_dataset()
    write_dataset(dataset, tmp_path / "set")
    again = read_dataset(tmp_path / "set")
    assert again.digest() == dataset.digest()
    assert again.edge_types == dataset.edge_types
    assert (again.schema, again.target, again.target_level) == (dataset.schema, dataset.target, dataset.target_level)
    for mine, theirs in zip(dataset, again, strict=True):
        assert torch.equal(mine.edge_index, theirs.edge_index)
        assert torch.equal(mine.edge_type, theirs.edge_type)
        torch.testing.assert_close(mine.x, theirs.x, rtol=0, atol=0, equal_nan=True)
        torch.testing.assert_close(mine.y, theirs.y, rtol=0, atol=0, equal_nan=True)
    for mine_fold, their_fold in zip(dataset.splits, again.splits, strict=True):
        assert torch.equal(mine_fold.test, their_fold.test)
        assert torch.equal(mine_fold.train, their_fold.train)
    assert dataset.vertex_names is not None
    assert dataset.graph_names is not None
    assert again.vertex_names is not None
    assert again.graph_names is not None
    assert again.vertex_names.tolist() == dataset.vertex_names.tolist()
    assert again.graph_names.tolist() == dataset.graph_names.tolist()


def test_types_of_edges_may_be_small_numbers(tmp_path: Path) -> None:
    """As those of molecules are: what was prepared would otherwise be prepared anew each time."""
    dataset = make_dataset()
    assert dataset.edge_type is not None
    write_dataset(replace(dataset, edge_type=dataset.edge_type.to(torch.int8)), tmp_path / "set")
    again = read_dataset(tmp_path / "set").edge_type
    assert again is not None
    assert again.dtype == torch.int8
    assert torch.equal(again.long(), dataset.edge_type.long())


def test_arrays_are_mapped_and_never_written_back(tmp_path: Path) -> None:
    write_dataset(make_dataset(), tmp_path / "set")
    again = read_dataset(tmp_path / "set")
    before = (tmp_path / "set" / "x.npy").read_bytes()
    again.x.fill_(7.0)
    assert (tmp_path / "set" / "x.npy").read_bytes() == before
    described = json.loads((tmp_path / "set" / "dataset.json").read_text())["arrays"]["x"]
    assert isinstance(storage.map_array(tmp_path / "set" / "x.npy", described).base, np.memmap)


def test_first_of_two_writers_wins(tmp_path: Path) -> None:
    first = make_dataset()
    write_dataset(first, tmp_path / "set")
    write_dataset(replace(first, positions=torch.tensor([0])), tmp_path / "set")
    assert len(read_dataset(tmp_path / "set")) == 4
    assert os.listdir(tmp_path) == ["set"], "a temporary folder was left behind"


def test_a_crash_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = np.save
    calls = []

    def failing(path: Path, *args: object, **kwargs: object) -> None:
        calls.append(path)
        if len(calls) == 3:
            raise OSError("disk full")
        saved(path, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(np, "save", failing)
    with pytest.raises(OSError, match="disk full"):
        write_dataset(make_dataset(), tmp_path / "set")
    assert os.listdir(tmp_path) == []


def test_damage_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    write_dataset(make_dataset(), folder)
    description = json.loads((folder / "dataset.json").read_text())
    x = (folder / "x.npy").read_bytes()

    (folder / "x.npy").write_bytes(x[:-4])
    with pytest.raises(InputError, match=r"damaged.*x\.npy is not the file that was written"):
        read_dataset(folder)
    (folder / "x.npy").unlink()
    with pytest.raises(InputError, match=r"damaged.*FileNotFoundError.*x\.npy"):
        read_dataset(folder)
    (folder / "x.npy").write_bytes(x[:-1] + bytes([x[-1] ^ 1]))
    with pytest.raises(InputError, match=r"damaged.*x\.npy is not the file that was written"):
        read_dataset(folder)
    (folder / "x.npy").write_bytes(x)
    assert len(read_dataset(folder)) == 4

    (folder / "dataset.json").write_text(json.dumps(description | {"format": 99}))
    with pytest.raises(InputError, match="format 99, this version reads 2"):
        read_dataset(folder)
    (folder / "dataset.json").write_text("{")
    with pytest.raises(InputError, match=r"no readable dataset\.json"):
        read_dataset(folder)


def test_no_pickle_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    write_dataset(make_dataset(), folder)
    np.save(folder / "x.npy", np.array([print], dtype=object), allow_pickle=True)
    description = json.loads((folder / "dataset.json").read_text())
    description["arrays"]["x"]["digest"] = storage.digest_file(folder / "x.npy")
    (folder / "dataset.json").write_text(json.dumps(description))
    with pytest.raises(InputError, match="damaged"):
        read_dataset(folder)


def test_names_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    dataset = replace(make_dataset(), graph_names=np.array([print, 1, 2, 3], dtype=object))
    with pytest.raises(InputError, match="graph_names: <built-in function print> cannot be written"):
        write_dataset(dataset, tmp_path / "set")
    assert os.listdir(tmp_path) == []
