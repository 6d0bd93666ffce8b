"""Scores against scikit-learn's own, on the rows that have labels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, average_precision_score, mean_absolute_error, r2_score

from gspn import Binary, Categorical, Continuous, Count, Schema, scores
from gspn.errors import InputError

NAN = math.nan
RNG_SEED = 0
SEVERAL = Schema([Binary("a"), Binary("b"), Binary("c")])


def draw(n: int, low: float, high: float) -> NDArray[np.float64]:
    return np.random.default_rng(RNG_SEED).uniform(low, high, n)


def with_gaps(labels: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Every third label missing; which are left."""
    gaps = labels.copy()
    gaps[::3] = NAN
    return gaps, ~np.isnan(gaps)


@pytest.mark.parametrize("target", [Categorical("y", ["a", "b", "c"]), Binary("y")])
def test_accuracy(target: Any) -> None:
    labels, found = np.floor(draw(30, 0, 2)), np.floor(draw(30, 0.5, 2))
    gaps, known = with_gaps(labels)
    assert scores.score(target, labels[:, None], found[:, None], None) == accuracy_score(labels, found)
    expected = accuracy_score(labels[known], found[known])
    assert scores.score(target, gaps[:, None], found[:, None], None) == expected
    assert 0 < expected < 1


@pytest.mark.parametrize("target", [Continuous("y"), Count("y")])
def test_explained_variance(target: Any) -> None:
    labels = np.floor(draw(30, 0, 50))
    found = labels + np.random.default_rng(1).normal(0, 5, 30)
    gaps, known = with_gaps(labels)
    assert scores.score(target, labels[:, None], found[:, None], None) == pytest.approx(r2_score(labels, found))
    expected = r2_score(labels[known], found[known])
    assert scores.score(target, gaps[:, None], found[:, None], None) == pytest.approx(expected)
    mean = np.full((30, 1), labels.mean())
    assert scores.score(target, labels[:, None], mean, None) == pytest.approx(0, abs=1e-12)


def test_average_precision_of_several_binary_targets() -> None:
    rng = np.random.default_rng(RNG_SEED)
    labels = rng.integers(2, size=(40, 3)).astype(float)
    probabilities = np.clip(labels * 0.3 + rng.random((40, 3)) * 0.7, 0, 1)
    labels[rng.random(labels.shape) < 0.3] = NAN
    known = ~np.isnan(labels)
    expected = [average_precision_score(labels[k, t], probabilities[k, t]) for t, k in enumerate(known.T)]
    assert scores.score(SEVERAL, labels, probabilities.round(), probabilities) == pytest.approx(np.mean(expected))
    # A task whose labels are all alike, or missing, has no precision and recall; the others count.
    for value in (0.0, 1.0, NAN):
        labels[:, 1] = value
        rest = np.mean([expected[0], expected[2]])
        assert scores.score(SEVERAL, labels, probabilities.round(), probabilities) == pytest.approx(rest)
    labels[:] = 1.0
    with pytest.raises(InputError, match="no target has labels of both kinds"):
        scores.score(SEVERAL, labels, probabilities, probabilities)


def test_several_targets_of_different_kinds_count_alike() -> None:
    target = Schema([Categorical("a", ["x", "y"]), Continuous("b"), Count("c")])
    labels = np.column_stack([np.floor(draw(30, 0, 2)), draw(30, -1, 1), np.floor(draw(30, 0, 9))])
    found = labels + np.array([0.0, 0.3, -0.5]) * np.sign(np.sin(np.arange(30)))[:, None]
    parts = [1.0, r2_score(labels[:, 1], found[:, 1]), r2_score(labels[:, 2], found[:, 2])]
    assert scores.score(target, labels, found, None) == pytest.approx(np.mean(parts))
    labels[:, 0] = NAN
    labels[1:, 2] = NAN  # one label has no variance to explain
    assert scores.score(target, labels, found, None) == pytest.approx(parts[1])


@pytest.mark.parametrize(
    ("target", "labels"),
    [
        (Categorical("y", ["a", "b"]), [NAN, NAN]),
        (Binary("y"), [NAN, NAN]),
        (Continuous("y"), [NAN, NAN]),
        (Continuous("y"), [1.0, NAN]),
        (Count("y"), [3.0, NAN]),
    ],
)
def test_too_few_labels(target: Any, labels: list[float]) -> None:
    column = np.array(labels)[:, None]
    with pytest.raises(InputError, match="too few labels to score the predictions against"):
        scores.score(target, column, np.zeros((2, 1)), None)


def test_constant_labels_have_a_finite_score() -> None:
    constant = np.full((5, 1), 2.0)
    assert math.isfinite(scores.score(Continuous("y"), constant, constant + 1, None))
    assert scores.score(Continuous("y"), constant, constant, None) == 1


def test_mean_absolute_error() -> None:
    labels = np.array([[1.0, NAN], [3.0, -2.0]])
    found = np.array([[2.0, 9.0], [3.0, 1.0]])
    assert scores.mean_absolute_error(labels, found) == mean_absolute_error([1, 3, -2], [2, 3, 1])
    with pytest.raises(InputError, match="no label"):
        scores.mean_absolute_error(np.full((2, 2), NAN), found)
