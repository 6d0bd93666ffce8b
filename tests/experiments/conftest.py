"""The small dataset, written once, where experiments look for data."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_experiments import write_toy

from gspn.experiments import sources


@pytest.fixture(scope="session")
def toy_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy(tmp_path_factory.mktemp("toy"))


@pytest.fixture
def toy(toy_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data root that holds TOY; prepared data goes to a cache of the test's own."""
    monkeypatch.setenv("GSPN_DATA_ROOT", str(toy_root))
    monkeypatch.setenv("GSPN_CACHE", str(tmp_path / "cache"))
    sources._loaded.cache_clear()
    sources._digest.cache_clear()
    return toy_root
