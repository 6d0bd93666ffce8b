"""Records: whole or not at all, and work that is claimed by one process at a time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from gspn.errors import GSPNError
from gspn.experiments import records as module
from gspn.experiments.records import Records
from gspn.files import replace_file

RECORD = {
    "key": "abcd",
    "run": {"question": "fill"},
    "numbers": [1.5, 2, -3e-9],
    "empty": [],
    "texts": ["[\n 1\n]", "x"],
    "deep": {"a": [[1], [2]]},
}


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    Records(tmp_path).put(RECORD)
    assert Records(tmp_path).get("abcd") == RECORD
    assert Records(tmp_path).get("abce") is None
    assert '"numbers": [1.5, 2, -3e-09],' in (tmp_path / "records" / "ab" / "abcd.json").read_text()


def test_one_look_at_the_folder_finds_what_others_wrote(tmp_path: Path) -> None:
    records = Records(tmp_path)
    assert records.at_once()("abcd") is None
    Records(tmp_path).put(RECORD)
    find = records.at_once()
    assert find("abcd") == RECORD
    Records(tmp_path).put({**RECORD, "key": "abce"})
    assert find("abce") is None, "it was not there then"
    assert records.at_once()("abce") is not None
    records.forget("abcd")
    assert find("abcd") is None


# Compacted.

QUESTIONS = ("fill", "time", "fill")
THREE = [{"key": f"{n}bcd", "run": {"question": question}, "n": n} for n, question in enumerate(QUESTIONS)]


@pytest.fixture
def three(tmp_path: Path) -> Path:
    for record in THREE:
        Records(tmp_path).put(record)
    return tmp_path


def test_compacted_records_are_lines_by_question_and_found_as_before(three: Path) -> None:
    before = Records(three)
    assert before.get("0bcd") == THREE[0]
    assert Records(three).compact() == 3
    for records in (before, Records(three)):
        assert list(records.all()) == THREE
        assert records.at_once()("2bcd") == THREE[2]
    assert not list(three.glob("records/*/*.json"))
    lines = (three / "records" / "fill.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [THREE[0], THREE[2]]
    assert Records(three).compact() == 0


def test_what_is_written_or_forgotten_later_counts(three: Path) -> None:
    records, other = Records(three), Records(three)
    records.compact()
    records.put({**THREE[0], "n": "again"})
    records.forget("2bcd")
    records.forget("1bcd")
    for moved in (1, 0):
        assert list(Records(three).all()) == [{**THREE[0], "n": "again"}]
        assert other.get("2bcd") is None
        assert records.compact() == moved


def test_looks_at_final_sets_are_no_records(three: Path) -> None:
    (three / "records" / "looks.jsonl").write_text('{"who": "me"}\n')
    Records(three).compact()
    assert list(Records(three).all()) == THREE


@pytest.mark.parametrize("steps", range(6))
def test_compacting_loses_nothing_wherever_it_is_killed(
    three: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """Its steps that change anything are two files that are written and three that are removed."""
    left = steps

    def counted(step: Callable[..., None]) -> Callable[..., None]:
        def perhaps(*given: Any, **settings: Any) -> None:
            nonlocal left
            if not left:
                raise KeyboardInterrupt
            left -= 1
            step(*given, **settings)

        return perhaps

    with monkeypatch.context() as patch:
        patch.setattr(module, "replace_file", counted(replace_file))
        patch.setattr(Path, "unlink", counted(Path.unlink))
        with pytest.raises(KeyboardInterrupt) if steps < 5 else nullcontext():
            Records(three).compact()
    assert list(Records(three).all()) == THREE
    Records(three).compact()
    assert list(Records(three).all()) == THREE
    assert not list(three.glob("records/*/*.json"))


def test_records_that_come_while_others_are_compacted_stay(tmp_path: Path) -> None:
    """One writes, one compacts all the time, one looks: all that was there once is there at every look."""
    written: list[str] = []

    def write() -> None:
        for number in range(60):
            key = f"{number:02d}cd"
            Records(tmp_path).put({"key": key, "run": {"question": "fill"}})
            written.append(key)

    with ThreadPoolExecutor(2) as pool:
        writing = pool.submit(write)

        def compact() -> None:
            while not writing.done():
                Records(tmp_path).compact()

        compacting = pool.submit(compact)
        while not writing.done():
            known = list(written)
            find = Records(tmp_path).at_once()
            assert all(find(key) for key in known)
            assert all(Records(tmp_path).get(key) for key in known)
        writing.result()
        compacting.result()
    assert [record["key"] for record in Records(tmp_path).all()] == written


@pytest.mark.parametrize(
    ("compacted", "file", "content", "named"),
    [
        (True, "fill.jsonl", "<<<<<<<\n", r"line 3 of .*fill\.jsonl is damaged"),
        (False, "0b/0bcd.json", '{"key": ', r"0bcd\.json is damaged"),
    ],
)
def test_what_is_damaged_is_named(three: Path, compacted: bool, file: str, content: str, named: str) -> None:
    if compacted:
        Records(three).compact()
    with (three / "records" / file).open("a") as written:
        written.write(content)
    with pytest.raises(GSPNError, match=named):
        Records(three).get("0bcd")


def test_no_number_that_is_none_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        Records(tmp_path).put({"key": "abcd", "score": float("nan")})
    assert Records(tmp_path).get("abcd") is None


def test_work_is_claimed_once_and_freed_by_death(tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        import sys, time
        from gspn.experiments.records import Records
        with Records(sys.argv[1]).claim("piece") as place:
            print(place is not None, flush=True)
            time.sleep(600)
        """
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        with Records(tmp_path).claim("piece") as place:
            assert place is None
        with Records(tmp_path).claim("another") as place:
            assert place is not None
        os.kill(other.pid, signal.SIGKILL)
    with Records(tmp_path).claim("piece") as place:
        assert place is not None
        (place / "checkpoint").write_text("half-way")
    Records(tmp_path).clear("piece")
    assert not (tmp_path / ".work" / "piece").exists()
    assert (tmp_path / ".work" / ".gitignore").read_text() == "*\n", "nobody commits checkpoints"
