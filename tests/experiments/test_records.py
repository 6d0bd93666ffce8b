"""Records: whole or not at all, and work that is claimed by one process at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from gspn.errors import GSPNError
from gspn.experiments.records import Records

RECORD = {"key": "abcd", "numbers": [1.5, 2, -3e-9], "empty": [], "texts": ["[\n 1\n]", "x"], "deep": {"a": [[1], [2]]}}


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


def test_a_forgotten_record_is_gone(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.put(RECORD)
    assert records.get("abcd") == RECORD
    records.forget("abcd")
    assert records.get("abcd") is None


def test_no_number_that_is_none_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        Records(tmp_path).put({"key": "abcd", "score": float("nan")})
    assert Records(tmp_path).get("abcd") is None


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    Records(tmp_path).put(RECORD)
    (tmp_path / "records" / "ab" / "abcd.json").write_text('{"key": ')
    with pytest.raises(GSPNError, match=r"abcd\.json is damaged"):
        Records(tmp_path).get("abcd")


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
