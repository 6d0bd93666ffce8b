"""Protocols: who is selected, what is assessed, and that nothing of the test graphs reaches the selection."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from small_experiments import FILL, PREDICT, TIME, with_other_test_labels
from torch import Tensor

from gspn.attributes import Binary, Categorical, Continuous, Count, Schema
from gspn.benchmarks import step
from gspn.errors import GSPNError
from gspn.experiments import filling, predicting, sources
from gspn.experiments.grids import Grid, parse_grid
from gspn.experiments.measures import measure_of
from gspn.experiments.protocols import ModelSelection, contests
from gspn.experiments.records import Records
from gspn.experiments.runs import ASSESSMENT, SELECTION, Piece, Run, pieces_of
from gspn.experiments.sources import Division, Source
from gspn.experiments.work import perform
from gspn.graphs import GraphDataset, missing
from gspn.graphs.splits import Fold, kfold


def contest(toy: Path, row: str = "GSPN_S", text: str = PREDICT) -> ModelSelection:
    return next(found for found in contests(parse_grid(text, "toy")) if found.row == row)


def record(score: float | None) -> dict[str, Any]:
    if score is None:
        return {"error": "it diverged", "scores": {}}
    return {"scores": {"validation": {"accuracy": score, "nll per vertex": score}}}


def judged(one: ModelSelection, scores: list[float | None]) -> Any:
    known = {run.key: record(score) for run, score in zip(one.candidates, scores, strict=True)}
    return known.get


def test_contests_are_rows_times_columns_times_folds(toy: Path) -> None:
    grid = parse_grid(PREDICT, "toy")
    found = contests(grid)
    assert [(one.fold, one.row) for one in found] == [(fold, row) for fold in (0, 1) for row in grid.models]
    # The constant has one configuration, which wins untried; the others train all candidates and two finals.
    assert [one.planned for one in found] == [2, 4, 6] * 2
    assert [one.row for one in contests(grid, rows=["GSPN_S"])] == ["GSPN_S"] * 2
    with pytest.raises(GSPNError, match="the grid has no model 'GPSN'"):
        contests(grid, rows=["GPSN"])
    with pytest.raises(GSPNError, match="the grid has no dataset 'COLLAB'"):
        contests(grid, columns=["COLLAB"])


def test_the_best_on_the_validation_graphs_wins_and_the_first_of_equals(toy: Path) -> None:
    one = contest(toy)
    assert one.winner(judged(one, [0.5, 0.7])) is one.candidates[1]
    assert one.winner(judged(one, [0.7, 0.5])) is one.candidates[0]
    assert one.winner(judged(one, [0.7, 0.7])) is one.candidates[0]
    assert one.winner(judged(one, [None, 0.1])) is one.candidates[1], "what could not be trained does not win"
    hopeless = judged(one, [None, None])
    assert one.winner(hopeless) is None
    assert one.finals(hopeless) == ()
    assert one.is_hopeless(hopeless)
    assert not one.is_hopeless(judged(one, [None, 0.1]))
    fill = contest(toy, "GMM", FILL)
    assert fill.winner(judged(fill, [2.0, 1.0])) is fill.candidates[1], "of a likelihood's negative the lowest wins"


def test_there_are_no_finals_before_all_candidates_are_judged(toy: Path) -> None:
    one = contest(toy)
    first = {one.candidates[0].key: record(0.9)}
    assert one.winner(first.get) is None
    assert one.finals(first.get) == ()
    assert list(one.known(first.get)) == list(one.candidates)
    finals = one.finals(judged(one, [0.9, 0.1]))
    assert [run.seed for run in finals] == [1, 2], "the seed of the selection may have been lucky"
    assert {run.stage for run in finals} == {ASSESSMENT}
    assert all(run.settings == one.candidates[0].settings for run in finals)
    assert {run.stage for run in one.candidates} == {SELECTION}


def test_a_study_without_finals_trains_even_a_single_candidate(toy: Path) -> None:
    one = contest(toy, "Constant", PREDICT.replace("runs = 2", "runs = 0"))
    assert one.planned == 1
    assert list(one.known(lambda key: None)) == list(one.candidates)
    assert one.finals(judged(one, [0.5])) == ()


def test_a_measure_that_is_not_the_one_of_the_data_is_refused(toy: Path) -> None:
    with pytest.raises(GSPNError, match="TOY is judged by 'accuracy', the grid's measure is 'average precision'"):
        contests(parse_grid(PREDICT.replace('"accuracy"', '"average precision"'), "toy"))


@pytest.mark.parametrize(
    ("target", "measure"),
    [
        (Continuous("y"), "mean absolute error"),
        (Count("y"), "mean absolute error"),
        (Categorical("y", ["a", "b", "c"]), "accuracy"),
        (Binary("y"), "accuracy"),
        (Schema([Binary("y"), Binary("z")]), "average precision"),
    ],
)
def test_every_kind_of_target_has_its_measure(target: Any, measure: str) -> None:
    assert measure_of(target) == measure


@pytest.mark.parametrize("target", [Schema([Continuous("y"), Continuous("z")]), Schema([Binary("y"), Count("z")])])
def test_targets_without_a_common_measure_are_refused(target: Any) -> None:
    with pytest.raises(GSPNError, match="one target, or several binary ones, not y, z together"):
        measure_of(target)


def test_the_seed_of_the_protocol_chooses_who_has_labels(toy: Path) -> None:
    """Also where the folds are published; keys of before, with seed 0, stay what they were."""
    text = PREDICT.replace("[data.TOY]", "[data.TOY]\nlabels = 5")
    first, other = (
        contest(toy, text=text.replace("runs = 2", f"runs = 2\nseed = {seed}")).candidates[0] for seed in (0, 5)
    )
    assert first.division.spec() == {"published": 0}
    assert first.key != other.key
    assert not torch.equal(predicting._parts(first).labelled, predicting._parts(other).labelled)


def test_heads_with_other_batches_are_trained_as_if_they_were_alone(toy: Path, tmp_path: Path) -> None:
    text = PREDICT.replace('pooling = ["sum", "mean"]', "batch_size = [4, 32], lr = [0.01, 0.1]")
    (piece, _) = pieces_of(contest(toy, "GSPN_U+DS", text).candidates)
    together = perform(piece, tmp_path / "together") or []
    alone = [made for run in piece.runs for made in perform(Piece((run,)), tmp_path / "alone") or []]
    assert len(together) == 4
    assert len({str(made["curves"]["head"]) for made in together}) == 4
    for one, other in zip(together, alone, strict=True):
        assert (one["key"], one["scores"]) == (other["key"], other["scores"])
        assert one["curves"]["head"]["train"] == pytest.approx(other["curves"]["head"]["train"], rel=1e-5)


def test_heads_of_one_model_are_one_piece_of_work(toy: Path) -> None:
    candidates = contest(toy, "GSPN_U+DS").candidates
    assert [len(piece.runs) for piece in pieces_of(candidates)] == [2, 2]
    assert len({run.key for run in candidates}) == 4


def test_keys_say_what_decides_the_numbers_and_nothing_else(toy: Path) -> None:
    run = contest(toy).candidates[0]
    assert run.key == dataclasses.replace(run).key
    for change in (
        {"seed": 1},
        {"stage": ASSESSMENT},
        {"settings": {**run.settings, "lr": 0.06}},
        {"digests": ("other data", run.digests[1])},
        {"digests": (run.digests[0], "another fold")},
        {"source": run.source.model_copy(update={"labels": 5})},
        {"model": "GSPN"},
    ):
        assert dataclasses.replace(run, **change).key != run.key, change
    elsewhere = dataclasses.replace(run, source=run.source.model_copy(update={"folds": (0,)}))
    assert elsewhere.key == run.key, "which other folds are run changes nothing here"


def test_the_keys_of_records_that_exist_do_not_change() -> None:
    """Whoever changes these makes all results again: that is what `RESULTS_VERSION` is for."""
    digests = ("ab" * 16, "cd" * 8)
    final = Run(
        question="predict",
        source=Source(name="NCI1", options={"degree": "count"}, graphs=50, folds=(0, 2), labels=7),
        division=Division(2),
        digests=digests,
        model="GSPN",
        settings={"num_states": 5, "lr": 0.1, "shortcut": None},
        head={"hidden": 8, "pooling": "mean"},
        seed=1,
        stage=ASSESSMENT,
        asked={"mask_seed": 3},
    )
    assert (final.key, final.model_key) == ("1af455cceed67c60357e", "f5d8007b5fb92c906d19")
    drawn, source = Division(None, 0.1, 0.2, 4), Source(name="ethanol", options={"attributes": "continuous"})
    candidate = Run("fill", source, drawn, digests, "GIN", {"network": {"hidden": 32}}, None, 0, SELECTION)
    assert candidate.key == candidate.model_key == "c9fdd4e5d0c4c1c57798"


def test_a_raised_version_makes_everything_again(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contest(toy).candidates[0].key
    monkeypatch.setattr("gspn.experiments.runs.RESULTS_VERSION", 10**6)
    assert contest(toy).candidates[0].key != before


# Leaks.


def selection(grid: Grid, folder: Path) -> dict[tuple[str, Any, int], Any]:
    """Validation scores and curves of all candidates of the first fold."""
    found = {}
    for one in contests(grid):
        if one.fold == 0 and one.row != "Constant":
            for piece in pieces_of(one.candidates):
                for number, made in enumerate(perform(piece, folder) or ()):
                    found[one.row, piece.runs[number].settings["num_states"], number] = (made["scores"], made["curves"])
    return found


Change = Callable[[GraphDataset], GraphDataset]


def with_other_hidden_values(dataset: GraphDataset) -> GraphDataset:
    """Other numbers wherever selection may not look: in all test graphs, and at the gaps of the training graphs."""
    fold = Division().of(dataset)
    graph, _ = dataset.vertex_keys()
    hidden = missing.gamma_mask(dataset, seed=0) & torch.isin(graph, fold.train)[:, None]
    hidden |= torch.isin(graph, fold.test)[:, None]
    hidden &= torch.tensor([isinstance(attribute, Continuous) for attribute in dataset.schema])
    assert hidden.sum() > 40
    x, rows = dataset.x.clone(), dataset.vertex_rows()
    x[rows] = torch.where(hidden, 3.0 - 2.0 * x[rows], x[rows])
    return dataclasses.replace(dataset, x=x)


def depends_on(change: Change, grid: Grid, folder: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    before = selection(grid, folder / "before")
    load = sources.Source.load
    with monkeypatch.context() as patch:
        patch.setattr(sources.Source, "load", lambda source: change(load(source)))
        after = selection(grid, folder / "after")
    return before != after


def test_selection_does_not_see_test_labels(toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not depends_on(with_other_test_labels, parse_grid(PREDICT, "toy"), tmp_path, monkeypatch)


def test_selection_does_not_see_hidden_values(toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not depends_on(with_other_hidden_values, parse_grid(FILL, "toy"), tmp_path, monkeypatch)


@pytest.mark.parametrize("leak", ["validates on the test graphs", "trains on them too", "trains without gaps"])
def test_a_planted_leak_of_hidden_values_is_caught(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leak: str
) -> None:
    proper = Run.fold

    def fold(run: Run, dataset: GraphDataset) -> Fold:
        own = proper(run, dataset)
        if leak == "validates on the test graphs":
            return Fold(own.train, own.test, own.validation)
        return Fold(torch.cat([own.train, own.test]), own.validation, own.test)

    def with_missing(dataset: GraphDataset, mask: Tensor) -> GraphDataset:
        graph, _ = dataset.vertex_keys()
        return missing.with_missing(dataset, mask & ~torch.isin(graph, Division().of(dataset).train)[:, None])

    if leak == "trains without gaps":
        monkeypatch.setattr(filling, "with_missing", with_missing)
    else:
        monkeypatch.setattr(Run, "fold", fold)
    assert depends_on(with_other_hidden_values, parse_grid(FILL, "toy"), tmp_path, monkeypatch)


def test_a_planted_leak_is_caught(toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Someone validates on the test graphs: the check above must notice."""
    proper = predicting._parts

    def leaky(run: Any) -> Any:
        parts = proper(run)
        dataset = run.source.load()
        return dataclasses.replace(parts, validation=dataset[run.fold(dataset).test])

    monkeypatch.setattr(predicting, "_parts", leaky)
    assert depends_on(with_other_test_labels, parse_grid(PREDICT, "toy"), tmp_path, monkeypatch)


def test_test_labels_do_not_exist_during_selection(toy: Path) -> None:
    """Even a model that looks at more graphs than it is given finds nothing."""
    run = contest(toy).candidates[0]
    fold = run.fold(run.source.load())
    parts = predicting._parts(run)
    assert parts.test is None
    for graphs in (parts.train, parts.validation):
        assert graphs.y is not None
        assert torch.isnan(graphs.y[fold.test]).all()
        assert not torch.isnan(graphs.y[graphs.positions]).any()
    assessed = predicting._parts(dataclasses.replace(run, stage=ASSESSMENT))
    assert assessed.test is not None
    assert torch.equal(assessed.test.positions, fold.test)


def test_missing_values_of_test_graphs_are_judged_at_the_end_alone(toy: Path, tmp_path: Path) -> None:
    one = contest(toy, "GMM", FILL)
    (chosen,) = perform(Piece(one.candidates[:1]), tmp_path) or [{}]
    assert set(chosen["scores"]) == {"validation"}
    (final,) = perform(Piece((dataclasses.replace(one.candidates[0], stage=ASSESSMENT),)), tmp_path) or [{}]
    assert set(final["scores"]) == {"validation", "test"}
    assert final["scores"]["validation"] == chosen["scores"]["validation"], "the same training"


def test_steps_are_timed_on_the_data_and_with_the_sizes_of_the_grid(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def compare(name: str, graphs: GraphDataset, rates: Any, sizes: step.ModelSizes) -> dict[str, Any]:
        asked.append((len(graphs), sizes))
        return {}

    monkeypatch.setattr(step, "THREADS", 3)
    monkeypatch.setattr(step, "rates", dict)
    monkeypatch.setattr(step, "compare", compare)
    (one,) = contests(parse_grid(TIME, "toy"))
    (record,) = perform(Piece(one.finals(Records(tmp_path).get)), tmp_path) or [{}]
    assert asked == [(20, step.ModelSizes(3, 4, 5))]
    assert record["threads"] == 3, "those that were measured, not those of the process"


def test_few_labels_are_the_same_for_all_models(toy: Path) -> None:
    run = contest(toy).candidates[0]
    few = dataclasses.replace(run, source=run.source.model_copy(update={"labels": 5}))
    parts = predicting._parts(few)
    assert len(parts.train) == 24
    assert len(parts.labelled) == 5
    again = predicting._parts(dataclasses.replace(few, model="GSPN", seed=3))
    assert torch.equal(parts.labelled, again.labelled)


@pytest.mark.parametrize(("labels", "kept"), [(0.25, 6), (0.001, 1), (0.999, 24), (1, 1), (100, 24), (None, 24)])
def test_labels_are_a_number_or_a_share(toy: Path, labels: float | None, kept: int) -> None:
    run = contest(toy).candidates[0]
    parts = predicting._parts(dataclasses.replace(run, source=run.source.model_copy(update={"labels": labels})))
    assert len(parts.labelled) == kept


def test_folds_are_drawn_where_none_are_published(toy: Path) -> None:
    text = PREDICT.replace('division = "published"', 'division = "k-fold"\nfolds = 4')
    found = contests(parse_grid(text, "toy"), rows=["GSPN_S"])
    assert [one.fold for one in found] == [0, 1, 2, 3]
    runs = [one.candidates[0] for one in found]
    assert len({run.key for run in runs}) == 4
    dataset = runs[0].source.load()
    folds = [run.fold(dataset) for run in runs]
    assert torch.cat([fold.test for fold in folds]).sort().values.tolist() == list(range(len(dataset)))
    assert dataset.y is not None
    share = float(dataset.y.double().mean())
    for fold in folds:
        parts = torch.cat([fold.train, fold.validation, fold.test])
        assert parts.sort().values.tolist() == list(range(len(dataset)))
        assert abs(float(dataset.y[fold.test].double().mean()) - share) <= 1 / len(fold.test), "of each class its share"
    odd = dataset[1::2]
    assert odd.y is not None
    labels = odd.y[odd.positions].double()
    tests = [Division(drawn=(number, 4)).of(odd).test for number in range(4)]
    assert {round(float(labels[test].sum())) for test in tests} <= {int(labels.sum()) // 4, int(labels.sum()) // 4 + 1}
    of_vertices = dataset.with_targets(torch.arange(len(dataset.x)) % 2, "vertex")
    without = kfold(len(dataset), 4)[0].test
    assert torch.equal(Division(drawn=(0, 4)).of(of_vertices).test, without), "vertices have classes, graphs have not"
    assert not torch.equal(folds[0].test, without)
    (some,) = contests(parse_grid(text.replace("[data.TOY]", "[data.TOY]\nfolds = [2]"), "toy"), rows=["GSPN_S"])
    assert some.candidates[0].key == runs[2].key
    assert ", fold 2: SupervisedGSPN" in Piece(some.candidates).label


def test_data_that_is_divided_otherwise_is_refused(toy: Path, tmp_path: Path) -> None:
    run = contest(toy).candidates[0]
    moved = dataclasses.replace(run, digests=(run.digests[0], "0" * 16))
    with pytest.raises(GSPNError, match="divided differently here"):
        perform(Piece((moved,)), tmp_path)
    assert Records(tmp_path).get(moved.key) is None
    others = dataclasses.replace(run, digests=("0" * 32, run.digests[1]))
    with pytest.raises(GSPNError, match="graphs of TOY are other ones here"):
        perform(Piece((others,)), tmp_path)
