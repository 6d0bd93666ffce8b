"""Progress of an experiment: a bar on a terminal, lines elsewhere, nothing when nothing is wanted."""

from __future__ import annotations

import pytest

from gspn.cli.experiment import _Progress
from gspn.experiments.running import State


def test_lines_come_now_and_then_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("gspn.cli.experiment.time.monotonic", lambda: now[0])
    with _Progress(quiet=False) as show:
        for done in range(5):
            now[0] += 40.0
            show(State(done, 10, ("TOY: GSPN, selection",)))
    printed = capsys.readouterr()
    assert printed.out == ""
    lines = [line for line in printed.err.splitlines() if "of 10 runs" in line]
    assert [line.split()[0] for line in lines] == ["0", "2", "4"]
    assert "TOY: GSPN, selection" in lines[0]


def test_nothing_is_said_when_nothing_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    with _Progress(quiet=True) as show:
        show(State(1, 2, ()))
    assert capsys.readouterr() == ("", "")
