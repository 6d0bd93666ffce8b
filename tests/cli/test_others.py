"""The commands about datasets, benchmarks and the page."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest
from small_commands import Run, parsed


def test_datasets_are_listed(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSPN_DATA_ROOT", str(tmp_path))
    monkeypatch.setenv("GSPN_CACHE", str(tmp_path / "cache"))
    (tmp_path / "tu").mkdir()
    (tmp_path / "tu" / "NCI1.zip").write_bytes(b"")
    rows = {row["name"]: row for row in parsed(run("datasets", "list", "--json"))}
    assert rows["molecules"] == {"name": "molecules", "family": "built in", "here": True}
    assert rows["NCI1"]["here"]
    assert not rows["COLLAB"]["here"]
    assert "NCI1" in run("datasets", "list").stdout
    assert [row["name"] for row in parsed(run("datasets", "list", "nci1", "--here", "--json"))] == ["NCI1"]


def test_a_dataset_is_shown(run: Run) -> None:
    found = parsed(
        run("datasets", "show", "molecules", "--option", 'features=["element"]', "--option", "target=rings", "--json")
    )
    assert found["graphs"] == 4095
    assert found["schema"]["attributes"][0]["name"] == "element"
    assert found["target"] == "graph: rings"
    assert "there is no dataset" in run("datasets", "show", "zzz", code=2).stderr
    assert "NAME=VALUE" in run("datasets", "show", "molecules", "--option", "x", code=2).stderr


def test_benchmarks(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "what_if" in parsed(run("bench", "--json"))
    assert "no benchmark" in run("bench", "nonsense", code=2).stderr
    assert "versions needs --old" in run("bench", "versions", code=2).stderr
    assert "no checkout" in run("bench", "versions", "--old", "/nowhere", code=2).stderr
    fake: Any = types.ModuleType("gspn.benchmarks.fake")
    fake.run = lambda: [{"what": "a", "seconds": 1.5}]
    monkeypatch.setitem(sys.modules, "gspn.benchmarks.fake", fake)
    monkeypatch.setattr("gspn.benchmarks.__main__.NAMES", ("fake",))
    assert parsed(run("bench", "fake", "--json")) == [{"what": "a", "seconds": 1.5}]
    assert "1.500" in run("bench", "fake").stdout


def test_the_page_is_served(run: Run, drug_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[Any] = []
    fake: Any = types.ModuleType("gspn.web")
    fake.serve = lambda model=None, **others: called.append((model, others))
    monkeypatch.setitem(sys.modules, "gspn.web", fake)
    run("serve", "-m", drug_model, "--port", "0", "--no-open")
    assert called == [(drug_model, {"host": "127.0.0.1", "port": 0, "open_browser": False, "tables": None})]
    assert "not a saved model" in run("serve", "-m", tmp_path, code=2).stderr
    monkeypatch.setitem(sys.modules, "gspn.web", None)
    assert "gspn[web" in run("serve", code=1).stderr
