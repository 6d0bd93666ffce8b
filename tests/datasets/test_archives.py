"""Archives and folders: found by name, never extracted, never trusted."""

from __future__ import annotations

import gzip
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gspn.datasets.archives import Files, open_plain
from gspn.errors import InputError

Zipped = Callable[..., Path]


def test_members_are_found_below_any_folder(tmp_path: Path, zipped: Zipped) -> None:
    path = zipped(tmp_path / "a.zip", {"hiv/raw/edge.csv.gz": gzip.compress(b"0,1\n"), "hiv/raw/xedge.csv": "no"})
    with Files(path) as files, files.open("raw/edge.csv.gz") as stream:
        assert stream.read() == b"0,1\n"
        assert files.find("edge.csv") is None


def test_a_folder_is_as_good_as_an_archive_but_only_just_so(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.txt").write_text("1\n")
    with Files(tmp_path) as files:
        with files.open("raw/a.txt") as stream:
            assert stream.read() == b"1\n"
        assert files.find("a.txt") is None
        with pytest.raises(InputError, match=r"holds no raw/b\.txt"), files.open("raw/b.txt"):
            pass


@pytest.mark.parametrize(
    "name", ["../a.txt", "a/../../b", "../folder/", "/etc/x", "C:/x", "C:\\x", "\\\\host\\share", "a\\..\\..\\b"]
)
def test_an_archive_that_points_outside_is_refused(tmp_path: Path, zipped: Zipped, name: str) -> None:
    path = zipped(tmp_path / "inner" / "a.zip", {"A/A_A.txt": "1, 2\n", name: "boo"})
    with pytest.raises(InputError, match=r"a\.zip is no archive to trust"):
        Files(path)
    assert sorted(file.name for file in tmp_path.rglob("*")) == ["a.zip", "inner"]


def test_a_file_that_is_there_twice_is_refused(tmp_path: Path, zipped: Zipped) -> None:
    path = zipped(tmp_path / "a.zip", {"A/x.txt": "1", "B/x.txt": "2"})
    with Files(path) as files, pytest.raises(InputError, match=r"holds x\.txt more than once: A/x\.txt and B/x\.txt"):
        files.find("x.txt")


@pytest.mark.parametrize("kept", [0, 10, 500, -1])
def test_a_truncated_archive_is_named(tmp_path: Path, zipped: Zipped, kept: int) -> None:
    path = zipped(tmp_path / "a.zip", {"A/x.txt": "\n".join(map(str, range(5000)))})
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(InputError, match=r"a\.zip cannot be read: .*remove it and get it anew"):
        Files(path)


def test_damage_inside_an_archive_is_found(tmp_path: Path, zipped: Zipped) -> None:
    path = zipped(tmp_path / "a.zip", {"A/x.txt": "\n".join(map(str, range(5000)))})
    content = bytearray(path.read_bytes())
    for at in range(200, 220):
        content[at] ^= 0xFF
    path.write_bytes(content)
    with (
        Files(path) as files,
        pytest.raises(InputError, match=r"a\.zip, x\.txt cannot be read"),
        files.open("x.txt") as stream,
    ):
        stream.read()


def test_an_encrypted_member_is_an_error(tmp_path: Path, zipped: Zipped) -> None:
    path = zipped(tmp_path / "a.zip", {"x.txt": "secret"})
    content = bytearray(path.read_bytes())
    content[6] |= 1  # the flag in the member's own header
    content[content.index(b"PK\x01\x02") + 8] |= 1  # and in the directory
    path.write_bytes(content)
    with Files(path) as files, pytest.raises(InputError, match="encrypted"), files.open("x.txt") as stream:
        stream.read()


@pytest.mark.parametrize("kept", [5, 40, -4])
def test_a_truncated_gzip_file_is_named(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress("\n".join(map(str, range(5000))).encode())[:kept])
    with pytest.raises(InputError, match=r"a\.csv\.gz cannot be read"), open_plain(path) as stream:
        stream.read()


def test_plain_and_gzipped_files_are_told_apart_by_content(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(b"plain")
    (tmp_path / "b").write_bytes(gzip.compress(b"packed"))
    for name, wanted in (("a.gz", b"plain"), ("b", b"packed")):
        with open_plain(tmp_path / name) as stream:
            assert stream.read() == wanted


def test_a_member_of_the_same_name_twice_is_refused(tmp_path: Path) -> None:
    with warnings.catch_warnings(), zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        warnings.simplefilter("ignore")
        archive.writestr("x.txt", "1")
        archive.writestr("x.txt", "2")
    with Files(tmp_path / "a.zip") as files, pytest.raises(InputError, match="more than once"):
        files.find("x.txt")
