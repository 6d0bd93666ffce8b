"""Heads on rows: they are what scikit-learn fitted, they are chosen on rows not learned from, and calibrated there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gspn import Binary, Categorical, Continuous, Count, GSPNError, Schema
from gspn.attributes import FloatArray
from gspn.predictors.outputs import outputs_for
from gspn.predictors.vectors import FAMILIES, choose_heads
from gspn.predictors.vectors.calibration import calibrate, log_probabilities
from gspn.predictors.vectors.families import HeadFamily
from gspn.rows.task import Task

CHEAP = ("linear", "linear support vectors")


def drawn(rows: int, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Rows [n, 6], and a number that is curved in the first two columns."""
    x = np.random.default_rng(seed).standard_normal((rows, 6))
    return x, x[:, 0] + 0.5 * x[:, 1] ** 2


def classes(values: FloatArray, number: int) -> FloatArray:
    return np.searchsorted(np.quantile(values, np.arange(1, number) / number), values).astype(float)


# ---- Families


def fitted_by_scikit_learn(family: str, rows: FloatArray, task: Task, settings: Any, judged: FloatArray) -> Any:
    """Outputs of the estimators themselves, not of the arrays that were taken from them."""
    from sklearn.ensemble import (
        ExtraTreesClassifier,
        ExtraTreesRegressor,
        GradientBoostingClassifier,
        GradientBoostingRegressor,
    )
    from sklearn.svm import SVC, SVR

    from gspn.rows import trees

    if family == "support vectors":
        width, cost = settings
        distances = ((rows[:, None] - rows) ** 2).sum(-1)
        rate = width / np.median(distances[distances > 0])
        if not task.classes:
            return SVR(C=cost, gamma=rate, epsilon=0.05).fit(rows, task.labels).predict(judged)[:, None]
        machines = [SVC(C=cost, gamma=rate).fit(rows, side) for side in task.sides.T]
        return np.column_stack([machine.decision_function(judged) for machine in machines])
    if family == "kernel ridge":
        from sklearn.kernel_ridge import KernelRidge

        width, penalty = settings
        distances = ((rows[:, None] - rows) ** 2).sum(-1)
        targets = task.sides if task.classes else task.labels[:, None]
        machine = KernelRidge(alpha=penalty, kernel="rbf", gamma=width / np.median(distances[distances > 0]))
        return machine.fit(rows, targets - targets.mean(0)).predict(judged) + targets.mean(0)
    if family == "extra trees":
        arguments: dict[str, Any] = {"n_estimators": trees.FOREST, "min_samples_leaf": settings, "random_state": 0}
        if not task.classes:
            forest = ExtraTreesRegressor(max_features=2, **arguments).fit(rows, task.labels)
            return forest.predict(judged)[:, None]
        shares = ExtraTreesClassifier(max_features="sqrt", **arguments).fit(rows, task.labels).predict_proba(judged)
        logs = np.log(np.maximum(shares, 1e-3))
        return logs[:, 1:] - logs[:, :1] if task.classes == 2 else logs
    arguments = {"learning_rate": 0.05, "subsample": 0.7, "max_features": "sqrt", "min_samples_leaf": 3}
    arguments |= {"n_estimators": trees.BOOSTED, "max_depth": settings, "init": "zero", "random_state": 0}
    if not task.classes:
        return GradientBoostingRegressor(**arguments).fit(rows, task.labels).predict(judged)[:, None]
    found = GradientBoostingClassifier(**arguments).fit(rows, task.labels).decision_function(judged)
    return found.reshape(len(judged), -1)


@pytest.mark.parametrize("number", [0, 2, 3])
@pytest.mark.parametrize("family", ["support vectors", "kernel ridge", "extra trees", "boosting"])
def test_kept_arrays_answer_as_the_estimators_do(family: str, number: int) -> None:
    (rows, values), (judged, _) = drawn(80), drawn(30, seed=1)
    labels = classes(values, number) if number else (values - values.mean()) / values.std()
    task = Task(labels, number)
    settings, head = next(FAMILIES[family].heads(rows, task, 0))
    expected = fitted_by_scikit_learn(family, rows, task, settings, judged)
    # libsvm stops when its optimality conditions hold to 1e-3, on Gram matrices elsewhere than on rows.
    tolerance = {"support vectors": 1e-2, "kernel ridge": 1e-4}.get(family, 1e-6)
    np.testing.assert_allclose(head.outputs(judged), expected, rtol=tolerance, atol=tolerance)


def test_products_of_sparse_rows_are_those_of_dense_ones() -> None:
    from scipy.sparse import csr_array

    rows, values = drawn(60)
    rows = np.where(np.abs(rows) > 0.7, rows, 0.0)
    task = Task(classes(values, 2), 2)
    for family in CHEAP:
        settings, dense = next(FAMILIES[family].heads(rows, task, 0))
        sparse = FAMILIES[family].one(csr_array(rows), task, 0, settings)
        # Both solvers stop when they are near enough: a thousandth of the outputs.
        np.testing.assert_allclose(sparse.outputs(csr_array(rows)), dense.outputs(rows), rtol=1e-2, atol=1e-2)


# ---- Calibration


@pytest.mark.parametrize("number", [2, 3])
def test_calibration_finds_scale_and_shift(number: int) -> None:
    rng = np.random.default_rng(0)
    true = 1.5 * rng.standard_normal((4_000, number if number > 2 else 1))
    probabilities = np.exp(log_probabilities(true))
    labels = (rng.random((4_000, 1)) > probabilities.cumsum(1)).sum(1).astype(float)
    calibrated = calibrate(true * 20 + 3, Task(labels, number))
    # 4,000 labels leave errors of about 0.05 in each parameter.
    assert abs(calibrated.scale * 20 - 1) < 0.15
    loss = -log_probabilities(calibrated(true * 20 + 3))[np.arange(4_000), labels.astype(int)].mean()
    best = -np.log(probabilities[np.arange(4_000), labels.astype(int)]).mean()
    assert loss < best + 0.005


def test_few_labels_that_are_told_apart_make_nobody_sure() -> None:
    labels = np.array([0.0, 0.0, 1.0, 1.0])
    outputs = np.array([[-5.0], [-4.0], [4.0], [5.0]])
    logs = log_probabilities(calibrate(outputs, Task(labels, 2))(outputs))
    assert 0.6 < np.exp(logs).max() < 0.999


# ---- Choice


def test_the_head_that_fits_is_chosen() -> None:
    """A curved number is no linear map, a straight one is."""
    rows, _ = drawn(200)
    curved = choose_heads(rows, rows[:, 1:2] ** 2, Continuous("y"), families=("linear", "support vectors"))
    assert curved.heads[0].parts[0].family == "support vectors"
    straight = choose_heads(rows, rows[:, 1:2], Continuous("y"), families=("linear", "support vectors"))
    assert straight.heads[0].parts[0].family == "linear"
    assert {one.head for one in straight.tried} == {"linear", "support vectors"}
    assert all(np.isfinite([one.loss, one.score]).all() for one in straight.tried)


def test_rows_that_are_not_learned_from_judge() -> None:
    """Noise has nothing to tell: whatever a forest knows by heart, its errors are those of unseen rows."""
    rng = np.random.default_rng(0)
    rows, noise = rng.standard_normal((120, 20)), rng.standard_normal((120, 1))
    chosen = choose_heads(rows, noise, Continuous("y"), families=("linear", "extra trees"))
    assert max(one.score for one in chosen.tried) < 0.2
    assert np.sqrt(np.mean(chosen.heads[0].errors ** 2)) > 0.8 * noise.std()
    assert len(chosen.heads[0].errors) == 120


def test_validation_rows_are_learned_from_only_if_asked() -> None:
    rows, values = drawn(60)
    y = classes(values, 2)[:, None]
    other = (rows[:20], 1 - y[:20])
    alone = choose_heads(rows[20:], y[20:], Binary("y"), families=["linear"], validation=other, refit=False)
    strength = alone.heads[0].parts[0].settings
    expected = FAMILIES["linear"].one(rows[20:], Task(y[20:, 0], 2), 0, strength)
    np.testing.assert_array_equal(alone.heads[0].parts[0].head.outputs(rows), expected.outputs(rows))
    both = choose_heads(rows[20:], y[20:], Binary("y"), families=["linear"], validation=other, refit=True)
    assert not np.allclose(both.heads[0].parts[0].head.outputs(rows), expected.outputs(rows))


def test_all_together_are_the_mean_of_the_best() -> None:
    rows, values = drawn(100)
    y = classes(values, 3)[:, None]
    target = Categorical("y", ["a", "b", "c"])
    chosen = choose_heads(rows, y, target, families=(*CHEAP, "together"))
    assert {one.head for one in chosen.tried} == {*CHEAP, "together"}
    head = chosen.heads[0]
    calibrated = [part.calibration(part.head.outputs(rows)) for part in head.parts if part.calibration is not None]
    np.testing.assert_allclose(head.log_probabilities(rows), log_probabilities(np.mean(calibrated, axis=0)), atol=1e-12)


@pytest.mark.parametrize(
    "labels",
    [[0.0, 0.0, 0.0], [0.0, 1.0], [2.0], [0.0, 1.0, 2.0], [0.0] * 9 + [1.0], [0.0, np.nan, 1.0, 1.0]],
    ids=str,
)
def test_hardly_any_labels(labels: list[float]) -> None:
    """Classes that nobody has, or that a single graph has: an answer all the same, and one that sums to 1."""
    rows, _ = drawn(len(labels))
    target = Categorical("y", ["a", "b", "c"])
    chosen = choose_heads(rows, np.array(labels)[:, None], target, families=CHEAP)
    probabilities = np.exp(chosen.heads[0].log_probabilities(drawn(50, seed=1)[0]))
    np.testing.assert_allclose(probabilities.sum(1), 1)
    never = sorted({0, 1, 2} - {int(label) for label in labels if not np.isnan(label)})
    assert (probabilities[:, never] < 1e-3).all()


@pytest.mark.parametrize("target", [Continuous("y"), Count("y")])
@pytest.mark.parametrize("labels", [[4.0], [4.0, 4.0, 4.0, 4.0]], ids=str)
def test_hardly_any_values(target: Any, labels: list[float]) -> None:
    rows, _ = drawn(len(labels))
    chosen = choose_heads(rows, np.array(labels)[:, None], target, families=CHEAP)
    np.testing.assert_allclose(chosen.heads[0].values(drawn(50, seed=1)[0]), 4.0, atol=1e-6)


def test_many_columns_that_say_nothing_drown_no_others() -> None:
    """40 labels, few columns that matter, 400 that do not: as two kinds of equal weight they are as good as alone."""
    x, y = drawn(340, seed=4)
    rows = np.concatenate([x, np.random.default_rng(5).standard_normal((340, 400))], axis=1)
    rows[:, 6:10] = 0.0
    rows[50:, 6:10] = 100.0  # what is rare among the labelled ones reaches far elsewhere
    first = np.arange(rows.shape[1]) < 6
    balanced = np.where(first, 10 / np.sqrt(6), 10 / np.sqrt(400))

    def error(*views: FloatArray) -> float:
        chosen = choose_heads(
            rows[:40], y[:40, None], Continuous("y"), families=("linear", "support vectors", "together"), views=views
        )
        return float(np.mean((chosen.heads[0].values(rows[40:]) - y[40:]) ** 2))

    plain, alone, viewed = error(), error(first.astype(float)), error(balanced, first.astype(float))
    assert viewed < 0.8 * plain
    assert viewed < 1.2 * alone


def test_heads_that_have_learned_from_everything_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = drawn(120)
    labels = classes(y, 2)[:, None]
    learned = []
    one = HeadFamily.one

    def noted(self: HeadFamily, *given: Any) -> Any:
        learned.append(self)
        return one(self, *given)

    monkeypatch.setattr(HeadFamily, "one", noted)
    arguments: dict[str, Any] = {"families": ("linear", "extra trees"), "validation": (x[80:], labels[80:])}
    kept = choose_heads(x[:80], labels[:80], Binary("y"), refit=False, **arguments)
    assert not learned
    again = choose_heads(x[:80], labels[:80], Binary("y"), refit=True, **arguments)
    assert len(learned) == 1
    assert kept.tried == again.tried


def test_several_targets_have_their_own_labels_and_heads() -> None:
    rows, values = drawn(90)
    target = Schema([Binary("high"), Count("number"), Continuous("value")])
    labels = np.column_stack([classes(values, 2), np.round(np.exp(values / 2)), 100 * values])
    labels[::3, 0] = np.nan
    labels[1::3, 2] = np.nan
    chosen, meaning = choose_heads(rows, labels, target, families=["linear"]), outputs_for(target, labels)
    outputs = np.column_stack([h.outputs(rows, u) for h, u in zip(chosen.heads, meaning.units, strict=True)])
    predictions = meaning.predictions(outputs)
    for column, head in enumerate(chosen.heads[1:], 1):
        np.testing.assert_allclose(predictions[:, column], head.values(rows), rtol=1e-9, atol=1e-3)
    assert meaning.score(outputs, labels) > 0.5


def test_a_target_without_labels_is_refused() -> None:
    rows, _ = drawn(5)
    with pytest.raises(GSPNError, match="all labels are missing"):
        choose_heads(rows, np.full((5, 1), np.nan), Binary("y"))
    with pytest.raises(GSPNError, match="no validation graph"):
        choose_heads(rows, np.zeros((5, 1)), Binary("y"), validation=(rows, np.full((5, 1), np.nan)))
