"""Selection chooses what the data ask for, never looks at what it must fill, and gives the same for the same seed."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

import gspn
from gspn import Binary, Categorical, Continuous, Count, GraphDataset, Schema, pack, policy
from gspn.errors import InputError
from gspn.graphs.missing import uniform_mask, with_missing
from gspn.policy import candidates
from gspn.policy.ahead import Stopwatch, Work
from gspn.policy.candidates import Candidate, can_be_held, started_anew, with_edges, with_more_levels, without_edges
from gspn.policy.held_out import bin_width, bin_widths, log_scores
from gspn.policy.selection import Contest, fitted, held_out
from gspn.training import pausing

EVERY = Schema([Continuous("a"), Continuous("b"), Categorical("k", ["u", "v", "w"]), Binary("t"), Count("n")])


def correlated_rows(rows: int, seed: int = 0) -> GraphDataset:
    """Two columns of correlation 0.95 and one that has nothing to do with them; a fifth of the entries missing."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 3, generator=generator, dtype=torch.float64)
    x[:, 1] = 0.95 * x[:, 0] + math.sqrt(1 - 0.95**2) * x[:, 1]
    dataset = pack(_without_edges(x), Schema([Continuous(name) for name in "abc"]))
    return with_missing(dataset, uniform_mask(dataset, 0.2, seed))


def smooth_field(rows: int, seed: int = 0) -> GraphDataset:
    """A ring on which one column is nearly what its neighbours have on average; a fifth is missing."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(rows, generator=generator, dtype=torch.float64)
    smooth = torch.stack([noise.roll(shift) for shift in range(-6, 7)]).sum(0) / 13**0.5
    x = torch.stack([smooth, torch.randn(rows, generator=generator, dtype=torch.float64)], dim=1)
    around = torch.arange(rows)
    edges = torch.cat([torch.stack([around, around.roll(1)]), torch.stack([around.roll(1), around])], dim=1)
    dataset = pack(Data(x=x, edge_index=edges), Schema([Continuous("smooth"), Continuous("noise")]))
    return with_missing(dataset, uniform_mask(dataset, 0.2, seed))


def every_kind(rows: int, seed: int = 0) -> GraphDataset:
    rng = np.random.default_rng(seed)
    kind = rng.integers(3, size=rows)
    x = np.stack(
        [
            rng.normal(2 * kind, 1.0),
            rng.normal(-kind, 0.5),
            kind,
            rng.random(rows) < 0.2 + 0.3 * kind,
            rng.poisson(kind),
        ],
        axis=1,
    )
    x[rng.random(x.shape) < 0.2] = np.nan
    edges = torch.from_numpy(rng.integers(rows, size=(2, 3 * rows)))
    return pack(Data(x=torch.from_numpy(x), edge_index=edges[:, edges[0] != edges[1]]), EVERY)


def _without_edges(x: Tensor) -> Data:
    return Data(x=x, edge_index=torch.empty(2, 0, dtype=torch.long))


def test_correlations_are_found() -> None:
    """The best model holds correlated leaves, and fills by regression: 0.31 deviations are left of a known column."""
    dataset = correlated_rows(500)
    found = policy.select(dataset, effort="quick")
    assert {one.candidate.covariance for one in found.tried if one.weight} == {"shrunk"}
    answers = found.stack.conditional(dataset[0], "b")
    known = ~dataset.entries()[:, 0].isnan()
    assert float(answers.variance.sqrt()[known].median()) == pytest.approx(0.31, abs=0.06)


def test_neighbours_are_used_where_they_tell() -> None:
    found = policy.select(smooth_field(400), effort="quick")
    told = sum(one.weight for one in found.tried if one.candidate.edges != "no edges")
    assert told > 0.9


def test_neighbours_are_left_where_they_do_not() -> None:
    """Edges at random: what has no edges is as good, and a stack must not be worse than it."""
    dataset = correlated_rows(400, seed=3)
    generator = torch.Generator().manual_seed(3)
    edges = torch.randint(400, (2, 2000), generator=generator)
    edges = edges[:, edges[0] != edges[1]]
    wired = pack(Data(x=dataset.entries(), edge_index=edges), dataset.schema)
    found = policy.select(wired, effort="quick")
    alone = min(one.loss for one in found.tried if one.candidate.edges == "no edges")
    assert found.loss <= alone + 1e-9


def test_states_may_hear_their_neighbours_in_their_own_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """ "normal" tries slopes of every state's own for what regresses best, and how uncertain neighbours are."""
    monkeypatch.setitem(candidates._STATES, "normal", {"shrunk": (1, 4)})
    found = policy.select(smooth_field(150), effort="normal")
    told = [one.candidate for one in found.tried if one.candidate.edges in ("neighbours", "two_hops")]
    assert {one.slopes for one in told} == {"tied", "free"}
    assert {one.context_variance for one in told} == {0.0, 1.0}
    settings = next(one for one in told if one.slopes == "free").settings(1)
    assert settings["slopes"] == "free"


@pytest.fixture(scope="module")
def chosen() -> tuple[GraphDataset, policy.Selection, list[policy.Step]]:
    """A dataset of every kind, what was chosen for it, and what was told meanwhile."""
    dataset, told = every_kind(120), list[policy.Step]()
    return dataset, policy.select(dataset, effort="quick", seed=4, notice=told.append), told


def test_a_seed_fixes_everything(chosen: tuple[GraphDataset, policy.Selection, object]) -> None:
    dataset, one, _ = chosen
    other = policy.select(dataset, effort="quick", seed=4)
    assert [(t.candidate, t.loss, t.weight) for t in one.tried] == [
        (t.candidate, t.loss, t.weight) for t in other.tried
    ]
    assert torch.equal(one.stack.impute(dataset[0]).x, other.stack.impute(dataset[0]).x)


def test_a_selection_tells_what_it_did(chosen: tuple[GraphDataset, policy.Selection, list[policy.Step]]) -> None:
    dataset, found, told = chosen
    assert math.fsum(one.weight for one in found.tried) == pytest.approx(1.0)
    assert tuple(one.weight for one in found.tried if one.weight) == pytest.approx(found.stack.weights)
    assert len(found.stack.models) <= 3
    assert all(model.guard > 0 for model in found.stack.models)
    learning, last = ([step for step in told if step.learns_on is on] for on in (False, True))
    assert [step.number for step in learning] == list(range(len(learning))), "every candidate that learns is told of"
    assert all(step.number < step.candidates for step in learning)
    assert [step.candidate for step in last] == [one.candidate for one in found.tried if one.weight]
    assert [len(step.ahead) for step in last] == list(range(len(last), 0, -1)), "at the end nothing is guessed"
    assert len({one.candidate for one in found.tried}) == len(found.tried)
    assert all(math.isfinite(one.loss) for one in found.tried)
    assert found.loss <= min(one.loss for one in found.tried) + 0.05
    assert not torch.cat([graph.x for graph in found.stack.impute(list(dataset))]).isnan().any()


@pytest.mark.parametrize("rows", [1, 2, 5, 12, 25])
def test_few_rows_are_filled_without_a_choice(rows: int) -> None:
    dataset = pack(
        _without_edges(torch.tensor([[float(row), math.nan if row % 2 else 1.0] for row in range(rows)])),
        Schema([Continuous("a"), Continuous("b")]),
    )
    found = policy.select(dataset, effort="normal")
    assert found.held_out == 0
    assert math.isnan(found.loss)
    assert not found.stack.impute(dataset[0]).x.isnan().any()


def test_few_rows_with_edges_hear_each_other() -> None:
    around = torch.arange(6)
    dataset = pack(
        Data(x=torch.randn(6, 1, dtype=torch.float64), edge_index=torch.stack([around, around.roll(1)])),
        Schema([Continuous("a")]),
    )
    found = policy.select(dataset, effort="quick")
    assert found.held_out == 0
    assert {one.candidate.edges for one in found.tried} == {"no edges", "neighbours"}


def test_what_cannot_be_learned_says_why() -> None:
    """EM refuses self-loops, by which a vertex would explain itself; mixtures need no edges and fill the gaps."""
    dataset = correlated_rows(100)
    loops = torch.arange(100).expand(2, -1)
    found = policy.select(pack(Data(x=dataset.entries(), edge_index=loops), dataset.schema), effort="quick")
    failed = [one for one in found.tried if one.error is not None]
    assert failed
    assert all("self-loops" in str(one.error) and one.candidate.edges != "no edges" for one in failed)
    assert all(one.candidate.edges == "no edges" for one in found.tried if one.weight)


def test_when_the_time_is_up_what_is_known_is_taken() -> None:
    told: list[policy.Step] = []
    found = policy.select(every_kind(150), effort="normal", notice=told.append, seconds=1e-9)
    assert len(found.tried) == 1
    assert [step.learns_on for step in told] == [False, True]


def test_the_rest_is_estimated_by_what_has_been_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two units of a kind took 4 s; three such units take 6 s, and the time of a kind not yet seen is a multiple."""
    now = [100.0]
    monkeypatch.setattr("gspn.policy.ahead.time.monotonic", lambda: now[0])
    mixture, regressing = (Work.of(Candidate(2, "full", edges), 1.0) for edges in ("no edges", "neighbours"))
    watch = Stopwatch()
    watch.begin(mixture)
    assert watch.remaining([mixture, regressing]) is None
    now[0] += 4
    three = Work(mixture.kind, 3.0)
    watch.begin(three)
    assert watch.remaining([three]) == pytest.approx(6.0)
    now[0] += 1
    assert watch.remaining([three]) == pytest.approx(5.0)
    assert (watch.remaining([three, regressing]) or 0) > 5 + 4 * 2
    now[0] += 5
    watch.begin(regressing)
    now[0] += 20
    watch.begin(regressing)
    assert watch.remaining([regressing, mixture]) == pytest.approx(20 + 4), "what has been seen counts, not the guess"


def test_learning_pauses_and_can_be_ended() -> None:
    """A pause comes often enough for a server: at least once a step of EM."""

    class EnoughError(Exception):
        pass

    pauses: list[int] = []

    def count() -> None:
        pauses.append(len(pauses))
        if len(pauses) == 7:
            raise EnoughError

    told: list[policy.Step] = []
    with pausing(count), pytest.raises(EnoughError):
        policy.select(every_kind(150), effort="quick", notice=told.append)
    assert len(told) <= 7
    policy.select(correlated_rows(60), effort="quick")
    assert len(pauses) == 7, "afterwards nobody is asked"


def test_unknown_efforts_are_refused() -> None:
    with pytest.raises(InputError, match="effort must be"):
        policy.select(correlated_rows(50), effort="heroic")  # type: ignore[arg-type]


def test_a_region_of_large_data_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gspn.policy.selection._MOST_ROWS", {"quick": 300})
    dataset = smooth_field(2000)
    found = policy.select(dataset, effort="quick")
    assert 100 < found.held_out < 0.2 * 0.8 * 300 * 2 * 5
    assert sum(one.weight for one in found.tried if one.candidate.edges != "no edges") > 0.9


def test_units_do_not_matter() -> None:
    """Densities in tiny units are huge and in huge ones tiny; what is chosen, and how it is weighed, stays."""
    generator = torch.Generator().manual_seed(0)
    kind = torch.randint(4, (300, 1), generator=generator)
    x = 20 * torch.cat([kind % 2, kind // 2], dim=1) + torch.randn(300, 2, generator=generator, dtype=torch.float64)
    small, large = (pack(_without_edges(x * unit), Schema([Continuous("a"), Continuous("b")])) for unit in (1.0, 1e30))
    one, other = (policy.select(dataset, effort="quick") for dataset in (small, large))
    assert [t.candidate for t in one.tried if t.weight] == [t.candidate for t in other.tried if t.weight]
    assert other.stack.weights == pytest.approx(one.stack.weights, abs=1e-3)
    assert max(t.candidate.num_states for t in other.tried if t.weight) > 1  # the first candidate has one


def test_folds_have_nothing_in_common() -> None:
    dataset = correlated_rows(60)
    folds = held_out(dataset, seed=0)
    assert len(folds) == 5
    assert int(torch.stack(folds).sum(0).max()) == 1
    assert all(not (fold & dataset.entries().isnan()).any() for fold in folds)
    assert len(held_out(correlated_rows(2000), seed=0)) == 1


def test_scores_are_those_of_bins() -> None:
    """Of one state over one column: a Gaussian's probability of a bin, and the probability of a category."""
    dataset = every_kind(200)
    mask = held_out(dataset, 0)[0]
    training, truth = with_missing(dataset, mask), dataset.entries()
    model = gspn.GSPN(EVERY, num_layers=1, num_states=1, start="em", epochs=0).fit(training, progress=False)
    widths = bin_widths(EVERY, truth)
    scores = torch.full(truth.shape, torch.nan, dtype=torch.float64)
    scores[mask] = log_scores(model, training, truth, mask, widths)
    known = training.entries()[:, 0].double()
    known = known[~known.isnan()]
    bell = torch.distributions.Normal(known.mean(), known.std(correction=0))
    column, width = truth[mask[:, 0], 0].double(), widths[0]
    assert width is not None
    wanted = ((bell.cdf(column + width / 2) - bell.cdf(column - width / 2)) / width).log()
    torch.testing.assert_close(scores[mask[:, 0], 0], wanted, rtol=1e-4, atol=1e-4)  # the model is in single precision
    codes = training.entries()[:, 2]
    shares = torch.bincount(codes[~codes.isnan()].long(), minlength=3) / (~codes.isnan()).sum()
    wanted = shares.double().log()[truth[mask[:, 2], 2].long()]
    torch.testing.assert_close(scores[mask[:, 2], 2], wanted, rtol=1e-4, atol=1e-4)


def test_bins_are_no_needles() -> None:
    assert bin_width(torch.tensor([0.0, 1e-9, 5.0, 10.0])) == pytest.approx(math.sqrt(275 / 16) / 50, rel=1e-6)
    assert bin_width(torch.tensor([0.0, 1.0, 2.0, math.nan])) == 1.0
    assert bin_width(torch.tensor([3.0, 3.0])) == 1.0


def test_candidates_suit_the_data() -> None:
    mixed, numbers = every_kind(400), correlated_rows(400)
    for effort in policy.EFFORTS:
        first = without_edges(mixed, effort, 0)
        assert len(set(first)) == len(first)
        assert all(dict(one.leaves) == {"n": "count_table"} for one in first)
        assert all(one.edges == "no edges" and one.num_states * 8 <= 400 for one in first)
        assert all(not one.leaves for one in without_edges(numbers, effort, 0))
        second = with_edges(first[-2:], effort)
        assert len(second) >= 2
        assert all(one.edges != "no edges" for one in second)
        assert not any(one.edges == "states" and one.num_states == 1 for one in second)
    discrete = pack(_without_edges(torch.ones(30, 1)), Schema([Binary("t")]))
    assert {one.covariance for one in without_edges(discrete, "thorough", 0)} == {"diagonal"}
    again = started_anew([Candidate(4, "tied"), Candidate(1, "tied")], "normal")
    assert again == [Candidate(4, "tied", seed=1)]


def test_what_hears_states_alone_may_have_more_of_them() -> None:
    """Where that is cheap and there are rows: forty states at thirty rows each are 1,200."""

    def largest(covariance: str, rows: int) -> int:
        found = with_edges([Candidate(20, covariance)], "quick", rows)
        return max(one.num_states for one in found if one.edges == "states")

    assert [largest("diagonal", rows) for rows in (0, 1199, 1200)] == [20, 20, 40]
    assert largest("shrunk", 10_000) == 20
    assert (
        max(one.num_states for one in with_edges([Candidate(20, "diagonal")], "quick", 1200) if one.edges != "states")
        == 4
    )


def test_wide_tables_do_not_regress_on_neighbours() -> None:
    """Thirty columns of two hundred categories would need some terabytes; so many numbers are no trouble."""
    values = [str(number) for number in range(200)]
    names = Schema([Categorical(f"c{column}", values) for column in range(30)])
    numbers = Schema([Continuous(f"c{column}") for column in range(200)])
    for edges in ("neighbours", "two_hops"):
        candidate = Candidate(1, "diagonal", edges)
        assert not can_be_held(candidate, names)
        assert can_be_held(candidate, numbers)
        assert can_be_held(candidate, EVERY)
    assert all(can_be_held(Candidate(1, "diagonal", edges), names) for edges in ("no edges", "states"))


def test_large_atoms_are_given_a_mass() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(300, 2, generator=generator, dtype=torch.float64)
    x[::3, 0] = 0.0
    dataset = pack(_without_edges(x), Schema([Continuous("a"), Continuous("b")]))
    assert {one.atoms for one in without_edges(dataset, "normal", 0)} == {(("a", (0.0,)),)}


def test_what_wins_learns_from_what_was_held_out() -> None:
    """EM goes on from where it was: the same states, more entries."""
    dataset = correlated_rows(200)
    contest = Contest(dataset, held_out(dataset, 0))
    contest.enter([Candidate(2, "shrunk")])
    before = contest.models[0][0].get_parameters()
    after = contest.best_model().get_parameters()
    assert not torch.equal(before["prior"], after["prior"])
    torch.testing.assert_close(before["prior"], after["prior"], atol=0.15, rtol=0)
    afresh = fitted(dataset, Candidate(2, "shrunk"), 1)
    one, other = (torch.as_tensor(model.log_likelihood(dataset[0])).sum() for model in (contest.best_model(), afresh))
    assert float(one) == pytest.approx(float(other), rel=0.02)


def test_deviations_are_multiplied_where_models_are_too_sure() -> None:
    """Ten states on 120 rows are too sure of what they say: a factor is chosen, and what comes out has it."""
    x = torch.randn(120, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    dataset = pack(_without_edges(x), Schema([Continuous(name) for name in "abc"]))
    contest = Contest(dataset, held_out(dataset, 0))
    contest.enter([Candidate(10, "full", prior=0.1)])
    selection = contest.finish(1)
    assert selection.spread > 1
    assert selection.loss < selection.tried[0].loss
    plain = fitted(dataset, Candidate(10, "full", prior=0.1), 1)
    before = plain.get_parameters()["leaves"]["a", "b", "c"]["covariance"]
    plain.hierarchy.widen(2.0)
    torch.testing.assert_close(plain.get_parameters()["leaves"]["a", "b", "c"]["covariance"], 4 * before)


def test_calibrated_models_stay_as_they_are() -> None:
    dataset = correlated_rows(600)
    contest = Contest(dataset, held_out(dataset, 0))
    contest.enter([Candidate(1, "full")])
    assert contest.finish(1).spread == 1.0


def test_what_follows_from_other_columns_wants_a_weak_prior() -> None:
    """Shapes of few kinds, whose columns all follow from the kind: pseudo-observations would blur them."""
    rng = np.random.default_rng(0)
    kinds = rng.normal(size=(8, 3))
    x = torch.from_numpy(kinds[rng.integers(8, size=400)] + 0.01 * rng.normal(size=(400, 3)))
    dataset = pack(_without_edges(x), Schema([Continuous(name) for name in "abc"]))
    dataset = with_missing(dataset, uniform_mask(dataset, 0.2, 0))
    chosen = policy.select(dataset, effort="normal")
    best = max(chosen.tried, key=lambda one: one.weight).candidate
    assert best.prior < 1
    assert "weak prior" in str(best)


def test_more_levels_are_for_discrete_columns() -> None:
    """Three to five levels from both starts, where most columns are discrete; steps are bounded by what they visit."""
    discrete, best = every_kind(200), Candidate(4, "diagonal", "neighbours", slopes="free", context_variance=1.0)
    found = with_more_levels(best, discrete, "thorough")
    assert [(one.levels, one.start) for one in found if one.levels == 4] == [(4, "em"), (4, "clusters")]
    assert all(one.edges == "states" and one.slopes == "tied" and one.num_states > 4 for one in found)
    assert with_more_levels(best, smooth_field(200), "thorough") == []
    assert with_more_levels(best, discrete, "normal") == [], "they take much time, and rarely win"
    one = found[0]
    assert one.settings(1)["num_layers"] == one.levels == 3
    assert one.learning(discrete)["epochs"] > one.learning(discrete, on=True)["epochs"] > 0
    assert Candidate(4, "diagonal", "states").learning(discrete) == {}


def test_more_levels_learn_on() -> None:
    """By gradient descent from where they stand: what was held out becomes likelier, and nothing starts afresh."""
    dataset = every_kind(150)
    contest = Contest(dataset, held_out(dataset, 0)[:1])
    contest.enter([Candidate(3, "diagonal", "states", levels=3)])
    before = contest.models[0][0].get_parameters()["transitions"]
    (model,) = contest.finish(1).stack.models
    after = model.get_parameters()["transitions"]
    assert not torch.equal(after, before)
    torch.testing.assert_close(after, before, rtol=0, atol=0.6)
    assert (
        model.history_[-1]["epoch"] <= Candidate(3, "diagonal", "states", levels=3).learning(dataset, on=True)["epochs"]
    )
