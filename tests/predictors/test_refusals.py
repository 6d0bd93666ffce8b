"""Labels, scores and arguments that cannot be used, and what is said about them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from refusals import refused
from small_embeddings import GRAPHS, KIND, OTHER_SIGNAL, OTHERS, SIGNAL, TARGETS, fitted, kinds, labels, make

from gspn import Binary, Continuous, Count, Schema
from gspn.errors import InputError
from gspn.predictors import DeepSets
from gspn.targets import Target

Y = kinds(SIGNAL)
TWO = Schema([Binary("p"), Binary("q")])
HALF = {"p": [True] * len(GRAPHS), "q": [None] * len(GRAPHS)}


def asked_for_probabilities(target: Target) -> None:
    fitted(target, epochs=1).predict_proba(OTHERS)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        refused("y has 119 rows, but there are 120 to predict", make().fit, GRAPHS, Y[:-1]),
        refused("row 3: 'green' is none of .* low, middle, high", make().fit, GRAPHS, [*Y[:3], "green", *Y[4:]]),
        refused("y must be a sequence of labels, got None", make().fit, GRAPHS),
        refused("validation must be a pair", make().fit, GRAPHS, Y, validation=OTHERS),
        refused("validation: y has 3 rows, but there are 60", make().fit, GRAPHS, Y, validation=(OTHERS, Y[:3])),
        refused("target 'kind': all labels are missing", make().fit, GRAPHS, [None] * len(GRAPHS)),
        refused("target 'q': all labels are missing", make(TWO).fit, GRAPHS, HALF),
        refused("validation: all labels are missing", make().fit, GRAPHS, Y, validation=(OTHERS, [None] * len(OTHERS))),
        *(
            refused("predict_proba is for .*categorical or binary", asked_for_probabilities, target)
            for target in (Continuous("energy"), Count("rings"), TARGETS[-1])
        ),
        refused("graph 1: 3 columns, but 4 were", lambda: fitted(epochs=1).predict([GRAPHS[0], GRAPHS[1][:, :3]])),
    ],
)
def test_what_is_asked_of_heads(call: Callable[[], object], named: str) -> None:
    with pytest.raises(InputError, match=named):
        call()


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
