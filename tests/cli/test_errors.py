"""What goes wrong: one readable line, an exit code that means something, and no file where none should be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_commands import SMALL, Run

BAD_TABLES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "the file is empty"),
    "only a header": (b"id,age\n", "no rows"),
    "no text": (b"id,stadt\n1,K\xf6ln\x01\n", "cannot be read"),
    "ragged": (b"id,age\n1,2.5,3\n", "3 cells, but the header has 2"),
    "all missing": (b"id,age\n1,\n2,\n", "no column says anything that could be learned: 'age' (empty)"),
    "infinite": (b"id,age\n1,inf\n2,1.5\n", "infinite"),
    "the same id twice": (b"id,age\n1,1.5\n1,2.5\n", "occurs already"),
    "a typo among numbers": (b"id,age\n1,1.5\n2,2.5\n3,x\n", "--types age=categorical"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_bad_tables(run: Run, tmp_path: Path, name: str) -> None:
    content, words = BAD_TABLES[name]
    (tmp_path / "n.csv").write_bytes(content)
    for command in (["impute"], ["fit"]):
        result = run(*command, tmp_path / "n.csv", "-o", tmp_path / "out.csv", *SMALL, code=2)
        assert result.stderr.startswith("error: ")
        assert words in result.stderr
        assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        ("a,b,c\nx,y,z\n", "--ends FROM,TO"),
        ("source,target\np0,nobody\n", "'nobody' is no id"),
        ("source,target,weight\np0,p1,3\n", "pass --ignore weight"),
        ("source,target\np0,p1\np0,p1\n", "--parallel"),
    ],
)
def test_bad_edges(run: Run, files: Path, tmp_path: Path, edges: str, words: str) -> None:
    (tmp_path / "e.csv").write_text(edges)
    assert words in run("impute", files / "nodes.csv", tmp_path / "e.csv", *SMALL, code=2).stderr


def test_things_that_are_no_files_of_graphs(run: Run, files: Path, tmp_path: Path) -> None:
    (tmp_path / "x.docx").write_text("")
    (tmp_path / "none.smi").write_text("")
    (tmp_path / "broken.smi").write_text("C1CC\nnonsense(\n")
    wrong: dict[Any, str] = {
        tmp_path: "is a folder",
        tmp_path / "absent.smi": "there is no such file",
        tmp_path / "x.docx": "files of graphs end in",
        tmp_path / "none.smi": "no molecules",
        tmp_path / "broken.smi": "none of the 2 molecules can be read",
        "NCI-1": "there is no dataset",
        "smiles:C1CC": "can be read",
    }
    for source, words in wrong.items():
        result = run("fit", source, "-o", tmp_path / "m", *SMALL, code=2)
        assert words in result.stderr
    assert not (tmp_path / "m").exists()
    assert "brings its own edges" in run("fit", "molecules", files / "edges.csv", "-o", tmp_path / "m", code=2).stderr


def test_broken_molecules_among_good_ones_are_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "some.smi").write_text("CCO good\nnonsense( bad\nCCN fine\n")
    result = run("fit", tmp_path / "some.smi", "-o", tmp_path / "m", "--layers", "1", "--states", "2", "--epochs", "1")
    assert "1 of 3 molecules cannot be read" in result.stderr
    assert "some.smi, line 2" in result.stderr


def test_values_that_the_model_does_not_know(run: Run, files: Path, people_model: Path, tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("id,team,age,projects,remote\n1,pink,1.5,3,True\n")
    assert "'pink' is none of the categories" in run("score", tmp_path / "n.csv", "-m", people_model, code=2).stderr
    (tmp_path / "n.csv").write_text("id,team,age\n1,red,1.5\n")
    assert "'projects'" in run("score", tmp_path / "n.csv", "-m", people_model, code=2).stderr
    assert "not trained on molecules" in run("score", files / "drugs.smi", "-m", people_model, code=2).stderr


def test_models_that_are_none(run: Run, files: Path, tmp_path: Path) -> None:
    assert "does not exist" in run("score", files / "drugs.smi", "-m", tmp_path / "absent", code=2).stderr
    (tmp_path / "model.json").write_text("{")
    assert "not valid JSON" in run("score", files / "drugs.smi", "-m", tmp_path, code=2).stderr


def test_nothing_is_overwritten_unasked(run: Run, files: Path, drug_model: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.csv"
    kept.write_text("precious")
    tables = (files / "nodes.csv", files / "edges.csv")
    for command in (
        ["impute", *tables, "-o", kept, *SMALL],
        ["embed", files / "drugs.smi", "-m", drug_model, "-o", kept],
        ["score", files / "drugs.smi", "-m", drug_model, "-o", kept],
        ["what-if", "smiles:CCO", "-m", drug_model, "--all", "element", "-o", kept],
    ):
        assert "--force" in run(*command, code=2).stderr
        assert kept.read_text() == "precious"
    run("score", files / "drugs.smi", "-m", drug_model, "-o", kept, "--force")
    assert kept.read_text().startswith("graph,id")


def test_folders_of_models_are_replaced_only_by_force(run: Run, files: Path, tmp_path: Path) -> None:
    fit = ("fit", files / "drugs.smi", "--layers", "1", "--states", "2", "--epochs", "1", "--quiet", "-o")
    run(*fit, tmp_path / "m")
    assert "--force" in run(*fit, tmp_path / "m", code=2).stderr
    run(*fit, tmp_path / "m", "--force")
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("precious")
    assert "not a saved model" in run(*fit, other, "--force", code=2).stderr
    assert (other / "thesis.tex").read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "other"]


def test_places_that_cannot_be_written(run: Run, files: Path, drug_model: Path, tmp_path: Path) -> None:
    score = ("score", files / "drugs.smi", "-m", drug_model, "-o")
    assert "there is no folder" in run(*score, tmp_path / "absent" / "s.csv", code=2).stderr
    assert "by the suffix" in run(*score, tmp_path / "s.docx", code=2).stderr
    (tmp_path / "folder.csv").mkdir()
    assert "is a folder" in run(*score, tmp_path / "folder.csv", code=2).stderr


def test_a_failure_while_writing_leaves_nothing(
    run: Run, files: Path, drug_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    result = run("score", files / "drugs.smi", "-m", drug_model, "-o", tmp_path / "s.csv", code=1)
    assert result.stderr.splitlines()[-1].startswith("error: ")
    assert list(tmp_path.iterdir()) == []


def test_interrupted_while_writing(
    run: Run, files: Path, drug_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "s.csv").write_text("old")
    monkeypatch.setattr("os.fsync", interrupted)
    score = ("score", files / "drugs.smi", "-m", drug_model, "-o", tmp_path / "s.csv", "--force")
    assert run(*score, code=130).stderr.strip().endswith("interrupted")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]
    run("fit", files / "drugs.smi", "-o", tmp_path / "m", *SMALL, code=130)
    assert not (tmp_path / "m").exists()
    assert len(list(tmp_path.iterdir())) == 1


def test_misuse(run: Run, files: Path) -> None:
    assert run("impute", code=2).stderr
    assert run("fit", files / "drugs.smi", "--epochs", "0", code=2).stderr
    assert run("nonsense", code=2).stderr
    assert "NAME=KIND" in run("fit", files / "nodes.csv", "--types", "age:count", code=2).stderr
    assert "two columns" in run("fit", files / "nodes.csv", "--ends", "a", code=2).stderr
    assert "no column 'x' to learn" in run("fit", files / "drugs.csv", "--target", "x", code=2).stderr
    assert "objective must be" in run("fit", files / "drugs.smi", "--objective", "luck", code=2).stderr


def test_debug_shows_where(run: Run, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from gspn.cli.main import app
    from gspn.errors import InputError

    for arguments in (["--debug", "fit", "absent.smi"], ["fit", "absent.smi", "--debug"]):
        assert isinstance(CliRunner().invoke(app, arguments).exception, InputError)


def test_a_missing_extra_is_named(run: Run, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    result = run("impute", files / "nodes.csv", "-o", tmp_path / "d.csv", code=1)
    assert "pip install 'gspn[tables]'" in result.stderr


def test_an_interrupt_while_a_compiled_function_is_called(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numba reports Ctrl-C in its dispatcher as a SystemError that was caused by it."""

    def interrupted(*_: Any, **__: Any) -> None:
        raise SystemError("returned a result with an exception set") from KeyboardInterrupt()

    monkeypatch.setattr("gspn.convert.tables.read_graph_tables", interrupted)
    (tmp_path / "nodes.csv").write_text("id,a\n0,1\n1,2\n")
    assert run("impute", tmp_path / "nodes.csv", code=130).stderr.strip().splitlines()[-1] == "interrupted"
