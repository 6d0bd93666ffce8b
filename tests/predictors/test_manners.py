"""A head is an estimator of scikit-learn and goes where those go: clones, grids, pipelines behind a GSPN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sklearn.exceptions
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted
from small_graphs import EVERY_KIND, draw_graphs
from torch_geometric.data import Data

from gspn import GSPN, Binary, Categorical, Continuous, Count, Schema
from gspn.errors import NotFittedError
from gspn.predictors import DeepSets

SIZE = Categorical("size", ["large", "small"])
ARGUMENTS: dict[str, Any] = {
    "target": SIZE,
    "hidden": 5,
    "pooling": "mean",
    "epochs": 3,
    "batch_size": 4,
    "lr": 0.02,
    "weight_decay": 0.001,
    "patience": 7,
    "monitor": "score",
    "seed": 9,
}
"""Every constructor argument, none at its default."""


def draw(count: int = 24) -> tuple[list[np.ndarray[Any, Any]], list[str]]:
    rng = np.random.default_rng(0)
    graphs = [rng.random((int(rng.integers(2, 12)), 3), dtype=np.float32) for _ in range(count)]
    return graphs, ["large" if len(graph) > 6 else "small" for graph in graphs]


GRAPHS, Y = draw()


def make(**arguments: Any) -> DeepSets:
    defaults: dict[str, Any] = {"target": SIZE, "hidden": 8, "epochs": 60, "lr": 0.02}
    return DeepSets(**defaults | arguments)


def test_arguments_are_stored_untouched() -> None:
    head: Any = DeepSets(**ARGUMENTS)
    assert set(head.get_params()) == set(ARGUMENTS)
    for name, value in ARGUMENTS.items():
        assert getattr(head, name) is value
        assert head.get_params()[name] is value


def test_clone() -> None:
    head = DeepSets(**ARGUMENTS).fit(GRAPHS, Y, progress=False)
    twin = clone(head)
    assert twin.get_params() == head.get_params()
    with pytest.raises(NotFittedError):
        twin.predict(GRAPHS)
    assert (twin.fit(GRAPHS, Y, progress=False).predict_proba(GRAPHS) == head.predict_proba(GRAPHS)).all()


def test_set_params_forgets() -> None:
    head = make(epochs=2).fit(GRAPHS, Y, progress=False)
    assert head.set_params() is head
    check_is_fitted(head)
    assert head.set_params(hidden=3) is head
    assert [name for name in vars(head) if name.endswith("_")] == []
    with pytest.raises(sklearn.exceptions.NotFittedError):
        check_is_fitted(head)
    assert head.fit(GRAPHS, Y, progress=False).weights_["graph.bias"].shape == (3,)


def test_another_target_leaves_no_classes() -> None:
    head = make(epochs=2).fit(GRAPHS, Y, progress=False)
    assert head.n_features_in_ == 3
    head.target = Continuous("size")
    assert head.fit(GRAPHS, [float(len(graph)) for graph in GRAPHS], progress=False) is head
    assert not hasattr(head, "classes_")


def test_repr_names_what_differs_from_the_defaults() -> None:
    text = repr(DeepSets(SIZE, hidden=7))
    assert text.startswith("DeepSets(")
    assert "hidden=7" in text
    assert "patience" not in text


@pytest.mark.parametrize(
    ("target", "classifier", "regressor"),
    [
        (SIZE, True, False),
        (Binary("b"), True, False),
        (Continuous("c"), False, True),
        (Count("n"), False, True),
        (Schema([Binary("a"), Binary("b")]), False, False),
    ],
)
def test_tags(target: Any, classifier: bool, regressor: bool) -> None:
    head = DeepSets(target)
    assert (is_classifier(head), is_regressor(head)) == (classifier, regressor)
    tags = head.__sklearn_tags__()
    assert tags.target_tags.required
    assert tags.target_tags.multi_output == isinstance(target, Schema)


def test_grid_search() -> None:
    search = GridSearchCV(make(), {"hidden": [1, 8], "pooling": ["sum", "mean"]}, cv=3, error_score="raise")
    search.fit(GRAPHS, Y)
    assert search.best_params_["pooling"] == "sum", "a mean does not know how many there are"
    assert search.best_score_ > 0.8
    assert set(search.predict(GRAPHS)) == {"small", "large"}
    search = GridSearchCV(make(), {"seed": [0, 1]}, cv=2, scoring="roc_auc", error_score="raise").fit(GRAPHS, Y)
    assert search.best_score_ > 0.8


def test_cross_validation() -> None:
    sizes = np.array([float(len(graph)) for graph in GRAPHS])
    assert cross_val_score(make(target=Continuous("size"), epochs=200), GRAPHS, sizes, cv=3).min() > 0.5
    # For probabilities scikit-learn turns labels into numbers from 0 on, so these must be the categories.
    numbers = make(target=Categorical("size", [0, 1]), epochs=2)
    assert cross_val_predict(numbers, GRAPHS, sizes > 6, cv=2, method="predict_proba").shape == (24, 2)
    both = Schema([Continuous("size"), Continuous("half")])
    assert len(cross_val_score(make(target=both, epochs=2), GRAPHS, np.stack([sizes, sizes / 2], 1), cv=2)) == 2


@pytest.fixture(scope="module")
def graphs() -> list[Data]:
    return draw_graphs(20, seed=0, sizes=(3, 16))


def test_pipeline_behind_a_model(graphs: list[Data]) -> None:
    y = ["large" if graph.num_nodes > 9 else "small" for graph in graphs]
    model = GSPN(EVERY_KIND, num_layers=2, num_states=3, epochs=2)
    pipeline = Pipeline([("gspn", model), ("head", make(epochs=100))])
    pipeline.fit(graphs, y, gspn__progress=False, head__progress=False)
    assert pipeline.score(graphs, y) > 0.8
    assert pipeline.classes_.tolist() == ["large", "small"]
    assert pipeline.predict_proba(graphs).shape == (20, 2)
    assert (pipeline.predict(graphs) == pipeline["head"].predict(pipeline["gspn"].embed(graphs))).all()
    grid = {"gspn__num_states": [2, 3], "head__hidden": [4]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(graphs, y)
    assert search.best_params_["head__hidden"] == 4
