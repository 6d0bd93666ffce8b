"""Heads that are trained together end as if each were trained alone, and as a plain torch network would.

The oracle here is that network: torch's layers, losses, gradients and Adam.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gspn import Binary, Categorical, Continuous, Count, Schema
from gspn.errors import GSPNError, InputError, NotFittedError
from gspn.predictors import DeepSets, heads
from gspn.predictors.heads import INPUTS
from gspn.random_streams import keyed_generator
from gspn.targets import Target, encode_labels, target_schema
from gspn.training import loop

COLUMNS = 6
TARGETS: dict[str, Target] = {
    "categorical": Categorical("kind", ["a", "b", "c"]),
    "binary": Binary("toxic"),
    "continuous": Continuous("energy"),
    "count": Count("rings"),
    "several": Schema([Binary("p"), Binary("q")]),
    "mixed": Schema([Continuous("energy"), Categorical("kind", ["a", "b"]), Count("rings"), Binary("toxic")]),
}
CONFIGURATIONS: list[dict[str, Any]] = [
    {"hidden": 5},
    {"hidden": 5, "pooling": "mean", "seed": 3},
    {"hidden": 12, "lr": 0.02, "weight_decay": 0.01},
    {"hidden": 5, "weight_decay": 0.1, "lr": 0.05, "seed": 1},
    {"hidden": 12, "pooling": "mean", "seed": 7},
    {"hidden": 2, "lr": 0.1, "seed": 2},
]


def draw(count: int, seed: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Embeddings of graphs with 0 to 6 vertices."""
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(0, 7, (count,), generator=generator).tolist()
    return [torch.rand(size, COLUMNS, generator=generator, dtype=dtype) for size in sizes]


def draw_labels(target: Target, count: int, seed: int, missing: float = 0.0) -> Tensor:
    """Encoded labels [n, T]."""
    rng = np.random.default_rng(seed)
    columns = []
    for attribute in target_schema(target):
        if isinstance(attribute, Continuous):
            columns.append(rng.normal(30.0, 4.0, count))
        elif isinstance(attribute, Count):
            columns.append(rng.poisson(7.0, count).astype(float))
        else:
            kinds = len(attribute.categories) if isinstance(attribute, Categorical) else 2
            columns.append(rng.integers(kinds, size=count).astype(float))
    labels = np.column_stack(columns)
    labels[rng.random(labels.shape) < missing] = np.nan
    return torch.from_numpy(labels)


EMBEDDINGS, HELD_OUT = draw(30, seed=0), draw(11, seed=1)
KIND = TARGETS["categorical"]
Y, HELD_OUT_Y = draw_labels(KIND, 30, seed=2), draw_labels(KIND, 11, seed=3)
VALIDATION = (HELD_OUT, HELD_OUT_Y)


def fit_many(configurations: list[dict[str, Any]], **arguments: Any) -> list[DeepSets]:
    shared = {"target": KIND, "epochs": 8, "batch_size": 7, "validation": VALIDATION} | arguments
    return DeepSets.fit_many(configurations, EMBEDDINGS, Y, progress=False, **shared)


def curve(head: DeepSets, name: str = "validation") -> list[float]:
    return [record[name] for record in head.history_]


def same(one: DeepSets, other: DeepSets, tolerance: float = 1e-8) -> bool:
    return set(one.weights_) == set(other.weights_) and all(
        torch.allclose(value, other.weights_[name], rtol=0, atol=tolerance) for name, value in one.weights_.items()
    )


# The oracle.


class Oracle(nn.Module):
    """The network in torch's own words, beginning with the weights of a head that has not learned yet."""

    def __init__(self, head: DeepSets, training_labels: Tensor) -> None:
        super().__init__()
        start = DeepSets(**head.get_params() | {"epochs": 0}).fit(EMBEDDINGS, training_labels, progress=False).weights_
        self.pooling = head.pooling
        outputs = len(start["output.bias"])
        self.vertex, self.graph = nn.Linear(COLUMNS, head.hidden), nn.Linear(head.hidden, head.hidden)
        self.output = nn.Linear(head.hidden, outputs)
        self.double().load_state_dict({name: value for name, value in start.items() if name not in INPUTS})
        rows = torch.cat(EMBEDDINGS)
        self.centre, self.scale = rows.mean(0), rows.std(0, correction=0)
        self.target = target_schema(head.target)
        self.mean, self.deviation = np.nanmean(training_labels, axis=0), np.nanstd(training_labels, axis=0)

    def forward(self, graphs: list[Tensor]) -> Tensor:
        sizes = torch.tensor([len(graph) for graph in graphs])
        owner = torch.repeat_interleave(torch.arange(len(graphs)), sizes)
        vertices = self.vertex((torch.cat(graphs) - self.centre) / self.scale).relu()
        pooled = vertices.new_zeros(len(graphs), vertices.shape[1]).index_add(0, owner, vertices)
        if self.pooling == "mean":
            pooled = pooled / sizes.clamp(min=1).unsqueeze(1)
        outputs: Tensor = self.output(self.graph(pooled).relu())
        return outputs

    def loss(self, graphs: list[Tensor], labels: Tensor) -> tuple[Tensor, int]:
        """Sum over labelled entries, and their number."""
        outputs, first, total, entries = self(graphs), 0, torch.zeros(()), 0
        for t, attribute in enumerate(self.target):
            width = len(attribute.categories) if isinstance(attribute, Categorical) else 1
            own, first = outputs[:, first : first + width], first + width
            known = ~labels[:, t].isnan()
            own, y, entries = own[known], labels[known, t], entries + int(known.sum())
            if isinstance(attribute, Categorical):
                total = total + F.cross_entropy(own, y.long(), reduction="sum")
            elif isinstance(attribute, Binary):
                total = total + F.binary_cross_entropy_with_logits(own[:, 0], y, reduction="sum")
            elif isinstance(attribute, Continuous):
                total = total + F.l1_loss(own[:, 0], (y - self.mean[t]) / self.deviation[t], reduction="sum")
            else:
                total = total + F.poisson_nll_loss(own[:, 0] + math.log(self.mean[t]), y, reduction="sum")
        return total, entries


def oracle_curve(head: DeepSets, y: Tensor, held_out_y: Tensor) -> tuple[list[float], list[float]]:
    """Training and validation losses of every epoch."""
    network = Oracle(head, y)
    optimizer = torch.optim.Adam(network.parameters(), lr=head.lr, weight_decay=head.weight_decay)
    curves: tuple[list[float], list[float]] = ([], [])
    for epoch in range(head.epochs):
        order = torch.randperm(len(y), generator=keyed_generator(0, loop._ORDER, epoch))
        total, terms = 0.0, 0
        for batch in order.split(head.batch_size):
            loss, entries = network.loss([EMBEDDINGS[i] for i in batch], y[batch])
            total, terms = total + loss.item(), terms + entries
            if entries:
                optimizer.zero_grad()
                (loss / entries).backward()
                optimizer.step()
        with torch.no_grad():
            loss, entries = network.loss(HELD_OUT, held_out_y)
        curves[0].append(total / terms)
        curves[1].append(loss.item() / entries)
    return curves


@pytest.mark.parametrize("kind", TARGETS)
def test_together_as_alone_and_as_plain_torch(kind: str) -> None:
    """Twenty epochs in float64: training and validation losses to 1e-8."""
    target = TARGETS[kind]
    y, held_out_y = draw_labels(target, 30, 4, missing=0.2), draw_labels(target, 11, 5, missing=0.2)
    shared: dict[str, Any] = {"target": target, "epochs": 20, "batch_size": 11}
    fitting: dict[str, Any] = {"validation": (HELD_OUT, held_out_y), "progress": False}
    together = DeepSets.fit_many(CONFIGURATIONS, EMBEDDINGS, y, **shared, **fitting)
    for head, configuration in zip(together, CONFIGURATIONS, strict=True):
        alone = DeepSets(**shared, **configuration).fit(EMBEDDINGS, y, **fitting)
        train, validation = oracle_curve(head, y, held_out_y)
        assert len(validation) == 20
        for found in (head, alone):
            np.testing.assert_allclose(curve(found, "train"), train, rtol=0, atol=1e-8)
            np.testing.assert_allclose(curve(found), validation, rtol=0, atol=1e-8)
        assert same(head, alone)
        assert curve(head)[-1] != curve(head)[0]
        assert head.history_[-1]["epoch"] == 19


def test_batches_without_a_label_make_no_step() -> None:
    """Graphs one by one, every other label missing: momentum alone must not move anything, as in the oracle."""
    y = Y.clone()
    y[::2] = math.nan
    head = DeepSets(KIND, hidden=5, epochs=5, batch_size=1, lr=0.05)
    head.fit(EMBEDDINGS, y, validation=VALIDATION, progress=False)
    train, validation = oracle_curve(head, y, HELD_OUT_Y)
    np.testing.assert_allclose(curve(head, "train"), train, rtol=0, atol=1e-10)
    np.testing.assert_allclose(curve(head), validation, rtol=0, atol=1e-10)


def test_single_precision_agrees_roughly() -> None:
    narrow = DeepSets.fit_many(
        CONFIGURATIONS,
        [graph.float() for graph in EMBEDDINGS],
        Y,
        validation=([graph.float() for graph in HELD_OUT], HELD_OUT_Y),
        progress=False,
        target=KIND,
        epochs=8,
        batch_size=7,
    )
    for one, other in zip(narrow, fit_many(CONFIGURATIONS), strict=True):
        assert one.weights_["vertex.weight"].dtype == torch.float32
        assert other.weights_["vertex.weight"].dtype == torch.float64
        np.testing.assert_allclose(curve(one), curve(other), rtol=1e-3)


# Each head for itself.


def test_order_and_neighbours_are_irrelevant() -> None:
    order = [3, 0, 5, 1]
    every, some = fit_many(CONFIGURATIONS), fit_many([CONFIGURATIONS[i] for i in order])
    for place, number in enumerate(order):
        assert some[place].get_params() == every[number].get_params()
        assert same(some[place], every[number])
        np.testing.assert_allclose(curve(some[place]), curve(every[number]), rtol=0, atol=1e-10)


def test_starting_weights_depend_on_the_seed_alone() -> None:
    one, other, different = fit_many([{"epochs": 0}, {"epochs": 0, "lr": 1.0}, {"epochs": 0, "seed": 1}], epochs=1)
    assert same(one, other, tolerance=0)
    assert not same(one, different)
    assert one.history_ == []
    bound = 1 / math.sqrt(COLUMNS)
    weight = one.weights_["vertex.weight"]
    assert 0.9 * bound < float(weight.abs().max()) <= bound
    assert abs(float(weight.mean())) < 0.1 * bound


def test_heads_end_for_themselves() -> None:
    """Own epochs, own patience: each history is as long as that of the head alone, and so are the best weights."""
    configurations: list[dict[str, Any]] = [
        {"hidden": 4, "epochs": 3},
        {"hidden": 4, "lr": 0.5, "patience": 2},
        {"hidden": 9, "lr": 0.5, "patience": 5, "monitor": "score"},
        {"hidden": 4, "lr": 1e-4, "patience": 30},
        {"hidden": 9, "epochs": 0},
    ]
    together = fit_many(configurations, epochs=30)
    lengths = [len(head.history_) for head in together]
    assert lengths[0] == 3
    assert 3 <= lengths[1] < 30
    assert 6 <= lengths[2] < 30
    assert lengths[3] == 30
    assert lengths[4] == 0
    for head, configuration in zip(together, configurations, strict=True):
        arguments = {"target": KIND, "batch_size": 7, "epochs": 30} | configuration
        alone = DeepSets(**arguments).fit(EMBEDDINGS, Y, validation=VALIDATION, progress=False)
        assert len(alone.history_) == len(head.history_)
        assert same(head, alone)


def test_the_best_weights_are_kept() -> None:
    (head,) = fit_many([{"hidden": 8, "lr": 0.3, "patience": 3}], epochs=60)
    best = int(np.argmin(curve(head)))
    assert len(head.history_) == best + 1 + 3
    (shorter,) = fit_many([{"hidden": 8, "lr": 0.3}], epochs=best + 1, validation=None)
    assert same(head, shorter)


def test_equal_scores_are_told_apart_by_the_loss() -> None:
    (head,) = fit_many([{"hidden": 8, "lr": 0.01, "monitor": "score", "patience": 40}], epochs=40)
    scores = np.array(curve(head, "score"))
    top = np.flatnonzero(scores == scores.max())
    best = int(top[np.argmin(np.array(curve(head))[top])])
    (shorter,) = fit_many([{"hidden": 8, "lr": 0.01}], epochs=best + 1, validation=None)
    assert same(head, shorter)
    assert head.score(*VALIDATION) == scores.max()


def test_without_validation_the_last_weights_stay() -> None:
    with_validation, without = (fit_many([{"hidden": 4}], validation=v)[0] for v in (VALIDATION, None))
    assert set(without.history_[0]) == {"epoch", "train", "seconds"}
    assert set(with_validation.history_[0]) == {"epoch", "train", "validation", "score", "seconds"}
    assert curve(without, "train") == curve(with_validation, "train")


def test_another_order_of_graphs_is_another_training() -> None:
    one, same_order = (fit_many([{"hidden": 4}])[0] for _ in range(2))
    other = fit_many([{"hidden": 4}], order_seed=1)[0]
    assert same(one, same_order, tolerance=0)
    assert not same(one, other)


def test_wide_stacks_are_computed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = fit_many(CONFIGURATIONS)
    monkeypatch.setattr(heads, "_COLUMNS_AT_ONCE", 10)
    for one, other in zip(whole, fit_many(CONFIGURATIONS), strict=True):
        assert same(one, other)


# Threads.


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_as_many_threads_as_the_width_is_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, step = [], loop._Run.step

    def watched(self: loop._Run, *arguments: Any) -> Any:
        threads.append(torch.get_num_threads())
        return step(self, *arguments)

    monkeypatch.setattr(loop._Run, "step", watched)
    for number, expected in ((1, 1), (2, 2)):
        threads.clear()
        fit_many([{"hidden": 64, "seed": i, "epochs": 1} for i in range(number)])
        assert set(threads) == {expected}
        assert torch.get_num_threads() == 2, "as before"


@pytest.mark.usefixtures("two_threads")
def test_an_error_leaves_every_head_with_whole_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, step = count(1), loop._Run.step

    def faulty(self: loop._Run, *arguments: Any) -> Any:
        if next(calls) == 9:
            raise KeyboardInterrupt
        return step(self, *arguments)

    monkeypatch.setattr(loop._Run, "step", faulty)
    several = [DeepSets(KIND, hidden=64, batch_size=7, seed=i) for i in range(4)]
    with pytest.raises(KeyboardInterrupt):
        DeepSets.fit_many(several, EMBEDDINGS, Y, progress=False)
    assert [len(head.history_) for head in several] == [1, 1, 1, 1], "five batches an epoch, so one was whole"
    assert torch.get_num_threads() == 2


# What is taken and what is refused.


def test_estimators_are_fitted_where_they_are() -> None:
    heads = [DeepSets(KIND, hidden=4, epochs=2, seed=i) for i in range(2)]
    found = DeepSets.fit_many(heads, EMBEDDINGS, Y, progress=False)
    assert all(one is other for one, other in zip(found, heads, strict=True))
    heads[0].predict(EMBEDDINGS)


@pytest.mark.parametrize(
    ("configurations", "shared", "message"),
    [
        ([], {}, "configurations is empty"),
        ({"hidden": 4}, {}, "configurations must be a list"),
        (DeepSets(KIND), {}, "configurations must be a list"),
        ([DeepSets(KIND)] * 2, {}, "configuration 1 is the same object"),
        ([{"target": KIND}, 3], {}, "configuration 1 must be a mapping or a DeepSets, got 3"),
        ([{}, {"hidden": 0}], {"target": KIND}, "configuration 1: hidden must be an integer of at least 1, got 0"),
        ([{"width": 3}], {"target": KIND}, "configuration 0: .*width"),
        ([{}], {}, "configuration 0: .*target"),
        ([{}, {"batch_size": 8}], {"target": KIND}, "configuration 1: batch_size is 8, but 32 in configuration 0"),
        ([{"target": KIND}, {"target": Binary("b")}], {}, "configuration 1: target is Binary"),
        ([DeepSets(KIND)], {"hidden": 3}, "configuration 0 is a DeepSets, .* leave out hidden"),
        ([{}], {"target": KIND, "order_seed": -1}, "order_seed must be an integer"),
    ],
)
def test_refused(configurations: Any, shared: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        DeepSets.fit_many(configurations, EMBEDDINGS, Y, progress=False, **shared)


# Losses that are not numbers.


def test_a_diverged_head_leaves_the_others_alone(caplog: pytest.LogCaptureFixture) -> None:
    good: dict[str, Any] = {"hidden": 4}
    with caplog.at_level(logging.WARNING, logger="gspn"):
        kept, lost, unharmed = fit_many([good, {"hidden": 4, "lr": 1e200}, good])
    assert "configuration 1: the loss became non-finite in epoch 0; it is left as it was" in caplog.text
    assert same(kept, unharmed, tolerance=0)
    assert len(kept.history_) == 8
    with pytest.raises(NotFittedError):
        lost.predict(EMBEDDINGS)


def test_a_diverged_head_alone_is_an_error() -> None:
    head = DeepSets(KIND, lr=1e200, batch_size=7)
    with pytest.raises(GSPNError, match=r"became nan in epoch 0, batch \d; try a smaller lr"):
        head.fit(EMBEDDINGS, Y, progress=False)


def test_labels_of_the_oracle_are_those_of_the_library() -> None:
    """The oracle reads encoded labels; this is what the library takes them for."""
    assert np.array_equal(encode_labels(KIND, ["a", "c", None]), [[0.0], [2.0], [math.nan]], equal_nan=True)
