"""Training by a judge, and epoch by epoch: the same as `fit` with graphs and all at once, bit for bit."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from comparison import losses, same
from small_graphs import EVERY_KIND, draw_graphs

from gspn import GSPN, Binary, SupervisedGSPN
from gspn.errors import CheckpointError, InputError, NotFittedError
from gspn.hierarchy.objectives import objective_for
from gspn.models import fitting as model_module
from gspn.models.fitting import Judge
from gspn.training import Processes, mean_loss

GRAPHS = draw_graphs(12, seed=0)
HELD_OUT = draw_graphs(6, seed=1)


def make(**arguments: Any) -> GSPN:
    return GSPN(EVERY_KIND, **{"num_layers": 2, "num_states": 3, "epochs": 5, "batch_size": 5, "seed": 1} | arguments)


class Told:
    """A judge that says what it was told to say, and remembers the models that it saw."""

    def __init__(self, *says: Any, name: str = "told") -> None:
        self.says, self.name, self.seen = list(says), name, list[dict[str, torch.Tensor]]()

    def __call__(self, model: Any, /) -> Any:
        self.seen.append({name: value.clone() for name, value in model.state_dict().items()})
        said = self.says[len(self.seen) - 1]
        return said if isinstance(said, Mapping | str) else {"validation": said}

    def digest(self) -> str:
        return self.name


class OfGraphs:
    """A judge that does what validation graphs do."""

    def __call__(self, model: GSPN, /) -> dict[str, float]:
        objective = objective_for(model.hierarchy, model.objective, model.mask_rate, model.seed)
        return {"validation": mean_loss(objective, model._pack(HELD_OUT), Processes())}

    def digest(self) -> str:
        return "held-out graphs"


# Judges.


def test_a_judge_is_asked_after_every_epoch_and_the_best_weights_stay() -> None:
    judge = Told(3.0, 1.0, 2.0, 1.5, 1.25)
    assert isinstance(judge, Judge)
    model = make().fit(GRAPHS, validation=judge)
    assert [record["validation"] for record in model.history_] == judge.says
    assert all(torch.equal(value, judge.seen[1][name]) for name, value in model.state_dict().items())
    assert same(model, make(epochs=2).fit(GRAPHS)), "the judge does not change what is learned"
    assert model.leave_one_out_nll_ is None, "there are no validation graphs"


def test_a_judge_ends_the_training() -> None:
    judge = Told(*[2.0, 1.0, 3.0, 3.0, 3.0])
    assert len(make(patience=2).fit(GRAPHS, validation=judge).history_) == 4


def test_a_judge_by_graphs_is_the_same_as_graphs() -> None:
    arguments: dict[str, Any] = {"objective": "masked", "epochs": 40, "patience": 3}
    one = make(**arguments).fit(GRAPHS, validation=OfGraphs())
    other = make(**arguments).fit(GRAPHS, validation=HELD_OUT)
    assert same(one, other)
    assert losses(one) == losses(other)


def test_a_judge_can_ask_the_model_anything() -> None:
    class Asking:
        def __call__(self, model: GSPN, /) -> dict[str, float]:
            return {"validation": -float(torch.cat(model.log_likelihood(HELD_OUT, leave_one_out=True)).mean())}

        def digest(self) -> str:
            return ""

    model = make().fit(GRAPHS, validation=Asking())
    best = min(record["validation"] for record in model.history_)
    assert Asking()(model)["validation"] == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize(
    ("judge", "message"),
    [
        (lambda model: {"validation": 1.0}, "which is called with the model and has digest"),
        (Told({"loss": 1.0}), "a judge must give 'validation' by name, got {'loss': 1.0}"),
        (Told({"validation": 1.0, "train": 2.0}), "a judge must give 'validation' by name"),
        (Told("good"), "a judge must give 'validation' by name, got 'good'"),
        (Told({"validation": "good"}), "a judge must give numbers, got 'good' as 'validation'"),
    ],
)
def test_judges_that_are_refused(judge: Any, message: str) -> None:
    model = make()
    with pytest.raises(InputError) as error:
        model.fit(GRAPHS, validation=judge)
    assert message in str(error.value)
    with pytest.raises(NotFittedError):
        model.log_likelihood(GRAPHS[0])


def test_models_with_targets_have_judges_too() -> None:
    graphs = draw_graphs(8, seed=0)
    y = [number % 2 == 0 for number in range(8)]
    clf = SupervisedGSPN(EVERY_KIND, Binary("y"), num_layers=2, num_states=2, epochs=3, monitor="score")
    told = [{"validation": 1.0, "score": score} for score in (0.1, 0.9, 0.5)]
    judge = Told(*told)
    clf.fit(graphs, y, validation=judge)
    assert [record["score"] for record in clf.history_] == [0.1, 0.9, 0.5]
    assert all(torch.equal(value, judge.seen[1][name]) for name, value in clf.state_dict().items())
    with pytest.raises(InputError, match="a judge must give 'validation' and 'score' by name"):
        clf.fit(graphs, y, validation=Told(1.0))


def test_a_checkpoint_belongs_to_its_judge(tmp_path: Path) -> None:
    path, says = tmp_path / "run.safetensors", [5.0, 4.0, 3.0, 2.0, 1.0]
    make(epochs=2).fit(GRAPHS, validation=Told(*says), checkpoint=path)
    with pytest.raises(CheckpointError, match="validation data: 'told' there, 'other' here"):
        make().fit(GRAPHS, validation=Told(*says, name="other"), checkpoint=path)
    with pytest.raises(CheckpointError, match="validation data"):
        make().fit(GRAPHS, checkpoint=path)
    again = make().fit(GRAPHS, validation=Told(*says[2:]), checkpoint=path)
    assert [record["validation"] for record in again.history_] == says
    assert same(again, make().fit(GRAPHS))


# Epoch by epoch.


@pytest.mark.parametrize("validation", [None, HELD_OUT], ids=["no validation", "validation"])
def test_epoch_by_epoch_is_the_same_as_at_once(validation: Any, tmp_path: Path) -> None:
    model, path = make(), tmp_path / "run.safetensors"
    epochs, records = model.fitting(GRAPHS, validation=validation, checkpoint=path), []
    for record in epochs:
        records.append(record)
        assert path.exists(), "an epoch is kept before it is given"
        assert torch.isfinite(model.log_likelihood(GRAPHS[0])).all(), "it can be asked in between"
    whole = make().fit(GRAPHS, validation=validation)
    assert records == model.history_
    assert losses(model) == losses(whole)
    assert same(model, whole)
    assert model.leave_one_out_nll_ == whole.leave_one_out_nll_
    assert model.training_scores_ == whole.training_scores_


def test_nothing_happens_before_the_first_epoch_is_taken() -> None:
    model = make()
    epochs = model.fitting(GRAPHS)
    with pytest.raises(NotFittedError):
        model.log_likelihood(GRAPHS[0])
    epochs.close()
    with pytest.raises(NotFittedError):
        model.log_likelihood(GRAPHS[0])
    with pytest.raises(InputError, match="epochs must be an integer"):
        model.fitting(GRAPHS, epochs=-1)  # but what is wrong is said at once


@pytest.mark.parametrize("leave", [lambda epochs: epochs.close(), lambda epochs: None], ids=["closed", "forgotten"])
def test_an_abandoned_run_leaves_the_best_weights(leave: Callable[[Any], None], tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    judge = Told(2.0, 1.0, 3.0, 4.0, 5.0)
    model = make()
    epochs = model.fitting(GRAPHS, validation=judge, checkpoint=path)
    for _ in range(3):
        next(epochs)
    assert all(torch.equal(value, judge.seen[2][name]) for name, value in model.state_dict().items())
    leave(epochs)
    del epochs
    assert len(model.history_) == 3
    assert all(torch.equal(value, judge.seen[1][name]) for name, value in model.state_dict().items())
    assert model.training_scores_ is None, "nobody waited for them"
    # Going on ends like a run that was not interrupted.
    again = make().fit(GRAPHS, validation=Told(4.0, 5.0), checkpoint=path)
    whole = make().fit(GRAPHS, validation=Told(2.0, 1.0, 3.0, 4.0, 5.0))
    assert same(again, whole)
    assert again.training_scores_ == whole.training_scores_


def test_an_error_of_the_judge_ends_the_run_like_any_other() -> None:
    class Failing(Told):
        def __call__(self, model: Any, /) -> Any:
            if len(self.seen) == 2:
                raise KeyboardInterrupt
            return super().__call__(model)

    model = make()
    with pytest.raises(KeyboardInterrupt):
        model.fit(GRAPHS, validation=Failing(*[5.0, 4.0, 3.0]))
    assert same(model, make(epochs=2).fit(GRAPHS))


# When the time is up, and scores.


def test_the_epoch_in_which_the_time_is_up_is_the_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    judge = Told(5.0, 4.0, 3.0, 2.0, 1.0)
    with monkeypatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: float(len(judge.seen)))  # a second per epoch
        model = make().fit(GRAPHS, seconds=2.5, checkpoint=path, validation=judge)
    two = make(epochs=3).fit(GRAPHS)
    assert len(judge.seen) == len(model.history_) == 3
    assert same(model, two)
    assert model.training_scores_ == two.training_scores_
    later = make().fit(GRAPHS, checkpoint=path, validation=Told(2.0, 1.0))
    assert same(later, make().fit(GRAPHS)), "the rest may come later"


@pytest.mark.parametrize("seconds", [0, -1.0, math.nan, "1"])
def test_times_that_are_none(seconds: Any) -> None:
    with pytest.raises(InputError, match="seconds must be a number above 0"):
        make().fit(GRAPHS, seconds=seconds)


def test_scores_are_kept_of_whom_one_likes(monkeypatch: pytest.MonkeyPatch) -> None:
    own, others = make().fit(GRAPHS), make().fit(GRAPHS, keep_scores=HELD_OUT)
    assert same(own, others)
    assert others.training_scores_ != own.training_scores_
    assert others.training_scores_ == own.keep_scores(HELD_OUT, seed=1).training_scores_
    monkeypatch.setattr(model_module, "training_scores", lambda *_: pytest.fail("nobody asked"))
    assert make().fit(GRAPHS, keep_scores=False).training_scores_ is None
