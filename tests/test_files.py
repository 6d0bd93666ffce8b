"""Files that are replaced: whole or not at all, whoever else writes the same one."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gspn.files import PARTIAL, remove_leftovers, replace_file, replacing


def test_two_that_write_the_same_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with replacing(path) as first:
        first.write(b"the first, ")
        with replacing(path) as second:
            second.write(b"the second")
        assert path.read_bytes() == b"the second"
        first.write(b"to its end")
    assert path.read_bytes() == b"the first, to its end"
    assert list(tmp_path.iterdir()) == [path]


def test_many_writers_leave_what_one_of_them_wrote(tmp_path: Path) -> None:
    path, contents = tmp_path / "file", [bytes([letter]) * 100_000 for letter in range(8)]
    with ThreadPoolExecutor(8) as writers:
        for _ in range(5):
            list(writers.map(replace_file, [path] * 8, contents))
            assert path.read_bytes() in contents
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_goes_wrong_leaves_the_old_file_and_nothing_else(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "file"
    replace_file(path, b"old")

    def fail() -> None:
        with replacing(path) as file:
            file.write(b"half of the new")
            assert len(list(tmp_path.glob(PARTIAL))) == 1
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_killed_writers_left_is_removed_in_time(tmp_path: Path) -> None:
    path, names = (
        tmp_path / "file[1]",
        (".file[1].0123abcd.partial", ".file[1].4567abcd.partial", ".file1.0123abcd.partial"),
    )
    for name in names:
        (tmp_path / name).write_bytes(b"half")
    for name in (names[0], names[2]):
        os.utime(tmp_path / name, (0, 0))
    remove_leftovers(path)
    assert sorted(left.name for left in tmp_path.iterdir()) == sorted(names[1:]), "old ones of this file alone"
