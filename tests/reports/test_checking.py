"""Hide and check: nobody sees what is hidden, errors are what they are called, and the winner is whoever it is."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from small_reports import people

import gspn
from gspn.attributes import Categorical, Continuous, Schema
from gspn.errors import InputError
from gspn.graphs import GraphDataset, pack
from gspn.graphs.missing import with_missing
from gspn.plots.calibration import coverage
from gspn.reports.certainty import Answers, ask, chance_range
from gspn.reports.checking import OURS, Check, ColumnCheck, check
from gspn.reports.hiding import hidden_entries
from gspn.reports.page import honesty, verdict
from gspn.reports.rivals import MEAN, NEIGHBOURS, rivals


def test_who_learns_again_does_not_see_what_is_hidden() -> None:
    dataset, model = people()
    seen = list[GraphDataset]()

    def learn(training: GraphDataset) -> gspn.GSPN:
        seen.append(training)
        return model

    found = check(dataset, model, learn, progress=False)
    hidden = hidden_entries(dataset, 0)
    assert bool(seen[0].entries()[hidden].isnan().all())
    assert torch.equal(seen[0].entries()[~hidden].nan_to_num(-1), dataset.entries()[~hidden].nan_to_num(-1))
    assert found.entries == int(hidden.sum()) == sum(column.hidden for column in found.columns)
    assert found.learned_again
    assert not check(dataset, model, progress=False).learned_again


def test_errors_are_those_of_the_hidden_entries() -> None:
    dataset, model = people()
    found = {column.name: column for column in check(dataset, model, progress=False).columns}
    hidden = hidden_entries(dataset, 0)
    truth, left = dataset.entries(), with_missing(dataset, hidden).entries()
    for name in ("age", "projects"):
        column = dataset.schema.index(name)
        mean = left[:, column].nanmean()
        expected = (truth[hidden[:, column], column] - mean).square().mean().sqrt()
        assert found[name].errors[MEAN] == pytest.approx(float(expected), rel=1e-5)
        assert found[name].relative(MEAN) == 1.0
    column = dataset.schema.index("team")
    known = left[:, column][~left[:, column].isnan()]
    wrong = (truth[hidden[:, column], column] != known.mode().values).double().mean()
    assert found["team"].errors[MEAN] == pytest.approx(float(wrong))
    filled = model.impute(with_missing(dataset, hidden)[0], "closest").x.double()
    right = (filled[hidden[:, column], column] == truth[hidden[:, column], column]).double().mean()
    assert found["team"].errors[OURS] == pytest.approx(1 - float(right))


def test_what_is_hidden_can_be_chosen_and_is_enough() -> None:
    dataset, _ = people()
    known = int((~dataset.entries().isnan()).sum())
    assert 0.2 < int(hidden_entries(dataset, 0, 0.3).sum()) / known < 0.4
    assert not torch.equal(hidden_entries(dataset, 0), hidden_entries(dataset, 1))
    with pytest.raises(InputError, match="between 0 and 1"):
        hidden_entries(dataset, 0, 1.5)
    few = gspn.from_arrays(torch.arange(8.0)[:, None], schema=Schema([Continuous("a")]))
    with pytest.raises(InputError, match="20 are needed"):
        hidden_entries(few, 0)


def test_many_vertices_are_not_all_asked() -> None:
    x = torch.arange(20_000.0)[:, None] % 7
    dataset = gspn.from_arrays(x, schema=Schema([Continuous("a")]))
    assert int(hidden_entries(dataset, 0, 0.9).sum()) <= 4_000


def test_neighbours_are_asked_for_what_they_have_observed() -> None:
    """A star whose leaves are all red and 3, but for one; whoever has no neighbour gets what is usual."""
    schema = Schema([Categorical("team", ("blue", "red")), Continuous("size")])
    x = torch.tensor([[math.nan, math.nan], [1, 3], [1, 3], [0, 6], [0, 8], [0, 10.0], [math.nan, 1.0]])
    edges = torch.tensor([[1, 2, 3], [0, 0, 0]])
    dataset = pack([gspn.from_arrays(x, edges, schema=schema)[0]], schema)
    hidden = torch.zeros(7, 2, dtype=torch.bool)
    hidden[0], hidden[6, 0] = True, True
    others, _ = rivals(dataset, hidden, 0)
    filled = {one.name: one.fill() for one in others}
    assert filled[NEIGHBOURS][0].tolist() == pytest.approx([1.0, 4.0])
    assert filled[NEIGHBOURS][1, 0] == 0.0
    assert filled[MEAN][0].tolist() == pytest.approx([0.0, 31 / 6], rel=1e-5)


def test_methods_that_would_take_too_long_are_left_out_with_the_reason() -> None:
    names = tuple(f"v{number}" for number in range(150))
    dataset = gspn.from_arrays(torch.arange(300.0)[:, None] % 150, schema=Schema([Categorical("a", names)]))
    others, left_out = rivals(dataset, torch.ones(300, 1, dtype=torch.bool), 0)
    assert [one.name for one in others] == ["mean or most common", "nearest rows"]
    assert "150 columns and values" in left_out["regressions in rounds"]


def test_intervals_are_the_distributions_own() -> None:
    dataset, model = people()
    hidden = hidden_entries(dataset, 0)
    seen = with_missing(dataset, hidden)
    for own in ask(model, seen, dataset.entries(), hidden):
        given: Any = model.conditional(seen[0], own.attribute.name, own.rows.tolist())
        if own.attribute.kind == "continuous":
            levels = (0.3, 0.5, 0.9)
            assert own.shares_inside(levels) == pytest.approx(coverage(given, own.truth, levels), abs=1e-9)
        elif own.attribute.kind == "count":
            low, high = given.interval(0.9).T
            assert own.inside().tolist() == ((low <= own.truth) & (own.truth <= high)).tolist()
        else:
            # The truth is in the set if what is more probable does not hold 90 % yet.
            probs = given.probs.double()
            at = probs.gather(1, own.truth.long()[:, None])
            assert own.inside().tolist() == ((probs * (probs > at)).sum(1) < 0.9).tolist()
            assert own.probability.tolist() == pytest.approx(probs.amax(1).tolist())


def test_intervals_of_a_true_model_hold_what_they_promise() -> None:
    low, high = chance_range(1_000)
    assert low < 0.9 < high
    assert high - low < 0.05
    narrow, wide = chance_range(100), chance_range(100, error=0.001)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def column(name: str, errors: dict[str, float], *, clear: bool, covered: float = 0.9) -> ColumnCheck:
    count = 100
    upto = torch.where(torch.arange(count) < covered * count, 0.5, 1.0).double()
    zeros = torch.zeros(count).double()
    own = Answers(Continuous(name), zeros, zeros, zeros, zeros, zeros, upto, upto, zeros, zeros)
    ordered = sorted(errors, key=lambda method: errors[method])
    return ColumnCheck(own, errors, ordered[0], ordered[1], clear, 1.0, 2.0)


METHODS = {OURS: "", MEAN: "", "nearest rows": ""}


def test_the_winner_is_named_whoever_it_is() -> None:
    ours = column("age", {OURS: 1.0, MEAN: 2.0, "nearest rows": 1.5}, clear=True)
    theirs = column("pay", {OURS: 1.0, MEAN: 0.9, "nearest rows": 0.3}, clear=True)
    said = verdict(Check((ours, theirs), METHODS, {}, 200, True))
    assert said.startswith("gspn fills 1 of 2 columns best; others are ahead in pay (nearest rows).")
    assert "Over all columns nearest rows errs least" in said
    assert verdict(Check((ours,), METHODS, {}, 100, True)).startswith("gspn fills all 1 columns best.")
    chance = verdict(Check((replace(theirs, clear=False),), METHODS, {}, 100, True))
    assert chance.startswith("gspn fills no column best; others are ahead in pay (nearest rows, within chance).")


def test_dishonest_intervals_are_named() -> None:
    honest = column("age", {OURS: 1.0, MEAN: 2.0}, clear=True)
    sure = column("pay", {OURS: 1.0, MEAN: 2.0}, clear=True, covered=0.6)
    assert "no column is off" in honesty(Check((honest,), METHODS, {}, 100, True))
    assert "off by more than chance: pay (60\u00a0%)" in honesty(Check((honest, sure), METHODS, {}, 200, True))


def test_chance_is_not_called_a_lead() -> None:
    dataset, model = people()
    for one in check(dataset, model, progress=False).columns:
        assert one.errors[one.best] <= min(one.errors.values())
        if one.errors[one.best] == one.errors[one.second]:
            assert not one.clear
