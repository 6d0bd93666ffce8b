"""What a run asks of its goal, and when: all that training knows of what is learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from comparison import same
from small_graphs import EVERY_KIND, draw_graphs

from gspn import GSPN, Binary, SupervisedGSPN
from gspn.models.fitting import Entries, TrainingRun, settings_for, train
from gspn.training import exhaust

GRAPHS = draw_graphs(6, seed=0)
HELD_OUT = draw_graphs(4, seed=1)


class Noting(Entries):
    """Entries, with a note of everything that a run does through it."""

    def __init__(self, model: GSPN) -> None:
        super().__init__(model.hierarchy)
        self.calls = list[str]()

    def __getattribute__(self, name: str) -> Any:
        if name in ("objective", "judge", "set_units", "start", "learn_at_once"):
            self.calls.append(name)
        return super().__getattribute__(name)

    def learn_at_once(self, *_: Any) -> dict[str, Any]:
        return {"learned_": len(self.calls)}


def run(model: GSPN, *, checkpoint: Path | None = None, warm_start: bool = False, **overrides: Any) -> list[str]:
    """Train for a goal that is not the model's own; gives what was asked of it."""
    goal = Noting(model)
    training, validation = model._pack(GRAPHS), model._pack(HELD_OUT)
    settings = settings_for(goal, model.arguments(), overrides)
    exhaust(train(TrainingRun(model, goal, settings, training, validation, None, checkpoint, warm_start), False, 1e6))
    return goal.calls


def make() -> GSPN:
    return GSPN(EVERY_KIND, num_layers=2, num_states=2, epochs=2, n_init=2)


def test_a_run_asks_its_goal_from_the_starting_point_to_the_end(tmp_path: Path) -> None:
    model: Any = make()
    start = ["set_units", "start", "start", "learn_at_once"]
    assert run(model) == ["objective", *start, "judge", "learn_at_once"]
    assert model.learned_ == 7, "the last of two results"
    assert same(model, make().fit(GRAPHS, validation=HELD_OUT))
    assert run(model, warm_start=True) == ["objective", "judge", "learn_at_once"]
    assert run(make(), epochs=0) == ["objective", *start[:-1], "judge", "learn_at_once"]
    checkpoint = tmp_path / "checkpoint.safetensors"
    run(make(), checkpoint=checkpoint)
    assert run(make(), checkpoint=checkpoint) == ["objective", "set_units", "judge", "learn_at_once"]


@pytest.mark.parametrize(("labels", "kind"), [("targets", "targets"), ("evidence", "labels")])
def test_models_say_what_they_learn(labels: str, kind: str) -> None:
    assert make().goal.kind == "entries"
    model = SupervisedGSPN(EVERY_KIND, Binary("y"), target_level="vertex", labels=labels)
    assert model.goal.kind == kind
    assert set(model.goal.arguments) - set(make().goal.arguments) == {"likelihood_weight", "monitor", "pretraining"}
