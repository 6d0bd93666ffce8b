"""`gspn impute` on real files: every gap is filled with its uncertainty, everything else stays as it is."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from small_commands import SMALL, Run, draw_people, parsed

from gspn import GSPN, Stack, from_tables, load, policy
from gspn.cli.console import Console
from gspn.cli.training import show_graphs, show_selection
from gspn.policy import Candidate, Selection, Tried

EXTRA = ("_filled", "_sd", "_low", "_high", "_probability", "_likely")


def read(path: Path) -> pd.DataFrame:
    table: pd.DataFrame = pd.read_csv(path, dtype=str, keep_default_na=False)
    return table


def test_two_files_are_enough(run: Run, files: Path, tmp_path: Path) -> None:
    done = tmp_path / "done.csv"
    result = run("impute", files / "nodes.csv", files / "edges.csv", "-o", done, "--effort", "quick")
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


@pytest.fixture(scope="module")
def friends(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """More people than in `files`, so that entries can be held out, and few columns, so that it takes no time."""
    folder = tmp_path_factory.mktemp("friends")
    nodes, edges = folder / "nodes.csv", folder / "edges.csv"
    draw_people(200)[0].drop(columns=["team", "remote"]).to_csv(nodes, index=False)
    edges.write_text("source,target\n" + "".join(f"p{i},p{i + 1}\n" for i in range(199)))
    return nodes, edges


def test_what_was_tried_is_shown(run: Run, friends: tuple[Path, Path], tmp_path: Path) -> None:
    said = run("impute", *friends, "-o", tmp_path / "done.csv", "--effort", "quick").stderr
    for words in ("what was tried", "nats per held-out entry", "weight", "1 state, shrunk, no edges, seed 0",
                  "1 state, shrunk, neighbours, seed 0", "With independent columns"):  # fmt: skip
        assert words in said
    assert re.search(
        r"chosen in \d+ s: \d models?, which (makes|together make) the \d+ held-out entries most likely", said
    )
    assert "try 1 state" not in said, "a bar is for terminals"


def test_what_was_tried_for_machines(run: Run, friends: tuple[Path, Path]) -> None:
    result = run("impute", *friends, "--json", "--effort", "quick", "--quiet")
    assert result.stderr == ""
    found = parsed(result)["selection"]
    assert found["effort"] == "quick"
    tried = found["tried"]
    assert len({one["candidate"] for one in tried}) == len(tried) > 4
    assert sum(one["weight"] for one in tried) == pytest.approx(1)
    assert found["loss"] <= min(one["loss"] for one in tried if one["loss"] is not None) + 0.02, (
        "as the weights are pulled towards equal ones, it may lose a little"
    )
    assert found["held_out"] > 30
    dataset = from_tables(*friends)
    assert found["loss_of_columns"] == pytest.approx(policy.loss_of_columns(dataset, effort="quick"))


def test_where_nothing_can_be_held_out(run: Run, tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text(
        "id,age,team\n" + "".join(f"{i},{20.5 + i},{'ab'[i % 2]}\n" for i in range(8)) + "8,,\n"
    )
    result = run("impute", tmp_path / "n.csv", "-o", tmp_path / "d.csv")
    assert "too few entries to hold any out" in result.stderr
    assert "nan" not in result.stderr.lower()
    found = parsed(run("impute", tmp_path / "n.csv", "--json"))["selection"]
    assert (found["held_out"], found["loss"], found["loss_of_columns"]) == (0, None, None)


def test_the_best_and_the_chosen_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Of thirty candidates twelve: the two of the stack, though one is the worst alone, and the ten best others."""
    tried = [Tried(Candidate(n + 1, "shrunk"), 1 + n / 100, {0: 0.75, 29: 0.25}.get(n, 0.0)) for n in range(30)]
    tried.append(Tried(Candidate(99, "shrunk"), math.nan, error="no pivot"))
    show_selection(Console(), Selection(cast(Any, None), tuple(tried), 0.9, 400), 1.5, 3.0)
    said = capsys.readouterr().err
    assert [int(n) for n in re.findall(r"^ *(\d+) states?, shrunk", said, re.MULTILINE)] == [*range(1, 12), 30]
    assert "the best 12 of 31 models" in said
    assert "1 of them could not be learned from these data: no pivot" in said
    assert "chosen in 3 s: 2 models, which together make the 400 held-out entries most likely: 0.9000" in said
    assert "warning" not in said
    show_selection(Console(), Selection(cast(Any, None), tuple(tried), 0.9, 400), 0.9, 3.0)
    assert "warning: held-out entries are filled no better" in capsys.readouterr().err


def test_refusals_of_effort(run: Run, files: Path, people_model: Path) -> None:
    nodes = files / "nodes.csv"
    assert "--effort is one of quick, normal, thorough" in run("impute", nodes, "--effort", "some", code=2).stderr
    assert "specify a single one" in run("impute", nodes, "--effort", "quick", "--states", "3", code=2).stderr
    assert "brings a trained model" in run("impute", nodes, "--effort", "quick", "-m", people_model, code=2).stderr
    said = run("impute", nodes, "--how", "best", code=2).stderr
    assert "--how is one of mean, median, mode, closest, sample, not 'best'" in said


def test_several_completed_tables(run: Run, files: Path, tmp_path: Path) -> None:
    """One below the other, numbered: they differ in the gaps alone, and nothing is overwritten unasked."""
    done, tables = tmp_path / "done.csv", (files / "nodes.csv", files / "edges.csv")
    how = ("--draws", "3", "--effort", "quick", "-o", done)
    assert "gaps filled in 40 rows, 3 times" in run("impute", *tables, *how).stdout
    before, after = read(files / "nodes.csv"), read(done)
    assert list(after.columns) == ["draw", *before.columns]
    assert after["draw"].tolist() == [number for number in "123" for _ in range(40)]
    assert after.ne("").all(axis=None)
    parts = [part.drop(columns="draw").reset_index(drop=True) for _, part in after.groupby("draw")]
    for part in parts:
        pd.testing.assert_frame_equal(part.where(before.ne("")), before.where(before.ne("")))
        assert part["projects"].str.fullmatch(r"-?\d+").all(), "whole numbers stay whole"
    assert not parts[0].equals(parts[1])
    assert "--force overwrites it" in run("impute", *tables, *how, code=2).stderr
    run("impute", *tables, *how, "--force", "--draws", "2")
    again = read(done)
    pd.testing.assert_frame_equal(again, after[: len(again)])


def test_several_completed_tables_for_machines(run: Run, files: Path, people_model: Path) -> None:
    found = parsed(
        run("impute", files / "nodes.csv", files / "typed.csv", "--draws", "2", "--json", "-m", people_model)
    )
    assert (found["draws"], found["rows"], len(found["table"])) == (2, 80, 80)
    assert found["filled"] == int(read(files / "nodes.csv").eq("").sum().sum())
    assert {row["draw"] for row in found["table"]} == {1, 2}


def test_refusals_of_draws(run: Run, files: Path, tmp_path: Path) -> None:
    said = run("impute", files / "nodes.csv", "--draws", "2", "--how", "mean", code=2).stderr
    assert "with --draws values are drawn" in said
    (tmp_path / "n.csv").write_text(
        "id,draw,age\n" + "".join(f"{i},{i % 3},{20.5 + i}\n" for i in range(12)) + "12,1,\n"
    )
    said = run("impute", tmp_path / "n.csv", "--draws", "2", "--quiet", code=2).stderr
    assert "there is a column 'draw' already" in said


def test_guesses_about_whole_numbers(run: Run, tmp_path: Path) -> None:
    rows = "".join(f"{i},{i % 3},{2 + i % 2},{i}\n" for i in range(24))
    (tmp_path / "n.csv").write_text(f"id,floor,side,age\n{rows}24,,,\n")
    said = run("impute", tmp_path / "n.csv", "-o", tmp_path / "d.csv", "--effort", "quick").stderr
    assert "the whole numbers of 'floor' are taken for amounts; if they are names: --types floor=categorical" in said
    assert "the whole numbers of 'side' are taken for categories; if they are amounts: --types side=continuous" in said
    assert "of 'age'" not in said
    assert read(tmp_path / "d.csv")["floor"].str.fullmatch(r"\d+").all()
    types = ("--types", "floor=categorical,side=categorical", "--effort", "quick")
    said = run("impute", tmp_path / "n.csv", "-o", tmp_path / "e.csv", *types).stderr
    assert "the whole numbers" not in said
    assert "floor_likely" in read(tmp_path / "e.csv")


def test_codes_are_told_from_amounts(capsys: pytest.CaptureFixture[str]) -> None:
    """Postcodes and row numbers are; ages, years, rounded and unrounded amounts, and what is not whole, are not."""
    rng = np.random.default_rng(0)
    columns = {
        "postcode": rng.integers(10_000, 99_999, 60),
        "row": np.arange(7, 67),
        "age": rng.integers(1, 90, 60),
        "year": rng.integers(1950, 2020, 60),
        "salary": 500 * rng.integers(40, 190, 60),
        "steps": rng.integers(0, 99_999, 60),
        "weight": rng.normal(50_000, 9_000, 60),
    }
    dataset = from_tables(pd.DataFrame({"id": range(60), **columns}))
    show_graphs(Console(), dataset, said=())
    said = capsys.readouterr().err.split("\n")
    assert next(line for line in said if "equally many digits" in line).startswith("'postcode': ")
    assert [line for line in said if "number of a row" in line] == [
        "'row': looks like the number of a row; if so: --ignore row"
    ]
    show_graphs(Console(), dataset, said=("postcode", "row"))
    assert "digits" not in capsys.readouterr().err


def test_for_machines(run: Run, files: Path) -> None:
    found = parsed(run("impute", files / "nodes.csv", files / "edges.csv", "--json", "--epochs", "2"))
    assert found["rows"] == 40
    assert found["filled"] == sum(row["filled"] for row in found["attributes"])
    assert len(found["table"]) == 40
    assert found["output"] is None
    assert found["selection"] is None, "one model was trained"


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


def test_a_stack_is_kept_and_asked_again(run: Run, files: Path, tmp_path: Path) -> None:
    first, second, folder = tmp_path / "first.csv", tmp_path / "second.csv", tmp_path / "stack"
    tables = (files / "nodes.csv", files / "typed.csv")
    run("impute", *tables, "--edge-type", "kind", "-o", first, "--save-model", folder, "--effort", "quick")
    assert isinstance(load(folder), Stack)
    assert (folder / "reading.json").exists()
    result = run("impute", *tables, "-m", folder, "-o", second)
    assert "what was tried" not in result.stderr
    assert first.read_bytes() == second.read_bytes()
    run("impute", *tables, "-m", folder, "-o", second, "--plain", "--force")
    assert read(second)["projects"].str.fullmatch(r"\d+").all(), "whole numbers are remembered"
    run("impute", *tables, "--edge-type", "kind", "-o", tmp_path / "one.csv", "--save-model", folder, "--force", *SMALL)
    assert isinstance(load(folder), GSPN)


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
