"""The yardstick: masks have their rates and causes, scores their closed forms, ranks are counted, looks recorded."""

from __future__ import annotations

import json
import logging
import math
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from scipy.stats import norm
from small_experiments import Here
from torch import Tensor

import gspn
from gspn.attributes import Binary, Categorical, Continuous, Count, Schema
from gspn.cli.experiment import run_experiment, show_report
from gspn.errors import InputError, MissingExtraError
from gspn.experiments import filling
from gspn.experiments.grids import parse_grid
from gspn.experiments.protocols import contests
from gspn.experiments.records import Records
from gspn.experiments.running import run
from gspn.experiments.yardstick import methods, sets
from gspn.experiments.yardstick.answers import Normals, Probabilities, Residuals, calibrated
from gspn.experiments.yardstick.looks import looks
from gspn.experiments.yardstick.masks import MECHANISMS, hidden_entries
from gspn.experiments.yardstick.methods import METHODS, answers_of
from gspn.experiments.yardstick.ranks import average_ranks, gains, over_sets
from gspn.experiments.yardstick.scores import BINS, bin_width, judge
from gspn.experiments.yardstick.sets import SETS, YardstickSource
from gspn.graphs import GraphDataset
from gspn.graphs.missing import with_missing

GRID = """
title = "Two ways to fill"
question = "impute"
measure = "nll per entry"
against = "Gaussian"
[asked]
cases = [["random", 0.3], ["value", 0.2]]
seeds = 2
[data]
iris = {}
wine-cultivars = {}
[models.mean]
system = "FeatureImputer"
[models.Gaussian]
system = "Gaussian"
[models."Gaussian, neighbours"]
system = "Gaussian"
settings = { neighbours = true }
"""


def table(columns: dict[str, list[float]], schema: Schema) -> GraphDataset:
    x = torch.tensor(list(columns.values()), dtype=torch.float64).T
    return sets._one_graph(schema, x.numpy(), np.zeros((2, 0)))


@pytest.fixture(scope="module")
def numbers() -> GraphDataset:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 2_000))
    k = rng.integers(3, size=2_000)
    columns = {"a": a.tolist(), "b": np.exp(a + b).tolist(), "k": k.astype(float).tolist()}
    return table(columns, Schema([Continuous("a"), Continuous("b"), Categorical("k", ["u", "v", "w"])]))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("rate", [0.2, 0.5])
def test_masks_have_their_rate_in_every_column_and_spare_what_is_visible(
    numbers: GraphDataset, mechanism: str, rate: float
) -> None:
    mask = hidden_entries(numbers, mechanism, rate, 3, ["a"])
    assert not mask[:, 0].any()
    assert (mask[:, 1:].double().mean(0) - rate).abs().max() < 4 * math.sqrt(rate * (1 - rate) / 2_000)
    assert torch.equal(mask, hidden_entries(numbers, mechanism, rate, 3, ["a"]))
    assert not torch.equal(mask, hidden_entries(numbers, mechanism, rate, 4, ["a"]))


def dependence(cause: Tensor, mask: Tensor) -> float:
    """How far the ranks of the cause of hidden and of shown entries lie apart, in deviations of ranks."""
    ranks = cause.argsort().argsort().double()
    return abs(float(ranks[mask].mean() - ranks[~mask].mean())) / float(ranks.std())


def test_masks_have_their_causes(numbers: GraphDataset) -> None:
    x = numbers.entries()
    by_chance = 5 / math.sqrt(2_000 * 0.25)
    for seed in range(3):
        at_random, given, by_value = (hidden_entries(numbers, one, 0.5, seed, ["a"])[:, 1] for one in MECHANISMS)
        assert dependence(x[:, 1], at_random) < by_chance
        assert dependence(x[:, 0], at_random) < by_chance
        assert dependence(x[:, 0], given) > 1.0
        assert dependence(x[:, 1], by_value) > 1.0
        # Given a, what b was has no say: within a thin slice of a nothing is left.
        own, slice_ = x[:, 1] / x[:, 0].exp(), x[:, 0].abs() < 0.3
        assert dependence(own[slice_], given[slice_]) < 0.4
        categories = hidden_entries(numbers, "value", 0.2, seed)[:, 2]
        shares = [float(categories[x[:, 2] == code].double().mean()) for code in range(3)]
        assert max(shares) > 2 * min(shares)


def test_without_a_visible_column_one_is_spared_that_the_others_depend_on(numbers: GraphDataset) -> None:
    for seed in range(5):
        mask = hidden_entries(numbers, "given", 0.5, seed)
        assert (mask.any(0).sum() == 2).all()


def test_gaps_of_the_data_are_not_hidden_again(numbers: GraphDataset) -> None:
    gaps = torch.zeros(2_000, 3, dtype=torch.bool)
    gaps[::2, 1] = True
    for mechanism in MECHANISMS:
        assert not (hidden_entries(with_missing(numbers, gaps), mechanism, 0.5, 0) & gaps).any()


def normals(attribute: Continuous | Count, mean: Tensor, deviation: float, center: float, spread: float) -> Normals:
    one = torch.ones(len(mean), 1, dtype=torch.float64)
    return Normals(attribute, one, ((mean - center) / spread)[:, None], one * deviation / spread, center, spread, 1e9)


def test_scores_of_a_gaussian_have_closed_forms() -> None:
    rng = np.random.default_rng(1)
    truth = torch.from_numpy(rng.normal(10.0, 4.0, size=(500, 1)))
    mean = truth[:, 0] + torch.from_numpy(rng.normal(0.0, 3.0, size=500))
    attribute, rows = Continuous("a"), torch.arange(500)
    found = judge(truth, [attribute], [(0, rows, normals(attribute, mean, 2.0, 7.0, 5.0))])
    x, spread = truth[:, 0].numpy(), float(truth.std(correction=0))
    z = (x - mean.numpy()) / 2.0
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean((x - mean.numpy()) ** 2)) / spread)
    delta = bin_width(attribute, truth[:, 0])
    assert delta == pytest.approx(spread / 50)
    mass = norm.cdf(z + delta / 4) - norm.cdf(z - delta / 4)
    assert found["nll"] == pytest.approx(float(np.mean(-np.log(mass / delta) - np.log(spread))), rel=1e-7)
    assert found["nll"] == pytest.approx(float(np.mean(-norm.logpdf(z) + np.log(2.0) - np.log(spread))), rel=1e-3)
    crps = 2.0 * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    assert found["crps"] == pytest.approx(crps.mean() / spread, rel=0.01)
    assert found["coverage"] == pytest.approx(np.mean(np.abs(z) < norm.ppf(0.95)))
    assert found["width"] == pytest.approx(4.0 * norm.ppf(0.95) / spread)
    assert found["pit"] == np.histogram(norm.cdf(z), BINS, (0, 1))[0].tolist()


def test_a_value_far_in_the_tail_costs_its_density_and_not_a_bound() -> None:
    truth = torch.tensor([[0.0], [1.0], [60.0], [2.0]], dtype=torch.float64)
    attribute = Continuous("a")
    answer = normals(attribute, torch.zeros(1, dtype=torch.float64), 1.0, 0.0, 1.0)
    found = judge(truth, [attribute], [(0, torch.tensor([2]), answer)])
    spread = float(truth.std(correction=0))
    assert found["nll"] == pytest.approx(60.0**2 / 2 + 0.5 * math.log(2 * math.pi) - math.log(spread))


def test_the_costliest_entry_and_the_coverage_of_rows_alone() -> None:
    truth = torch.tensor([[0.0], [1.0], [60.0], [2.0]], dtype=torch.float64)
    attribute, rows = Continuous("a"), torch.arange(4)
    answer = normals(attribute, torch.zeros(4, dtype=torch.float64), 1.0, 0.0, 1.0)
    found = judge(truth, [attribute], [(0, rows, answer)], torch.tensor([True, False, True, False]))
    spread = float(truth.std(correction=0))
    assert found["costliest"] == pytest.approx(60.0**2 / 2 + 0.5 * math.log(2 * math.pi) - math.log(spread))
    assert (found["coverage"], found["coverage alone"], found["entries alone"]) == (0.5, 0.5, 2)
    nobody = judge(truth, [attribute], [(0, rows, answer)], torch.zeros(4, dtype=torch.bool))
    assert (nobody["coverage alone"], nobody["entries alone"]) == (None, None)


def test_alone_are_those_that_receive_nothing_observed() -> None:
    x = np.array([[0.0], [np.nan], [1.0], [2.0]])
    edges = np.array([[1, 0, 0], [0, 1, 2]])  # 0 receives from a gap, 1 and 2 from 0, 3 from none
    dataset = sets._one_graph(Schema([Continuous("a")]), x, edges)
    alone = filling._alone(dataset)
    assert alone is not None
    assert alone.tolist() == [True, False, False, True]
    assert filling._alone(methods._of_rows(dataset)) is None


def test_without_edges_answers_are_those_of_the_rows() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(60, 2))
    x[rng.random((60, 2)) < 0.2] = np.nan
    edges, schema = np.stack([np.arange(60), np.roll(np.arange(60), 1)]), Schema([Continuous("a"), Continuous("b")])
    linked, apart = sets._one_graph(schema, x, edges), sets._one_graph(schema, x, np.zeros((2, 0)))
    found = [
        torch.cat([cast(Any, answer).mean for *_, answer in methods.selected_gspn(one, 0, effort="quick", edges=edges)])
        for one, edges in ((linked, False), (apart, True))
    ]
    assert torch.equal(*found)


def test_scores_of_categories_and_of_entries_without_a_truth() -> None:
    truth = torch.tensor([[0.0], [2.0], [torch.nan]], dtype=torch.float64)
    probs = torch.tensor([[0.7, 0.2, 0.1], [0.5, 0.25, 0.25], [1.0, 0.0, 0.0]], dtype=torch.float64)
    found = judge(truth, [Categorical("k", ["u", "v", "w"])], [(0, torch.arange(3), Probabilities(probs))])
    assert found["entries"] == 2
    assert found["accuracy"] == 0.5
    assert found["nll"] == pytest.approx(-(math.log(0.7) + math.log(0.25)) / 2)
    assert found["rmse"] is None


def test_counts_have_masses_that_sum_to_one() -> None:
    attribute = Count("n")
    mean = torch.full((400,), 2.0, dtype=torch.float64)
    x = torch.arange(400).double()
    for answer in (
        normals(attribute, mean, 0.8, 1.0, 0.5),
        Residuals(attribute, mean + 3, torch.tensor([-2.0, 0.0, 0.5, 3.0]).double(), 1.0),
    ):
        below = answer.cumulative(x)
        assert below[-1] == pytest.approx(1.0, abs=1e-4)
        assert (below.diff() >= 0).all()
        for q in (0.1, 0.5, 0.9):
            found = answer.quantile(q)
            assert (answer.cumulative(found) >= q - 1e-3).all()
            assert ((answer.cumulative(found - 1) < q + 1e-3) | (found == 0)).all()
    # On the scale log(1 + n) a normal: exp(2 + 0.8² / 2) - 1 is its mean.
    assert float(normals(attribute, mean, 0.8, 1.0, 0.5).mean[0]) == pytest.approx(math.exp(2.32) - 1)


def test_residuals_are_a_distribution_around_the_point() -> None:
    errors = torch.from_numpy(np.random.default_rng(2).normal(0.5, 1.0, size=60))
    answer = Residuals(Continuous("a"), torch.full((20_001,), 7.0).double(), errors, 0.05)
    x = torch.linspace(-60, 80, 20_001, dtype=torch.float64)
    density = answer.log_prob(x).exp()
    assert float(torch.trapezoid(density, x)) == pytest.approx(1.0, abs=1e-3)
    slope = answer.cumulative(x).diff() / x.diff()
    torch.testing.assert_close(slope, (density[1:] + density[:-1]) / 2, atol=1e-4, rtol=0)
    assert float(answer.cumulative(answer.quantile(0.3))[0]) == pytest.approx(0.3, abs=1e-4)
    assert answer.log_prob(torch.full((20_001,), 1e6).double()).isfinite().all()


def test_a_category_is_as_probable_as_it_was_right() -> None:
    found = calibrated(torch.tensor([1, 0]), torch.tensor([5.0, 1.0, 2.0]).double(), hits=7, tries=8).probs
    torch.testing.assert_close(found.sum(1), torch.ones(2).double())
    assert found[0, 1] == pytest.approx(0.8)
    assert found[0, 0] / found[0, 2] == pytest.approx(5.5 / 2.5)


def test_ranks_are_counted_by_case_and_averaged_by_set() -> None:
    scores = {
        ("s", "1"): {"a": 1.0, "b": 2.0, "c": 2.0},
        ("s", "2"): {"a": 1.0, "b": 3.0, "c": 2.0},
        ("t", "1"): {"a": 5.0, "b": 1.0, "c": math.inf},
    }
    ranks = average_ranks(scores)
    assert [ranks[name][0] for name in "abc"] == [(1 + 2) / 2, (2.75 + 1) / 2, (2.25 + 3) / 2]
    assert ranks["a"][1:] == (1.0, 2.0)  # there are two sets to draw
    halves = {where: {name: 2 * score for name, score in found.items()} for where, found in scores.items()}
    both = {where: {"x": scores[where]["a"], "y": halves[where]["a"]} for where in scores}
    assert gains(both, "x", relative=True)["y"] == pytest.approx((1.0, 1.0, 1.0))
    assert gains(both, "x", relative=False)["y"][0] == pytest.approx((1.0 + 5.0) / 2)
    assert over_sets({}) == {}


def test_the_list_is_divided_with_every_kind_in_both_parts() -> None:
    kinds = {final: {one.kind for one in SETS.values() if one.final == final} for final in (False, True)}
    assert kinds[False] == kinds[True]
    assert all(sum(one.final == final for one in SETS.values()) >= 7 for final in (False, True))


@pytest.mark.parametrize("name", SETS)
def test_sets_are_complete_small_and_typed(name: str) -> None:
    try:
        dataset = sets.load(name)
    except (InputError, MissingExtraError, FileNotFoundError) as error:
        pytest.skip(str(error))
    x = dataset.entries()
    assert 50 <= len(x) <= sets.MOST_ROWS
    assert x.isnan().double().mean() < 0.01
    assert all(len(column[~column.isnan()].unique()) > 1 for column in x.unbind(1))
    assert {*SETS[name].visible} <= {*dataset.schema.names}
    assert bool(dataset.num_edges_per_graph().sum()) == (SETS[name].kind not in ("table", "bundled"))
    assert YardstickSource(name=name).digest() == YardstickSource(name=name).digest()


@pytest.mark.parametrize("name", ["FeatureImputer", "Gaussian", "GaussianMixture", "GSPN, default"])
def test_methods_answer_for_every_gap_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gspn.policy.learning._MOST_EPOCHS", 2)
    truth = sets.load("iris")
    observed = with_missing(truth, hidden_entries(truth, "random", 0.3, 0))
    answered = torch.zeros(truth.entries().shape)
    answers = list(METHODS[name](observed, 0))
    for column, rows, _ in answers:
        answered[rows, column] += 1
    assert torch.equal(answered, observed.entries().isnan().float())
    found = judge(truth.entries(), truth.schema, answers)
    assert found["entries"] == int(observed.entries().isnan().sum())
    assert all(math.isfinite(found[score]) for score in ("rmse", "accuracy", "nll", "crps", "coverage", "width"))


def test_what_a_model_answers_is_what_it_imputes() -> None:
    truth = sets.load("iris")
    observed = with_missing(truth, hidden_entries(truth, "random", 0.3, 0))
    model = gspn.GSPN(truth.schema, num_layers=1, num_states=3, epochs=1).fit(observed, progress=False)
    filled = torch.cat([graph.x for graph in model.impute(observed)])
    for column, rows, answer in answers_of(model, observed):
        values = answer.probs.argmax(1) if column == 4 else answer.mean  # type: ignore[union-attr]
        torch.testing.assert_close(values.double(), filled[rows, column].double())


def test_a_gaussian_beats_the_mean_and_neighbours_tell_where_there_are_edges() -> None:
    """A column that a vertex shares with its neighbours and with nothing else."""
    rng = np.random.default_rng(3)
    group = np.repeat(np.arange(60), 5)
    x = np.stack([rng.normal(size=60)[group] + rng.normal(0, 0.1, 300), rng.normal(size=300)], axis=1)
    pairs = [(i, j) for i in range(300) for j in range(300) if i != j and group[i] == group[j]]
    truth = sets._one_graph(Schema([Continuous("a"), Continuous("b")]), x, np.array(pairs).T)
    observed = with_missing(truth, hidden_entries(truth, "random", 0.2, 0, ["b"]))

    def rmse(**settings: bool) -> float:
        found = judge(truth.entries(), truth.schema, METHODS["Gaussian"](observed, 0, **settings))["rmse"]
        assert isinstance(found, float)
        return found

    assert rmse(neighbours=True) < 0.4 * rmse()


def test_runs_are_resumed_and_shared_by_rows_that_are_the_same(tmp_path: Path) -> None:
    planned = contests(parse_grid(GRID, "two"))
    assert {contest.column for contest in planned} == {"iris"}  # the other is a final one
    records = Records(tmp_path)
    assert run(planned[:5], records, Here(tmp_path)) == []
    before = {record["key"]: record["finished"] for record in records.all()}
    runner = Here(tmp_path)
    assert run(planned, Records(tmp_path), runner) == []
    after = {record["key"]: record["finished"] for record in Records(tmp_path).all()}
    assert len(after) == 2 * 2 * 2  # cases, seeds, and methods that differ without edges
    assert before.items() <= after.items()


def test_final_sets_are_looked_at_on_demand_and_looks_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gspn.experiments.local.LocalRunner", lambda folder, **settings: Here(folder))
    grid, results = tmp_path / "two.toml", tmp_path / "results"
    grid.write_text(GRID)
    with pytest.raises(InputError, match="needs --final"):
        run_experiment("imputation", str(grid), ["wine-cultivars"], results=results, quiet=True)
    run_experiment("imputation", str(grid), results=results, quiet=True, as_json=True)
    shown = json.loads(capsys.readouterr().out)
    assert looks(results) == []
    assert [part["title"] for part in shown["parts"]][:2] == ["Average ranks", "Against Gaussian"]
    assert {row["label"] for row in shown["parts"][0]["rows"]} == {"mean", "Gaussian", "Gaussian, neighbours"}
    assert (results / "imputation-two" / "figures" / "average-rank-by-nll.svg").is_file()
    run_experiment("imputation", str(grid), results=results, model=["mean"], final=True, quiet=True)
    (look,) = looks(results)
    assert look["sets"] == ["wine-cultivars"]
    assert look["methods"] == ["mean"]
    assert (results / "imputation-two-final" / "report.md").is_file()
    show_report("imputation", str(grid), results=results, final=True)
    assert len(looks(results)) == 2


def test_sets_that_are_not_there_are_skipped_with_a_note(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sets.load.cache_clear()
    monkeypatch.delenv("GSPN_DATA_ROOT", raising=False)
    monkeypatch.setattr(sets, "find_spec", lambda name: None)
    grid = parse_grid(GRID.replace("iris = {}", "iris = {}\nconcrete = {}\ncars = {}"), "more")
    with caplog.at_level(logging.WARNING):
        assert {contest.column for contest in contests(grid)} == {"iris"}
    assert "concrete is skipped" in caplog.text
    assert "vega_datasets is not installed" in caplog.text


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('system = "Gaussian"\n[', 'system = "Magic"\n[', "no method 'Magic'"),
        ("neighbours = true", "colour = true", "no setting colour"),
        ('["value", 0.2]', '["whim", 0.2]', "cases.1.0: Input should be 'random', 'given' or 'value'"),
        ('["value", 0.2]', '["value", 1.5]', "cases.1.1: Input should be less than 1"),
        ("iris = {}", "atlantis = {}", "no set 'atlantis'"),
    ],
)
def test_grids_are_refused_with_reasons(old: str, new: str, reason: str) -> None:
    assert old in GRID
    with pytest.raises(InputError, match=reason):
        parse_grid(GRID.replace(old, new), "wrong")


def test_binary_and_few_numbers_are_categories() -> None:
    made = sets._typed({"two": [1.0, 3.0] * 5, "few": [1.0, 2.0, 3.0, 1.0, 2.0] * 2, "text": list("abcabcabca")})
    assert [type(attribute) for attribute in made.schema] == [Binary, Categorical, Categorical]
    assert methods.settings_of("Gaussian") == {"components", "neighbours"}
