"""Names and options, known and unknown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gspn.datasets
from gspn.datasets import builtin, load, names
from gspn.datasets.tu_names import PUBLISHED_FOLDS, TU_NAMES
from gspn.errors import InputError


def test_the_promised_names() -> None:
    md17 = ["benzene", "ethanol", "malonaldehyde", "naphthalene", "salicylic_acid", "toluene", "uracil"]
    social = ["REDDIT-BINARY", "REDDIT-MULTI-5K", "COLLAB"]
    others = ["ogbg-molpcba", "ogbg-molhiv", "MUV", "Tox21", "ESOL", "molecules", "NCI1", "PROTEINS", "MUTAG", "P388H"]
    assert {*md17, *social, *others} <= set(names())
    assert len(set(names())) == len(names())
    assert set(PUBLISHED_FOLDS) <= set(TU_NAMES)
    assert gspn.datasets.__all__ == ["load", "names"]


CLOSE = {
    **{"NCI": "NCI1", "nci1": "NCI1", "Reddit-Binary": "REDDIT-BINARY", "molhiv": "ogbg-molhiv", "tox21": "Tox21"},
    **{"salicylic acid": "salicylic_acid", "benzen": "benzene", "esol": "ESOL"},
}
PATHS = ["../data/tu/TINY", "/etc/passwd", "tu/TINY", "..", ".", "", "TINY/../TINY", "a\\b"]
OPTIONS = {
    **{"NCI1": "degree", "benzene": "attributes, limit"},
    **{"MUV": "features, duplicates, limit", "ogbg-molpcba": "limit"},
}


@pytest.mark.parametrize(
    ("name", "options", "named"),
    [
        *((name, {}, f"there is no dataset {name!r}; close names: .*{close}") for name, close in CLOSE.items()),
        *((name, {}, "there is no dataset") for name in PATHS),
        *((name, {}, "a dataset is called by its name") for name in (None, 3, b"NCI1", ["NCI1"])),
        *((name, {"colour": "red"}, f"{name} has no option 'colour'.*: {known}$") for name, known in OPTIONS.items()),
    ],
)
def test_refusals(tu_archive: Callable[..., Path], root: Path, name: Any, options: dict[str, Any], named: str) -> None:
    """Before any work, and without following a path."""
    tu_archive()
    with pytest.raises(InputError, match=named):
        load(name, root=root, **options)


def test_a_name_like_no_other(root: Path) -> None:
    with pytest.raises(InputError, match=r"known names: molecules, benzene") as caught:
        load("§§§", root=root)
    assert f"if NAME.zip is in {root / 'tu'} or " in str(caught.value)


def test_an_archive_of_ones_own(tu_archive: Callable[..., Path], root: Path) -> None:
    with pytest.raises(InputError, match="there is no dataset 'TINY'"):
        load("TINY", root=root)
    tu_archive()
    assert len(load("TINY", root=root, progress=False)) == 2


def test_the_data_folder_can_be_named_by_the_environment(
    tu_archive: Callable[..., Path], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tu_archive()
    monkeypatch.setenv("GSPN_DATA_ROOT", str(root))
    assert len(load("TINY", progress=False)) == 2


def test_the_built_in_molecules_need_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[dict[str, Any]] = []

    def load_builtin(features: str = "default", *, target: str | None = None, progress: bool = False) -> str:
        calls.append({"features": features, "target": target, "progress": progress})
        return "the molecules"

    monkeypatch.setattr(builtin, "load_builtin", load_builtin)
    assert load("molecules", target="logp", progress=False) == "the molecules"  # type: ignore[comparison-overlap]
    assert calls == [{"features": "default", "target": "logp", "progress": False}]
    with pytest.raises(InputError, match="molecules has no option 'limit'; its options: features, target"):
        load("molecules", limit=3)
