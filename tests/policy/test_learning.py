"""The policy: sizes that suit the data, what is held out, levels that grow, and one training without a break."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from comparison import losses, same
from small_graphs import EVERY_KIND, draw_graph, draw_graphs
from torch_geometric.data import Data

from gspn import GSPN, Binary, Continuous, GraphDataset, Schema, SupervisedGSPN, pack, policy
from gspn.errors import InputError
from gspn.graphs.missing import uniform_mask, with_missing
from gspn.models import fitting as model_module
from gspn.models.fitting import Judge
from gspn.models.growing import grow, mixture_for
from gspn.policy import candidates, selection
from gspn.queries.scoring import training_scores

FEW = pack(draw_graphs(12, seed=0), EVERY_KIND)
"""Some 80 vertices, so entries are held out"""
MANY = pack(draw_graphs(120, seed=1), EVERY_KIND)


def rows(x: Any, edges: bool = False) -> GraphDataset:
    """One graph of rows [N, d] of numbers, in a ring or without edges."""
    x = torch.as_tensor(x, dtype=torch.float64)
    ring = torch.stack([torch.arange(len(x)), torch.arange(len(x)).roll(1)])
    schema = Schema([Continuous(f"x{column}") for column in range(x.shape[1])])
    return pack([Data(x=x, edge_index=ring if edges else ring[:, :0])], schema)


# Sizes.


def test_sizes_follow_the_data() -> None:
    few, many = policy.settings_for(FEW), policy.settings_for(MANY)
    assert (few["num_layers"], few["num_states"], few["epochs"], few["patience"]) == (3, 4, 200, 50)
    assert (many["num_states"], many["epochs"]) == (20, 200)
    assert policy.settings_for(rows(torch.randn(300, 2)))["num_layers"] == 1, "levels are of no use without edges"
    assert policy.settings_for(rows(torch.randn(300, 2), edges=True))["num_states"] == 7
    typed = pack(draw_graphs(3, seed=0, edge_types=4), EVERY_KIND)
    assert policy.settings_for(typed)["num_edge_types"] == 4
    assert policy.settings_for(replace(typed, edge_types=("a", "b", "c", "d", "e")))["num_edge_types"] == 5
    assert policy.settings_for(pack(draw_graphs(640, seed=0, sizes=(2, 3)), EVERY_KIND))["epochs"] == 75


def test_what_is_said_stays() -> None:
    said = {"num_layers": 2, "num_states": 5, "epochs": 7, "batch_size": 3, "lr": 0.5, "objective": "pseudo"}
    settings = policy.settings_for(FEW, **said, seed=None)
    assert {name: settings[name] for name in said} == said
    assert settings["patience"] == 5
    assert policy.settings_for(FEW, epochs=0, patience=1)["patience"] == 1
    assert policy.settings_for(FEW, epochs=0)["epochs"] == 0
    assert policy.settings_for(pack(draw_graphs(64, seed=0), EVERY_KIND), batch_size=1)["epochs"] == 30
    model = policy.model_for(FEW, num_states=3)
    assert (model.num_layers, model.num_states, model.objective, model.lr) == (3, 3, "masked", 0.1)
    with pytest.raises(InputError, match="epochs must be an integer"):
        policy.model_for(FEW, epochs="many")
    with pytest.raises(InputError, match="num_states must be an integer"):
        policy.model_for(FEW, num_states=0)


# What is held out.


def test_of_many_graphs_a_tenth_is_held_out() -> None:
    training, held_out = policy.hold_out(GSPN(EVERY_KIND), MANY)
    assert isinstance(held_out, GraphDataset)
    assert (len(training), len(held_out)) == (108, 12)


def test_of_few_graphs_a_tenth_of_the_entries_is_held_out() -> None:
    training, held_out = policy.hold_out(GSPN(EVERY_KIND, seed=2), FEW)
    assert isinstance(held_out, policy.HeldOutEntries)
    assert isinstance(held_out, Judge)
    before, after = FEW.entries(), training.entries()
    observed = int((~before.isnan()).sum())
    assert held_out.count == int((after.isnan() & ~before.isnan()).sum())
    assert 0.05 * observed < held_out.count < 0.15 * observed
    assert torch.equal(after.nan_to_num(0.0), before.nan_to_num(0.0).masked_fill(after.isnan(), 0.0))
    other, _ = policy.hold_out(GSPN(EVERY_KIND, seed=3), FEW)
    assert other.digest() != training.digest()


def test_of_very_little_nothing_is_held_out() -> None:
    dataset = pack(draw_graphs(3, seed=0), EVERY_KIND)
    assert policy.hold_out(GSPN(EVERY_KIND), dataset) == (dataset, None)


def test_the_judge_gives_nats_an_entry() -> None:
    model = GSPN(EVERY_KIND, num_layers=2, num_states=2, epochs=2).fit(FEW, progress=False)
    judge = policy.HeldOutEntries(FEW, seed=0)
    total = -sum(
        float(model.log_prob_missing(gappy, whole.x).double().sum())
        for gappy, whole in zip(judge.training, FEW, strict=True)
    )
    assert judge(model) == {"validation": pytest.approx(total / judge.count, rel=1e-6)}
    assert judge.digest() == FEW.digest()


def test_gaps_that_were_drawn_with_the_same_seed_leave_entries_to_hold_out() -> None:
    gappy = with_missing(FEW, uniform_mask(FEW, 0.3, seed=0))
    observed = int((~gappy.entries().isnan()).sum())
    assert policy.HeldOutEntries(gappy, seed=0).count > 0.05 * observed


def test_no_column_is_held_out_entirely() -> None:
    x = torch.randn(400, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x[1:, 1] = math.nan
    for seed in range(30):
        held_out = policy.HeldOutEntries(rows(x), seed)
        assert not held_out.training.entries()[0, 1].isnan()


def test_nothing_is_held_out_that_a_model_would_refuse() -> None:
    """A column of zeros but for one huge number: without that, the zeros would be all there is."""
    x = torch.randn(300, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x[:, 1] = 0.0
    x[7, 1] = 1e9
    dataset = rows(x, edges=True)
    for seed in range(20):
        assert not policy.HeldOutEntries(dataset, seed).training.entries()[7, 1].isnan()
    policy.fit(policy.model_for(dataset, epochs=4), dataset, progress=False)


def test_graphs_are_not_held_out_where_the_others_cannot_do_without() -> None:
    """One graph alone knows a column; if it is among those to hold out, entries are held out instead."""
    x = MANY.x.clone()
    x[:, 0] = math.nan
    seed = 3
    _, held_out = policy.hold_out(GSPN(EVERY_KIND, seed=seed), MANY)
    assert isinstance(held_out, GraphDataset)
    first = int(held_out.vertex_rows()[0])
    x[first, 0] = 1.0
    lone = replace(MANY, x=x)
    training, instead = policy.hold_out(GSPN(EVERY_KIND, seed=seed), lone)
    assert isinstance(instead, policy.HeldOutEntries)
    assert len(training) == len(MANY)


def test_something_must_be_there_to_hold_out() -> None:
    with pytest.raises(InputError, match="no entry can be held out"):
        policy.HeldOutEntries(FEW, seed=0, share=0.0)


# One training.


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often an optimiser was made, and scores computed."""
    counts = {"Adam": 0, "scores": 0}
    adam, scores = torch.optim.Adam.__init__, training_scores

    def make_adam(self: Any, *arguments: Any, **named: Any) -> None:
        counts["Adam"] += 1
        adam(self, *arguments, **named)

    def compute(*arguments: Any) -> dict[str, list[float]]:
        counts["scores"] += 1
        return scores(*arguments)

    monkeypatch.setattr(torch.optim.Adam, "__init__", make_adam)
    monkeypatch.setattr(model_module, "training_scores", compute)
    return counts


def test_a_mixture_learns_in_one_go_until_the_judge_ends_it(counted: dict[str, int]) -> None:
    arguments: dict[str, Any] = {"num_layers": 1, "num_states": 6, "epochs": 80, "patience": 5, "seed": 2}
    model = policy.fit(policy.model_for(FEW, **arguments), FEW, progress=False)
    assert counted == {"Adam": 1, "scores": 1}
    judge = policy.HeldOutEntries(FEW, seed=2)
    by_hand = policy.model_for(FEW, **arguments).fit(judge.training, validation=judge, progress=False)
    assert same(model, by_hand), "one fit with the hook, bit for bit"
    assert losses(model) == losses(by_hand)
    validation = [record["validation"] for record in model.history_]
    assert len(validation) < 80
    assert validation.index(min(validation)) == len(validation) - 6
    assert judge(model)["validation"] == min(validation)
    assert model.training_scores_ == by_hand.keep_scores(FEW, seed=2).training_scores_, "of all data"


def test_levels_learn_in_one_go(counted: dict[str, int]) -> None:
    model = policy.fit(policy.model_for(FEW, num_states=3, epochs=6), FEW, progress=False)
    assert counted == {"Adam": 1, "scores": 1}
    judge = policy.HeldOutEntries(FEW, seed=0)
    by_hand = policy.model_for(FEW, num_states=3, epochs=6)
    assert same(model, by_hand.fit(judge.training, validation=judge, progress=False))
    assert len(model.history_) == 6


def test_levels_grow_from_a_mixture(counted: dict[str, int]) -> None:
    arguments: dict[str, Any] = {"num_layers": 3, "num_states": 3, "epochs": 9, "seed": 2}
    model = policy.fit(policy.model_for(FEW, **arguments), FEW, grow=True, progress=False)
    assert counted == {"Adam": 2, "scores": 1}, "one optimiser for the mixture and one for the model"
    assert (model.epochs, len(model.history_)) == (9, 5)
    judge = policy.HeldOutEntries(FEW, seed=2)
    by_hand = policy.model_for(FEW, **arguments)
    mixture = mixture_for(by_hand, 4).fit(judge.training, validation=judge, progress=False)
    assert (mixture.num_layers, mixture.objective, len(mixture.history_)) == (1, "pseudo", 4)
    grow(by_hand, mixture).fit(judge.training, validation=judge, warm_start=True, epochs=5, progress=False)
    assert same(model, by_hand)
    assert losses(model) == losses(by_hand)


def test_where_there_is_nothing_to_grow_nothing_does() -> None:
    mixture = policy.fit(policy.model_for(FEW, num_layers=1, num_states=2, epochs=4), FEW, grow=True, progress=False)
    assert len(mixture.history_) == 4
    labelled = replace(FEW, y=torch.arange(len(FEW)).remainder(2), target_level="graph")
    clf = SupervisedGSPN(EVERY_KIND, Binary("y"), num_layers=2, num_states=2, epochs=4)
    assert len(policy.fit(clf, labelled, grow=True, progress=False).history_) == 4


@pytest.mark.parametrize("grow", [False, True])
def test_epoch_by_epoch_is_the_same_as_at_once(grow: bool) -> None:
    arguments: dict[str, Any] = {"num_states": 3, "epochs": 7, "seed": 1}
    model = policy.model_for(FEW, **arguments)
    numbers = [record["epoch"] for record in policy.fitting(model, FEW, grow=grow, progress=False)]
    assert numbers == list(range(7)), "numbered in one go"
    assert same(model, policy.fit(policy.model_for(FEW, **arguments), FEW, grow=grow, progress=False))


def test_the_time_is_shared_by_mixture_and_model(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(1_000))
    model = policy.model_for(FEW, num_states=3, epochs=100)
    with monkeypatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: float(next(ticks)))
        numbers = [record["epoch"] for record in policy.fitting(model, FEW, grow=True, progress=False, seconds=8.0)]
    assert 3 <= len([number for number in numbers if number < 50]) <= 5
    assert 1 <= len([number for number in numbers if number >= 50]) <= 5
    assert model.training_scores_ is not None
    assert torch.isfinite(model.log_likelihood(FEW[0])).all()


def test_many_graphs_are_judged_by_graphs() -> None:
    model = policy.fit(policy.model_for(MANY, num_layers=2, num_states=2, epochs=4), MANY, progress=False)
    assert all("validation" in record for record in model.history_)
    assert model.leave_one_out_nll_ is not None


def test_models_with_targets_hold_out_graphs_alone_and_do_not_grow() -> None:
    arguments: dict[str, Any] = {"num_layers": 2, "num_states": 2, "epochs": 3, "objective": "masked", "seed": 1}
    for count in (12, 120):
        y = torch.arange(count).remainder(2)
        labelled = replace(pack(draw_graphs(count, seed=0), EVERY_KIND), y=y, target_level="graph")
        model = SupervisedGSPN(EVERY_KIND, Binary("y"), **arguments)
        training, validation = policy.hold_out(model, labelled)
        assert (len(training), validation is None) == ((12, True) if count == 12 else (108, False))
        by_hand = SupervisedGSPN(EVERY_KIND, Binary("y"), **arguments)
        by_hand.fit(training, validation=validation, progress=False)
        assert same(policy.fit(model, labelled, progress=False), by_hand)


@pytest.mark.parametrize(
    ("grow", "after", "files"),
    [
        (False, 2, ["run.safetensors"]),
        (True, 2, ["run-mixture.safetensors"]),
        (True, 6, ["run-mixture.safetensors", "run.safetensors"]),
    ],
    ids=["from scratch", "as a mixture", "grown"],
)
def test_an_interrupted_run_goes_on_from_its_checkpoints(
    grow: bool, after: int, files: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "run.safetensors"
    arguments: dict[str, Any] = {"num_states": 3, "epochs": 9, "patience": 9, "seed": 1}
    epochs = policy.fitting(policy.model_for(FEW, **arguments), FEW, grow=grow, checkpoint=path, progress=False)
    for _ in range(after):
        next(epochs)
    epochs.close()
    assert [file.name for file in sorted(tmp_path.iterdir())] == files
    model = policy.model_for(FEW, **arguments)
    rest = [record["epoch"] for record in policy.fitting(model, FEW, grow=grow, checkpoint=path, progress=False)]
    assert rest == list(range(after, 9)), "no epoch is computed again"
    whole = policy.fit(policy.model_for(FEW, **arguments), FEW, grow=grow, progress=False)
    assert same(model, whole)
    assert losses(model) == losses(whole)
    assert model.training_scores_ == whole.training_scores_


def test_held_out_entries_stop_what_would_be_learned_by_heart() -> None:
    """Rows of noise: a model with many states fits them ever better, and what it says of others ever worse."""
    x = torch.randn(60, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    dataset = rows(x)
    judge = policy.HeldOutEntries(dataset, seed=0)
    arguments: dict[str, Any] = {"num_states": 12, "epochs": 120}
    stopped = policy.fit(policy.model_for(dataset, **arguments), dataset, progress=False)
    on = policy.model_for(dataset, **arguments).fit(judge.training, progress=False)
    assert len(stopped.history_) < 120
    assert judge(stopped)["validation"] < judge(on)["validation"] - 0.1


def test_a_single_graph_is_enough() -> None:
    dataset = pack([draw_graph(np.random.default_rng(0), 60)], EVERY_KIND)
    model = policy.fit(policy.model_for(dataset, epochs=6), dataset, progress=False)
    assert all("validation" in record for record in model.history_)


# The yardstick beside what is chosen.


@pytest.mark.parametrize("effort", policy.EFFORTS)
def test_columns_by_themselves_are_judged_as_candidates_are(
    effort: policy.Effort, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of discrete attributes one state without edges is a candidate: its loss is the yardstick, to the digit."""
    schema = Schema([Binary("a"), Binary("b")])
    x = (torch.rand(900, 2, generator=torch.Generator().manual_seed(0)) < 0.3).double()
    dataset = pack(
        [Data(x=x[i : i + 300], edge_index=torch.zeros(2, 0, dtype=torch.long)) for i in (0, 300, 600)], schema
    )
    monkeypatch.setitem(selection._MOST_ROWS, effort, 700)  # fewer than there are
    monkeypatch.setitem(candidates._DISCRETE_STATES, effort, (1,))
    monkeypatch.setattr(selection, "with_weaker_priors", lambda best, effort: [])
    chosen = policy.select(dataset, effort=effort, seed=2)
    assert [str(one.candidate) for one in chosen.tried] == ["1 state, diagonal, no edges, seed 2"]
    assert 0 < chosen.held_out < 0.15 * 5 * 1600
    assert policy.loss_of_columns(dataset, effort=effort, seed=2) == chosen.loss
    assert policy.loss_of_columns(dataset[[0]], effort=effort, seed=2) != chosen.loss
    assert math.isnan(policy.loss_of_columns(rows(torch.randn(20, 2))))
