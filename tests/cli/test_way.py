"""The way of one command: every input is read once, even a pipe; graphs are made once, and asked once."""

from __future__ import annotations

import inspect
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from small_commands import SMALL, Run

import gspn

_PACKAGE = str(Path(gspn.__file__).parent) + os.sep
_OPENED: Counter[str] = Counter()


def _count_opened(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and isinstance(arguments[0], str | os.PathLike):
        _OPENED[os.fspath(arguments[0])] += 1


@cache
def _listen() -> None:
    """Once in a process: there is no way to take it back, and it does next to nothing."""
    sys.addaudithook(_count_opened)


@contextmanager
def traced() -> Iterator[Counter[tuple[str, str]]]:
    """Calls of the library's functions, by file and name; bodies of classes and comprehensions are none."""
    calls: Counter[tuple[str, str]] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(_PACKAGE) and code.co_flags & inspect.CO_OPTIMIZED:
            calls[code.co_filename.removeprefix(_PACKAGE), code.co_name] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(before)


def times(calls: Counter[tuple[str, str]], name: str) -> int:
    return sum(count for (_, called), count in calls.items() if called == name)


@pytest.mark.parametrize("way", ["trained", "asked"])
def test_one_way_through(way: str, run: Run, files: Path, people_model: Path, tmp_path: Path) -> None:
    _listen()
    tables = (files / "nodes.csv", files / "typed.csv")
    how = ("--edge-type", "kind", *SMALL) if way == "trained" else ("-m", people_model, "--quiet")
    arguments = ("impute", *tables, *how, "-o", tmp_path / "done.csv", "--force")
    run(*arguments)  # what is imported and compiled is no part of the way
    _OPENED.clear()
    with traced() as calls:
        run(*arguments)
    assert [_OPENED[str(path)] for path in tables] == [1, 1]
    assert times(calls, "read_graph_tables") == 1
    assert times(calls, "training_scores") <= 1
    assert times(calls, "roots") == 1
    assert times(calls, "pack") <= 5
    passed = {file for file, _ in calls}
    assert len(passed) <= (69 if way == "trained" else 58), sorted(passed)


def test_what_is_said_of_columns_loads_no_baselines(run: Run, files: Path, tmp_path: Path) -> None:
    """The yardstick beside the loss is a model of one state, not a peer."""
    for name in [name for name in sys.modules if name.startswith("gspn.baselines")]:
        del sys.modules[name]
    run("impute", files / "nodes.csv", "--types", "projects=count", "-o", tmp_path / "done.csv", *SMALL[:-1])
    assert not [name for name in sys.modules if name.startswith("gspn.baselines")]


def poured(folder: Path, path: Path) -> tuple[Path, Callable[[], None]]:
    """A pipe of the same name with what is in the file; what is returned beside it waits until all is read."""
    pipe = folder / path.name
    os.mkfifo(pipe)
    writing = threading.Thread(target=lambda: pipe.write_bytes(path.read_bytes()), daemon=True)
    writing.start()
    return pipe, writing.join


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes on this system")
def test_pipes_are_as_good_as_files(run: Run, files: Path, people_model: Path, tmp_path: Path) -> None:
    (nodes, edges) = (poured(tmp_path, files / name) for name in ("nodes.csv", "edges.csv"))
    run("impute", nodes[0], edges[0], "-o", tmp_path / "piped.csv", *SMALL)
    run("impute", files / "nodes.csv", files / "edges.csv", "-o", tmp_path / "read.csv", *SMALL)
    assert (tmp_path / "piped.csv").read_bytes() == (tmp_path / "read.csv").read_bytes()
    (tmp_path / "again").mkdir()
    again = poured(tmp_path / "again", files / "nodes.csv")
    run("score", again[0], "-m", people_model)
    for _, wait in (nodes, edges, again):
        wait()
