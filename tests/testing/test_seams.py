"""What the source may not know: no leaf class outside of its room, nothing of gspn in the oracle, no extension."""

from __future__ import annotations

import ast
from pathlib import Path

import gspn.circuits.leaves
from gspn.circuits import Leaves

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "gspn"


def concrete(base: type) -> set[str]:
    """The names of all families that the library brings, not those of bases that cannot be built."""
    found: set[str] = set()
    subclasses: list[type] = base.__subclasses__()
    for family in subclasses:
        if family.__module__.startswith(gspn.circuits.leaves.__name__):
            found |= concrete(family)
            if not getattr(family, "__abstractmethods__", None):
                found.add(family.__name__)
    return found


def named(tree: ast.AST) -> set[str]:
    """Every name that a module uses, imports or reaches for; also those in annotations that are written as text."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.alias):
            names.add(node.name.rpartition(".")[2])
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            names.add(node.value)
    return names


def test_there_are_families() -> None:
    assert concrete(Leaves) >= {"GaussianLeaves", "CategoricalLeaves", "BernoulliLeaves", "PoissonLeaves"}
    assert "TableLeaves" not in concrete(Leaves)


def test_no_leaf_class_is_named_outside_of_its_room() -> None:
    families = concrete(Leaves)
    for file in sorted(SOURCE.rglob("*.py")):
        if SOURCE / "circuits" / "leaves" not in file.parents:
            known = named(ast.parse(file.read_bytes())) & families
            assert not known, f"{file.relative_to(ROOT)} names {', '.join(sorted(known))}"


def test_the_reader_of_names_finds_them() -> None:
    for text in ("from a import B", "import a.B", "a.B()", "x: B = 1", "x = 'B'", "class C(B): pass"):
        assert "B" in named(ast.parse(text)), text


def test_the_oracle_imports_nothing_of_gspn_but_its_own_parts() -> None:
    files = sorted((SOURCE / "testing").glob("oracle*.py"))
    own = {f"gspn.testing.{file.stem}" for file in files}
    for node in (node for file in files for node in ast.walk(ast.parse(file.read_bytes()))):
        if isinstance(node, ast.Import):
            assert not any(alias.name.split(".")[0] == "gspn" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            if (node.module or "").split(".")[0] == "gspn":
                assert node.module in own or {f"{node.module}.{alias.name}" for alias in node.names} <= own


def test_the_source_knows_nothing_of_the_extension() -> None:
    extension = ROOT / "tests" / "extension" / "gspn_extension"
    words = {file.stem for file in extension.glob("*.py")} - {"__init__", "kernel", "degree"}
    words |= {"gspn_extension", "by_degree", "loops"}
    for file in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(file.read_bytes())
        assert not named(tree) & words, f"{file.relative_to(ROOT)} names {named(tree) & words}"


def test_suites_need_no_pytest() -> None:
    for file in sorted((SOURCE / "testing").glob("*.py")):
        assert "pytest" not in {
            alias.name.split(".")[0]
            for node in ast.walk(ast.parse(file.read_bytes()))
            if isinstance(node, ast.Import)
            for alias in node.names
        }
