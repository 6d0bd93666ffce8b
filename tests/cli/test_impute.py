"""`gspn impute` on real files: every gap is filled with its uncertainty, everything else stays as it is."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from small_commands import SMALL, Run, parsed

EXTRA = ("_filled", "_sd", "_low", "_high", "_probability", "_likely")


def read(path: Path) -> pd.DataFrame:
    table: pd.DataFrame = pd.read_csv(path, dtype=str, keep_default_na=False)
    return table


def test_two_files_are_enough(run: Run, files: Path, tmp_path: Path) -> None:
    done = tmp_path / "done.csv"
    result = run("impute", files / "nodes.csv", files / "edges.csv", "-o", done, "--epochs", "20")
    for words in ("team", "categorical", "continuous", "binary", "1 graph, 40 vertices, 80 edges"):
        assert words in result.stderr
    before, after = read(files / "nodes.csv"), read(done)
    assert [name for name in after.columns if not name.endswith(EXTRA)] == list(before.columns)
    for name in before.columns:
        gaps = before[name] == ""
        pd.testing.assert_series_equal(before[name][~gaps], after[name][~gaps])
        assert (after[name] != "").all()
        if gaps.any():
            assert (after[f"{name}_filled"] == gaps.map({True: "True", False: "False"})).all()
    numbers = pd.read_csv(done)
    filled = numbers[numbers["age_filled"]]
    assert (filled["age_low"] <= filled["age_high"]).all()
    assert (filled["age_sd"] > 0).all()
    assert numbers[~numbers["age_filled"]]["age_sd"].isna().all()
    filled = numbers[numbers["team_filled"]]
    assert filled["team_probability"].between(0, 1).all()
    for team, likely in zip(filled["team"], filled["team_likely"], strict=True):
        assert likely.split(" | ")[0] == team
    assert "gaps filled in 40 rows" in result.stdout


def test_whole_numbers_stay_whole(run: Run, files: Path, tmp_path: Path) -> None:
    done = tmp_path / "done.csv"
    run("impute", files / "nodes.csv", files / "edges.csv", "-o", done, "--types", "projects=count", *SMALL)
    assert read(done)["projects"].str.fullmatch(r"\d+").all()
    assert pd.read_csv(done)["projects_sd"].notna().any()


def test_stdout_gets_the_table_and_nothing_else(run: Run, files: Path) -> None:
    result = run("impute", files / "nodes.csv", files / "edges.csv", "--epochs", "2", "--plain")
    lines = result.stdout.splitlines()
    assert lines[0] == "id,team,age,projects,remote"
    assert len(lines) == 41


def test_for_machines(run: Run, files: Path) -> None:
    found = parsed(run("impute", files / "nodes.csv", files / "edges.csv", "--json", "--epochs", "2"))
    assert found["rows"] == 40
    assert found["filled"] == sum(row["filled"] for row in found["attributes"])
    assert len(found["table"]) == 40
    assert found["output"] is None


@pytest.mark.parametrize("suffix", ["parquet", "json", "tsv"])
def test_other_forms(run: Run, files: Path, tmp_path: Path, suffix: str) -> None:
    done = tmp_path / f"done.{suffix}"
    run("impute", files / "nodes.parquet", files / "edges.csv", "-o", done, *SMALL)
    readers = {"parquet": pd.read_parquet, "json": pd.read_json, "tsv": lambda path: pd.read_csv(path, sep="\t")}
    table = readers[suffix](done)
    assert len(table) == 40
    assert table["age"].notna().all()


def test_a_model_is_kept_and_asked_again(run: Run, files: Path, tmp_path: Path) -> None:
    first, second, model = tmp_path / "first.csv", tmp_path / "second.csv", tmp_path / "model"
    tables = (files / "nodes.csv", files / "typed.csv")
    run("impute", *tables, "--edge-type", "kind", "-o", first, "--save-model", model, *SMALL)
    run("impute", *tables, "-m", model, "-o", second, "--quiet")
    assert first.read_bytes() == second.read_bytes()
    run("impute", *tables, "-m", model, "--types", "age=count", code=2)


def test_several_graphs_and_other_names(run: Run, tmp_path: Path) -> None:
    rows = "".join(f"m{i // 3},{i % 3},{'ab'[i % 2]},x\n" for i in range(30))
    (tmp_path / "n.csv").write_text(f"mol,atom,kind,note\n{rows}m9,9,,y\n")
    (tmp_path / "e.csv").write_text("mol,u,v\n" + "".join(f"m{i},0,1\nm{i},1,2\n" for i in range(10)))
    run("impute", tmp_path / "n.csv", tmp_path / "e.csv", "--graph", "mol", "--id", "atom", "--ends", "u,v",
        "--ignore", "note", "-o", tmp_path / "d.csv", *SMALL)  # fmt: skip
    after = read(tmp_path / "d.csv")
    assert after["note"].tolist() == ["x"] * 30 + ["y"]
    assert after["kind"].isin(["a", "b"]).all()


def test_columns_of_uncertainty_do_not_hide_others(run: Run, tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text(
        "id,age,age_sd\n" + "".join(f"{i},{20.5 + i},{0.5 + i}\n" for i in range(8)) + "8,,1\n"
    )
    result = run("impute", tmp_path / "n.csv", "-o", tmp_path / "d.csv", *SMALL, code=2)
    assert "column 'age_sd' already" in result.stderr
    assert not (tmp_path / "d.csv").exists()
    run("impute", tmp_path / "n.csv", "-o", tmp_path / "d.csv", "--plain", *SMALL)


def test_a_saved_stack_is_a_model(run: Run, files: Path, people_model: Path, tmp_path: Path) -> None:
    """It fills tables and scores; what only one model has, it refuses."""
    import gspn

    model, stack = gspn.load(people_model, gspn.GSPN), tmp_path / "stack"
    gspn.Stack([model, model]).save(stack)
    (stack / "reading.json").write_text((people_model / "reading.json").read_text())
    tables = (files / "nodes.csv", files / "typed.csv")
    for name, folder in (("one", people_model), ("two", stack)):
        run("impute", *tables, "--model", folder, "-o", tmp_path / f"{name}.csv")
        run("score", *tables, "-m", folder, "-o", tmp_path / f"{name}-scores.csv")
    for ending in (".csv", "-scores.csv"):
        one, two = (pd.read_csv(tmp_path / f"{name}{ending}") for name in ("one", "two"))
        ranks = [column for column in one.columns if "rank" in column]  # of which the stack has none
        pd.testing.assert_frame_equal(one.drop(columns=ranks), two, rtol=1e-5)
    result = run("embed", *tables, "-m", stack, code=2)
    assert "is a stack of models, which has no embeddings" in result.stderr
    assert "without a target" in run("predict", *tables, "-m", stack, code=2).stderr
