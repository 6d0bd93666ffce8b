"""Grids: what is read, what is refused, and that everything shipped is right."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from refusals import naming
from small_experiments import FILL, PREDICT, TIME

import gspn.experiments
from gspn.attributes import Binary, Categorical, Continuous, Schema
from gspn.errors import GSPNError, MissingExtraError
from gspn.experiments import systems
from gspn.experiments.grids import parse_grid, read_grid, shipped
from gspn.experiments.published import PUBLISHED


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_grid_is_read_and_its_rows_are_found_in_the_paper(name: str) -> None:
    grid = read_grid(*name.split("/"))
    assert grid.models
    assert grid.data
    if grid.paper is not None and grid.question != "time":
        table = PUBLISHED[grid.paper]
        assert {entry.published or row for row, entry in grid.models.items()} & set(table)
        assert set(grid.data) <= set(next(iter(table.values())))


@pytest.mark.parametrize("name", [name for name in shipped() if not name.startswith(("imputation/", "vertices/"))])
def test_every_configuration_of_every_shipped_grid_can_be_made(name: str) -> None:
    """A typo in a grid that is rarely run is found here. Heads are made when the grid is read."""
    grid = read_grid(*name.split("/"))
    classes, tasks = Categorical("class", range(5)), Schema([Binary("a"), Binary("b")])
    number = Continuous("energy")
    targets = {"mean absolute error": number, "R²": number, "average precision": tasks}
    schema = Schema([Categorical("element", ["C", "O"]), Continuous("charge")])
    stand_in: Any = SimpleNamespace(schema=schema, target=targets.get(grid.measure, classes))
    wanted = {
        (entry.system, repr(settings)): settings
        for entry in grid.models.values()
        for column in entry.data or grid.data
        for settings, _ in entry.configurations(column)
    }
    assert wanted
    for (system, _), settings in wanted.items():
        taken = systems.build(system, settings, stand_in, seed=1).get_params(deep=False)
        assert all(taken[key] == value for key, value in settings.items() if key != "network")


def test_each_experiment_of_the_paper_has_a_small_grid() -> None:
    experiments = {name.split("/")[0] for name in shipped() if name.endswith("/small")}
    assert experiments >= {
        "missing-data",
        "graph-classification",
        "scarce-supervision",
        "scarce-continuous",
        "scarce-muv",
        "shortcut-ablation",
        "levels",
        "time-comparison",
        "heat-maps",
    }


def test_the_paper_grids_have_the_paper_numbers_of_configurations() -> None:
    """Products of the lists in the appendix: 4·2 mixtures; 3·4·2 models times 4·2 heads."""
    missing = read_grid("missing-data", "paper").models
    assert len(missing["GMM"].configurations("benzene")) == len(missing["GSPN_U"].configurations("benzene")) == 8
    classification = read_grid("graph-classification", "paper").models
    assert len(classification["GSPN_U+DS"].configurations("NCI1")) == 24 * 8
    scarce = read_grid("scarce-supervision", "paper").models
    assert len(scarce["GSPN_U+DS"].configurations("benzene")) == (4 * 3 * 2) * (4 * 2 * 2)
    assert len(scarce["GIN"].configurations("benzene")) == 3 * 2 * 2 * 3 * 2 * 2


def test_configurations_are_all_combinations_with_heads_of_one_model_together() -> None:
    configurations = parse_grid(PREDICT, "toy").models["GSPN_U+DS"].configurations("TOY")
    assert [(model["num_states"], head and head["pooling"]) for model, head in configurations] == [
        (2, "sum"),
        (2, "mean"),
        (3, "sum"),
        (3, "mean"),
    ]
    assert all(model["num_layers"] == 2 and head == {**(head or {}), "hidden": 4} for model, head in configurations)


def test_none_and_dots_in_a_search() -> None:
    text = PREDICT + (
        '[models.GIN]\nsystem = "GIN"\nsettings = { network = { num_layers = 2 } }\n'
        'search = { "network.hidden" = [8, 16], clip = ["none", 1.0] }\n'
    )
    found = [settings for settings, _ in parse_grid(text, "toy").models["GIN"].configurations("TOY")]
    assert found[0] == {"network": {"num_layers": 2, "hidden": 8}, "clip": None}
    assert [(each["network"]["hidden"], each["clip"]) for each in found] == [(8, None), (8, 1.0), (16, None), (16, 1.0)]


def test_settings_of_a_column_replace_those_of_the_row() -> None:
    text = PREDICT + "[models.GSPN_S.instead.TOY]\nsettings = { epochs = 7 }\nsearch = { num_states = [5] }\n"
    ((settings, head),) = parse_grid(text, "toy").models["GSPN_S"].configurations("TOY")
    assert head is None
    assert (settings["epochs"], settings["num_states"], settings["lr"]) == (7, 5, 0.05)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("runs = 2", "runs = 2\nrnus = 3", "[protocol]: unknown key rnus"),
        ("runs = 2", 'runs = "two"', "[protocol]: runs: Input should be a valid integer, got 'two'"),
        ("runs = 2", "runs = true", "[protocol]: runs: Input should be a valid integer, got True"),
        ('question = "predict"', 'question = "guess"', "'question' does not match .. 'predict',"),
        ('measure = "accuracy"', 'measure = "acuracy"', "measure must be one of 'accuracy', 'average precision'"),
        ('measure = "accuracy"', "", "measure: Field required"),
        ('division = "published"', 'division = "random"', "[protocol]: division: .. 'published', 'hold-out'"),
        ('system = "Constant"', 'system = "Konstant"', "[models.Constant]: there is no system 'Konstant'"),
        ("num_graph_states = 4", "num_graph_sates = 4", "[models.GSPN_S]: .. no setting num_graph_sates"),
        ("num_states = [2, 3]", "num_states = 2", "[models.GSPN_S]: search.num_states: .. valid list"),
        ("num_states = [2, 3]", "num_states = []", "[models.GSPN_S]: search.num_states: .. at least"),
        ("hidden = 4", "hiden = 4", "[models.GSPN_U+DS]: head:"),
        ("hidden = 4", "hidden = 0", "hidden must be"),
        ("[data.TOY]", "[data.TOY]\ngraps = 3", "[data.TOY]: unknown key graps"),
        ('system = "Constant"', 'system = "Constant"\ndata = ["TOI"]', "[models.Constant]: there is no [data.TOI]"),
        ('system = "Constant"', 'system = "GSPN"', "[models.Constant]: GSPN is not a system that predicts"),
        ("[data.TOY]", "", "[data]: Field required"),
        ("title", "title = = ", "line 2"),
        ("[data.TOY]", "[asked]\nmask_seed = 1\n[data.TOY]", "[asked]: unknown key mask_seed; known are none"),
        ("runs = 2", "runs = -1", "[protocol]: runs: Input should be greater than or equal to 0"),
        ('division = "published"', 'division = "hold-out"\ntest = 1.0', "[protocol]: test: .. less than"),
        ('division = "published"', 'division = "k-fold"\nfolds = 2\nvalidation = 0', "[protocol]: validation:"),
        ('division = "published"', 'division = "k-fold"\nfolds = 2\ntest = 0.1', "'k-fold' has no use for test"),
        ("runs = 2", "runs = 2\nvalidation = 0.2", "[protocol]: the division 'published' has no use for validation"),
        ("[data.TOY]", "[data.TOY]\ngraphs = 30", "[data.TOY]: published folds are of all graphs"),
        ("[data.TOY]", "[data.TOY]\noptions = { progress = true }", "[data.TOY]: progress is not an option"),
        ("num_states = [2, 3]", "lr = [0.1, nan]", "[models.GSPN_S]: search.lr.1: .. finite, got nan"),
        ("hidden = 4", "hidden = 2026-11-18", "[models.GSPN_U+DS]: head.hidden: .. datetime.date(2026"),
        ("runs = 2", "seed = -1", "[protocol]: seed: Input should be greater than or equal to 0"),
        ("[data.TOY]", "[data.TOY]\ngraphs = 0", "[data.TOY]: graphs: Input should be greater than or equal to 1"),
        ("[data.TOY]", "[data.TOY]\nlabels = 0", "[data.TOY]: labels: Input should be greater than or equal to 1"),
        ("[data.TOY]", "[data.TOY]\nfolds = [-1]", "[data.TOY]: folds.0: .. or equal to 0"),
        ("[data.TOY]", "[data.TOY]\nfolds = [1, 1]", "[data.TOY]: folds must be different numbers, got [1, 1]"),
        ("[data.TOY]", "[data.TOY]\nfolds = []", "[data.TOY]: folds: Value should have at least 1 item"),
        ("[data.TOY]", '[data.TOY]\nfolds = ["first"]', "[data.TOY]: folds.0: .. valid integer"),
        ("[data.TOY]", "[data]\nTOY = 3", "[data.TOY]: .. valid dictionary"),
        ('division = "published"', 'division = "hold-out"', "[data.TOY]: the division 'hold-out' has no folds"),
        ('division = "published"', 'division = "k-fold"\nfolds = 1', "[protocol]: folds: .. greater"),
        ('division = "published"', 'division = "k-fold"', "[protocol]: the division 'k-fold', and no other, needs"),
        ("runs = 2", "runs = 2\nfolds = 3", "[protocol]: the division 'k-fold', and no other, needs"),
        ("[data.TOY]", "[data.TOY]\nlabels = 1.5", "[data.TOY]: labels: Input should be less than 1, got 1.5"),
        ("[data.TOY]", "[data.TOY]\nlabels = 0.0", "[data.TOY]: labels: Input should be greater than 0, got 0.0"),
        ('["curves"]', '["curve"]', "figures.0: Input should be 'curves' or 'levels', got 'curve'"),
        ('["curves"]', '["levels"]', "[models.Constant]: the figure 'levels' needs num_layers"),
        ('["curves"]', '["curves"]\npaper = "the other"', "paper must be one of None, 'scarce supervision',"),
        ('["curves"]', '["curves"]\nagainst = "GMM"', "against must be one of .. 'Constant', 'GSPN_S', 'GSPN_U+DS'"),
        ('["curves"]', '["curves"]\nnotes = [3]', "notes.0: Input should be a valid string, got 3"),
        ('measure = "accuracy"', 'measure = "nll per entry"', "is not judged by the measure 'nll per entry'"),
        ('system = "Constant"', 'system = "Constant"\nruns = -1', "[models.Constant]: runs:"),
        ('system = "Constant"', 'system = "Constant"\npublished = "GIN"', "[models.Constant]: published: the paper's"),
        ("head = { hidden = 4, epochs = 3 }", "", "[models.GSPN_U+DS]: head_search needs a head"),
        ("hidden = 4", "hidden = 4, seed = 1", "[models.GSPN_U+DS]: head: the seed"),
        ("num_states = [2, 3]", "num_states = [2, 2]", "the same configuration twice for TOY"),
        ("num_states = [2, 3]", "num_states = [2], epochs = [1]", "[models.GSPN_S]: epochs is both in settings and"),
    ],
)
def test_a_wrong_grid_is_refused_with_its_place(old: str, new: str, complaint: str) -> None:
    text = PREDICT.replace("[data.TOY]", "[data.TOY]\nfolds = [0]") if "hold-out" in new else PREDICT
    assert old in text
    refuse(text.replace(old, new), complaint)


def refuse(text: str, complaint: str) -> None:
    with pytest.raises(GSPNError, match=f"(?s)^grid toy.*{naming(complaint)}"):
        parse_grid(text, "toy")


@pytest.mark.parametrize(
    ("row", "own", "complaint"),
    [
        ("GSPN_S", "TOY = { setings = {} }", "[models.GSPN_S]: instead.TOY: unknown key setings; known are settings,"),
        ("GSPN_S", "TOY = { system = 'GIN' }", "[models.GSPN_S]: instead.TOY: unknown key system"),
        ("GSPN_S", "TOY = { settings = 3 }", "[models.GSPN_S]: instead.TOY.settings: .. dictionary"),
        ("GSPN_S", "TOY = { search = { lr = 0.1 } }", "instead.TOY.search.lr: Input should be a valid list, got 0.1"),
        ("GSPN_S", "TOY = 3", "[models.GSPN_S]: instead.TOY: .. dictionary"),
        ("GSPN_S", "TOY = { settings = { levels = 3 } }", "[models.GSPN_S]: SupervisedGSPN has no setting levels"),
        ("GSPN_S", "TOY = { settings = { num_states = 3 } }", "instead.TOY: num_states is searched"),
        ("GSPN_S", "TOY = { head_search = { hidden = [3] } }", "instead.TOY has a head, the row has none"),
        ("GSPN_S", "OTHER = {}", "[models.GSPN_S]: there is no [data.OTHER]"),
        ('"GSPN_U+DS"', "TOY = { head = { pooling = 'sum' } }", "instead.TOY: pooling is searched"),
        ('"GSPN_U+DS"', "TOY = { head_search = { hidden = [0] } }", "[models.GSPN_U+DS]: head: hidden must be"),
    ],
)
def test_what_a_column_has_instead_is_checked_alike(row: str, own: str, complaint: str) -> None:
    refuse(f"{PREDICT}[models.{row}.instead]\n{own}\n", complaint)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ("settings = { network = 3 }", "[models.GIN]: network must be a table of settings of GIN, got 3"),
        (
            'settings = { network = "deep" }\nsearch = { "network.hidden" = [8] }',
            "[models.GIN]: network must be a table",
        ),
        ("settings = { network = { hiden = 3 } }", "[models.GIN]: GIN has no setting hiden"),
        ('search = { "lr.hidden" = [8] }\nsettings = { lr = 0.1 }', "[models.GIN]: lr must be a table"),
    ],
)
def test_settings_of_a_network_are_a_table(settings: str, complaint: str) -> None:
    refuse(f'{PREDICT}[models.GIN]\nsystem = "GIN"\n{settings}\n', complaint)


FOLDS = PREDICT.replace('"published"', '"k-fold"\nfolds = 4')
MORE = '[models.other]\nsystem = "SupervisedGSPN"\nsettings = { num_layers = 2, num_states = 4, num_graph_states = 5 }'
SEARCH = "num_states = 4 }\nsearch = { num_graph_states = [5, 6] }"


@pytest.mark.parametrize(
    ("text", "old", "new", "complaint"),
    [
        (
            TIME,
            "num_states = 4, ",
            "",
            "[models.both]: .. takes SupervisedGSPN .. num_layers, num_states",
        ),
        (TIME, "num_states = 4", "num_states = 4, lr = 1.0", "[models.both]: .. 'time' takes SupervisedGSPN"),
        (TIME, "runs = 1", "runs = 0", "takes one configuration, without search, and at least one"),
        (TIME, "runs = 1", "runs = 3", "takes one run, which repeats its steps itself, got 3"),
        (TIME, "[models.both]", f"{MORE}\n[models.both]", "[models]: .. at most 1 item"),
        (TIME, "num_states = 4, num_graph_states = 5 }", SEARCH, "takes one"),
        (
            FILL,
            "[models.GSPN_U]",
            "head = {}\n[models.GSPN_U]",
            "[models.GMM]: .. 'fill' has no use for a head",
        ),
        (FILL, "mask_seed = 0", "", "[asked]: mask_seed: .. required"),
        (FOLDS, "[data.TOY]", "[data.TOY]\nfolds = [0, 4]", "[data.TOY]: there are 4 folds, counted from 0"),
    ],
)
def test_other_questions_and_divisions_need_other_things(text: str, old: str, new: str, complaint: str) -> None:
    parse_grid(text, "toy")
    refuse(text.replace(old, new), complaint)


def test_a_file_in_another_encoding_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_bytes(PREDICT.replace('title = "', 'title = "Ångström, ', 1).encode("latin-1"))
    with pytest.raises(GSPNError, match=r"own\.toml is not UTF-8"):
        read_grid("toy", str(file))
    file.write_text(PREDICT.replace('title = "', 'title = "Ångström, ', 1), encoding="utf-8")
    assert read_grid("toy", str(file)).title.startswith("Ångström")


def test_all_that_is_wrong_is_said_at_once() -> None:
    wrong = PREDICT.replace("runs = 2", "runs = -1").replace("num_states = [2, 3]", "num_states = []")
    with pytest.raises(GSPNError) as raised:
        parse_grid(wrong, "toy")
    lines = str(raised.value).splitlines()
    assert [line.split(": ")[:2] for line in lines] == [
        ["grid toy, [protocol]", "runs"],
        ["grid toy, [models.GSPN_S]", "search.num_states"],
        ["grid toy, [models.GSPN_U+DS]", "search.num_states"],
    ]


def test_experiments_without_pydantic_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic", None)
    with pytest.raises(MissingExtraError, match=r"gspn\[experiments\]"):
        importlib.reload(gspn.experiments)


def test_grids_come_from_the_package_or_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(FILL)
    assert read_grid("whatever", str(path)) == parse_grid(FILL, "own")
    with pytest.raises(GSPNError, match="cannot read the grid"):
        read_grid("whatever", str(tmp_path / "absent.toml"))
    with pytest.raises(GSPNError, match="there is no grid missing-data/huge"):
        read_grid("missing-data", "huge")
    with pytest.raises(GSPNError, match="there is no grid"):
        read_grid("../secrets", "small")
