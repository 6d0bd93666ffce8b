"""Tables: means and deviations over the right things, beside the right numbers of the paper."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pytest
from small_experiments import FILL, PREDICT

from gspn.experiments.findings import Chart, Number, Picture, ResultTable
from gspn.experiments.formatting import caption, mean_and_deviation
from gspn.experiments.grids import Grid, parse_grid
from gspn.experiments.protocols import ModelSelection, contests
from gspn.experiments.published import PUBLISHED
from gspn.experiments.records import Records
from gspn.experiments.runs import Run
from gspn.experiments.tables import findings

FOUND = {"commit": "c0ffee", "versions": {"torch": "2"}, "threads": 1, "seconds": {"model": 1800.0}}


def put(records: Records, run: Run, scores: dict[str, Any], **more: Any) -> None:
    records.put({"key": run.key, "run": run.identity(), "scores": scores, "curves": {}, **FOUND, **more})


def fill_in(planned: list[ModelSelection], records: Records, measure: str, scale: float = 1.0) -> None:
    """Validation scores that make the first candidate win, and test scores that tell fold and seed."""
    worse = -0.1 if measure == "accuracy" else 0.1
    for one in planned:
        if len(one.candidates) > 1:
            for number, run in enumerate(one.candidates):
                put(records, run, {"validation": {measure: 0.5 + worse * number}})
        for run in one.finals(Records(records.folder).get):
            score = scale * (0.48 + 0.1 * one.fold + 0.02 * run.seed)
            put(records, run, {"validation": {measure: 0.5}, "test": {measure: score, "nll per entry": score / 2}})


def table_of(grid: Grid, planned: list[ModelSelection], records: Records) -> ResultTable:
    (table, *_) = findings(grid, planned, records, "gspn experiment run toy").parts
    assert isinstance(table, ResultTable)
    return table


def test_over_folds_the_runs_of_each_are_averaged_first(toy: Path, tmp_path: Path) -> None:
    grid, records = parse_grid(PREDICT, "toy"), Records(tmp_path)
    planned = contests(grid)
    fill_in(planned, records, "accuracy")
    table = table_of(grid, planned, Records(tmp_path))
    folds = [51.0, 61.0]  # two runs each, two points apart
    for row in table.rows:
        number = row.ours["TOY"]
        assert number.mean == pytest.approx(statistics.mean(folds))
        assert number.deviation == pytest.approx(statistics.stdev(folds))
        assert number.folds == (0, 1)
    assert table.better == "higher"
    assert table.notes == ()
    searches = "Configurations among which the validation graphs chose: Constant 1, GSPN_S 2, GSPN_U+DS 4."
    assert findings(grid, planned, Records(tmp_path), "").notes == (searches,)


def test_the_paper_has_numbers_of_rows_where_they_take_part(toy: Path, tmp_path: Path) -> None:
    text = PREDICT.replace("[data.TOY]", '[data.NCI1]\nname = "TOY"\n[data.COLLAB]\nname = "TOY"\ngraphs = 30')
    text = text.replace('figures = ["curves"]', 'paper = "graph classification"').replace("published", "hold-out")
    grid = parse_grid(text.replace('system = "SupervisedGSPN"', 'system = "SupervisedGSPN"\ndata = ["NCI1"]'), "toy")
    published = {row.label: set(row.published) for row in table_of(grid, contests(grid), Records(tmp_path)).rows}
    assert published["GSPN_S"] == {"NCI1"}
    assert published["GSPN_U+DS"] >= {"NCI1", "COLLAB"}


@pytest.mark.parametrize("text", [PREDICT, FILL])
def test_margins_are_positive_where_a_row_is_better(text: str, toy: Path, tmp_path: Path) -> None:
    grid, records = parse_grid(text.replace("[data.TOY]", '[data.ethanol]\nname = "TOY"'), "toy"), Records(tmp_path)
    base, better = list(grid.models)[:2]
    planned = contests(grid, rows=[base, better])
    score = {("predict", base): 0.5, ("predict", better): 0.75, ("fill", base): 3.0, ("fill", better): 2.75}
    for one in planned:
        found = {grid.measure: score[grid.question, one.row], "nll per entry": 1.0}
        for run in one.candidates:
            put(records, run, {"validation": found})
        for run in one.finals(Records(tmp_path).get):
            put(records, run, {"validation": found, "test": found})
    parts = findings(grid.model_copy(update={"against": base}), planned, Records(tmp_path), "").parts
    (margins,) = (part for part in parts if isinstance(part, ResultTable) and part.title == f"Margins over {base}")
    (row,) = margins.rows
    assert row.label == better
    assert row.ours["ethanol"].mean == pytest.approx(25.0 if grid.question == "predict" else 0.25)
    assert row.ours["ethanol"].deviation is None
    assert "means over 2" in caption(margins)
    if grid.question == "fill":
        assert row.published["ethanol"].mean == pytest.approx(5.72 - 3.81)
        assert "differences of the means that are published" in margins.beside
        assert "1.91" in mean_and_deviation(row.published["ethanol"], 2)
    alone = findings(
        grid.model_copy(update={"against": base}), contests(grid, rows=[base]), Records(tmp_path), ""
    ).parts
    assert not any(part.title.startswith("Margins") for part in alone)


@pytest.mark.parametrize("made", [(0, 1), (1,)], ids=["more", "others"])
def test_margins_are_of_the_same_folds(toy: Path, tmp_path: Path, made: tuple[int, ...]) -> None:
    grid, records = parse_grid(PREDICT, "toy"), Records(tmp_path)
    planned = contests(grid, rows=["Constant", "GSPN_S"])
    fill_in([one for one in planned if one.fold in {"Constant": (0,), "GSPN_S": made}[one.row]], records, "accuracy")
    parts = findings(grid.model_copy(update={"against": "Constant"}), planned, Records(tmp_path), "").parts
    (margins,) = (part for part in parts if isinstance(part, ResultTable) and part.title == "Margins over Constant")
    assert [row.ours for row in margins.rows] == [{}]


def test_of_one_fold_the_runs_vary(toy: Path, tmp_path: Path) -> None:
    grid, records = parse_grid(FILL.replace("[data.TOY]", '[data.ethanol]\nname = "TOY"'), "toy"), Records(tmp_path)
    planned = contests(grid)
    fill_in(planned, records, "nll per vertex")
    found = findings(grid, planned, Records(tmp_path), "gspn experiment run toy")
    vertex, entry = found.parts[:2]
    assert isinstance(vertex, ResultTable)
    assert isinstance(entry, ResultTable)
    assert vertex.rows[0].ours["ethanol"].mean == pytest.approx(0.51)
    assert entry.rows[0].ours["ethanol"].mean == pytest.approx(0.255)
    assert vertex.rows[0].ours["ethanol"].deviation == pytest.approx(statistics.stdev([0.5, 0.52]))
    assert (vertex.rows[0].ours["ethanol"].runs, vertex.rows[0].ours["ethanol"].folds) == (2, ())
    assert vertex.better == "lower"
    # The paper's numbers stand beside the measure they are of, and nowhere else.
    assert vertex.rows[2].published["ethanol"] == Number(3.77, 0.03, written=("3.77", "0.03"))
    assert entry.rows[2].published == {}
    assert (found.done, found.planned) == (8, 8)
    assert found.made_with is not None
    assert found.made_with["training time"] == "4.0 hours of one process"


def test_an_unfinished_fold_is_not_counted_and_said(toy: Path, tmp_path: Path) -> None:
    grid, records = parse_grid(PREDICT, "toy"), Records(tmp_path)
    planned = contests(grid)
    fill_in([one for one in planned if one.fold == 0], records, "accuracy")
    other = next(one for one in planned if one.fold == 1 and one.row == "Constant")
    put(records, other.finals(records.get)[0], {"test": {"accuracy": 0.9}})  # the first of two
    table = table_of(grid, planned, Records(tmp_path))
    number = table.rows[0].ours["TOY"]
    assert number.mean == pytest.approx(51.0)
    assert (number.deviation, number.folds) == (None, (0,)), "runs of one fold say nothing of folds"
    assert "Constant on TOY: 1 of 2 folds" in table.notes


def test_a_final_run_that_failed_is_left_out_and_said(toy: Path, tmp_path: Path) -> None:
    grid, records = parse_grid(FILL, "toy"), Records(tmp_path)
    planned = contests(grid)
    fill_in(planned, records, "nll per vertex")
    last = next(one for one in planned if one.row == "GSPN_U").finals(Records(tmp_path).get)[1]
    put(records, last, {}, error="it diverged")
    table = table_of(grid, planned, Records(tmp_path))
    assert table.rows[2].ours["TOY"] == Number(0.5, None, 1)
    notes = findings(grid, planned, Records(tmp_path), "").notes
    assert "GSPN_U on TOY, fold 0: 1 of 2 final runs failed and are left out." in notes


def test_a_model_that_cannot_be_trained_does_not_hide_the_others(toy: Path, tmp_path: Path) -> None:
    grid, records = parse_grid(FILL, "toy"), Records(tmp_path)
    planned = contests(grid)
    fill_in([one for one in planned if one.row != "GMM"], records, "nll per vertex")
    for run in next(one for one in planned if one.row == "GMM").candidates:
        put(records, run, {}, error="it diverged")
    found = findings(grid, planned, Records(tmp_path), "")
    assert (found.done, found.planned) == (6, 6), "what will never be is not waited for"
    assert "GMM on TOY, fold 0: no configuration could be trained." in found.notes


def test_the_time_of_a_model_is_counted_once_for_all_its_heads(toy: Path, tmp_path: Path) -> None:
    grid, records = parse_grid(PREDICT, "toy"), Records(tmp_path)
    planned = [one for one in contests(grid) if one.row == "GSPN_U+DS" and one.fold == 0]
    for run in planned[0].candidates:  # two models with two heads each
        put(records, run, {"validation": {"accuracy": 0.5}})
    made_with = findings(grid, planned, Records(tmp_path), "").made_with
    assert made_with is not None
    assert made_with["training time"] == "1.0 hours of one process"


def test_nothing_at_all_is_no_error(toy: Path, tmp_path: Path) -> None:
    grid = parse_grid(PREDICT, "toy")
    found = findings(grid, contests(grid), Records(tmp_path), "gspn experiment run toy")
    assert found.done == 0
    assert all(row.ours == {} for part in found.parts if isinstance(part, ResultTable) for row in part.rows)


LEVELS = """
title = "Levels"
question = "predict"
measure = "accuracy"
figures = ["levels"]
[protocol]
division = "published"
runs = 0
[data.TOY]
[models.GSPN_S]
system = "SupervisedGSPN"
settings = { num_graph_states = 4, epochs = 1 }
search = { num_layers = [1, 3], num_states = [2, 5], lr = [0.1, 0.01] }
"""


def test_scores_against_levels_are_means_over_folds_and_configurations(toy: Path, tmp_path: Path) -> None:
    grid, records = parse_grid(LEVELS, "toy"), Records(tmp_path)
    planned = contests(grid)
    for one in planned:
        for run in one.candidates:
            levels, states, lr = (run.settings[name] for name in ("num_layers", "num_states", "lr"))
            score = (10 * levels + states + (1 if lr == 0.1 else 0) + 2 * one.fold) / 100
            put(records, run, {"validation": {"accuracy": score}})
    chart, table = findings(grid, planned, Records(tmp_path), "").parts
    assert isinstance(chart, Chart)
    assert [line.label for line in chart.lines] == ["C = 2, C_g = 4", "C = 5, C_g = 4"]
    assert chart.lines[1].x == (1.0, 3.0)
    assert chart.lines[1].y == pytest.approx((10 + 5 + 0.5 + 1, 30 + 5 + 0.5 + 1))
    assert chart.lines[0].spread == pytest.approx([statistics.stdev([0, 1, 2, 3]) / 2] * 2)
    assert isinstance(table, ResultTable)
    assert table.columns == ("L = 1", "L = 3")
    for row, line in zip(table.rows, chart.lines, strict=True):
        assert row.label == line.label
        assert [row.ours[column].mean for column in table.columns] == pytest.approx(line.y)
        # Configurations of a fold are averaged first; the two folds are two points apart.
        for number in row.ours.values():
            assert number.deviation == pytest.approx(2**0.5)
            assert number.folds == (0, 1)


def test_levels_that_have_not_been_trained_are_left_open(toy: Path, tmp_path: Path) -> None:
    grid, records = parse_grid(LEVELS.replace(", lr = [0.1, 0.01]", ""), "toy"), Records(tmp_path)
    planned = contests(grid)
    assert findings(grid, planned, Records(tmp_path), "").parts == ()
    for run in planned[0].candidates[:3]:
        put(records, run, {"validation": {"accuracy": 0.5}})
    _, table = findings(grid, planned, Records(tmp_path), "").parts
    assert isinstance(table, ResultTable)
    assert table.columns == ("L = 1", "L = 3")
    assert "a single fold" in caption(table)
    assert sorted(len(row.ours) for row in table.rows) == [1, 2]
    assert {n.folds for row in table.rows for n in row.ours.values()} == {(0,)}


def test_models_over_levels_are_not_averaged_together(toy: Path, tmp_path: Path) -> None:
    other = (
        LEVELS[LEVELS.index("[models.GSPN_S]") :]
        .replace("GSPN_S", "linear")
        .replace("epochs", 'head = "linear", epochs')
    )
    grid = parse_grid(LEVELS.replace("[data.TOY]", "[data.TOY]\nfolds = [0]") + other, "toy")
    records = Records(tmp_path)
    planned = contests(grid)
    for one in planned:
        for run in one.candidates:
            score = (0.9 if one.row == "GSPN_S" else 0.5) + 0.2 * run.settings["lr"]
            put(records, run, {"validation": {"accuracy": score}})
    chart, table = findings(grid, planned, Records(tmp_path), "").parts
    assert isinstance(chart, Chart)
    labels = [f"{row}, C = {states}, C_g = 4" for row in ("GSPN_S", "linear") for states in (2, 5)]
    assert [line.label for line in chart.lines] == labels
    assert isinstance(table, ResultTable)
    for row, mean in zip(table.rows, (91.1, 91.1, 51.1, 51.1), strict=True):
        for number in row.ours.values():
            assert number.mean == pytest.approx(mean)
            assert (number.deviation, number.runs) == (None, 1), "configurations are no runs"


def test_times_stand_in_the_rows_of_the_paper(toy: Path, tmp_path: Path) -> None:
    text = """
    title = "Time"
    question = "time"
    measure = "accuracy"
    paper = "time comparison"
    [protocol]
    runs = 1
    [data]
    NCI1 = { name = "TOY", folds = [0] }
    [models.both]
    system = "SupervisedGSPN"
    settings = { num_layers = 10, num_states = 20, num_graph_states = 128 }
    """
    grid, records = parse_grid(text, "toy"), Records(tmp_path)
    (one,) = planned = contests(grid)
    times = {"GSPN forward ms": 1.0, "GSPN step ms": 3.5, "GIN forward ms": 6.0, "GIN step ms": 16.0}
    put(records, one.finals(records.get)[0], {}, error="out of memory")
    assert all(row.ours == {} for row in table_of(grid, planned, Records(tmp_path)).rows)
    put(records, one.finals(records.get)[0], {}, times=times | {"GSPN parameters": 36876, "GIN parameters": 36765})
    table = table_of(grid, planned, Records(tmp_path))
    assert {row.label: row.ours["NCI1"].mean for row in table.rows} == {
        "GSPN forward": 1.0,
        "GSPN backward": 2.5,
        "GIN forward": 6.0,
        "GIN backward": 10.0,
    }
    assert {row.label: row.published["NCI1"].mean for row in table.rows} == {
        "GSPN forward": 30,
        "GSPN backward": 17,
        "GIN forward": 12,
        "GIN backward": 14,
    }
    assert "36,876 and 36,765" in table.notes[0]


def test_heat_maps_are_drawn_from_the_record(toy: Path, tmp_path: Path) -> None:
    text = """
    title = "Heat maps"
    question = "draw"
    measure = "nll per entry"
    [protocol]
    runs = 1
    [asked]
    molecules = [{ smiles = "CCl", edited = "CO" }]
    [data.TOY]
    folds = [0]
    [models.GSPN_U]
    system = "GSPN"
    """
    grid, records = parse_grid(text, "toy"), Records(tmp_path)
    (one,) = planned = contests(grid)
    change = {"smiles": "CCl", "edited": "CO", "change": [0.5, -1.0], "relative": [0.25, -0.5]}
    put(records, one.finals(records.get)[0], {}, changes=[change])
    (picture,) = findings(grid, planned, Records(tmp_path), "").parts
    assert isinstance(picture, Picture)
    assert picture.title == "Cl replaced by O in CCl"
    assert picture.notes[0] == "After the change: CO."
    assert "-0.50 nats" in picture.notes[1].replace("−", "-")
    assert "before: Cl" in picture.svg
    assert "after: O" in picture.svg
    assert picture.svg.lstrip().startswith(("<svg", "<?xml"))


def test_the_published_tables_are_whole() -> None:
    sizes = {name: (len(table), {len(row) for row in table.values()}) for name, table in PUBLISHED.items()}
    assert sizes == {
        "scarce supervision": (4, {8}),
        "missing data": (3, {7}),
        "graph classification": (11, {4, 1}),
        "shortcut ablation": (2, {4}),
        "time comparison": (4, {4}),
    }
    assert PUBLISHED["graph classification"]["ECC"] == {"NCI1": Number(76.2, 1.4, written=("76.2", "1.4"))}
