"""What was prepared is kept and found again, and never mistaken for something else."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gspn.datasets import cache as cache_module
from gspn.datasets import load, tu
from gspn.datasets.family import Family
from gspn.errors import InputError
from gspn.graphs import storage
from gspn.graphs.dataset import GraphDataset
from gspn.locks import locked

Archive = Callable[..., Path]


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the datasets that were parsed, in order."""
    names: list[str] = []

    def read(name: str, *arguments: Any) -> GraphDataset:
        names.append(name)
        return tu._read(name, *arguments)

    family = Family(tu.FAMILY.version, tu.FAMILY.options, tu.FAMILY.sources, read)
    monkeypatch.setattr(tu, "FAMILY", family)
    return names


def entry(cache: Path) -> Path:
    (folder,) = (path for path in (cache / "packed").iterdir() if not path.name.startswith("."))
    return folder


def same(one: GraphDataset, other: GraphDataset) -> bool:
    return one.digest() == other.digest() and (one.schema, one.target) == (other.schema, other.target)


def test_a_file_is_parsed_once_and_mapped_from_then_on(
    tu_archive: Archive, root: Path, cache: Path, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    modes = []
    really_load = np.load

    def record(*arguments: Any, **settings: Any) -> Any:
        modes.append((settings["mmap_mode"], settings["allow_pickle"]))
        return really_load(*arguments, **settings)

    monkeypatch.setattr(np, "load", record)
    tu_archive()
    first, second = load("TINY", root=root, progress=False), load("TINY", root=root, progress=False)
    assert parsed == ["TINY"]
    assert same(first, second)
    assert entry(cache).name.startswith("TINY-")
    assert set(modes) == {("c", False)}
    second.x.zero_()  # copy on write: the store is not touched
    assert same(load("TINY", root=root, progress=False), first)


def test_an_entry_is_for_everybody_who_may_use_the_cache(tu_archive: Archive, root: Path, cache: Path) -> None:
    tu_archive()
    (cache / "packed").mkdir(parents=True)
    (cache / "packed").chmod(0o755)
    load("TINY", root=root, progress=False)
    assert entry(cache).stat().st_mode == (cache / "packed").stat().st_mode


def test_options_have_their_own_entries(tu_archive: Archive, root: Path, parsed: list[str]) -> None:
    tu_archive()
    schemas = [load("TINY", root=root, degree=degree).schema.names for degree in (None, "count", None, "count")]
    assert schemas == [("label",), ("label", "degree")] * 2
    assert len(parsed) == 2


def test_a_changed_raw_file_is_never_served_stale(tu_archive: Archive, root: Path, parsed: list[str]) -> None:
    """Even if size and time of change are those of the old file."""
    path = tu_archive(graph_labels="1\n-1\n")
    status = path.stat()
    before = load("TINY", root=root, progress=False)
    tu_archive(graph_labels="1\n-2\n")
    assert path.stat().st_size == status.st_size
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    after = load("TINY", root=root, progress=False)
    assert before.target != after.target
    tu_archive(graph_labels="1\n-1\n")
    os.utime(path, ns=(0, 0))
    assert same(load("TINY", root=root, progress=False), before)
    assert len(parsed) == 2, "the old file again is the old entry again"


def test_the_same_file_elsewhere_is_the_same_entry(
    tu_archive: Archive, root: Path, cache: Path, parsed: list[str]
) -> None:
    path = tu_archive()
    load("TINY", root=root, progress=False)
    elsewhere = cache / "raw" / "tu" / "TINY.zip"
    elsewhere.parent.mkdir(parents=True)
    path.rename(elsewhere)
    load("TINY", root=root, progress=False)
    assert parsed == ["TINY"]


def test_another_version_of_reader_or_store_has_its_own_entry(
    tu_archive: Archive, root: Path, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tu_archive()
    load("TINY", root=root, progress=False)
    with monkeypatch.context() as patch:
        patch.setattr(tu, "FAMILY", Family(99, tu.FAMILY.options, tu.FAMILY.sources, tu.FAMILY.read))
        load("TINY", root=root, progress=False)
    assert len(parsed) == 2
    with monkeypatch.context() as patch:
        patch.setattr(cache_module, "FORMAT", storage.FORMAT + 1)
        load("TINY", root=root, progress=False)
    assert len(parsed) == 3


def damage_array(folder: Path) -> None:
    content = (folder / "x.npy").read_bytes()
    (folder / "x.npy").write_bytes(content[:-3])


def lose_array(folder: Path) -> None:
    (folder / "row_ptr.npy").unlink()


def spoil_header(folder: Path) -> None:
    content = bytearray((folder / "source.npy").read_bytes())
    content[:40] = b"?" * 40
    (folder / "source.npy").write_bytes(content)


def pickle_array(folder: Path) -> None:
    np.save(folder / "x.npy", np.array([{}], dtype=object), allow_pickle=True)
    description = json.loads((folder / "dataset.json").read_text())
    description["arrays"]["x"] = {"shape": [1], "bytes": (folder / "x.npy").stat().st_size}
    (folder / "dataset.json").write_text(json.dumps(description))


def zip_array(folder: Path) -> None:
    """Right in size, but numpy takes it for an archive."""
    size = (folder / "x.npy").stat().st_size
    (folder / "x.npy").write_bytes(b"PK\x05\x06" + bytes(size - 4))


def lose_description(folder: Path) -> None:
    (folder / "dataset.json").unlink()


def cut_description(folder: Path) -> None:
    text = (folder / "dataset.json").read_text()
    (folder / "dataset.json").write_text(text[: len(text) // 2])


def other_format(folder: Path) -> None:
    text = (folder / "dataset.json").read_text()
    (folder / "dataset.json").write_text(text.replace(f'"format": {storage.FORMAT}', '"format": 0'))


def empty_folder(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()


def no_folder(folder: Path) -> None:
    empty_folder(folder)
    folder.rmdir()
    folder.write_text("a file")


@pytest.mark.parametrize(
    "damage",
    [
        *(damage_array, lose_array, spoil_header, pickle_array, zip_array),
        *(lose_description, cut_description, other_format, empty_folder, no_folder),
    ],
)
def test_a_damaged_entry_is_replaced(
    tu_archive: Archive,
    root: Path,
    cache: Path,
    parsed: list[str],
    caplog: pytest.LogCaptureFixture,
    damage: Callable[[Path], None],
) -> None:
    tu_archive()
    first = load("TINY", root=root, progress=False)
    digest = first.digest()
    damage(entry(cache))
    with caplog.at_level(logging.WARNING):
        assert load("TINY", root=root, progress=False).digest() == digest
    assert "preparing it anew" in caplog.text
    assert load("TINY", root=root, progress=False).digest() == digest
    assert len(parsed) == 2
    entry(cache)


def test_what_a_killed_process_left_is_swept_up(tu_archive: Archive, root: Path, cache: Path) -> None:
    tu_archive()
    load("TINY", root=root, progress=False)
    folder = entry(cache)
    unfinished = folder.with_name(f".{folder.name}-abc123")
    folder.rename(unfinished)
    (unfinished / "x.npy").write_bytes(b"half")
    assert len(load("TINY", root=root, progress=False)) == 2
    assert not unfinished.exists()


@pytest.mark.parametrize("kind", ["a file", "below a file", "read-only"])
def test_a_cache_that_cannot_be_written_is_done_without(
    tu_archive: Archive, root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    tu_archive()
    cache = tmp_path / "cache"
    if kind == "read-only":
        if os.geteuid() == 0:
            pytest.skip("root may write everywhere")
        cache.mkdir(mode=0o555)
    else:
        cache.write_text("no folder")
        cache = cache / "below" if kind == "below a file" else cache
    with caplog.at_level(logging.WARNING):
        dataset = load("TINY", root=root, cache=cache, progress=False)
    assert len(dataset) == 2
    assert "cannot be kept" in caplog.text
    assert "held in memory" in caplog.text


def test_a_full_disk_is_done_without(
    tu_archive: Archive, root: Path, cache: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    tu_archive()
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(np, "save", no_space)
        assert len(load("TINY", root=root, progress=False)) == 2
    assert "No space left on device" in caplog.text
    assert [path.name for path in (cache / "packed").iterdir() if not path.name.endswith(".lock")] == []
    assert len(load("TINY", root=root, progress=False)) == 2
    entry(cache)


def test_an_entry_of_a_read_only_cache_is_used(
    tu_archive: Archive, root: Path, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tu_archive()
    load("TINY", root=root, progress=False)

    opened = os.open

    def refuse(path: Any, flags: int, *others: Any, **more: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise PermissionError("read-only")
        return opened(path, flags, *others, **more)

    monkeypatch.setattr(os, "open", refuse)
    load("TINY", root=root, progress=False)
    assert parsed == ["TINY"]


def test_what_another_process_has_just_prepared_is_taken(
    tu_archive: Archive, root: Path, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the first look and the lock somebody else was faster."""
    tu_archive()

    @contextmanager
    def lock_late(path: Path) -> Iterator[None]:
        with monkeypatch.context() as patch:
            patch.setattr(cache_module, "locked", locked)
            load("TINY", root=root, progress=False)
        with locked(path):
            yield

    monkeypatch.setattr(cache_module, "locked", lock_late)
    assert len(load("TINY", root=root, progress=False)) == 2
    assert parsed == ["TINY"]


def test_a_raw_file_that_cannot_be_read_is_named(
    tu_archive: Archive, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise PermissionError("not for you")

    tu_archive()
    monkeypatch.setattr("gspn.datasets.cache.hashlib.file_digest", fail)
    with pytest.raises(InputError, match=r"TINY\.zip cannot be read: not for you"):
        load("TINY", root=root, progress=False)


def test_a_raw_file_that_changes_while_it_is_read_is_not_kept(
    tu_archive: Archive, root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*arguments: Any) -> GraphDataset:
        dataset = tu._read(*arguments)
        tu_archive(graph_labels="1\n2\n")
        return dataset

    tu_archive()
    with monkeypatch.context() as patch:
        patch.setattr(tu, "FAMILY", Family(1, tu.FAMILY.options, tu.FAMILY.sources, read))
        with pytest.raises(InputError, match="TINY: a raw file has changed while it was read"):
            load("TINY", root=root, progress=False)
    assert not [path for path in (cache / "packed").iterdir() if not path.name.endswith(".lock")]
    dataset = load("TINY", root=root, progress=False)
    assert dataset.target is not None
    assert dataset.target.categories == (1, 2)  # type: ignore[union-attr]


def test_a_folder_in_place_of_a_file_is_refused(root: Path) -> None:
    (root / "tu" / "TINY.zip").mkdir(parents=True)
    with pytest.raises(InputError, match=r"TINY\.zip is a folder, but a file is wanted"):
        load("TINY", root=root, progress=False)


def test_an_error_while_parsing_leaves_nothing(tu_archive: Archive, root: Path, cache: Path) -> None:
    tu_archive(graph_labels="1\n")
    with pytest.raises(InputError):
        load("TINY", root=root, progress=False)
    assert not [path for path in (cache / "packed").iterdir() if not path.name.endswith(".lock")]


SCRIPT = """
import sys
from gspn.datasets import load, tu
tu.COLLECTION = sys.argv[1]
print(load("MUTAG", progress=False).digest())
"""


@pytest.mark.slow
def test_processes_that_load_at_once(server: Any, tu_archive: Archive, cache: Path) -> None:
    """All get the same dataset; it is downloaded and prepared once."""
    edges = "".join(f"{v}, {v % 30_000 + 1}\n" for v in range(1, 30_001))
    archive = tu_archive(A=edges, graph_indicator="1\n" * 30_000, node_labels=None, graph_labels="3\n")
    server.serve("/MUTAG.zip", rename_members(archive.read_bytes()))
    command = [sys.executable, "-c", SCRIPT, server.url]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    digests = {process.communicate(timeout=600)[0].strip() for process in running}
    assert [process.returncode for process in running] == [0, 0]
    assert [path for path, _ in server.requests] == ["/MUTAG.zip"]
    assert digests == {load("MUTAG", progress=False).digest()}
    left = [path.name for path in (cache / "packed").iterdir() if not path.name.endswith(".lock")]
    assert left == [entry(cache).name]


def rename_members(content: bytes) -> bytes:
    renamed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(renamed, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name.replace("TINY", "MUTAG"), old.read(name))
    return renamed.getvalue()
