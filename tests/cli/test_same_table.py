"""Two doors, one choice: `TableImputer` on DataFrames and `gspn impute` on the files give the same table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from small_commands import Run, draw_people

from gspn import TableImputer


def ring(count: int) -> pd.DataFrame:
    return pd.DataFrame([(f"p{i}", f"p{(i + 1) % count}") for i in range(count)], columns=["source", "target"])


def people(count: int = 60) -> pd.DataFrame:
    """Text, fractions, counts and truth values with gaps, whole numbers below 0, few whole numbers, zeros and ones."""
    nodes: pd.DataFrame = draw_people(count)[0]
    rng = np.random.default_rng(1)
    level = rng.permutation(count) - 20
    nodes["level"] = pd.Series(level).astype(object).where(rng.random(count) > 0.2, None)
    nodes["floor"] = pd.Series(rng.integers(5, size=count)).astype(object).where(rng.random(count) > 0.2, None)
    nodes["flag"] = pd.Series(rng.integers(2, size=count)).astype(object).where(rng.random(count) > 0.2, None)
    return nodes


def molecules(graphs: int, size: int = 4) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Several graphs: vertices have equal ids in each."""
    rng = np.random.default_rng(2)
    kind = np.repeat(rng.integers(2, size=graphs), size)
    nodes = pd.DataFrame(
        {
            "mol": np.repeat([f"m{i}" for i in range(graphs)], size),
            "id": np.tile(np.arange(size), graphs),
            "element": pd.Series(np.where(kind, "C", "N")).where(rng.random(graphs * size) > 0.2),
            "charge": pd.Series(rng.normal(3 * kind, 1)).where(rng.random(graphs * size) > 0.2),
        }
    )
    pairs = [(f"m{i}", u, u + 1) for i in range(graphs) for u in range(size - 1)]
    return nodes, pd.DataFrame(pairs, columns=["mol", "source", "target"])


def typed() -> tuple[pd.DataFrame, pd.DataFrame]:
    return people()[["id", "team", "age", "floor"]], ring(60).assign(kind=["friend", "colleague"] * 30)


QUICK = {"effort": "quick"}

CASES: dict[str, tuple[Any, dict[str, Any], tuple[str, ...]]] = {
    "no edges": (lambda: (people()[["id", "team", "age"]], None), {}, ()),
    "few rows": (lambda: (people(12), ring(12)), {}, ()),
    "edge types": (typed, {"edge_type": "kind", **QUICK}, ("--edge-type", "kind", "--effort", "quick")),
    "few graphs": (lambda: molecules(10), {"graph": "mol", **QUICK}, ("--graph", "mol", "--effort", "quick")),
    "one model": (lambda: (people(), ring(60)), {"epochs": 5}, ("--epochs", "5")),
    "many graphs": (
        lambda: molecules(110),
        {"graph": "mol", "num_layers": 2, "epochs": 6},
        ("--graph", "mol", "--layers", "2", "--epochs", "6"),
    ),
    "explicit": (
        lambda: (people().assign(note="x"), ring(60)),
        {
            "overrides": {"projects": "count", "floor": "categorical"},
            "ignore": "note",
            "directed": True,
            "num_layers": 2,
            "num_states": 3,
            "epochs": 11,
            "seed": 5,
        },
        (
            *("--types", "projects=count,floor=categorical", "--ignore", "note", "--directed"),
            *("--layers", "2", "--states", "3", "--epochs", "11", "--seed", "5"),
        ),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_both_doors_give_the_same_table(case: str, run: Run, tmp_path: Path) -> None:
    draw, arguments, options = CASES[case]
    drawn = draw()
    tables = [tmp_path / name for name in ("nodes.csv", "edges.csv")][: 1 if drawn[1] is None else 2]
    for table, path in zip(drawn, tables, strict=False):
        table.to_csv(path, index=False)
    run("impute", *tables, *options, "--plain", "-o", tmp_path / "plain.csv", "--save-model", tmp_path / "model")
    run("impute", *tables, "-m", tmp_path / "model", "-o", tmp_path / "full.csv")

    completed, spread = TableImputer(**arguments).fit_transform(
        *map(pd.read_csv, tables), return_spread=True, progress=False
    )
    plain, full = pd.read_csv(tmp_path / "plain.csv"), pd.read_csv(tmp_path / "full.csv")
    assert not plain.isna().any(axis=None)
    pd.testing.assert_frame_equal(plain, completed, check_dtype=False, check_exact=True)
    pd.testing.assert_frame_equal(full[list(plain.columns)], plain, check_exact=True)
    assert len(spread) == sum(int(full[name].sum()) for name in full if name.endswith("_filled"))
    for one in spread.itertuples():
        beside = {
            "sd": one.std,
            "low": one.low,
            "high": one.high,
            "probability": one.probability,
            "likely": None if one.likely is None else " | ".join(map(str, one.likely)),
        }
        for what, value in beside.items():
            if not pd.isna(value):
                assert full[f"{one.attribute}_{what}"].iloc[one.row] == value


def test_whole_numbers_are_filled_with_whole_numbers_whatever_they_are_read_as(run: Run, tmp_path: Path) -> None:
    """A continuous column of whole numbers: written as 3, as 3.0, read as floats because of its gaps."""
    rng = np.random.default_rng(0)
    level = pd.Series(rng.permutation(60) - 30).astype("Int64").where(rng.random(60) > 0.2)
    nodes = pd.DataFrame({"id": range(60), "level": level, "size": rng.normal(size=60)})
    for name, table in (("whole", nodes), ("written", nodes.astype({"level": float}))):
        table.to_csv(tmp_path / f"{name}.csv", index=False)
        run("impute", tmp_path / f"{name}.csv", "-o", tmp_path / f"{name}-done.csv", "--plain", "--epochs", "5",
            "--save-model", tmp_path / name)  # fmt: skip
        run("impute", tmp_path / f"{name}.csv", "-m", tmp_path / name, "-o", tmp_path / f"{name}-again.csv", "--plain")
        assert (tmp_path / f"{name}-done.csv").read_bytes() == (tmp_path / f"{name}-again.csv").read_bytes()
    done = [pd.read_csv(tmp_path / f"{name}-done.csv") for name in ("whole", "written")]
    pd.testing.assert_frame_equal(done[0], done[1], check_dtype=False, check_exact=True)
    assert done[0]["level"].dtype == "int64"
    imputer = TableImputer(epochs=5).fit(pd.read_csv(tmp_path / "whole.csv"), progress=False)
    assert imputer.whole_numbers_ == ("level",)
    completed = imputer.transform(pd.read_csv(tmp_path / "whole.csv"))
    pd.testing.assert_frame_equal(done[0], completed, check_dtype=False, check_exact=True)
