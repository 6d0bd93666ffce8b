"""Machine code on disk: used again, and not after a change of what compiled functions import from each other."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from gspn import compiling


def hits(path: Path) -> int:
    """How often machine code was found on disk when a module's only function was called for the first time."""
    spec = importlib.util.spec_from_file_location("kept", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Any = compiling.compiled(module.double)
    assert function(3) == 6
    return sum(function.stats.cache_hits.values())


def test_other_kernels_are_other_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kept.py"
    path.write_text("def double(number):\n    return 2 * number\n")
    assert [hits(path), hits(path)] == [0, 1]
    monkeypatch.setattr(compiling, "kernels_digest", lambda: "another")
    assert [hits(path), hits(path)] == [0, 1]
