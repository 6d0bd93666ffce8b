"""How well are gaps of a map filled? Municipalities around Tokyo, 1990, each with those that it touches.

    python examples/places.py            # a table
    python examples/places.py --json     # the same for `docs/dev/measured.py record`

Four rates of 262 municipalities (census and vital statistics; libpysal brings them, extra `spatial`) of which 30 % are
hidden, five times. Errors are in standard deviations of a column, so that what always says the mean has about 1. Beside
gspn: the column's mean, the mean of the neighbours, and extra trees on the columns and the neighbours' means.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

import geopandas
import libpysal
import numpy as np
import pandas as pd
import torch

import gspn
from gspn.baselines import FeatureImputer
from gspn.baselines.neighbour_means import neighbour_means

RATES = ["OCC_TEC", "OWNH", "POP65", "UNEMP"]
HIDDEN, SEEDS, LEVEL = 0.3, 5, 0.9


def places() -> Any:
    """A GeoDataFrame: professionals, owned houses, people over 64 (shares), unemployment in %."""
    path = libpysal.examples.get_path
    areas = geopandas.read_file(path("tokyomet262.shp"))
    rates = pd.read_csv(path("Tokyomortality.csv"), lineterminator="\r")
    return areas.merge(rates, left_on="AreaID", right_on="IDnum0")[["AREANAME", *RATES, "geometry"]]


def answers(gappy: Any, seed: int) -> Iterator[tuple[str, Any, Any]]:
    """Name, completed rates and, where there is one, the table of spreads."""
    rates = gappy[RATES]
    yield "mean", rates.fillna(rates.mean()), None
    dataset = gspn.from_tables(gappy, "contiguity", ignore="AREANAME")
    near = pd.DataFrame(neighbour_means(dataset, dataset.entries()).numpy(), columns=RATES, index=gappy.index)
    yield "neighbours' mean", rates.fillna(near).fillna(rates.mean()), None
    trees = FeatureImputer(dataset.schema, "trees", neighbours=True, seed=seed).fit(dataset, progress=False)
    x = torch.cat([graph.x for graph in trees.impute(dataset)]).numpy()
    yield "extra trees, neighbours", pd.DataFrame(x, columns=RATES, index=gappy.index), None
    for name, edges in (("gspn, no edges", None), ("gspn", "contiguity")):
        imputer = gspn.TableImputer(effort="quick", seed=seed, ignore="AREANAME", level=LEVEL)
        yield name, *imputer.fit_transform(gappy, edges=edges, return_spread=True, progress=False)


def measured() -> dict[str, Any]:
    """Root mean squared errors over all hidden entries, and how often intervals hold the truth."""
    truth, errors, held = places(), dict[str, list[float]](), dict[str, list[float]]()
    deviation = truth[RATES].std(ddof=0).to_numpy()
    for seed in range(SEEDS):
        hidden = np.random.default_rng(seed).random((len(truth), len(RATES))) < HIDDEN
        gappy = truth.copy()
        gappy[RATES] = truth[RATES].mask(hidden)
        for name, filled, spread in answers(gappy, seed):
            wrong = ((filled[RATES].to_numpy() - truth[RATES].to_numpy()) / deviation)[hidden]
            errors.setdefault(name, []).append(float(np.sqrt((wrong**2).mean())))
            if spread is not None:
                true = truth[RATES].to_numpy()[spread["row"], spread["attribute"].map(RATES.index)]
                inside = (spread["low"] <= true) & (true <= spread["high"])
                held.setdefault(name, []).append(float(inside.mean()))
    return {"error": errors, "coverage": held, "level": LEVEL, "hidden": HIDDEN, "rows": len(truth)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    found = measured()
    if parser.parse_args().json:
        print(json.dumps(found))
        return
    table = pd.DataFrame({part: pd.DataFrame(found[part]).mean() for part in ("error", "coverage")})
    print(table.sort_values("error").round(3).to_string(na_rep=""))


if __name__ == "__main__":
    main()
