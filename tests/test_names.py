"""Every class of the library has a name of its own, so that a name in a traceback or a page points to one place."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

from gspn.circuits import distributions

SOURCE = Path(__file__).resolve().parents[1] / "src" / "gspn"


def classes(source: Path) -> dict[str, list[str]]:
    """Where each class is defined, private and nested ones included, by its name."""
    found = defaultdict(list)
    for file in sorted(source.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(f"{file.relative_to(source)}:{node.lineno}")
    return found


def test_no_two_classes_share_a_name() -> None:
    assert {name: places for name, places in classes(SOURCE).items() if len(places) > 1} == {}


def test_a_shared_name_is_found(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("class A: ...\n")
    (tmp_path / "two.py").write_text("def f():\n    class A: ...\n")
    assert classes(tmp_path) == {"A": ["one.py:1", "two.py:2"]}


@pytest.mark.parametrize(("old", "new"), [("Table", "CategoricalDistribution"), ("Mixture", "MixtureDistribution")])
def test_old_names_of_answers_warn(old: str, new: str) -> None:
    with pytest.warns(FutureWarning, match=new):
        assert getattr(distributions, old) is getattr(distributions, new)
