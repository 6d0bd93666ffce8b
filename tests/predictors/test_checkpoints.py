"""A head's training kept in a file: stopped and gone on with, it is the training that never stopped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from interruptions import interrupt_step
from small_embeddings import GRAPHS, KIND, OTHER_SIGNAL, OTHERS, SIGNAL, kinds, labels, make
from torch import Tensor

from gspn import Binary, Continuous, DeepSets, Schema
from gspn.errors import CheckpointError, GSPNError
from gspn.files import digest, read_tensors, tensor_bytes
from gspn.predictors import deep_sets
from gspn.training import Checkpoint
from gspn.training.loop import _Run

VALIDATION = (OTHERS, kinds(OTHER_SIGNAL))


def fit(head: DeepSets, checkpoint: Path | None = None, **arguments: Any) -> DeepSets:
    return head.fit(GRAPHS, kinds(SIGNAL), **{"checkpoint": checkpoint, "progress": False} | arguments)


def same(one: DeepSets, other: DeepSets) -> bool:
    """Weights and histories bit for bit, apart from the seconds."""
    histories = [[{**record, "seconds": 0} for record in head.history_] for head in (one, other)]
    equal = all(torch.equal(value, other.weights_[name]) for name, value in one.weights_.items())
    return equal and histories[0] == histories[1]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "head.safetensors"


@pytest.mark.parametrize("validation", [None, VALIDATION], ids=["last weights", "best weights"])
@pytest.mark.parametrize("often", [True, False], ids=["written every epoch", "written at the end"])
def test_interrupted_and_continued_is_uninterrupted(
    validation: Any, often: bool, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deep_sets, "_SECONDS_BETWEEN", 0.0 if often else 1e9)
    arguments: dict[str, Any] = {"epochs": 12, "batch_size": 40, "lr": 0.03, "weight_decay": 0.01}
    for step in (2, 3 * 3 + 2, 5 * 3):  # three batches an epoch: in the first, after three, at the end of the fifth
        with monkeypatch.context() as patch:
            interrupt_step(patch, step)
            with pytest.raises(KeyboardInterrupt):
                fit(make(**arguments), path, validation=validation)
    continued = make(**arguments)
    fit(continued, path, validation=validation)
    assert same(continued, fit(make(**arguments), validation=validation))


def test_a_killed_process_loses_what_was_not_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever epoch the file is of, the end is the same."""
    monkeypatch.setattr(deep_sets, "_SECONDS_BETWEEN", 0.0)
    expected = fit(make(epochs=6))
    written: list[bytes] = []
    write = Checkpoint.write

    def noted(self: Checkpoint, *arguments: Any) -> None:
        write(self, *arguments)
        written.append(path.read_bytes())

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "write", noted)
        fit(make(epochs=6), path)
    assert len(written) == 7, "every epoch, and the end"
    for content in written:
        path.write_bytes(content)
        assert same(fit(make(epochs=6), path), expected)


def test_more_epochs_go_on_and_a_finished_run_returns_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments: dict[str, Any] = {"target": Schema([KIND, Continuous("energy")]), "pooling": "sum", "monitor": "loss"}
    y, of_others = (labels(arguments["target"], signal) for signal in (SIGNAL, OTHER_SIGNAL))
    given: dict[str, Any] = {"validation": (OTHERS, of_others), "progress": False}
    for epochs in (0, 1, 4, 7):
        stepwise = make(epochs=epochs, **arguments).fit(GRAPHS, y, checkpoint=path, **given)
        assert same(stepwise, make(epochs=epochs, **arguments).fit(GRAPHS, y, **given))
    before = path.read_bytes()
    monkeypatch.delattr(_Run, "step")
    again = make(epochs=7, **arguments).fit(GRAPHS, y, checkpoint=path, **given)
    assert again.history_ == stepwise.history_
    assert same(again, stepwise)
    assert path.read_bytes() == before


def test_a_run_that_stopped_early_stays_stopped(path: Path) -> None:
    first = fit(make(patience=1, lr=0.1), path, validation=VALIDATION)
    assert len(first.history_) < 60
    assert same(fit(make(patience=1, lr=0.1, epochs=90), path, validation=VALIDATION), first)


def test_numbers_that_are_none_are_not_kept(path: Path) -> None:
    for _ in range(2):
        with pytest.raises(GSPNError, match="try a smaller lr"):
            fit(make(lr=1e30, epochs=20), path)
        assert not path.exists() or torch.stack([v.isfinite().all() for v in read_tensors(path)[0].values()]).all()


@pytest.mark.parametrize(
    ("arguments", "given", "named"),
    [
        ({"lr": 0.5}, {}, "lr: 0.01 there, 0.5 here"),
        ({"hidden": 3}, {}, "hidden: 16 there, 3 here"),
        ({"seed": 1}, {}, "seed: 0 there, 1 here"),
        ({}, {"order_seed": 1}, "order_seed: 0 there, 1 here"),
        ({}, {"embeddings": [graph + 1 for graph in GRAPHS]}, "training data: '"),
        ({}, {"embeddings": [graph.double() for graph in GRAPHS]}, "training data: '"),
        ({}, {"y": kinds(SIGNAL)[::-1]}, "training data: '"),
        ({}, {"validation": VALIDATION}, "validation data: None there, '"),
        ({"target": Binary("kind")}, {"y": [True] * len(GRAPHS)}, "target: "),
    ],
)
def test_another_run_is_refused(arguments: dict[str, Any], given: dict[str, Any], named: str, path: Path) -> None:
    fit(make(epochs=1), path)
    before, head = path.read_bytes(), make(**{"epochs": 0} | arguments)
    usual: dict[str, Any] = {"embeddings": GRAPHS, "y": kinds(SIGNAL), "checkpoint": path, "progress": False}
    with pytest.raises(CheckpointError, match=f"belongs to another run .*{named}"):
        head.fit(**usual | given)
    assert path.read_bytes() == before
    assert not hasattr(head, "weights_"), "it is what it was"


DAMAGES: dict[str, Callable[[dict[str, Tensor], dict[str, Any]], Any]] = {
    "no moment": lambda tensors, progress: tensors.pop("optimizer/0/exp_avg"),
    "another shape": lambda tensors, progress: tensors.update({"module/numbers": torch.ones(3)}),
    "one more tensor": lambda tensors, progress: tensors.update({"more": torch.ones(3)}),
    "no history": lambda tensors, progress: progress.pop("history"),
    "epoch as text": lambda tensors, progress: progress.update(epoch="three"),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_a_damaged_file_is_refused(what: str, path: Path) -> None:
    fit(make(epochs=1), path)
    tensors, note = read_tensors(path)
    DAMAGES[what](tensors, note["progress"])
    path.write_bytes(tensor_bytes(tensors, note | {"digest": digest(tensors)}))
    with pytest.raises(CheckpointError, match=r"head\.safetensors is damaged: "):
        fit(make(epochs=2), path)
