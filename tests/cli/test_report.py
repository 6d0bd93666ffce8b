"""`--report`: a page is written, machines are told where, and nothing that exists is overwritten unasked."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_commands import SMALL, Run, parsed

from gspn.cli.options import with_page


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


def test_fit_says_how_good_predictions_are(run: Run, files: Path, tmp_path: Path) -> None:
    page, tables = tmp_path / "page.html", (files / "complete.csv", files / "edges.csv")
    told = parsed(run("fit", *tables, "--target", "team", "-o", tmp_path / "m", "--json", "--report", page, *SMALL))
    scores = told["held_out"]
    assert (scores["count"], scores["learned_from"], scores["what"]) == (8, 32, "vertices")
    methods = {row["method"]: row for row in scores["scores"]}
    assert set(methods) == {"gspn", "constant", "labels of neighbours", "own attributes and a forest"}
    assert sum(row["best"] for row in methods.values()) == 1
    assert all(0 <= row["accuracy"] <= 1 for row in methods.values())
    assert "8 of 40 labelled vertices were held out" in page.read_text()
    quiet = parsed(run("fit", *tables, "--target", "team", "-o", tmp_path / "n", "--json", "--no-score", *SMALL))
    assert "held_out" not in quiet
    run("fit", *tables, "--target", "team", "-o", tmp_path / "o", "--no-score", f"--report={page}", "-f", code=2)


def test_the_saved_predictor_is_judged_on_molecules_it_has_not_seen(run: Run, tmp_path: Path) -> None:
    chains = ["C" * n + end for n in range(1, 17) for end in ("O", "N", "Cl")]
    lines = [f"{smiles},{len(smiles)}.5" for smiles in chains]
    (tmp_path / "chains.csv").write_text("\n".join(["smiles,length", *lines]))
    said = run(
        "fit",
        tmp_path / "chains.csv",
        "--target",
        "length",
        "-o",
        tmp_path / "m",
        "--features",
        "element",
        "--json",
        *SMALL,
    )
    told = parsed(said)["held_out"]
    assert (told["count"], told["learned_from"]) == (10, 38)
    methods = {row["method"] for row in told["scores"]}
    assert methods == {"gspn", "constant", "descriptors and a forest"}
    assert {"R²", "MAE", "R² low", "MAE high"} <= set(told["scores"][0])
