"""The yardstick of vertices: gaps have rates and causes, nobody sees what is to be predicted, scores are right."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from gspn.attributes import Binary, Categorical
from gspn.errors import InputError
from gspn.experiments import labelling
from gspn.experiments.findings import ResultTable
from gspn.experiments.grids import parse_grid, read_grid
from gspn.experiments.protocols import columns_of, contests
from gspn.experiments.records import Records
from gspn.experiments.tables import findings
from gspn.experiments.vertices import methods, sets
from gspn.experiments.vertices.gaps import MECHANISMS, gaps
from gspn.experiments.vertices.methods import METHODS, Probabilities, VertexTask, check_method, method_named
from gspn.experiments.vertices.networks import NETWORKS
from gspn.experiments.vertices.scores import judge
from gspn.experiments.vertices.sets import SETS, LabelledGraphs, VertexSource, parts

GRID = """
title = "Two ways to predict"
question = "label"
measure = "accuracy"
against = "frequencies"
[asked]
cases = [["random", 0.0], ["label", 0.5]]
seeds = 2
[data]
homophily = {}
heterophily-2 = {}
[models.frequencies]
system = "frequencies"
[models.propagation]
system = "label propagation"
"""


@pytest.fixture(scope="module")
def homophily() -> LabelledGraphs:
    return sets.load("homophily")


def task_of(found: LabelledGraphs, seed: int = 0, new_graphs: bool = False) -> VertexTask:
    train, validation, _ = parts(found, seed)
    seen = found.labels.masked_fill(~(train | validation), torch.nan)
    return VertexTask(found.dataset, seen, found.target, train, validation, new_graphs)


# ---- Sets and gaps


def test_every_kind_is_in_both_parts_of_the_list() -> None:
    assert {one.kind for one in SETS.values() if one.final} == {one.kind for one in SETS.values() if not one.final}
    assert set(SETS) == set(read_grid("vertices", "small").data)


def test_generated_sets_have_the_homophily_of_their_names() -> None:
    shares = {}
    for name in ("homophily", "heterophily"):
        found = sets.load(name)
        batch = found.dataset.batch(torch.arange(1))
        same = found.labels[batch.source.long()] == found.labels[batch.target.long()]
        shares[name] = float(same.double().mean())
    assert shares["homophily"] > 0.6
    assert shares["heterophily"] < 0.1


def test_parts_share_no_vertex_and_change_with_the_seed(homophily: LabelledGraphs) -> None:
    train, validation, test = parts(homophily, 0)
    assert bool((train.int() + validation.int() + test.int() == 1).all())
    assert train.double().mean() == pytest.approx(0.6, abs=0.08)
    assert not torch.equal(train, parts(homophily, 1)[0])


def test_new_graphs_are_divided_whole(homophily: LabelledGraphs) -> None:
    several = dataclasses.replace(
        homophily, dataset=homophily.dataset[[0]], new_graphs=True, labels=homophily.labels.clone()
    )
    train, validation, test = parts(several, 0)
    assert sorted(float(one.double().mean()) for one in (train, validation, test)) == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("rate", [0.3, 0.6, 0.9])
def test_gaps_have_their_rate_and_spare_what_is_visible(homophily: LabelledGraphs, mechanism: str, rate: float) -> None:
    """600 rows: five standard errors of a share are at most 0.1 where a vertex hides all or nothing."""
    found = dataclasses.replace(homophily, visible=(2,))
    mask = gaps(found, mechanism, rate, 0)
    assert not bool(mask[:, 2].any())
    assert mask[:, [0, 1, 3]].double().mean() == pytest.approx(rate, abs=0.1)
    if mechanism == "vertices":
        assert bool((mask[:, 0] == mask[:, 1]).all())
    if mechanism == "label":
        last = found.labels == len(found.target.categories) - 1
        assert mask[last, 0].double().mean() > mask[found.labels == 0, 0].double().mean() + 0.05


def test_nothing_is_hidden_at_a_rate_of_0(homophily: LabelledGraphs) -> None:
    assert not any(bool(gaps(homophily, mechanism, 0.0, 0).any()) for mechanism in MECHANISMS)


# ---- Methods


@pytest.mark.parametrize(
    "name", ["frequencies", "logistic regression", "label propagation", "correct and smooth", "GCN"]
)
def test_methods_give_probabilities_and_beat_frequencies(name: str, homophily: LabelledGraphs) -> None:
    task, test = task_of(homophily), parts(homophily, 0)[2]
    found = method_named(name)(task, 0)
    np.testing.assert_allclose(found.sum(1), 1.0, atol=1e-5)
    right = judge(found[test.numpy()], homophily.labels[test].long().numpy())["accuracy"]
    assert right > (0.2 if name == "frequencies" else 0.5)


@pytest.mark.parametrize("name", ["logistic regression", "label propagation", "GCN with labels"])
def test_labels_are_evidence_only_where_they_may_be(name: str, homophily: LabelledGraphs) -> None:
    """In new graphs nobody has any: what labels of the training part are next to says nothing of the others."""
    task = task_of(homophily, new_graphs=True)
    assert bool(task.known.isnan().all())
    shown = task_of(homophily)
    assert int((~shown.known.isnan()).sum()) == int(shown.train.sum())
    one, other = (method_named(name)(own, 0) for own in (task, shown))
    assert np.abs(one - other).max() > 0.01


def test_who_predicts_never_sees_what_is_to_be_predicted(
    homophily: LabelledGraphs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[VertexTask] = []

    def spy(task: VertexTask, seed: int) -> Probabilities:
        seen.append(task)
        return methods.frequencies(task, seed)

    monkeypatch.setitem(METHODS, "frequencies", spy)
    grid = parse_grid(GRID, "tried")
    one = contests(grid, ["homophily"], ["frequencies"])[-1]
    (record,) = labelling.label(one.candidates, tmp_path)
    train, validation, test = parts(homophily, one.candidates[0].seed)
    assert bool(seen[0].labels[test].isnan().all())
    assert not bool(seen[0].labels[train | validation].isnan().any())
    assert bool(seen[0].dataset.entries().isnan().any())
    assert {"macro F1", "accuracy", "log-loss", "calibration", "classes"} == set(record["scores"]["hidden"])


def test_settings_that_a_method_lacks_are_refused() -> None:
    check_method("GCN", {"labels": True})
    with pytest.raises(InputError, match="no method"):
        check_method("oracle", {})
    with pytest.raises(InputError, match="no setting 'depth'"):
        check_method("logistic regression", {"depth": 3})
    assert not {*NETWORKS} & {*METHODS}


# ---- Scores and reports


def test_scores_have_closed_forms() -> None:
    probs = np.array([[0.9, 0.1, 0.0], [0.6, 0.4, 0.0], [0.2, 0.8, 0.0], [0.3, 0.7, 0.0]])
    found = judge(probs, np.array([0, 1, 1, 1]))
    assert found["accuracy"] == 0.75
    # Of class 0: precision 1/2, recall 1; of class 1: precision 1, recall 2/3; class 2 does not occur.
    assert found["macro F1"] == pytest.approx((2 / 3 + 0.8) / 2)
    expected = -(math.log(0.9) + math.log(0.4) + math.log(0.8) + math.log(0.7)) / 4
    assert found["log-loss"] == pytest.approx(expected, abs=1e-5)
    assert found["calibration"] == pytest.approx((0.1 + 0.6 + 0.2 + 0.3) / 4, abs=1e-4)
    assert found["classes"] == 2


def test_a_probability_of_0_costs_no_more_than_a_bound() -> None:
    assert judge(np.array([[1.0, 0.0]]), np.array([1]))["log-loss"] == pytest.approx(-math.log(1e-6), abs=1e-3)


def test_final_sets_are_looked_at_on_demand() -> None:
    grid = parse_grid(GRID, "tried")
    assert columns_of(grid) == ["homophily"]
    assert columns_of(grid, final=True) == ["heterophily-2"]
    with pytest.raises(InputError, match="--final"):
        contests(grid, ["heterophily-2"])


def test_a_report_has_ranks_margins_and_who_predicts_one_class(tmp_path: Path) -> None:
    grid, records = parse_grid(GRID, "tried"), Records(tmp_path)
    planned = contests(grid)
    for contest in planned:
        (run,) = contest.candidates
        good = contest.row == "propagation"
        scores = {
            "macro F1": 0.8 if good else 0.1,
            "accuracy": 0.8,
            "log-loss": 0.5 if good else 1.0,
            "calibration": 0.1,
            "classes": 1.0,
        }
        found = {"scores": {"hidden": scores}, "curves": {}, "seconds": {"model": 1.0}, "versions": {}, "threads": 1}
        records.put({"key": run.key, "run": run.identity(), "commit": None, "finished": "", **found})
    found_by_now = findings(grid, planned, records, "a command")
    tables = {part.title: part for part in found_by_now.parts if isinstance(part, ResultTable)}
    ranks = {row.label: row.ours["1 - macro F1"].mean for row in tables["Average ranks"].rows}
    assert ranks == {"frequencies": 2.0, "propagation": 1.0}
    margins = {row.label: row.ours["log-loss"].mean for row in tables["Against frequencies"].rows}
    assert margins["propagation"] == pytest.approx(-0.5)
    assert any("propagation predicts a single class" in note for note in found_by_now.notes)
    assert not any("frequencies predicts a single class" in note for note in found_by_now.notes)


def test_several_seeds_have_accuracies_by_set_and_gaps(tmp_path: Path) -> None:
    grid, records = parse_grid(GRID.replace("seeds = 2", "seeds = 3"), "tried"), Records(tmp_path)
    planned = contests(grid)
    for contest in planned:
        (run,) = contest.candidates
        right = 0.5 + 0.1 * run.seed + (0.2 if run.asked["rate"] == 0 else 0.0)
        scores = {"macro F1": 0.5, "accuracy": right, "log-loss": 0.5, "calibration": 0.1, "classes": 2.0}
        found = {"scores": {"hidden": scores}, "curves": {}, "seconds": {"model": 1.0}, "versions": {}, "threads": 1}
        records.put({"key": run.key, "run": run.identity(), "commit": None, "finished": "", **found})
    parts = findings(grid, planned, records, "a command").parts
    (table,) = [part for part in parts if isinstance(part, ResultTable) and part.title == "Accuracy by set and gaps"]
    for row in table.rows:
        assert {name: number.mean for name, number in row.ours.items()} == pytest.approx(
            {"homophily, random 0%": 80.0, "homophily, label 50%": 60.0}
        )
        assert [number.deviation for number in row.ours.values()] == pytest.approx([10.0, 10.0])


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('["label", 0.5]', '["given", 0.5]', "cases.1.0: Input should be 'random', 'vertices', 'label' or 'value'"),
        ("homophily = {}", "nowhere = {}", "no set 'nowhere'"),
        ("homophily = {}", "homophily = { graphs = 3 }", "no options"),
        ('system = "frequencies"', 'system = "guessing"', "no method"),
    ],
)
def test_grids_are_refused_with_reasons(old: str, new: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        parse_grid(GRID.replace(old, new, 1), "tried")


def test_a_source_knows_its_labels(homophily: LabelledGraphs) -> None:
    source = VertexSource(name="homophily")
    assert source.load() is homophily.dataset
    assert source.digest() != VertexSource(name="heterophily").digest()
    assert isinstance(homophily.target, Categorical)
    assert any(isinstance(one, Binary) for one in homophily.dataset.schema)
