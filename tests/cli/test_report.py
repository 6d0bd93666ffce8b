"""`--report`: a page is written, machines are told where, and nothing that exists is overwritten unasked."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_commands import SMALL, Run, parsed

from gspn.cli.reporting import with_page


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (["impute", "a.csv", "--report"], ["impute", "a.csv", "--report", "report.html"]),
        (["impute", "--report", "a.csv"], ["impute", "--report", "report.html", "a.csv"]),
        (["impute", "--report", "own.html", "a.csv"], ["impute", "--report", "own.html", "a.csv"]),
        (["impute", "a.csv", "--report", "--json"], ["impute", "a.csv", "--report", "report.html", "--json"]),
        (["impute", "a.csv", "--report=own.html"], ["impute", "a.csv", "--report=own.html"]),
        (["experiment", "report"], ["experiment", "report"]),
    ],
)
def test_a_file_may_be_said_or_not(said: list[str], meant: list[str]) -> None:
    assert with_page(said) == meant


def test_impute_reports(run: Run, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tables = files / "nodes.csv", files / "edges.csv"
    told = parsed(run("impute", *tables, "-o", "done.csv", "--json", "--report", *SMALL))
    assert told["report"] == "report.html"
    text = (tmp_path / "report.html").read_text()
    assert "How well gspn fills nodes.csv" in text
    assert "Everything was learned again without them" in text
    assert told["verdict"].partition(".")[0] in text
    assert [row["column"] for row in told["check"]] == ["team", "age", "projects", "remote"]
    assert all(row["best"] for row in told["check"])
    refused = run("impute", *tables, "--report", *SMALL, code=2)
    assert "report.html exists already" in refused.stderr


def test_a_saved_model_is_asked_as_it_is(run: Run, files: Path, people_model: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    tables = files / "nodes.csv", files / "typed.csv"
    said = run("impute", *tables, "-m", people_model, "--plain", "-o", tmp_path / "done.csv", "--report", page).stderr
    assert f"report: {page}" in said
    assert "The saved model was asked" in page.read_text()


def test_fit_reports(run: Run, files: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    told = parsed(run("fit", files / "drugs.smi", "-o", tmp_path / "model", "--json", "--report", page, *SMALL))
    assert told["report"] == str(page)
    assert "element" in page.read_text()


def test_a_report_is_a_page(run: Run, files: Path, tmp_path: Path) -> None:
    refused = run("impute", files / "nodes.csv", f"--report={tmp_path / 'page.pdf'}", code=2)
    assert "written as .html" in refused.stderr
