"""Held-out scores: nothing of them was learned, measures are scikit-learn's, the best is named whoever it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import mean_absolute_error, r2_score, roc_auc_score

import gspn
from gspn.attributes import Binary, Categorical, Continuous, Schema
from gspn.circuits.distributions import CategoricalDistribution
from gspn.graph_level.answers import Around
from gspn.graphs import GraphDataset
from gspn.reports.baselines import NEIGHBOURS, OWN, POOLED, for_graphs, for_vertices
from gspn.reports.page import confusion
from gspn.reports.targets import CONSTANT, OURS, judge, labels_of, split, too_few


def graphs(count: int = 60, target: str = "continuous") -> GraphDataset:
    """Graphs of one to four vertices, whose sum of sizes is the target, or whether it is large."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 5, size=count)
    x = rng.normal(size=(sizes.sum(), 1))
    of = np.repeat(np.arange(count), sizes)
    sums = np.bincount(of, x[:, 0])
    meaning = Continuous("sum") if target == "continuous" else Binary("large")
    y = sums if target == "continuous" else (sums > 0).astype(float)
    return gspn.from_arrays(
        x, schema=Schema([Continuous("size")]), graph=of, y=torch.from_numpy(y), target=meaning, target_level="graph"
    )


def test_a_fifth_is_held_out_of_every_class_alike() -> None:
    dataset = graphs(200, "binary")
    parts = split(dataset, 0)
    assert parts is not None
    labels = labels_of(dataset)[:, 0]
    assert len(parts.held) == 40
    assert sorted([*parts.held.tolist(), *parts.known.tolist()]) == list(range(200))
    assert labels[parts.held].mean() == pytest.approx(labels.mean(), abs=0.02)
    assert split(graphs(30), 0) is None
    assert "30 labelled graphs are too few" in too_few(graphs(30)).verdict()


def test_measures_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    y, values = rng.normal(size=50), rng.normal(size=50)
    errors = rng.normal(size=30)
    said = Around(Continuous("sum"), values, errors)
    found = judge(
        y[:, None], Continuous("sum"), [said[:20], said[20:]], {}, {}, learned_from=9, what="graphs", seed=0
    ).targets[0]
    own = found.scores[OURS]
    assert own["R²"].value == pytest.approx(r2_score(y, values))
    assert own["MAE"].value == pytest.approx(mean_absolute_error(y, values))
    assert own["MAE"].low < own["MAE"].value < own["MAE"].high
    for level in (0.2, 0.5, 0.9):
        low, high = said.interval(level).T.numpy()
        assert float(found.answers.inside(level).double().mean()) == pytest.approx(((low <= y) & (y <= high)).mean())


def test_chances_of_a_binary_target_are_ranked() -> None:
    rng = np.random.default_rng(2)
    y, chances = rng.integers(2, size=60).astype(float), rng.random(60).round(1)
    probs = torch.from_numpy(np.column_stack([1 - chances, chances])).clamp(1e-6, 1 - 1e-6)
    said = CategoricalDistribution(Binary("large"), probs.log())
    found = judge(y[:, None], Binary("large"), [said], {}, {}, learned_from=9, what="graphs", seed=0).targets[0]
    assert found.scores[OURS]["AUC"].value == pytest.approx(roc_auc_score(y, chances))
    table = confusion(found)
    assert table is not None
    assert table["names"] == ["False", "True"]
    assert sum(count for _, row in table["rows"] for count, _ in row) == 60


def test_missing_labels_of_one_target_do_not_count() -> None:
    schema = Schema([Continuous("a"), Continuous("b")])
    truth = np.array([[1.0, np.nan], [2.0, 1.0], [4.0, 3.0], [np.nan, 5.0]])
    said = {name: Around(schema[name], np.zeros(4), np.ones(3)) for name in ("a", "b")}
    found = judge(truth, schema, [said], {}, {}, learned_from=9, what="graphs", seed=0)
    assert [one.scores[OURS]["MAE"].value for one in found.targets] == pytest.approx([7 / 3, 3.0])


def test_the_best_is_named_whoever_it_is() -> None:
    y = np.arange(10.0)
    said = Around(Continuous("sum"), y + 3, np.ones(5))
    others: dict[str, Any] = {CONSTANT: lambda: [(np.full(10, 4.5), None)], POOLED: lambda: [(y + 0.1, None)]}
    found = judge(y[:, None], Continuous("sum"), [said], others, {}, learned_from=40, what="graphs", seed=0)
    assert found.targets[0].best == POOLED
    assert found.verdict().startswith(f"sum: {POOLED} is best with R² 0.999, gspn -0.09")
    assert "10 of 50 labelled graphs were held out" in found.verdict()


def test_baselines_of_graphs_do_not_see_what_is_held_out() -> None:
    dataset = graphs(100)
    parts = split(dataset, 0)
    assert parts is not None
    training, held = dataset[parts.known], dataset[parts.held]
    predict, explained = for_graphs(training, held, 0)
    assert list(predict) == list(explained) == [CONSTANT, POOLED]
    (constant, _), (forest, _) = predict[CONSTANT]()[0], predict[POOLED]()[0]
    assert constant.tolist() == pytest.approx([float(np.median(labels_of(training)))] * len(held))
    truth = labels_of(held)[:, 0]
    assert np.corrcoef(forest, truth)[0, 1] > 0.8
    swapped, _ = for_graphs(training, held.with_targets(torch.zeros(len(held)), "graph"), 0)
    assert swapped[POOLED]()[0][0].tolist() == forest.tolist()


def test_baselines_of_vertices() -> None:
    """Two cliques of twenty; labels follow the clique, attributes nothing."""
    team = np.repeat(["a", "b"], 20)
    nodes = pd.DataFrame({"id": range(40), "size": np.random.default_rng(0).normal(size=40), "team": team})
    pairs = [(u, v) for u in range(40) for v in range(u) if team[u] == team[v]]
    edges = pd.DataFrame(pairs, columns=["source", "target"])
    dataset = gspn.from_tables(nodes, edges, y="team")
    held = torch.tensor([0, 5, 25, 30])
    known = torch.tensor([v for v in range(40) if v not in held])
    predict, explained = for_vertices(dataset, known, held, 0)
    assert list(predict) == list(explained) == [CONSTANT, NEIGHBOURS, OWN]
    assert isinstance(dataset.target, Categorical)
    assert predict[NEIGHBOURS]()[0][0].tolist() == [0.0, 0.0, 1.0, 1.0]
    assert len(predict[OWN]()[0][0]) == 4
