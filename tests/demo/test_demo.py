"""The demonstration: a short one from the command to the files, and what it says when something is in the way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from gspn.cli.main import app
from gspn.demo import story as story_module


def show(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["demo", *map(str, arguments)], env={"COLUMNS": "160"})


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """The demonstration with a quarter of the molecules."""
    folder = tmp_path_factory.mktemp("demo") / "gspn-demo"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(story_module, "load", _few_molecules)
        return show("--output", folder), folder


def _few_molecules(name: str, **options: Any) -> Any:
    from dataclasses import replace

    from gspn.datasets import load
    from gspn.graphs.splits import holdout

    some = load(name, **options)[::4]
    return replace(some, splits=(holdout(len(some)),))


def test_it_says_what_it_does_and_where(shown: tuple[Result, Path]) -> None:
    result, folder = shown
    assert result.exit_code == 0, f"{result.stderr}{result.exception!r}"
    for words in ("1/4", "choose models without labels", "chosen in", "2/4", "3/4", "4/4"):
        assert words in result.stderr
    for words in ("hidden entries", "GIN", "constant", "mixture", "commonest", "GSPN", "Cl replaced by O"):
        assert words in result.stdout
    assert f"The report is {folder / 'report.html'}" in result.stdout


def test_its_files(shown: tuple[Result, Path]) -> None:
    _, folder = shown
    charts = ["calibration.png", "charges.png", "elements.png", "labels.png"]
    expected = {*charts, "change.svg", "numbers.json", "report.html"}
    assert {path.name for path in folder.iterdir()} == expected
    for name in charts:
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    page = (folder / "report.html").read_text()
    assert page.count("<svg") == len(charts) + 1
    for outside in ("<script", "http://localhost", "https://"):
        assert outside not in page


def test_its_numbers_hang_together(shown: tuple[Result, Path]) -> None:
    numbers = json.loads((shown[1] / "numbers.json").read_text())
    assert set(numbers["filling"]) == {"commonest value, mean", "mixture without edges", "GSPN"}
    answers = numbers["filling"]
    assert answers["mixture without edges"]["nats"] < answers["commonest value, mean"]["nats"]
    assert all(0.5 < answer["covered"] <= 1 for answer in answers.values())
    assert answers["GSPN"]["nats"] < answers["mixture without edges"]["nats"]
    tried = numbers["selection"]["tried"]
    assert sum(one["weight"] for one in tried) == pytest.approx(1.0)
    assert [one["loss"] for one in tried] == sorted(one["loss"] for one in tried)
    errors = numbers["few_labels"]["mean_absolute_error"]
    assert {len(each) for each in errors.values()} == {5}
    found = numbers["what_if"]
    assert found["total"] == pytest.approx(sum(found["change"]))
    assert "Cl" in found["smiles"]


def test_the_page_in_a_browser(shown: tuple[Result, Path], page: Any) -> None:
    page.goto((shown[1] / "report.html").as_uri())
    assert "molecules" in page.inner_text("h1")
    assert page.locator("figure svg").count() == 5
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_other_peoples_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    result = show("--output", tmp_path)
    assert result.exit_code == 2
    assert "holds other files" in result.stderr
    assert show("--output", tmp_path / "thesis.tex").exit_code == 2


def test_missing_extras_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = show("--output", tmp_path / "d")
    assert result.exit_code == 1
    assert result.stderr.strip().splitlines()[-1].endswith("pip install 'gspn[chem,plots]'")
    assert not (tmp_path / "d").exists()
