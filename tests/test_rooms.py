"""The house is built in one direction: a module imports only from its own room or from rooms above it.

A room is a top-level module or package of `gspn`. Imports inside functions and under TYPE_CHECKING count as well. The
checker reads source text and imports nothing, and is itself tried on small made-up packages below.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "gspn"

# From the top of the house down; names on one line share a room.
ROOMS = (
    ("errors", "arguments", "compiling", "files", "locks", "random_streams"),
    ("columns", "attributes", "atoms", "infer", "targets", "scores", "pages", "sketches"),
    ("graphs",),
    ("convert",),
    ("datasets",),
    ("rows",),
    ("circuits",),
    ("kernels",),
    ("hierarchy",),
    ("queries",),
    ("training",),
    ("models",),
    ("policy",),
    ("completing",),
    ("imputation",),
    ("predictors",),
    ("baselines",),
    ("graph_level",),
    ("testing",),
    ("plots",),
    ("reports",),
    ("benchmarks",),
    ("experiments",),
    ("demo",),
    ("web",),
    ("cli",),
)
FLOOR = {name: floor for floor, names in enumerate(ROOMS) for name in names}

# Circuits know nothing of graphs, nor of the rooms that are about graphs.
FORBIDDEN = {"circuits": {"graphs", "convert", "datasets"}}

# `import gspn` is an import of all that the package shows. Only rooms that use the library as its users do may have it.
USERS = {"experiments", "benchmarks", "demo", "web", "cli"}


def modules(package: Path) -> Iterator[tuple[str, Path]]:
    """The dotted name of every module below the package's folder, and its file."""
    for file in sorted(package.rglob("*.py")):
        parts = file.relative_to(package.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), file


def imported(tree: ast.AST, module: str, is_package: bool) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything of `gspn` that is imported anywhere in the module.

    `from a import b` gives a.b, which may be a module or a name in a module: the room is the same.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = module.split(".")
                above = above[: len(above) - node.level + is_package]
                base = ".".join([*above, base] if base else above)
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from ((node.lineno, name) for name in names if name.split(".")[0] == "gspn")


def complaint(room: str, target: str) -> str | None:
    """Why a module in the room may not import the target, or None if it may."""
    if target == "gspn.__version__":
        return None
    other = f"{target}.".split(".")[1]
    if other not in FLOOR:  # a name that the package shows, or the package itself
        return None if room in USERS else f"{room} may not import the package's face: name the room that {target} is in"
    if other in FORBIDDEN.get(room, ()):
        return f"{room} must know nothing of {other}"
    if FLOOR[other] > FLOOR[room]:
        return f"{room} may not import from {other}, which is below it"
    return None


def violations(package: Path) -> list[str]:
    """Everything that is wrong with the imports of the package in this folder, as `file:line: reason`."""
    found = []
    for module, file in modules(package):
        if module == "gspn":
            continue  # the face of the package shows what it likes
        where = file.relative_to(package.parent).as_posix()
        room = module.split(".")[1]
        if room not in FLOOR:
            found.append(f"{where}:1: {room} is no known room: give it a place in ROOMS of {Path(__file__).name}")
            continue
        tree = ast.parse(file.read_bytes(), filename=str(file))
        for line, target in imported(tree, module, is_package=file.name == "__init__.py"):
            if reason := complaint(room, target):
                found.append(f"{where}:{line}: {reason}")
    return found


def test_imports_point_up() -> None:
    assert (SOURCE / "__init__.py").is_file()
    assert not (found := violations(SOURCE)), "\n".join(found)


class _RunsAtOnce(ast.NodeTransformer):
    """A module without what runs later, or never."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        return None

    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if ast.unparse(node.test).endswith("TYPE_CHECKING") else self.generic_visit(node)


def loaded_with(package: Path, part: str) -> set[str]:
    """All modules that are imported when a module of the package is, or every one of a room."""
    files = dict(modules(package))
    waiting, known = [name for name in files if f"{name}.".startswith(f"gspn.{part}.")], {"gspn"}
    while waiting:
        name = waiting.pop()
        while name and name not in files:  # something in a module
            name = name.rpartition(".")[0]
        if name in known or not name:
            continue
        known.add(name)
        tree = _RunsAtOnce().visit(ast.parse(files[name].read_bytes()))
        is_package = files[name].name == "__init__.py"
        waiting += [name.rpartition(".")[0], *(target for _, target in imported(tree, name, is_package))]
    return known - {"gspn"}


def test_models_load_nothing_of_reading_and_comparing() -> None:
    rooms = {name.split(".")[1] for name in loaded_with(SOURCE, "models")}
    assert {"models", "hierarchy", "circuits", "graphs"} <= rooms
    assert not rooms & {"datasets", "convert", "baselines", "experiments"}


@pytest.mark.parametrize("part", ["models.gspn", "models.stack", "models.growing", "policy"])
def test_what_is_about_every_model_knows_none_with_targets(part: str) -> None:
    loaded = loaded_with(SOURCE, part)
    assert {"gspn.models.gspn", "gspn.models.fitting"} <= loaded
    assert not loaded & {"gspn.models.supervised", "gspn.models.goals", "gspn.models.label_learning"}


def test_what_is_loaded_is_found(tmp_path: Path) -> None:
    sources = {
        "models/a.py": "from ..graphs import b\nif TYPE_CHECKING:\n    import gspn.cli",
        "graphs/b.py": "from gspn import locks\ndef f():\n    import gspn.web",
        "graphs/__init__.py": "import gspn.columns",
        "locks.py": "",
        "columns.py": "",
        "cli.py": "",
        "web.py": "",
    }
    found = {"models.a", "graphs", "graphs.b", "locks", "columns"}
    assert loaded_with(build(tmp_path, sources), "models") == {f"gspn.{name}" for name in found}


def test_every_module_has_a_docstring() -> None:
    silent = [name for name, file in modules(SOURCE) if not ast.get_docstring(ast.parse(file.read_bytes()))]
    assert not silent


def test_no_test_imports_from_a_test_module() -> None:
    """What tests share stands in modules whose names do not begin with `test_`."""
    imports = re.compile(r"^\s*(from|import) .*\btest_\w", re.MULTILINE)
    assert [file for file in Path(__file__).parent.rglob("*.py") if imports.search(file.read_text("utf-8"))] == []


def build(folder: Path, sources: Mapping[str, str]) -> Path:
    for name, text in sources.items():
        file = folder / "gspn" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder / "gspn"


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("attributes.py", "from gspn.errors import InputError"),
        ("attributes.py", "from gspn.infer import guess"),
        ("infer.py", "from .attributes import Schema"),
        ("graphs/batch.py", "from .masks import Mask\nfrom ..attributes import Schema\nfrom .. import errors"),
        ("graphs/__init__.py", "from .batch import Batch\nfrom ..attributes import Schema"),
        ("graphs/deep/__init__.py", "from ..batch import Batch\nfrom ...errors import GSPNError"),
        ("circuits/leaves.py", "import os.path\nfrom gspnothing.cli import x\nfrom gspn.attributes import Schema"),
        ("models/save.py", "from gspn import __version__, errors"),
        ("demo/__init__.py", "import gspn\nfrom gspn import GSPN"),
        ("__init__.py", "from .cli import main"),
    ],
)
def test_the_checker_allows(tmp_path: Path, file: str, source: str) -> None:
    assert violations(build(tmp_path, {file: source})) == []


@pytest.mark.parametrize(
    ("file", "source", "reason"),
    [
        ("graphs/batch.py", "import os\nfrom gspn.models import GSPN", ":2: graphs may not import from models"),
        ("graphs/batch.py", "import gspn.models.gspn", ":1: graphs may not import from models"),
        ("graphs/batch.py", "from gspn import models", ":1: graphs may not import from models"),
        ("graphs/batch.py", "from ..models.gspn import GSPN", ":1: graphs may not import from models"),
        ("graphs/batch.py", "from .. import models as m", ":1: graphs may not import from models"),
        ("graphs/__init__.py", "from ..models import GSPN", ":1: graphs may not import from models"),
        ("graphs/deep/__init__.py", "from ...cli import main", ":1: graphs may not import from cli"),
        ("errors.py", "from .attributes import Schema", ":1: errors may not import from attributes"),
        ("errors.py", "def f():\n    def g():\n        import gspn.cli", ":3: errors may not import from cli"),
        ("queries/draw.py", "if TYPE_CHECKING:\n    from ..training import fit", ":2: queries may not import from"),
        ("circuits/leaves.py", "from gspn.graphs import Batch", ":1: circuits must know nothing of graphs"),
        ("circuits/leaves.py", "from ..datasets import load", ":1: circuits must know nothing of datasets"),
        ("models/gspn.py", "import gspn", ":1: models may not import the package's face"),
        ("models/gspn.py", "from .. import GSPN", ":1: models may not import the package's face"),
        ("cellar/wine.py", "", ":1: cellar is no known room: give it a place in ROOMS"),
        ("cellar.py", "", ":1: cellar is no known room: give it a place in ROOMS"),
    ],
)
def test_the_checker_finds(tmp_path: Path, file: str, source: str, reason: str) -> None:
    (found,) = violations(build(tmp_path, {file: source}))
    assert found.startswith(f"gspn/{file}{reason}")


def test_the_checker_finds_every_violation(tmp_path: Path) -> None:
    sources = {"errors.py": "import gspn.cli, gspn.web", "graphs/a.py": "from .. import cli, errors, plots"}
    assert len(violations(build(tmp_path, sources))) == 4
