"""What stops a run from outside, or may come in a file: Ctrl-C, a power cut, a pickle that acts."""

from __future__ import annotations

import os
import stat
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import pytest

from gspn.graphs import Batch
from gspn.hierarchy import Evaluation, Hierarchy
from gspn.training.loop import _Run


def interrupt_at(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Press Ctrl-C the given time that the levels are evaluated."""
    calls, forward = count(1), Hierarchy.forward

    def interrupted(self: Hierarchy, batch: Batch) -> Evaluation:
        if next(calls) == number:
            raise KeyboardInterrupt
        return forward(self, batch)

    monkeypatch.setattr(Hierarchy, "forward", interrupted)


def interrupt_step(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Press Ctrl-C in the given step of the training loop."""
    calls, step = count(1), _Run.step

    def interrupted(self: _Run, *arguments: Any) -> Any:
        if next(calls) == number:
            raise KeyboardInterrupt
        return step(self, *arguments)

    monkeypatch.setattr(_Run, "step", interrupted)


class Saved(Protocol):
    """What can be saved to a folder."""

    def save(self, path: Path, /) -> Any: ...


class Crash(BaseException):
    """The power is cut."""


class Crashing:
    """Cuts the power at the given one of the moments at which files change; a file not yet on disk is half lost."""

    def __init__(self, patch: pytest.MonkeyPatch, moment: int) -> None:
        self.remaining, self._fsync, self._replace = moment, os.fsync, os.replace
        patch.setattr(os, "fsync", self.fsync)
        patch.setattr(os, "replace", self.replace)

    def _is_now(self) -> bool:
        self.remaining -= 1
        return self.remaining == -1

    def fsync(self, descriptor: int) -> None:
        if self._is_now():
            status = os.fstat(descriptor)
            if stat.S_ISREG(status.st_mode):  # not a folder
                os.ftruncate(descriptor, status.st_size // 2)
            raise Crash
        self._fsync(descriptor)

    def replace(self, source: Path, target: Path) -> None:
        if self._is_now():
            raise Crash
        self._replace(source, target)


def save_until(model: Saved, folder: Path, moment: int) -> bool:
    """Save with a power cut at the given moment; False when saving was over before."""
    with pytest.MonkeyPatch.context() as patch:
        Crashing(patch, moment)
        try:
            model.save(folder)
        except Crash:
            return True
    return False


class Trap:
    """A pickle of this creates a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)
