"""The commands: a report shows all that has been made, in however many steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from small_experiments import TIME, Here

from gspn import datasets
from gspn.benchmarks import step
from gspn.cli.experiment import run_experiment, show_report
from gspn.datasets.raw_files import without_downloads
from gspn.errors import InputError
from gspn.experiments.records import Records
from gspn.experiments.running import Outcome
from gspn.experiments.runs import Piece, digest

GRID = """
title = "Gaps in pieces"
question = "fill"
measure = "nll per vertex"
[protocol]
division = "hold-out"
runs = 1
[asked]
mask_seed = 0
[data]
first = { name = "TOY" }
second = { name = "TOY", graphs = 30 }
third = { name = "TOY", graphs = 20 }
absent = { name = "ABSENT" }
[models.Gaussian]
system = "GSPN"
settings = { num_layers = 1, num_states = 1, epochs = 0 }
[models.GMM]
system = "GSPN"
settings = { num_layers = 1, num_states = 2, epochs = 1 }
"""


@pytest.fixture
def grid(toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("gspn.experiments.local.LocalRunner", lambda folder, **settings: Here(folder))
    path = tmp_path / "pieces.toml"
    path.write_text(GRID)
    return str(path)


def shown(text: str) -> tuple[str, list[str], dict[str, list[str]]]:
    """The command that makes all this, the columns, and which columns each row has numbers in."""
    found: dict[str, Any] = json.loads(text)
    table = found["parts"][0]
    return found["command"], table["columns"], {row["label"]: list(row["ours"]) for row in table["rows"]}


def test_a_report_shows_all_columns_that_have_been_made(
    grid: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results, command = tmp_path / "results", f"gspn experiment run toy --grid {grid}"
    run_experiment("toy", grid, data=["second"], results=results, quiet=True, as_json=True)
    assert shown(capsys.readouterr().out) == (
        f"{command} --data second",
        ["second"],
        {"Gaussian": ["second"], "GMM": ["second"]},
    )
    run_experiment("toy", grid, data=["first"], model=["Gaussian"], results=results, quiet=True, as_json=True)
    both = (
        f"{command} --data first --data second",
        ["first", "second"],
        {"Gaussian": ["first", "second"], "GMM": ["second"]},
    )
    assert shown(capsys.readouterr().out) == both
    show_report("toy", grid, results=results, as_json=True)
    assert shown(capsys.readouterr().out) == both
    show_report("toy", grid, data=["third"], results=results, as_json=True)
    assert shown(capsys.readouterr().out) == (f"{command} --data third", ["third"], {"Gaussian": [], "GMM": []})


def test_records_of_other_models_make_no_column(grid: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results, other = tmp_path / "results", tmp_path / "other.toml"
    other.write_text(GRID.replace("epochs = 1", "epochs = 2").replace("mask_seed = 0", "mask_seed = 1"))
    run_experiment("toy", str(other), data=["first"], results=results, quiet=True)
    capsys.readouterr()
    run_experiment("toy", grid, data=["second"], results=results, quiet=True, as_json=True)
    assert shown(capsys.readouterr().out)[1] == ["second"]


def test_results_of_data_that_are_not_here_cost_no_report(
    grid: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Records of a column whose dataset is on another machine: what they have recorded of it is enough."""
    results = tmp_path / "results"
    run_experiment("toy", grid, data=["second"], results=results, quiet=True)
    for path in list(results.glob("records/*/*.json")):
        record = json.loads(path.read_text())
        record["run"]["data"] |= {"name": "ABSENT", "graphs": None, "digest": "that of another machine"}
        record["key"] = digest(record["run"])
        Records(results).put(record)
    capsys.readouterr()
    run_experiment("toy", grid, data=["first"], results=results, quiet=True, as_json=True)
    _, columns, rows = shown(capsys.readouterr().out)
    assert columns == ["first", "second", "absent"]
    assert rows == {"Gaussian": columns, "GMM": columns}
    assert not caplog.records
    # Without a record nothing is known of data that are not here, and nothing is downloaded.
    with pytest.raises(InputError, match="ABSENT"):
        show_report("toy", grid, data=["absent"], results=tmp_path / "others", as_json=True)


def test_nothing_is_downloaded_for_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gspn.datasets.raw_files.download", lambda *_, **__: pytest.fail("a download"))
    with without_downloads(), pytest.raises(InputError, match="nothing is downloaded for this"):
        datasets.load("ESOL", root=tmp_path, cache=tmp_path, progress=False)


def test_failures_are_said_once_and_before_the_report(
    grid: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Failing(Here):
        def outcome(self, piece: Piece) -> Outcome:
            return Outcome(piece, failure="num_states must be at least 1, got 0")

    monkeypatch.setattr("gspn.experiments.local.LocalRunner", lambda folder, **settings: Failing(folder))
    with pytest.raises(typer.Exit):
        run_experiment("toy", grid, data=["first", "second"], results=tmp_path / "results", quiet=True)
    said = capsys.readouterr()
    assert said.err.count("num_states must be at least 1") == 1
    assert said.err.count("failed: TOY: GSPN, assessment") == 1
    assert "0 of 4 training runs" in said.out


def test_losses_that_are_no_numbers_are_null_for_machines(
    grid: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results"
    Path(grid).write_text(
        GRID.replace('measure = "nll per vertex"', 'measure = "nll per vertex"\nfigures = ["curves"]')
    )
    run_experiment("toy", grid, data=["first"], results=results, quiet=True)
    for path in results.glob("records/*/*.json"):
        record = json.loads(path.read_text())
        record["curves"] = {"model": {"epoch": [0.0, 1.0], "validation": [None, 1.0]}}
        Records(results).put(record)
    capsys.readouterr()
    show_report("toy", grid, results=results, as_json=True)
    text = capsys.readouterr().out
    assert "NaN" not in text
    chart = json.loads(text)["parts"][-1]
    assert [line["y"] for line in chart["lines"]] == [[None, 1.0]] * 2


def test_times_are_measured_alone_and_with_their_own_threads(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = tmp_path / "time.toml"
    grid.write_text(TIME)
    asked: dict[str, Any] = {}

    def hire(folder: Path, **settings: Any) -> Here:
        asked.update(settings)
        return Here(folder)

    times = {f"{name} ms": 1.0 for name in ("GSPN forward", "GSPN step", "GIN forward", "GIN step")}
    monkeypatch.setattr("gspn.experiments.local.LocalRunner", hire)
    monkeypatch.setattr(step, "rates", dict)
    monkeypatch.setattr(step, "compare", lambda *given: times | {"GSPN parameters": 1, "GIN parameters": 1})
    run_experiment("toy", str(grid), workers=5, threads=1, results=tmp_path / "results", quiet=True, as_json=True)
    assert (asked["workers"], asked["threads"]) == (1, step.THREADS)
    made_with = json.loads(capsys.readouterr().out)["made_with"]
    assert made_with["threads"] == str(step.THREADS)
    assert "training time" not in made_with, "nothing was trained"
