"""`TableImputer` as scikit-learn's transformer: its checks, X and y, arrays and frames, pipelines, files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils import estimator_checks

from gspn import TableImputer
from gspn.attributes import Count
from gspn.errors import InputError, NotFittedError

SMALL: dict[str, Any] = {"num_layers": 1, "num_states": 2, "epochs": 2}

EXCEPTIONS = {
    "check_array_api_input": "skipped by scikit-learn unless SCIPY_ARRAY_API is set; arrays of other libraries are "
    "read as numpy's",
}
"""Checks of `check_estimator` that do not pass, each with the reason."""

OTHERS = {
    "check_dataframe_column_names_consistency": "columns of a DataFrame are found by name, in any order",
    "check_transformer_get_feature_names_out": "",
    "check_transformer_get_feature_names_out_pandas": "",
    "check_set_output_transform": "",
    "check_set_output_transform_pandas": "it expects an array where nothing is set; a DataFrame is completed as one",
    "check_global_output_transform_pandas": "the same",
    "check_n_features_in_after_fitting": "",
}
"""Checks that scikit-learn keeps for its own estimators, with the reason where one does not pass."""


@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_checks() -> None:
    results = estimator_checks.check_estimator(TableImputer(**SMALL), on_fail=None, on_skip=None)
    assert len(results) > 40
    failed = {one["check_name"]: one["exception"] for one in results if one["status"] != "passed"}
    assert failed.keys() == EXCEPTIONS.keys(), failed


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OTHERS)
def test_scikit_learns_checks_of_its_own_estimators(name: str) -> None:
    check = getattr(estimator_checks, name)
    if not OTHERS[name]:
        check("TableImputer", TableImputer(**SMALL))
        return
    with pytest.raises((AssertionError, ValueError)):
        check("TableImputer", TableImputer(**SMALL))


def draw(count: int = 60, seed: int = 0) -> tuple[Any, Any]:
    """Two groups, numbers and text of each with gaps, and the group."""
    rng = np.random.default_rng(seed)
    label = rng.integers(2, size=count)
    frame = pd.DataFrame(
        {
            "size": rng.normal(3 * label, 1),
            "width": rng.normal(-2 * label, 1),
            "colour": np.where(rng.random(count) < 0.2 + 0.6 * label, "red", "blue"),
        }
    )
    for name in frame:
        frame[name] = frame[name].where(rng.random(count) > 0.2)
    return frame, label


def test_a_grid_search_over_a_pipeline_with_a_classifier() -> None:
    frame, label = draw(120)
    for numbers in (frame[["size", "width"]], frame[["size", "width"]].to_numpy()):
        pipeline = Pipeline([("imputer", TableImputer(**SMALL)), ("classifier", LogisticRegression())])
        search = GridSearchCV(pipeline, {"imputer__num_states": [1, 3], "classifier__C": [0.1, 1.0]}, cv=3)
        search.fit(numbers, label)
        # The groups are 3.6 deviations apart; of nine in ten at least one of two entries is known.
        assert search.best_score_ > 0.85
        assert search.best_estimator_["imputer"].num_states in (1, 3)
        assert (search.predict(numbers) == label).mean() > 0.85


def test_labels_are_ignored_and_edges_are_edges_wherever_they_stand() -> None:
    frame, label = draw()
    ring = np.stack([np.arange(60), (np.arange(60) + 1) % 60])
    table = pd.DataFrame(ring.T, columns=["source", "target"])
    arguments = {**SMALL, "num_layers": 2}

    def filled(*given: Any, **named: Any) -> Any:
        imputer = TableImputer(**arguments).fit(frame, *given, progress=False, **named)
        return imputer.transform(frame, named.get("edges", table if given and given[0] is table else None))

    alone = filled()
    for y in (label, label.tolist(), pd.Series(label), pd.DataFrame({"y": label}), label[:, None], label.astype(str)):
        pd.testing.assert_frame_equal(filled(y), alone, check_exact=True)
    joined = filled(table)
    assert not joined.equals(alone)
    pd.testing.assert_frame_equal(filled(edges=table), joined, check_exact=True)
    pd.testing.assert_frame_equal(filled(label, edges=table), joined, check_exact=True)
    pd.testing.assert_frame_equal(filled(label, edges=ring), joined, check_exact=True)
    for edges in (ring, table, ring.T.tolist()):
        pd.testing.assert_frame_equal(
            TableImputer(**arguments).fit_transform(frame, edges, progress=False), joined, check_exact=True
        )


def test_arrays_in_and_out() -> None:
    frame, _ = draw()
    array = frame[["size", "width"]].to_numpy()
    filled = TableImputer(**SMALL).fit_transform(array, progress=False)
    assert isinstance(filled, np.ndarray)
    assert not np.isnan(filled).any()
    np.testing.assert_equal(filled[~np.isnan(array)], array[~np.isnan(array)])
    mixed = TableImputer(**SMALL).fit_transform(frame.to_numpy(), progress=False)
    assert set(mixed[:, 2]) == {"red", "blue"}
    constant = np.column_stack([array, np.ones(60), np.full(60, np.nan)])
    imputer = TableImputer(**SMALL).fit(constant, progress=False)
    assert imputer.left_out_ == {"x3": "empty"}
    assert imputer.get_feature_names_out().tolist() == ["x0", "x1", "x2", "x3"]
    named = imputer.set_output(transform="pandas").transform(constant)
    assert named.columns.tolist() == ["x0", "x1", "x2", "x3"]


def test_names_of_columns_come_out_as_they_go_in() -> None:
    frame, _ = draw()
    imputer = TableImputer(**SMALL).fit(frame, progress=False)
    assert imputer.get_feature_names_out().tolist() == ["size", "width", "colour"]
    assert (imputer.n_features_in_, imputer.schema_.names) == (3, ("size", "width", "colour"))
    numbered = frame.set_axis([10, 20, 30], axis=1)
    out = TableImputer(**SMALL).fit_transform(numbered, progress=False)
    assert out.columns.tolist() == [10, 20, 30]


def test_rows_that_occur_twice_need_no_ids() -> None:
    frame, _ = draw()
    twice = frame.iloc[[*range(60), *range(30)]]
    out = TableImputer(**SMALL).fit_transform(twice, progress=False)
    assert out.index.equals(twice.index)
    assert not out.isna().any(axis=None)


def test_what_says_nothing_is_handed_through() -> None:
    frame, _ = draw()
    raw = frame.assign(name=[f"n{i}" for i in range(60)], void=None, day=pd.date_range("2024-01-01", periods=60))
    raw.loc[3, "day"] = None
    imputer = TableImputer(**SMALL).fit(raw, progress=False)
    assert list(imputer.left_out_) == ["name", "void"]
    out = imputer.transform(raw)
    assert out["void"].isna().all()
    assert out["day"].dtype == raw["day"].dtype
    assert pd.Timestamp("2023-12-01") < out.loc[3, "day"] < pd.Timestamp("2024-04-01")
    kept = TableImputer(**SMALL, keep="name").fit(raw, progress=False)
    assert "name" in kept.schema_.names


def test_saved_and_loaded(tmp_path: Path) -> None:
    frame, _ = draw()
    frame["visits"] = np.arange(60) % 4
    edges = pd.DataFrame({"source": range(59), "target": range(1, 60), "kind": ["a", "b"] * 29 + ["a"]})
    imputer = TableImputer(
        edge_type="kind", overrides={"visits": Count("visits"), "size": "continuous"}, **{**SMALL, "num_layers": 2}
    ).fit(frame, edges=edges, progress=False)
    imputer.save(tmp_path / "imputer")
    again = TableImputer.load(tmp_path / "imputer")
    assert again.get_params() == imputer.get_params()
    assert again.edge_types_ == imputer.edge_types_
    assert again.get_feature_names_out().tolist() == imputer.get_feature_names_out().tolist()
    for one, other in zip(
        *(which.transform(frame, edges, return_spread=True) for which in (imputer, again)), strict=True
    ):
        pd.testing.assert_frame_equal(one, other, check_exact=True)
    with pytest.raises(NotFittedError):
        TableImputer().save(tmp_path / "other")
    with pytest.raises(InputError, match="is not a saved TableImputer"):
        TableImputer.load(tmp_path)
