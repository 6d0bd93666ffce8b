"""One holder at a time, and no lock that outlives its holder."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from gspn import locks
from gspn.errors import InputError
from gspn.locks import locked


def test_the_second_waits_for_the_first(tmp_path: Path) -> None:
    events: list[str] = []
    inside = threading.Event()

    def first() -> None:
        with locked(tmp_path / "deep" / "a.lock"):
            inside.set()
            time.sleep(0.2)
            events.append("first leaves")

    thread = threading.Thread(target=first)
    thread.start()
    inside.wait()
    with locked(tmp_path / "deep" / "a.lock"):
        events.append("second enters")
    thread.join()
    assert events == ["first leaves", "second enters"]


def test_patience_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_PATIENCE", 0.1)
    with (
        locked(tmp_path / "a.lock"),
        pytest.raises(InputError, match=r"another process has been holding .*a\.lock"),
        locked(tmp_path / "a.lock"),
    ):
        pass


def test_an_error_inside_gives_the_lock_back(tmp_path: Path) -> None:
    with pytest.raises(KeyError), locked(tmp_path / "a.lock"):
        raise KeyError
    with locked(tmp_path / "a.lock"):
        pass


def test_without_a_place_for_the_lock_work_goes_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    reached = False
    with locked(tmp_path / "file" / "a.lock"), locked(tmp_path / "file" / "a.lock"):
        reached = True
    assert reached


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl")

    def unsupported(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    reached = False
    with locked(tmp_path / "a.lock"), locked(tmp_path / "a.lock"):
        reached = True
    assert reached
