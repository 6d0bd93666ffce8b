"""`TableImputer.draws`: tables for multiple imputation, of which everything but the gaps is as it was."""

from __future__ import annotations

import itertools
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

import gspn
from gspn import TableImputer
from gspn.errors import InputError, NotFittedError


def draw_tables(seed: int = 0, rows: int = 60) -> tuple[Any, Any]:
    """Two graphs in mixed order, of whole and other numbers, counts and categories, with gaps; a ring in each."""
    rng = np.random.default_rng(seed)
    team = rng.integers(2, size=rows)
    nodes = pd.DataFrame(
        {
            "id": [f"p{row}" for row in range(rows)],
            "team": np.where(team, "red", "blue"),
            "age": rng.normal(30 + 10 * team, 4).round().astype(float),
            "height": rng.normal(170, 9, size=rows),
            "visits": pd.array(rng.poisson(2 + 3 * team), dtype="Int64"),
            "mol": rng.permutation(["one", "two"] * (rows // 2)),
            "note": "kept",
        },
        index=pd.Index(rng.integers(5, size=rows), name="label"),
    )
    for name in ("team", "age", "height", "visits"):
        nodes[name] = nodes[name].mask(rng.random(rows) < 0.25)
    rings = [nodes["id"][nodes["mol"] == mol].tolist() for mol in ("one", "two")]
    edges = [(a, b) for ring in rings for a, b in itertools.pairwise(ring)]
    return nodes, pd.DataFrame(edges, columns=["source", "target"])


@pytest.fixture(scope="module")
def fitted() -> TableImputer:
    imputer = TableImputer(graph="mol", ignore="note", overrides={"visits": "count"}, effort="quick")
    return imputer.fit(*draw_tables(), progress=False)


def test_only_gaps_differ(fitted: TableImputer) -> None:
    nodes, _ = draw_tables()
    tables = fitted.draws(3)
    assert len(tables) == 3
    for table in tables:
        assert list(table.columns) == list(nodes.columns)
        pd.testing.assert_index_equal(table.index, nodes.index)
        pd.testing.assert_series_equal(table.dtypes, nodes.dtypes)
        assert not table.isna().any(axis=None)
        for name in nodes:
            kept = nodes[name].notna().to_numpy()
            pd.testing.assert_series_equal(table[name][kept], nodes[name][kept], check_exact=True)
        assert (table["age"] == table["age"].round()).all(), "whole numbers stay whole"
    for name in ("team", "age", "height", "visits"):
        assert any(not tables[0][name].equals(table[name]) for table in tables[1:])


def test_the_tables_of_fit_are_completed_unless_others_are_given(fitted: TableImputer) -> None:
    nodes, edges = draw_tables()
    for own, given in zip(fitted.draws(2, seed=4), fitted.draws(2, nodes, edges, seed=4), strict=True):
        assert_frame_equal(own, given)
    assert not fitted.draws(1, seed=5)[0].equals(fitted.draws(1, seed=4)[0])
    assert_frame_equal(fitted.draws(1)[0], fitted.draws(2, seed=fitted.seed)[0])
    others, edges = draw_tables(1, 20)
    (table,) = fitted.draws(1, others, edges)
    assert len(table) == 20
    assert not table.isna().any(axis=None)


def test_what_becomes_of_the_table_does_not_matter() -> None:
    nodes, _ = draw_tables()
    imputer = TableImputer(graph="mol", ignore="note", effort="quick").fit(nodes, progress=False)
    first = imputer.draws(1)[0]
    nodes["age"] = 0.0
    assert_frame_equal(imputer.draws(1)[0], first)


def test_a_model_learns_on_from_what_it_completes(fitted: TableImputer) -> None:
    nodes, edges = draw_tables()
    other = TableImputer.with_model(fitted.model_, graph="mol", ignore="note", whole_numbers=fitted.whole_numbers_)
    with pytest.raises(InputError, match="draws needs the table of vertices"):
        other.draws(2)
    for own, given in zip(fitted.draws(2), other.draws(2, nodes, edges), strict=True):
        assert_frame_equal(own, given)


def test_refusals(fitted: TableImputer) -> None:
    nodes, edges = draw_tables()
    with pytest.raises(NotFittedError, match="not fitted yet"):
        TableImputer().draws(2)
    with pytest.raises(InputError, match="m must be"):
        fitted.draws(0)
    with pytest.raises(InputError, match="needs the table of vertices"):
        fitted.draws(2, edges=edges)
    with pytest.raises(InputError, match="must be a pandas DataFrame"):
        fitted.draws(2, nodes["age"])


def test_a_saved_stack_remembers_its_spread(fitted: TableImputer, tmp_path: Any) -> None:
    stack = cast(gspn.Stack, fitted.model_)
    gspn.Stack(stack.models, stack.weights, spread=1.21).save(tmp_path / "wide")
    assert gspn.load(tmp_path / "wide", gspn.Stack).spread == 1.21
    gspn.Stack(stack.models).save(tmp_path / "plain")
    assert "spread" not in (tmp_path / "plain" / "model.json").read_text(), "files stay as they were"
    assert gspn.load(tmp_path / "plain", gspn.Stack).spread == 1.0
    with pytest.raises(InputError, match="spread must be a positive number"):
        gspn.Stack(stack.models, spread=0.0)
