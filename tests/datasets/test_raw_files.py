"""Raw files are looked for in the data folder, then in the cache, then on the network; or the error says what to do."""

from __future__ import annotations

import hashlib
import socket
from pathlib import Path
from typing import Any

import platformdirs
import pytest

from gspn.datasets import raw_files
from gspn.datasets.raw_files import Folders, RawFile, find, obtain
from gspn.errors import InputError


def put(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_data_folder_comes_before_the_cache_and_the_network(server: Any, root: Path, cache: Path) -> None:
    server.serve("/a.zip", b"network")
    file = (RawFile("tu/a.zip", f"{server.url}/a.zip"),)
    folders = Folders(root, cache)
    assert find(file, folders) is None
    assert obtain(file, folders, progress=False).read_bytes() == b"network"
    assert obtain(file, folders, progress=False) == cache / "raw" / "tu" / "a.zip"
    assert len(server.requests) == 1
    mine = put(root / "tu" / "a.zip")
    assert obtain(file, folders, progress=False) == mine
    assert sorted(path.name for path in root.rglob("*")) == ["a.zip", "tu"], "the data folder is only read"


def test_an_earlier_alternative_in_the_cache_comes_before_a_later_one(root: Path, cache: Path) -> None:
    files = (RawFile("ogb/a.zip"), RawFile("molecules/a.csv.gz"))
    put(root / "molecules" / "a.csv.gz")
    better = put(cache / "raw" / "ogb" / "a.zip")
    assert find(files, Folders(root, cache)) == better


@pytest.mark.parametrize("with_root", [True, False])
def test_without_a_network_the_error_says_which_file_to_put_where(root: Path, cache: Path, with_root: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/a.zip"
    files = (RawFile("tu/a.zip", url), RawFile("tu/a.tar"))
    with pytest.raises(InputError) as caught:
        obtain(files, Folders(root if with_root else None, cache), progress=False)
    message = str(caught.value)
    assert message.startswith(f"tu/a.zip is not here, and {url} cannot be reached: ")
    assert f"Get the file by hand from {url} and put it at" in message
    assert str(cache / "raw" / "tu" / "a.zip") in message
    assert (str(root / "tu" / "a.zip") in message) is with_root
    assert ("GSPN_DATA_ROOT" in message) is not with_root
    assert "tu/a.tar would do as well" in message


def test_a_file_without_an_address_can_only_be_put_there(root: Path, cache: Path) -> None:
    with pytest.raises(
        InputError, match=r"own/a\.zip is not here, and it has no public address\. Get the file by hand"
    ):
        obtain((RawFile("own/a.zip"),), Folders(root, cache), progress=False)


def test_a_known_checksum_is_asked_of_downloads_only(
    server: Any, root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.serve("/a.zip", b"network")
    server.serve("/b.zip", b"network")
    monkeypatch.setattr(
        raw_files, "CHECKSUMS", {"tu/a.zip": hashlib.sha256(b"network").hexdigest(), "tu/b.zip": "00ff"}
    )
    folders = Folders(root, cache)
    obtain((RawFile("tu/a.zip", f"{server.url}/a.zip"),), folders, progress=False)
    with pytest.raises(InputError, match=r"instead of 00ff, and was thrown away\. Get the file by hand"):
        obtain((RawFile("tu/b.zip", f"{server.url}/b.zip"),), folders, progress=False)
    assert find((RawFile("tu/b.zip"),), folders) is None
    mine = put(root / "tu" / "b.zip")
    assert obtain((RawFile("tu/b.zip", f"{server.url}/b.zip"),), folders, progress=False) == mine


def test_known_checksums_are_checksums() -> None:
    assert all(len(bytes.fromhex(digest)) == 32 for digest in raw_files.CHECKSUMS.values())


def test_folders_are_given_or_named_by_the_environment(
    tmp_path: Path, root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Folders.choose(None, None) == Folders(None, cache)
    monkeypatch.setenv("GSPN_DATA_ROOT", str(root))
    assert Folders.choose(None, None) == Folders(root, cache)
    assert Folders.choose(tmp_path, tmp_path / "other") == Folders(tmp_path, tmp_path / "other")
    monkeypatch.setenv("GSPN_DATA_ROOT", "")
    assert Folders.choose(None, None).root is None
    with pytest.raises(InputError, match=r"nowhere .*GSPN_DATA_ROOT.* does not exist"):
        Folders.choose(tmp_path / "nowhere", None)


def test_the_user_has_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GSPN_CACHE")
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name, appauthor: str(tmp_path / name))
    assert Folders.choose(None, None).cache == tmp_path / "gspn"


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GSPN_CACHE")
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name, appauthor: "~nobody-of-this-name/.cache")
    with pytest.raises(InputError, match="set GSPN_CACHE"):
        Folders.choose(None, None)
