"""Heads on rows of graphs in grids: refused before training, one model for all heads, no look at test labels."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
from small_experiments import with_other_test_labels

from gspn.errors import GSPNError
from gspn.experiments import predicting, row_heads, sources, systems
from gspn.experiments.grids import Grid, parse_grid
from gspn.experiments.protocols import contests
from gspn.experiments.records import Record
from gspn.experiments.runs import ASSESSMENT, pieces_of
from gspn.experiments.work import perform

ROWS = """
title = "Toy classes"
question = "predict"
measure = "accuracy"
[protocol]
division = "published"
runs = 1
[data.TOY]
folds = [0]
[models.Pooled]
system = "PooledAttributes"
settings = { heads = "linear" }
[models.Subtrees]
system = "WeisfeilerLehman"
settings = { rounds = 1 }
[models.Rows]
system = "GSPN"
settings = { num_layers = 2, num_states = 2, epochs = 2 }
head = { heads = ["linear"], monitor = "score" }
head_search = { attributes = [false, true], judged_by = ["validation", "folds"] }
[models."Deep sets"]
system = "GSPN"
settings = { num_layers = 2, num_states = 2, epochs = 2 }
head = { hidden = 4, epochs = 2 }
"""


def all_records(grid: Grid, folder: Path, stage: str = "selection") -> dict[str, Record]:
    """Records of every candidate, as one of selection or, with test graphs, as one of assessment."""
    runs = [dataclasses.replace(run, stage=stage) for one in contests(grid) for run in one.candidates]
    return {made["key"]: made for piece in pieces_of(runs) for made in perform(piece, folder) or ()}


def test_controls_and_heads_are_judged(toy: Path, tmp_path: Path) -> None:
    grid = parse_grid(ROWS, "toy")
    found = all_records(grid, tmp_path, ASSESSMENT)
    assert len(found) == 7
    for record in found.values():
        assert set(record["scores"]) == {"validation", "test"}
        # Labels of vertices are four times as frequent in one class: all but hopeless heads see that.
        assert record["run"]["head"] == {"hidden": 4, "epochs": 2} or record["scores"]["test"]["accuracy"] > 0.6
    rows = [record for record in found.values() if "columns" in record]
    assert len(rows) == 4
    assert len({record["columns"] for record in rows}) == 2
    assert all("model" in record["curves"] for record in rows)


def test_heads_of_both_kinds_share_a_piece(toy: Path) -> None:
    runs = [run for one in contests(parse_grid(ROWS, "toy")) for run in one.candidates]
    assert [len(piece.runs) for piece in pieces_of(runs)] == [1, 1, 5]


def test_selection_does_not_see_test_labels(toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def scores(folder: Path) -> list[Any]:
        found = all_records(parse_grid(ROWS, "toy"), folder)
        return sorted(
            (str(one["run"]["settings"]), str(one["run"]["head"]), str(one["scores"])) for one in found.values()
        )

    before, load = scores(tmp_path / "before"), sources.Source.load

    monkeypatch.setattr(sources.Source, "load", lambda source: with_other_test_labels(load(source)))
    assert scores(tmp_path / "after") == before


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        ('heads = ["oracle"]', "heads must be one of"),
        ('heads = ["together"]', "must have one of"),
        ('heads = "linear", monitor = "luck"', "monitor"),
        ('heads = "linear", judged_by = "the test graphs"', "judged_by"),
        ('heads = "linear", refit = 1', "refit"),
        ('heads = "linear", hidden = 4', "hidden"),
        ('heads = "linear", seed = 4', "the seed is that of the run"),
    ],
)
def test_refused_before_anything_is_trained(head: str, reason: str) -> None:
    text = ROWS.replace('heads = ["linear"], monitor = "score"', head).split("head_search")[0]
    with pytest.raises(GSPNError, match=reason):
        parse_grid(text, "toy")


def test_numbers_are_judged_by_either_measure() -> None:
    for measure in ("R²", "mean absolute error"):
        grid = parse_grid(ROWS.replace('"accuracy"', f'"{measure}"'), "toy")
        assert grid.measure == measure


def test_numbers_of_labels_share_a_model_and_its_rows(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = ROWS.replace("[data.TOY]\nfolds = [0]", '[data.TOY-8]\nname = "TOY"\nlabels = 8\nfolds = [0]')
    text = few.replace("[models.Pooled]", '[data.TOY-9]\nname = "TOY"\nlabels = 9\nfolds = [0]\n[models.Pooled]')
    monkeypatch.setattr(predicting, "_models", OrderedDict())
    monkeypatch.setattr(row_heads, "_rows_of", OrderedDict())
    trained: list[str] = []
    fit = systems.fit

    def noted(name: str, *given: Any) -> Any:
        trained.append(name)
        return fit(name, *given)

    monkeypatch.setattr(systems, "fit", noted)
    found = all_records(parse_grid(text, "toy"), tmp_path, ASSESSMENT)
    assert len(found) == 14
    assert trained.count("GSPN") == 1
    rows = {
        (record["run"]["data"]["labels"], record["run"]["head"]["attributes"])
        for record in found.values()
        if "columns" in record
    }
    assert len(rows) == 4
    assert len(row_heads._rows_of) == 2
