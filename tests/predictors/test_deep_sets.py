"""What a head promises for every kind of target: it learns, and speaks the users' language."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from small_embeddings import (
    GRAPHS,
    KIND,
    OTHER_SIGNAL,
    OTHERS,
    SIGNAL,
    TARGETS,
    every_target,
    fitted,
    kinds,
    labels,
    make,
)

from gspn import Binary, Categorical, Continuous, Count, Schema
from gspn.targets import Target, encode_labels

# Every kind of target.


@every_target
def test_learns_a_planted_signal(target: Target) -> None:
    # Counts are drawn from a Poisson distribution: longer training learns the noise of these few, too.
    head = fitted(target, **({"epochs": 10} if isinstance(target, Count) else {}))
    assert head.history_[-1]["train"] < head.history_[0]["train"]
    assert head.score(OTHERS, labels(target, OTHER_SIGNAL)) > 0.8


@every_target
def test_predictions_are_in_the_users_words(target: Target) -> None:
    predicted = fitted(target, epochs=30).predict(OTHERS)
    if isinstance(target, Schema):
        assert predicted.shape == (len(OTHERS), len(target))
        return
    assert predicted.shape == (len(OTHERS),)
    if isinstance(target, Categorical):
        assert set(predicted.tolist()) <= set(target.categories)
    elif isinstance(target, Binary):
        assert predicted.dtype == bool
    elif isinstance(target, Continuous):
        assert 900 < predicted.min() < predicted.max() < 1400
    else:
        assert 0 < predicted.min() < predicted.max() < 80


def test_several_targets_keep_their_kinds() -> None:
    row = fitted(TARGETS[-1], epochs=2).predict(OTHERS)[0]
    assert row[0] in KIND.categories
    assert isinstance(row[1], float)
    assert isinstance(row[2], float)
    assert isinstance(row[3], bool | np.bool_)


def test_probabilities() -> None:
    head = fitted(KIND, epochs=20)
    probabilities = head.predict_proba(OTHERS)
    assert probabilities.shape == (len(OTHERS), 3)
    np.testing.assert_allclose(probabilities.sum(1), 1.0)
    assert head.classes_.tolist() == ["low", "middle", "high"]
    assert (head.classes_[probabilities.argmax(1)] == head.predict(OTHERS)).all()
    head = fitted(Binary("toxic"), epochs=20)
    probabilities = head.predict_proba(OTHERS)
    np.testing.assert_allclose(probabilities.sum(1), 1.0)
    assert ((probabilities[:, 1] > 0.5) == head.predict(OTHERS)).all()
    assert head.classes_.tolist() == [False, True]
    head = fitted(TARGETS[4], epochs=20)
    probabilities = head.predict_proba(OTHERS)
    assert probabilities.shape == (len(OTHERS), 2)
    assert ((probabilities > 0.5) == head.predict(OTHERS)).all()
    assert not hasattr(head, "classes_")


def test_a_continuous_prediction_is_a_median() -> None:
    """Labels that do not depend on the graph, three quarters of them small: the mean is 25, the median 0."""
    y = np.where(np.arange(len(GRAPHS)) % 4 == 0, 100.0, 0.0)
    predicted = make(Continuous("skewed"), epochs=150).fit(GRAPHS, y, progress=False).predict(GRAPHS)
    assert np.median(predicted) < 5


def test_labels_in_every_form_train_alike() -> None:
    words = kinds(SIGNAL)
    codes = torch.tensor([KIND.categories.index(word) for word in words])
    heads = [
        make(epochs=3).fit(GRAPHS, y, progress=False)
        for y in (words, np.array(words), codes, codes.double().unsqueeze(1), {"kind": words}, [[w] for w in words])
    ]
    for head in heads[1:]:
        assert all(torch.equal(value, heads[0].weights_[name]) for name, value in head.weights_.items())


def test_large_labels_and_constant_ones() -> None:
    for y in (1e200 * SIGNAL, np.full(len(SIGNAL), 7.5)):
        head = make(Continuous("energy"), epochs=100).fit(GRAPHS, y, progress=False)
        predicted = head.predict(GRAPHS)
        assert np.isfinite(predicted).all()
        assert np.abs(predicted - y).mean() < 0.1 * np.abs(y).mean()


def test_counts_that_are_all_zero() -> None:
    head = make(Count("rings")).fit(GRAPHS, np.zeros(len(GRAPHS)), progress=False)
    predicted = head.predict(GRAPHS)
    assert (predicted > 0).all()
    assert predicted.max() < 0.02


def test_one_class_only() -> None:
    head = make(epochs=5).fit(GRAPHS, ["low"] * len(GRAPHS), validation=(OTHERS, ["low"] * len(OTHERS)), progress=False)
    assert head.score(OTHERS, ["low"] * len(OTHERS)) == 1.0


# Missing labels.


@every_target
def test_graphs_without_labels_change_nothing(target: Target) -> None:
    """With all graphs in one batch, a graph without labels is as good as absent, but for what standardises inputs.

    The same graphs once more have the same mean and deviation.
    """
    y = torch.from_numpy(encode_labels(target, labels(target, SIGNAL)))
    arguments: dict[str, Any] = {"batch_size": 1000, "epochs": 10}
    double = [graph.double() for graph in GRAPHS]
    masked = torch.cat([y, torch.full_like(y, math.nan)])
    partly = make(target, **arguments).fit([*double, *double], masked, progress=False)
    without = make(target, **arguments).fit(double, y, progress=False)
    for name, value in partly.weights_.items():
        torch.testing.assert_close(value, without.weights_[name], rtol=0, atol=1e-9)
