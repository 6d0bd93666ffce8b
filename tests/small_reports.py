"""A small report for several tests: people in a ring with gaps, and one small model of them."""

from __future__ import annotations

from functools import cache

import pandas as pd
from small_commands import draw_people

import gspn
from gspn.reports import Report


@cache
def people() -> tuple[gspn.GraphDataset, gspn.GSPN]:
    gappy, _ = draw_people(120)
    ring = pd.DataFrame({"source": gappy["id"], "target": [*gappy["id"][1:], gappy["id"][0]]})
    dataset = gspn.from_tables(gappy, ring, overrides={"projects": "count"})
    model = gspn.GSPN(dataset.schema, num_layers=2, num_states=3, epochs=8, objective="masked", lr=0.1)
    return dataset, model.fit(dataset, progress=False)


@cache
def small_report() -> Report:
    dataset, model = people()
    return gspn.report(model, dataset, progress=False)
