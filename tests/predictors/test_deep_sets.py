"""What a head promises for every kind of target: it learns, speaks the users' language and says what it cannot use."""

from __future__ import annotations

import io
import json
import math
import sys
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from gspn import Binary, Categorical, Continuous, Count, Schema
from gspn.errors import CheckpointError, InputError, NotFittedError
from gspn.predictors import DeepSets
from gspn.predictors.heads import Stack
from gspn.predictors.outputs import outputs_for
from gspn.targets import Target, encode_labels, target_schema
from gspn.training.files import read_tensors, tensor_bytes

COLUMNS = 4


def draw(number: int, seed: int) -> tuple[list[Tensor], NDArray[np.float64]]:
    """Embeddings in [0, 1], and of each graph the mean of its first column, which its labels depend on."""
    rng = np.random.default_rng(seed)
    graphs, signal = [], []
    for _ in range(number):
        level = rng.random()
        x = rng.random((int(rng.integers(3, 9)), COLUMNS))
        x[:, 0] = np.clip(level + 0.1 * rng.normal(size=len(x)), 0, 1)
        graphs.append(torch.from_numpy(x).float())
        signal.append(x[:, 0].mean())
    return graphs, np.array(signal)


GRAPHS, SIGNAL = draw(120, seed=0)
OTHERS, OTHER_SIGNAL = draw(60, seed=1)
KIND = Categorical("kind", ["low", "middle", "high"])


def kinds(signal: NDArray[np.float64]) -> list[str]:
    return [("low", "middle", "high")[code] for code in np.digitize(signal, [0.33, 0.66])]


def labels(target: Target, signal: NDArray[np.float64]) -> Any:
    """Labels in people's words that follow from the signal."""
    if isinstance(target, Schema):
        return {attribute.name: labels(attribute, signal) for attribute in target}
    if isinstance(target, Categorical):
        return kinds(signal)
    if isinstance(target, Binary):
        return (signal > 0.5).tolist() if target.name != "rare" else (signal < 0.3).tolist()
    if isinstance(target, Continuous):
        return 1000.0 + 250.0 * signal
    return np.random.default_rng(2).poisson(1.0 + 40.0 * signal)


TARGETS: list[Target] = [
    KIND,
    Binary("toxic"),
    Continuous("energy"),
    Count("rings"),
    Schema([Binary("toxic"), Binary("rare")]),
    Schema([KIND, Continuous("energy"), Count("rings"), Binary("toxic")]),
]
every_target = pytest.mark.parametrize(
    "target", TARGETS, ids=lambda target: "+".join(a.kind for a in target_schema(target))
)


def make(target: Target = KIND, **arguments: Any) -> DeepSets:
    defaults: dict[str, Any] = {"hidden": 16, "pooling": "mean", "epochs": 60, "lr": 0.01}
    return DeepSets(target, **defaults | arguments)


def fitted(target: Target = KIND, **arguments: Any) -> DeepSets:
    return make(target, **arguments).fit(GRAPHS, labels(target, SIGNAL), progress=False)


# Every kind of target.


@every_target
def test_learns_a_planted_signal(target: Target) -> None:
    head = fitted(target)
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


@pytest.mark.parametrize(
    "target", [Continuous("energy"), Count("rings"), TARGETS[-1]], ids=["continuous", "count", "mixed"]
)
def test_probabilities_of_other_targets(target: Target) -> None:
    with pytest.raises(InputError, match="predict_proba is for one categorical or binary target"):
        fitted(target, epochs=1).predict_proba(OTHERS)


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
    """With all graphs in one batch, a graph without labels is as good as absent."""
    y = torch.from_numpy(encode_labels(target, labels(target, SIGNAL)))
    hidden = torch.zeros(len(y), dtype=torch.bool)
    hidden[::3] = True
    masked = torch.where(hidden.unsqueeze(1), math.nan, y)
    arguments: dict[str, Any] = {"batch_size": 1000, "epochs": 10}
    double = [graph.double() for graph in GRAPHS]
    partly = make(target, **arguments).fit(double, masked, progress=False)
    without = make(target, **arguments).fit(
        [graph for graph, gone in zip(double, hidden, strict=True) if not gone], y[~hidden], progress=False
    )
    for name, value in partly.weights_.items():
        torch.testing.assert_close(value, without.weights_[name], rtol=0, atol=1e-9)


def test_all_labels_missing() -> None:
    with pytest.raises(InputError, match="target 'kind': all labels are missing, so there is nothing to learn from"):
        make().fit(GRAPHS, [None] * len(GRAPHS))
    target = Schema([Binary("p"), Binary("q")])
    with pytest.raises(InputError, match="target 'q': all labels are missing"):
        make(target).fit(GRAPHS, {"p": [True] * len(GRAPHS), "q": [None] * len(GRAPHS)})
    with pytest.raises(InputError, match="validation: all labels are missing"):
        make().fit(GRAPHS, kinds(SIGNAL), validation=(OTHERS, [None] * len(OTHERS)))


# Embeddings.


def test_every_form_of_embeddings() -> None:
    whole = [(10 * graph).round() for graph in GRAPHS]
    y = kinds(SIGNAL)

    def weights(graphs: Any) -> Tensor:
        return make(epochs=2).fit(graphs, y, progress=False).weights_["vertex.weight"]

    single = weights(whole)
    assert single.dtype == torch.float32
    for dtype in (torch.int64, torch.uint8, torch.float16, torch.bfloat16):
        assert torch.equal(weights([graph.to(dtype) for graph in whole]), single)
    assert torch.equal(weights([graph.numpy() for graph in whole]), single)
    assert torch.equal(weights(tuple(graph.clone().requires_grad_() for graph in whole)), single)
    read_only = [graph.numpy().copy() for graph in whole]
    for graph in read_only:
        graph.flags.writeable = False
    assert torch.equal(weights(read_only), single)
    double = weights([graph.double() for graph in whole])
    assert double.dtype == torch.float64
    torch.testing.assert_close(double.float(), single, rtol=1e-3, atol=1e-4)
    assert weights([whole[0].double(), *whole[1:]]).dtype == torch.float64


def test_the_callers_embeddings_are_left_alone() -> None:
    before = [graph.clone() for graph in GRAPHS]
    fitted(epochs=2).predict(GRAPHS)
    assert all(torch.equal(a, b) for a, b in zip(before, GRAPHS, strict=True))


def test_graphs_without_vertices_pool_to_zero() -> None:
    empty = torch.empty(0, COLUMNS)
    for pooling in ("sum", "mean"):
        head = make(pooling=pooling, epochs=2)
        head.fit([empty, *GRAPHS], ["high", *kinds(SIGNAL)], validation=([empty], ["high"]), progress=False)
        weights = {name: value.double() for name, value in head.weights_.items()}
        logits = weights["output.weight"] @ weights["graph.bias"].relu() + weights["output.bias"]
        expected = logits.softmax(0).numpy()
        np.testing.assert_allclose(head.predict_proba([empty, GRAPHS[0], empty])[[0, 2]], [expected] * 2, rtol=1e-5)
    make(epochs=2).fit([empty] * 4, ["low"] * 4, progress=False)


def test_predictions_do_not_depend_on_the_other_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    head = fitted(epochs=5)
    together = head.predict_proba(OTHERS)
    alone = np.concatenate([head.predict_proba([graph]) for graph in OTHERS])
    np.testing.assert_allclose(together, alone, rtol=1e-5)
    monkeypatch.setattr("gspn.predictors.heads._NUMBERS_AT_ONCE", 100)  # chunks of a graph or two
    np.testing.assert_allclose(head.predict_proba(OTHERS), together, rtol=1e-5)


def spoiled(value: float, graph: int = 2, vertex: int = 1, column: int = 3) -> list[Tensor]:
    graphs = [x.clone() for x in GRAPHS]
    graphs[graph][vertex, column] = value
    return graphs


@pytest.mark.parametrize(
    ("embeddings", "message"),
    [
        ([], "embeddings is empty: give one .* matrix a graph"),
        (None, "embeddings must be a list"),
        ("graphs", "embeddings must be a list"),
        (spoiled(math.nan), "embeddings, graph 2, vertex 1, column 3: nan is no finite number"),
        (spoiled(-math.inf), "embeddings, graph 2, vertex 1, column 3: -inf is no finite number"),
        ([*GRAPHS[:4], torch.zeros(2, 5)], "embeddings, graph 4: 5 columns, but graph 0 has 4"),
        (
            GRAPHS[0],
            r"embeddings, graph 0: expected a matrix \[N, D\], got shape \[4\]; a single graph goes into a list",
        ),
        ([GRAPHS[0], torch.zeros(2, 2, 2)], r"embeddings, graph 1: expected a matrix \[N, D\], got shape \[2, 2, 2\]"),
        ([GRAPHS[0], np.array([["a"]])], "embeddings, graph 1: no matrix of real numbers, but of <U1"),
        (
            [GRAPHS[0], torch.zeros(2, 4, dtype=torch.complex64)],
            "embeddings, graph 1: no matrix of real numbers, but of complex64",
        ),
        ([GRAPHS[0], [[1.0], [1.0, 2.0]]], "embeddings, graph 1: no matrix of numbers"),
    ],
)
def test_embeddings_that_are_refused(embeddings: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make().fit(embeddings, kinds(SIGNAL))
    if isinstance(embeddings, list) and embeddings:
        with pytest.raises(InputError, match=f"validation {message}".replace("graph 0 has 4", "4 were learned from")):
            make().fit(GRAPHS, kinds(SIGNAL), validation=(embeddings, ["low"] * len(embeddings)))


def test_other_widths_at_prediction() -> None:
    with pytest.raises(InputError, match="graph 1: 3 columns, but 4 were learned from"):
        fitted(epochs=1).predict([GRAPHS[0], torch.zeros(2, 3)])


# Labels and arguments that are refused.


def test_labels_that_are_refused() -> None:
    y = kinds(SIGNAL)
    with pytest.raises(InputError, match="y has 119 rows, but there are 120 to predict"):
        make().fit(GRAPHS, y[:-1])
    with pytest.raises(
        InputError, match="attribute 'kind', row 3: 'green' is none of the categories low, middle, high"
    ):
        make().fit(GRAPHS, [*y[:3], "green", *y[4:]])
    with pytest.raises(InputError, match="y must be a sequence of labels, got None"):
        make().fit(GRAPHS)
    with pytest.raises(InputError, match="validation must be a pair"):
        make().fit(GRAPHS, y, validation=OTHERS)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="validation: y has 3 rows, but there are 60"):
        make().fit(GRAPHS, y, validation=(OTHERS, y[:3]))


def test_a_score_that_does_not_exist_cannot_be_monitored() -> None:
    target = Schema([Binary("toxic"), Binary("rare")])
    one_kind = {"toxic": [True] * len(OTHERS), "rare": [False] * len(OTHERS)}
    head = make(target, epochs=2, monitor="score")
    with pytest.raises(
        InputError, match="monitor='score' needs a score of the validation graphs: no target has labels"
    ):
        head.fit(GRAPHS, labels(target, SIGNAL), validation=(OTHERS, one_kind), progress=False)
    head.set_params(monitor="loss").fit(GRAPHS, labels(target, SIGNAL), validation=(OTHERS, one_kind), progress=False)
    assert "score" not in head.history_[0]


def test_average_precision_is_computed_where_it_is_monitored() -> None:
    target = Schema([Binary("toxic"), Binary("rare")])
    validation = (OTHERS, labels(target, OTHER_SIGNAL))
    for monitor in ("loss", "score"):
        head = make(target, epochs=2, monitor=monitor)
        head.fit(GRAPHS, labels(target, SIGNAL), validation=validation, progress=False)
        assert ("score" in head.history_[0]) == (monitor == "score")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": "kind"}, "target must be a Categorical"),
        ({"hidden": 0}, "hidden must be an integer of at least 1, got 0"),
        ({"hidden": 2.5}, "hidden must be an integer"),
        ({"pooling": "max"}, "pooling must be one of 'sum', 'mean', got 'max'"),
        ({"epochs": -1}, "epochs must be an integer of at least 0"),
        ({"batch_size": 0}, "batch_size must be an integer of at least 1"),
        ({"lr": 0.0}, "lr must be a number above 0"),
        ({"lr": math.nan}, "lr must be a number above 0"),
        ({"weight_decay": -0.1}, "weight_decay must be a number at least 0"),
        ({"patience": 0}, "patience must be an integer of at least 1"),
        ({"monitor": "accuracy"}, "monitor must be one of 'loss', 'score'"),
        ({"seed": -1}, "seed must be an integer between 0"),
    ],
)
def test_arguments_that_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        DeepSets(**{"target": KIND} | arguments)
    head = fitted(epochs=1)
    with pytest.raises(InputError, match=message):
        head.set_params(**arguments)
    assert head.get_params() == make(epochs=1).get_params(), "refused arguments leave the estimator as it was"
    head.predict(OTHERS)
    for name, value in arguments.items():
        setattr(head, name, value)
    with pytest.raises(InputError, match=message):
        head.fit(GRAPHS, kinds(SIGNAL))


# Ctrl-C and the bar.


def interrupt_at(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Press Ctrl-C in the given step."""
    calls, learn = count(1), Stack.learn

    def interrupted(self: Stack, *arguments: Any) -> Any:
        if next(calls) == number:
            raise KeyboardInterrupt
        return learn(self, *arguments)

    monkeypatch.setattr(Stack, "learn", interrupted)


@pytest.mark.parametrize("validated", [True, False])
def test_an_interrupted_run_leaves_what_it_has_learned(validated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    validation = (OTHERS, kinds(OTHER_SIGNAL)) if validated else None
    head = make(batch_size=40)
    with monkeypatch.context() as patch:
        interrupt_at(patch, 3 * 3 + 2)
        with pytest.raises(KeyboardInterrupt):
            head.fit(GRAPHS, kinds(SIGNAL), validation=validation, progress=False)
    whole = make(batch_size=40, epochs=3).fit(GRAPHS, kinds(SIGNAL), validation=validation, progress=False)
    assert len(head.history_) == 3
    assert (head.predict_proba(OTHERS) == whole.predict_proba(OTHERS)).all()


def test_interrupted_before_the_first_epoch_it_is_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    head, unfitted = fitted(epochs=2), make(batch_size=40)
    before = head.predict_proba(OTHERS)
    for one in (head, unfitted):
        with monkeypatch.context() as patch:
            interrupt_at(patch, 2)
            with pytest.raises(KeyboardInterrupt):
                one.fit(GRAPHS, kinds(SIGNAL), progress=False)
    assert (head.predict_proba(OTHERS) == before).all()
    with pytest.raises(NotFittedError, match="this DeepSets is not fitted yet"):
        unfitted.predict(OTHERS)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("progress", [True, False])
def test_a_bar_on_a_terminal_only(progress: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, shown in ((Terminal(), progress), (io.StringIO(), False)):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", stream)
            make(epochs=3).fit(GRAPHS, kinds(SIGNAL), validation=(OTHERS, kinds(OTHER_SIGNAL)), progress=progress)
            DeepSets.fit_many([{}, {}], GRAPHS, kinds(SIGNAL), progress=progress, target=KIND, epochs=3)
        text = stream.getvalue()
        assert ("fit, epoch 3/3" in text) == shown
        assert ("validation=" in text) == shown
        assert ("heads left=0" in text) == shown
        assert bool(text) == shown


# Files.


@every_target
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_saved_and_loaded(target: Target, dtype: torch.dtype, tmp_path: Path) -> None:
    graphs = [graph.to(dtype) for graph in GRAPHS]
    head = make(target, epochs=2, lr=np.float32(0.01), seed=np.int64(3))
    head.fit(graphs, labels(target, SIGNAL), validation=(OTHERS, labels(target, OTHER_SIGNAL)), progress=False)
    head.save(tmp_path / "new" / "folder")
    loaded = DeepSets.load(str(tmp_path / "new" / "folder"))
    assert loaded.get_params() == head.get_params()
    assert loaded.history_ == head.history_
    assert (loaded.predict(OTHERS) == head.predict(OTHERS)).all()
    assert loaded.score(OTHERS, labels(target, OTHER_SIGNAL)) == head.score(OTHERS, labels(target, OTHER_SIGNAL))
    assert all(torch.equal(value, head.weights_[name]) for name, value in loaded.weights_.items())
    assert hasattr(loaded, "classes_") == hasattr(head, "classes_")


def test_an_unfitted_head_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        make().save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_saving_replaces_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = fitted(epochs=1), fitted(epochs=2)
    first.save(tmp_path)

    def fail(*_: Any) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", fail)
        with pytest.raises(OSError, match="no space left"):
            second.save(tmp_path)
    assert len(DeepSets.load(tmp_path).history_) == 1
    second.save(tmp_path)
    assert len(DeepSets.load(tmp_path).history_) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99}, "has format 99, this version reads format 1"),
        ({"model": "Forest"}, "does not describe a DeepSets"),
        ({"more": 1}, r"unknown or missing keys: \['more'\]"),
        ({"units": "m"}, "units must be a list"),
        ({"units": [[0.0, 1.0], [0.0, 1.0]]}, "units of shape"),
        ({"units": [["a", "b"]]}, "cannot be built"),
        ({"settings": {}}, "cannot be built"),
        ({"settings": {"target": {"kind": "binary", "name": "b"}}}, "does not fit its own description: tensors"),
        ({"settings": {"target": {"kind": "binary", "name": "b"}, "hidden": 0}}, "cannot be built: hidden must be"),
    ],
)
def test_files_that_are_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    fitted(epochs=1).save(tmp_path)
    (file,) = tmp_path.iterdir()
    tensors, note = read_tensors(file)
    file.write_bytes(tensor_bytes(tensors, json.loads(json.dumps(note)) | change))
    with pytest.raises(CheckpointError, match=message):
        DeepSets.load(tmp_path)


def test_no_file_or_a_damaged_one(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"does not exist; DeepSets\.load takes the folder that save wrote"):
        DeepSets.load(tmp_path)
    fitted(epochs=1).save(tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(CheckpointError, match="is not readable as safetensors"):
        DeepSets.load(tmp_path)


# The loss itself.


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_losses_and_gradients_are_those_of_torch(scale: float) -> None:
    """Also of large outputs, which must not overflow, and of missing labels."""
    target = Schema([KIND, Binary("toxic"), Continuous("energy"), Count("rings")])
    y = np.array([[0.0, 1.0, 3.0, 2.0], [2.0, 0.0, -1.0, 0.0], [1.0, math.nan, math.nan, 5.0]])
    outputs = outputs_for(target, y)
    standard = outputs.standardise(y)
    np.testing.assert_allclose(np.nanmean(standard[:, 2]), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.nanstd(standard[:, 2]), 1.0)
    found = scale * np.random.default_rng(0).normal(size=(2, 3, 6))
    gradients = np.empty_like(found)
    losses = outputs.losses(found, standard, gradients, 0.5)
    for head in range(2):
        o, t = torch.tensor(found[head], requires_grad=True), torch.from_numpy(standard)
        expected = (
            F.cross_entropy(o[:, :3], t[:, 0].long(), reduction="sum")
            + F.binary_cross_entropy_with_logits(o[:2, 3], t[:2, 1], reduction="sum")
            + F.l1_loss(o[:2, 4], t[:2, 2], reduction="sum")
            + F.poisson_nll_loss(o[:, 5] + math.log(7 / 3), t[:, 3], reduction="sum")
        )
        expected.backward()
        assert losses[head] == pytest.approx(expected.item(), rel=1e-12)
        assert o.grad is not None
        np.testing.assert_allclose(gradients[head], 0.5 * o.grad.numpy(), rtol=1e-10, atol=1e-12)


def test_outputs_that_are_no_numbers_have_no_loss() -> None:
    """Else a diverged head would seem to be a good one."""
    for target in (KIND, Binary("toxic"), Continuous("energy"), Count("rings")):
        outputs = outputs_for(target, np.array([[1.0], [0.0]]))
        found = np.full((1, 2, int(outputs.ends[-1])), math.nan)
        assert np.isnan(outputs.losses(found, np.array([[1.0], [0.0]]), found, 1.0)).all()
