"""The progress bar: on a terminal, with the remaining time; nothing anywhere else."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest
from small_graphs import EVERY_KIND, draw_graphs

from gspn import GSPN

pty = pytest.importorskip("pty", reason="terminals as POSIX knows them")

GRAPHS = draw_graphs(12, seed=0)
HELD_OUT = draw_graphs(6, seed=1)


def make(**arguments: Any) -> GSPN:
    return GSPN(EVERY_KIND, **{"num_layers": 2, "num_states": 3, "epochs": 4, "batch_size": 5, "seed": 1} | arguments)


class Terminal:
    """A terminal of 120 columns; `read` gives what was written to it since."""

    def __init__(self) -> None:
        import fcntl
        import struct
        import termios

        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        os.set_blocking(self._master, False)
        self.file: TextIO = os.fdopen(slave, "w")

    def read(self) -> str:
        self.file.flush()
        try:
            return os.read(self._master, 1_000_000).decode()
        except BlockingIOError:
            return ""

    def fit(self, model: GSPN, **arguments: Any) -> GSPN:
        """Fit with this terminal as standard error."""
        with pytest.MonkeyPatch.context() as patch:  # inside the test: pytest itself exchanges sys.stderr before
            patch.setattr(sys, "stderr", self.file)
            return model.fit(GRAPHS, **arguments)

    def close(self) -> None:
        self.file.close()
        os.close(self._master)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    opened = Terminal()
    yield opened
    opened.close()


def test_bar_shows_epochs_losses_and_the_remaining_time(terminal: Terminal) -> None:
    model = terminal.fit(make(), validation=HELD_OUT)
    shown = terminal.read()
    # tqdm: done/all [elapsed<remaining, speed]. 4 epochs of 3 batches.
    assert re.search(r"\b0/12 \[00:00<\?", shown)
    assert re.search(r"\b(3|6|9)/12 \[\d\d:\d\d<\d\d:\d\d, +[\d.]+(batch/s|s/batch)", shown)
    assert "epoch 4/4" in shown
    last = model.history_[-1]
    assert f"train={last['train']:.4f}, validation={last['validation']:.4f}" in shown
    assert re.search(r"100%\|.*\| 12/12 ", shown)


def test_bar_of_a_continued_run_starts_where_it_stopped(terminal: Terminal, tmp_path: Path) -> None:
    make(epochs=2).fit(GRAPHS, checkpoint=tmp_path / "run")
    terminal.fit(make(epochs=4), checkpoint=tmp_path / "run")
    shown = terminal.read()
    assert re.search(r" 50%\|.*\| 6/12 ", shown)
    assert " 0/12 " not in shown
    assert re.search(r"100%\|.*\| 12/12 ", shown)


def test_no_bar_when_none_is_wanted(terminal: Terminal, capfd: pytest.CaptureFixture[str]) -> None:
    terminal.fit(make(), validation=HELD_OUT, progress=False)
    assert terminal.read() == ""
    assert capfd.readouterr() == ("", "")


def test_nothing_is_printed_where_there_is_no_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    make().fit(GRAPHS, validation=HELD_OUT)
    assert capfd.readouterr() == ("", "")


def test_epochs_are_logged(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    with caplog.at_level(logging.DEBUG, logger="gspn"):
        model = make(epochs=2).fit(GRAPHS, checkpoint=tmp_path / "run")
    assert [record.getMessage() for record in caplog.records] == [str(record) for record in model.history_]
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="gspn"):
        make(epochs=3).fit(GRAPHS, checkpoint=tmp_path / "run")
        make(epochs=1).fit(GRAPHS, checkpoint=tmp_path / "run")
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "continuing after epoch 2"),
        ("INFO", "continuing after epoch 3"),
        ("WARNING", "the checkpoint holds 3 epochs, more than the 1 asked for"),
    ]
