"""How often do pooled 95 % intervals of regression coefficients hold the truth, from ten completed tables?

    python examples/pooled_coverage.py            # a table without edges
    python examples/pooled_coverage.py graph      # neighbours are alike, and everything learned uses the edges
    python examples/pooled_coverage.py mixed      # columns of other kinds: a group that is missing, too, and a count

Generates tables of 200 rows with entries missing at random (what is missing depends on a column that is observed),
completes each ten times by `TableImputer.draws`, regresses y on the other columns in every completed table and pools by
Rubin's rules. Models are chosen once, on a table that is none of the repeats; in each repeat the same candidates learn
anew. Beside them: the same regression before anything was missing, and on the complete rows alone. Every repeat is a
line of a file in `--folder`, so the same command goes on after an interruption.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.base import clone

import gspn

ROWS, TABLES, LEVEL = 200, 10, 0.95
TRUTH = {"a": 0.7, "b": -0.4, "group": 0.8, "visits": 0.15}
"""Coefficients of y, as far as a case has the columns."""
COLUMNS = {"table": ("a", "b"), "graph": ("a", "b"), "mixed": ("a", "b", "group", "visits")}

Array = NDArray[np.float64]


class Estimate(NamedTuple):
    """Of every coefficient."""

    value: Array
    variance: Array
    freedom: Array


def generated(case: str, rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame | None, pd.DataFrame]:
    """Vertices with gaps, edges, and the vertices without gaps."""
    a, edges = rng.normal(size=ROWS), None
    if case == "graph":
        one = np.tile(np.arange(ROWS), 2)
        other = (one + np.repeat([1, 2], ROWS)) % ROWS
        edges = pd.DataFrame({"source": one, "target": other})
        kind = np.repeat(rng.normal(size=ROWS // 10), 10)  # of ten that stand together
        a = 0.8 * kind + 0.6 * a
    b = 0.5 * a + rng.normal(size=ROWS)
    table = {"id": np.arange(ROWS), "a": a, "b": b}
    if case == "mixed":
        table["group"] = (rng.random(ROWS) < 1 / (1 + np.exp(-a))).astype(float)
        table["visits"] = rng.poisson(np.exp(0.7 + 0.3 * b)).astype(float)
    noise = rng.normal(size=ROWS)
    whole = pd.DataFrame(table | {"y": 1 + sum(TRUTH[name] * table[name] for name in COLUMNS[case]) + noise})
    gappy = whole.copy()
    often = 1 / (1 + np.exp(-(a - 0.8) * 1.5))  # about three in ten, more of them where a is large
    for name in whole.columns.drop(["id", "a"]):
        gappy[name] = gappy[name].mask(rng.random(ROWS) < often)
    return gappy, edges, whole


def regression(table: pd.DataFrame, columns: tuple[str, ...]) -> Estimate:
    """Least squares of y on the columns."""
    x = np.column_stack([np.ones(len(table)), *(table[name].astype(float) for name in columns)])
    y, freedom = table["y"].to_numpy(float), len(table) - x.shape[1]
    inverse = np.linalg.inv(x.T @ x)
    value = inverse @ x.T @ y
    variance = np.sum((y - x @ value) ** 2) / freedom * np.diag(inverse)
    return Estimate(value[1:], variance[1:], np.full(len(columns), float(freedom)))


def pooled(estimates: list[Estimate]) -> Estimate:
    """Rubin's rules, with the degrees of freedom of Barnard and Rubin (1999)."""
    m, values = len(estimates), np.stack([one.value for one in estimates])
    within, between = np.mean([one.variance for one in estimates], axis=0), values.var(axis=0, ddof=1)
    total = within + (1 + 1 / m) * between
    share = (1 + 1 / m) * between / total
    complete = estimates[0].freedom
    observed = (complete + 1) / (complete + 3) * complete * (1 - share)
    return Estimate(values.mean(axis=0), total, 1 / (share**2 / (m - 1) + 1 / observed))


def judged(found: Estimate, columns: tuple[str, ...]) -> dict[str, Any]:
    """By coefficient: estimate, standard error, and whether the interval holds the truth."""
    error = np.sqrt(found.variance)
    reach = student.ppf((1 + LEVEL) / 2, found.freedom) * error
    truth = np.array([TRUTH[name] for name in columns])
    rows = zip(columns, found.value, error, np.abs(found.value - truth) <= reach, strict=True)
    return {name: [float(value), float(own), bool(held)] for name, value, own, held in rows}


def repeat(case: str, seed: int, chosen: gspn.Stack) -> dict[str, Any]:
    columns, start = COLUMNS[case], time.perf_counter()
    gappy, edges, whole = generated(case, np.random.default_rng([2, seed]))
    dataset = gspn.from_tables(gappy, edges, chosen.schema)
    models = [clone(model).fit(dataset, progress=False, keep_scores=False) for model in chosen.models]
    imputer = gspn.TableImputer.with_model(gspn.Stack(models, chosen.weights, spread=chosen.spread))
    tables = imputer.draws(TABLES, gappy, edges, seed=seed)
    estimates = [regression(table, columns) for table in tables]
    return {
        "seed": seed,
        "pooled": judged(pooled(estimates), columns),
        "before": judged(regression(whole, columns), columns),
        "complete rows": judged(regression(gappy.dropna(), columns), columns),
        "seconds": time.perf_counter() - start,
    }


def summary(repeats: list[dict[str, Any]], columns: tuple[str, ...]) -> dict[str, Any]:
    """By coefficient and way: coverage, bias, deviation of the estimates and mean standard error."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name in columns:
        found[name] = {}
        for way in ("pooled", "complete rows", "before"):
            value, error, held = np.array([one[way][name] for one in repeats], dtype=float).T
            found[name][way] = {
                "coverage": float(held.mean()),
                "bias": float(value.mean() - TRUTH[name]),
                "deviation": float(value.std(ddof=1)),
                "standard error": float(np.sqrt(np.mean(error**2))),
            }
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", nargs="?", choices=sorted(COLUMNS), default="table")
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--effort", choices=("quick", "normal", "thorough"), default="normal")
    parser.add_argument("--folder", type=Path, default=Path("pooled-coverage"), help="where repeats are kept")
    parser.add_argument("--json", action="store_true", help="print the record as JSON")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    name, case = f"{options.case}-{options.effort}", options.case
    folder, kept = options.folder / name, options.folder / f"{name}.jsonl"
    if not folder.exists():
        gappy, edges, _ = generated(case, np.random.default_rng(1))
        overrides = {"group": "binary", "visits": "count"} if case == "mixed" else None
        imputer = gspn.TableImputer(effort=options.effort, overrides=overrides).fit(gappy, edges, progress=False)
        imputer.model_.save(folder)
    chosen = gspn.load(folder, gspn.Stack)
    repeats = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    for seed in range(len(repeats), options.repeats):
        repeats.append(repeat(case, seed, chosen))
        with kept.open("a") as file:
            file.write(json.dumps(repeats[-1]) + "\n")
    repeats = repeats[: options.repeats]
    found = summary(repeats, COLUMNS[case])
    members = [f"{one.num_states} states, {one.covariance}, context {one.context}" for one in chosen.models]
    record = {
        "case": case,
        "effort": options.effort,
        "repeats": len(repeats),
        "tables": TABLES,
        "members": dict(zip(members, chosen.weights, strict=True)),
        "spread": chosen.spread,
        "seconds": sum(one["seconds"] for one in repeats),
        "coefficients": found,
    }
    if options.json:
        print(json.dumps(record))
        return 0
    chance = math.sqrt(LEVEL * (1 - LEVEL) / len(repeats))
    print(f"{case}: {len(repeats)} repeats, {TABLES} tables each; by chance coverage is off by ±{chance:.3f}")
    for coefficient, ways in found.items():
        for way, numbers in ways.items():
            told = ", ".join(f"{what} {number:.3f}" for what, number in numbers.items())
            print(f"{coefficient:8} {way:14} {told}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on from here")
