"""The notebooks of `examples` run as they stand, and show what they say: their outputs are in the repository."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def load_runner() -> ModuleType:
    """docs/build is no package."""
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "docs" / "build" / "notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RUNNER = load_runner()


def kinds(cell: dict[str, Any]) -> list[list[str]]:
    return [sorted(output.get("data", {"stream": ""})) for output in cell["outputs"]]


def printed(cell: dict[str, Any]) -> list[str]:
    """What a cell printed, up to its numbers: machines differ in these."""
    text = ["".join(output["text"]) for output in cell["outputs"] if output["output_type"] == "stream"]
    return [re.sub(r"[−\d.]+", "0", one) for one in text]


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) >= 2
    assert all(path.stat().st_size < 250_000 for path in NOTEBOOKS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_kept_with_their_outputs(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    cells = RUNNER.code_cells(notebook)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert all(cell["outputs"] for cell in cells)
    # Nothing of the machine that ran them.
    assert not re.search(r"/(home|tmp|root|work|usr)/", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path: Path) -> None:
    kept = RUNNER.code_cells(json.loads(path.read_text(encoding="utf-8")))
    for old, new in zip(kept, RUNNER.code_cells(RUNNER.run(path)), strict=True):
        assert kinds(new) == kinds(old)
        assert printed(new) == printed(old)
