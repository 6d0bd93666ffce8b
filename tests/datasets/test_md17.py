"""MD17: frames as graphs of atoms that are closer than 5 Å."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gspn.attributes import Categorical, Continuous, Schema
from gspn.datasets import load, md17
from gspn.errors import InputError

SIX = [Continuous(name) for name in ("x", "y", "z", "fx", "fy", "fz")]


def frames(count: int = 30, atoms: int = 6, dtype: Any = np.float64) -> dict[str, Any]:
    draw = np.random.default_rng(1)
    return {
        "z": np.array([8, 1, 1, 6, 6, 1][:atoms], dtype=np.uint8),
        "R": draw.normal(scale=2.5, size=(count, atoms, 3)).astype(dtype),
        "F": draw.normal(size=(count, atoms, 3)).astype(dtype),
        "E": draw.normal(-97_000, 5, size=(count, 1)),
    }


@pytest.fixture
def place(root: Path) -> Path:
    (root / "md17").mkdir()
    return root / "md17" / "ethanol.npz"


@pytest.mark.parametrize("chunk", [1, 7, 4096])
def test_atoms_closer_than_the_cutoff_are_joined(
    place: Path, root: Path, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(md17, "_FRAMES_AT_ONCE", chunk)
    arrays = frames()
    np.savez(place, **arrays)
    dataset = load("ethanol", root=root, progress=False)
    assert dataset.schema == Schema([Categorical("element", ["H", "C", "O"]), *SIX])
    assert dataset.target == Continuous("energy")
    assert dataset.y is not None
    assert dataset.y.dtype == torch.float64
    assert dataset.y.tolist() == arrays["E"][:, 0].tolist()
    assert len(dataset) == 30
    for i, data in enumerate(dataset):
        R = arrays["R"][i]
        wanted = {(u, v) for u in range(6) for v in range(6) if u != v and np.linalg.norm(R[u] - R[v]) < 5}
        found = list(map(tuple, data.edge_index.T.tolist()))
        assert set(found) == wanted
        assert len(found) == len(wanted)
        np.testing.assert_array_equal(data.x[:, 1:4], R)
        np.testing.assert_array_equal(data.x[:, 4:], arrays["F"][i])
        assert data.x[:, 0].tolist() == [2, 0, 0, 1, 1, 0]


def test_batches_and_single_graphs_agree(place: Path, root: Path) -> None:
    np.savez(place, **frames())
    dataset = load("ethanol", root=root, progress=False)
    batch = dataset.batch(torch.tensor([3, 7]))
    assert batch.x.shape == (12, 7)
    assert len(batch.source) == dataset[3].num_edges + dataset[7].num_edges


def test_the_cutoff_itself_is_too_far(place: Path, root: Path) -> None:
    arrays = frames(1, 3)
    arrays["R"] = np.array([[[0, 0, 0], [5, 0, 0], [0, np.nextafter(5, 0), 0]]], dtype=np.float64)
    np.savez(place, **arrays)
    found = load("ethanol", root=root, progress=False)[0].edge_index.T.tolist()
    assert sorted(found) == [[0, 2], [2, 0]]


@pytest.mark.parametrize(
    ("which", "schema"),
    [("element", [Categorical("element", ["H", "C", "O"])]), ("continuous", SIX)],
)
def test_the_papers_choices_of_attributes(place: Path, root: Path, which: str, schema: list[Any]) -> None:
    np.savez(place, **frames(dtype=np.float32))
    both = load("ethanol", root=root, progress=False)
    dataset = load("ethanol", root=root, attributes=which, progress=False)
    assert dataset.schema == Schema(schema)
    assert dataset.x.dtype == torch.float32
    assert torch.equal(dataset.x, both.x[:, :1] if which == "element" else both.x[:, 1:])
    assert torch.equal(dataset.source, both.source)


@pytest.mark.parametrize("limit", [1, 10, 30, 1000])
def test_the_first_frames(place: Path, root: Path, limit: int) -> None:
    np.savez(place, **frames())
    dataset, whole = load("ethanol", root=root, limit=limit, progress=False), load("ethanol", root=root, progress=False)
    assert len(dataset) == min(limit, 30)
    assert dataset.digest() == whole[: len(dataset)].digest()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"E": None}, r"ethanol\.npz holds no E\.npy"),
        ({"z": np.array([1, 6])}, r"ethanol\.npz: shapes do not belong together: z \(2,\), R \(30, 6, 3\)"),
        ({"F": np.zeros((30, 6))}, r"ethanol\.npz: shapes do not belong together"),
        ({"E": np.zeros(29)}, r"ethanol\.npz: shapes do not belong together"),
        ({"R": np.full((30, 6, 3), np.nan)}, r"ethanol\.npz: R must hold finite real numbers"),
        ({"F": np.full((30, 6, 3), np.inf)}, r"ethanol\.npz: F must hold finite real numbers"),
        ({"z": np.array([1, 1, 1, 1, 1, 26])}, r"ethanol\.npz: z holds the atomic number 26"),
    ],
)
def test_what_is_wrong_is_named(place: Path, root: Path, change: dict[str, Any], message: str) -> None:
    np.savez(place, **{key: value for key, value in {**frames(), **change}.items() if value is not None})
    with pytest.raises(InputError, match=message):
        load("ethanol", root=root, progress=False)


def test_pickled_arrays_are_not_read(place: Path, root: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return (Path.touch, (place.with_name("sprung"),))

    np.savez(place, **{**frames(), "F": np.array([Trap()], dtype=object)})
    with pytest.raises(InputError, match=r"ethanol\.npz, F\.npy is no plain array"):
        load("ethanol", root=root, progress=False)
    assert not place.with_name("sprung").exists()


def test_a_file_is_downloaded(server: Any, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(md17, "SITE", server.url)
    np.savez(place, **frames())
    server.serve("/md17_salicylic.npz", place.read_bytes())
    assert len(load("salicylic_acid", progress=False)) == 30


@pytest.mark.parametrize(
    ("options", "named"),
    [
        *(
            ({"limit": limit}, "limit must be a positive number of graphs, or None")
            for limit in (0, -1, 1.5, "all", True)
        ),
        ({"attributes": "forces"}, "attributes must be one of 'element', 'continuous', 'both', got 'forces'"),
    ],
)
def test_options_are_checked(root: Path, options: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        load("ethanol", root=root, **options)


def as_saved(save: Callable[..., None], *arrays: Any, **named: Any) -> bytes:
    buffer = io.BytesIO()
    save(buffer, *arrays, **named)
    return buffer.getvalue()


WHOLE = as_saved(np.savez_compressed, **frames())


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"no zip", b"PK\x03\x04" + bytes(100), as_saved(np.save, np.zeros(3))),
        *(WHOLE[: int(kept * len(WHOLE))] for kept in (0.1, 0.5, 0.95)),
    ],
)
def test_a_file_that_is_no_npz(place: Path, root: Path, content: bytes) -> None:
    place.write_bytes(content)
    with pytest.raises(InputError, match=r"ethanol\.npz"):
        load("ethanol", root=root, progress=False)
