"""Runs that end by an exception: Ctrl-C, non-finite losses, input that is refused. Nothing learned is lost."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from comparison import losses, same
from interruptions import interrupt_at
from safetensors import safe_open
from small_graphs import EVERY_KIND, draw_graphs
from torch import Tensor

from gspn import GSPN, files
from gspn.errors import GSPNError, NotFittedError
from gspn.graphs import Batch
from gspn.hierarchy import Evaluation, Hierarchy
from gspn.models import fitting as model_module
from gspn.training import Checkpoint, loop

GRAPHS = draw_graphs(12, seed=0)
HELD_OUT = draw_graphs(6, seed=1)

PASSES = 4
"""Evaluations of the model in an epoch: three batches, and the validation graphs."""


def make(**arguments: Any) -> GSPN:
    return GSPN(EVERY_KIND, **{"num_layers": 2, "num_states": 3, "epochs": 5, "batch_size": 5, "seed": 1} | arguments)


def script_validation(monkeypatch: pytest.MonkeyPatch, values: list[float]) -> None:
    remaining = iter(values)
    monkeypatch.setattr(model_module, "mean_loss", lambda *_: next(remaining))


def assert_unchanged_or_unfitted(model: GSPN, before: dict[str, Tensor]) -> None:
    """A fit that comes to nothing leaves what was there, or a model that says it is not fitted: never a mixture."""
    if bool(model._fitted):
        found = model.state_dict()
        assert all(torch.equal(found[name], before[name]) for name in before), "fitted, but with other weights"
        assert torch.isfinite(model.log_likelihood(GRAPHS[0])).all()
    else:
        with pytest.raises(NotFittedError):
            model.log_likelihood(GRAPHS[0])


def snapshot(model: GSPN) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


# Ctrl-C.


@pytest.mark.parametrize("within", [1, 2, 4], ids=["first batch", "second batch", "validation"])
def test_interrupted_run_leaves_what_it_has_learned(
    within: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.safetensors"
    with monkeypatch.context() as patch:
        interrupt_at(patch, 2 * PASSES + within)
        model = make()
        with pytest.raises(KeyboardInterrupt):
            model.fit(GRAPHS, validation=HELD_OUT, checkpoint=path)
    two_epochs = make(epochs=2).fit(GRAPHS, validation=HELD_OUT)
    assert same(model, two_epochs)
    assert losses(model) == losses(two_epochs)
    assert model.leave_one_out_nll_ is None
    assert torch.isfinite(model.log_likelihood(GRAPHS[0])).all()
    with safe_open(path, framework="pt") as file:
        assert json.loads(file.metadata()["note"])["progress"]["epoch"] == 2
    # Going on ends like a run that was not interrupted.
    whole = make().fit(GRAPHS, validation=HELD_OUT)
    model.fit(GRAPHS, validation=HELD_OUT, checkpoint=path)
    assert same(model, whole)
    assert losses(model) == losses(whole)
    assert model.leave_one_out_nll_ == whole.leave_one_out_nll_


def test_interrupted_run_leaves_the_best_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make()
    with monkeypatch.context() as patch:
        script_validation(patch, [2.0, 3.0, 4.0])
        interrupt_at(patch, 3 * 3 + 2)  # the scripted validation evaluates nothing
        with pytest.raises(KeyboardInterrupt):
            model.fit(GRAPHS, validation=HELD_OUT)
    assert [record["validation"] for record in model.history_] == [2.0, 3.0, 4.0]
    assert same(model, make(epochs=1).fit(GRAPHS))


def test_interrupted_run_without_validation_leaves_the_last_whole_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make()
    with monkeypatch.context() as patch:
        interrupt_at(patch, 2 * 3 + 3)
        with pytest.raises(KeyboardInterrupt):
            model.fit(GRAPHS)
    assert same(model, make(epochs=2).fit(GRAPHS))


def test_interrupted_while_the_result_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.safetensors"
    model, whole = make(), make().fit(GRAPHS, validation=HELD_OUT)

    def interrupted(*_: Any) -> float:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(model_module, "leave_one_out_nll", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.fit(GRAPHS, validation=HELD_OUT, checkpoint=path)
    assert same(model, whole)
    assert model.leave_one_out_nll_ is None
    history = model.history_
    model.fit(GRAPHS, validation=HELD_OUT, checkpoint=path)
    assert model.history_ == history, "no epoch is computed again"
    assert model.leave_one_out_nll_ == whole.leave_one_out_nll_
    assert same(model, whole)


@pytest.mark.parametrize("step", ["save", "write"])
def test_interrupted_while_the_checkpoint_is_written(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The epoch is done, so its weights are there; the checkpoint may be one epoch behind, but is whole."""
    path = tmp_path / "run.safetensors"
    model, calls = make(), count(1)
    home, name = {"save": (Checkpoint, "save"), "write": (files, "write_through")}[step]
    original = getattr(home, name)

    def interrupted(*arguments: Any) -> None:
        if next(calls) == 3:
            raise KeyboardInterrupt
        original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(home, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.fit(GRAPHS, validation=HELD_OUT, checkpoint=path)
    assert same(model, make(epochs=3).fit(GRAPHS, validation=HELD_OUT))
    assert same(make().fit(GRAPHS, validation=HELD_OUT, checkpoint=path), make().fit(GRAPHS, validation=HELD_OUT))


def test_interrupted_in_the_first_epoch_a_new_model_stays_unfitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, path = make(), tmp_path / "run.safetensors"
    with monkeypatch.context() as patch:
        interrupt_at(patch, 3)
        with pytest.raises(KeyboardInterrupt):
            model.fit(GRAPHS, checkpoint=path)
    assert getattr(model, "history_", []) == []
    assert not path.exists()
    with pytest.raises(NotFittedError):
        model.log_likelihood(GRAPHS[0])
    assert same(model.fit(GRAPHS), make().fit(GRAPHS))


@pytest.mark.parametrize("warm_start", [False, True])
def test_interrupted_in_the_first_epoch_a_fitted_model_is_no_mixture(
    warm_start: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make().fit(GRAPHS)
    before = snapshot(model)
    with monkeypatch.context() as patch:
        interrupt_at(patch, 2)
        with pytest.raises(KeyboardInterrupt):
            model.fit(HELD_OUT, batch_size=2, warm_start=warm_start)
    assert_unchanged_or_unfitted(model, before)


# Losses and gradients that are not numbers.


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_loss_that_is_no_number_names_epoch_and_batch(value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, forward = count(1), Hierarchy.forward

    def broken(self: Hierarchy, batch: Batch) -> Evaluation:
        evaluation = forward(self, batch)
        factor = value if next(calls) == 3 + 2 else 1.0
        return replace(evaluation, with_hidden=evaluation.log_likelihood * factor)

    model = make()
    with monkeypatch.context() as patch:
        patch.setattr(Hierarchy, "forward", broken)
        with pytest.raises(GSPNError, match=r"loss became (nan|inf) in epoch 1, batch 1; try a smaller lr, or clip"):
            model.fit(GRAPHS)
    assert same(model, make(epochs=1).fit(GRAPHS)), "the weights of the last whole epoch stay"


def gradient_breaks_at(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """In one step, a finite loss whose gradient is NaN, as an overflow on the way back gives it."""
    steps, original = count(1), loop._Run.step

    def step(self: Any, graph_ids: Tensor) -> tuple[float, int]:
        if next(steps) == number:
            parameter = next(iter(self.module.parameters()))
            handle = parameter.register_hook(lambda gradient: gradient * math.nan)
            try:
                return original(self, graph_ids)
            finally:
                handle.remove()
        return original(self, graph_ids)

    monkeypatch.setattr(loop._Run, "step", step)


@pytest.mark.parametrize("validation", [None, HELD_OUT], ids=["no validation", "validation"])
def test_gradient_that_is_no_number_never_reaches_the_kept_weights(
    validation: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the last batch of the second epoch the loss is still finite, but the weights would become NaN."""
    model, path = make(), tmp_path / "run.safetensors"
    with monkeypatch.context() as patch:
        gradient_breaks_at(patch, 6)
        with pytest.raises(GSPNError, match=r"epoch [12]"):
            model.fit(GRAPHS, validation=validation, checkpoint=path)
    assert all(torch.isfinite(p).all() for p in model.parameters())
    assert same(model, make(epochs=1).fit(GRAPHS))


def test_validation_loss_that_is_no_number_is_no_improvement(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make(epochs=4)
    with monkeypatch.context() as patch:
        script_validation(patch, [2.0, math.nan, 3.0, 4.0])
        try:
            model.fit(GRAPHS, validation=HELD_OUT)
        except GSPNError as error:
            assert "epoch 1" in str(error)  # noqa: PT017 (to raise is one of two right ways)
    assert same(model, make(epochs=1).fit(GRAPHS)), "the weights of the first epoch, the best"
