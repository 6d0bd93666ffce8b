"""The README is true: its Python runs as it stands, in one go, in an empty folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


def test_python_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) >= 4
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile("\n".join(blocks), "README.md", "exec"), names)
    assert (tmp_path / "ethanol-model" / "model.json").exists()
    assert len(names["drugs"]) == 2  # type: ignore[arg-type]
