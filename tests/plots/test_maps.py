"""Maps of filled places: three panels on scales that can be compared, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gspn.errors import InputError
from gspn.plots.files import save_figure
from gspn.plots.maps import filled_maps

geopandas = pytest.importorskip("geopandas")
shapely = pytest.importorskip("shapely")


def tables(points: bool = False) -> tuple[Any, Any, Any]:
    squares = [shapely.box(v % 3, v // 3, v % 3 + 1, v // 3 + 1) for v in range(9)]
    filled = geopandas.GeoDataFrame({"a": np.arange(9.0)}, geometry=squares)
    if points:
        filled = filled.set_geometry(filled.centroid)
    gappy = filled.copy()
    gappy.loc[[2, 7], "a"] = np.nan
    spread = pd.DataFrame({"row": [2, 7], "attribute": "a", "value": [2.0, 7.0], "std": [0.5, 1.5]})
    return gappy, filled, spread


@pytest.mark.parametrize("points", [False, True])
def test_three_maps(points: bool, tmp_path: Path) -> None:
    figure = filled_maps(*tables(points), "a", unit="m")
    panels = [axes for axes in figure.axes if axes.get_title(loc="left")]
    assert [axes.get_title(loc="left") for axes in panels] == [
        "a, known",
        "a, filled",
        "standard deviation of filled values",
    ]
    shown: list[Any] = [axes.collections[-1] for axes in panels]
    known, filled, deviation = shown
    assert known.get_array().tolist() == [0, 1, 3, 4, 5, 6, 8]
    assert filled.get_array().tolist() == list(range(9))
    assert known.get_clim() == filled.get_clim() == (0, 8)
    assert deviation.get_array().tolist() == [0.5, 1.5]
    assert deviation.get_clim() == (0, 1.5)
    assert save_figure(figure, tmp_path / "maps.png").stat().st_size > 1_000


def test_refusals() -> None:
    gappy, filled, spread = tables()
    with pytest.raises(InputError, match="gappy must be a GeoDataFrame with the column 'b'"):
        filled_maps(gappy, filled, spread, "b")
    with pytest.raises(InputError, match="filled must be a GeoDataFrame"):
        filled_maps(gappy, pd.DataFrame(filled).drop(columns="geometry"), spread, "a")
    with pytest.raises(InputError, match="no deviations of 'a'; it has some of c"):
        filled_maps(gappy, filled, spread.assign(attribute="c"), "a")
