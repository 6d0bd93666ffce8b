"""Maps of places: what was known of an attribute, what was filled in, and how uncertain that is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gspn.columns import enumerate_briefly, shorten
from gspn.errors import InputError
from gspn.plots.canvas import SMALL, TEXT, new_figure, plain
from gspn.plots.colours import DIVERGING, EDGE, INK, PAPER, QUIET, SEQUENTIAL, colour_map

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDER = DIVERGING[len(DIVERGING) // 2 :]
"""Deviations have colours of their own, as they are none of the attribute's values."""
_FINEST = 700
"""Details smaller than this part of the map's extent would not be seen, and make large files."""


def filled_maps(gappy: Any, filled: Any, spread: Any, attribute: str, *, unit: str = "") -> Figure:
    """Three maps: an attribute with its gaps, with filled gaps, and the standard deviation of what was filled in.

    gappy, filled: GeoDataFrames with the same rows, before and after `TableImputer`; colours mean the same in both.
    spread: the table that `transform` gives with `return_spread=True`.
    attribute: the name of a column of numbers.
    unit: of the attribute, for the scales.
    """
    for name, frame in (("gappy", gappy), ("filled", filled)):
        if not hasattr(frame, "geometry") or attribute not in frame.columns:
            raise InputError(f"{name} must be a GeoDataFrame with the column {attribute!r}, got {shorten(frame)}")
    own = spread[spread["attribute"] == attribute]
    if not len(own) or own["std"].isna().all():
        known = enumerate_briefly(spread.loc[spread["std"].notna(), "attribute"].unique())
        raise InputError(f"spread has no deviations of {attribute!r}; it has some of {known}")
    before, after = (frame[attribute].to_numpy(dtype=float, na_value=np.nan) for frame in (gappy, filled))
    deviation = np.full(len(filled), np.nan)
    deviation[own["row"]] = own["std"]
    shapes = _drawn(filled.geometry)
    figure, panels = new_figure(height=3.5, columns=3, width=10.5)
    limits = (float(np.nanmin(after)), float(np.nanmax(after)))
    _map(panels[0], shapes, before, f"{attribute}, known", SEQUENTIAL, limits, unit, hatch="/////")
    _map(panels[1], shapes, after, f"{attribute}, filled", SEQUENTIAL, limits, unit)
    widest = float(np.nanmax(deviation))
    _map(panels[2], shapes, deviation, "standard deviation of filled values", _WIDER, (0.0, widest), unit)
    return figure


def _drawn(shapes: Any) -> Any:
    """Geometries with the detail that can be seen."""
    left, low, right, high = shapes.total_bounds
    finest = max(right - left, high - low) / _FINEST
    return shapes.simplify(finest) if shapes.geom_type.str.contains("Polygon").any() else shapes


def _map(
    axes: Axes,
    shapes: Any,
    values: np.ndarray[Any, Any],
    title: str,
    stops: Sequence[str],
    limits: tuple[float, float],
    unit: str,
    hatch: str | None = None,
) -> None:
    """Places coloured by values; where there is none they are empty, or hatched."""
    import geopandas
    from matplotlib.ticker import MaxNLocator

    known = ~np.isnan(values)
    size: dict[str, Any] = {"markersize": 14} if shapes.geom_type.str.contains("Point").all() else {}
    outline: dict[str, Any] = {"linewidth": 0.25, "edgecolor": EDGE, **size}
    if not known.all():
        shapes[~known].plot(ax=axes, color=PAPER, hatch=hatch, **outline)
    frame = geopandas.GeoDataFrame({"value": values[known]}, geometry=shapes.to_numpy()[known], crs=shapes.crs)
    frame.plot("value", ax=axes, cmap=colour_map(stops), vmin=limits[0], vmax=limits[1], **outline)
    axes.set_axis_off()
    axes.set_aspect("equal")
    axes.set_title(plain(title), fontsize=TEXT, color=INK, loc="left", fontweight="bold")
    bar = axes.figure.colorbar(axes.collections[-1], ax=axes, orientation="horizontal", fraction=0.046, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=QUIET, labelcolor=INK, labelsize=SMALL, length=2)
    bar.locator = MaxNLocator(4)
    bar.update_ticks()
    if unit:
        bar.set_label(plain(unit), fontsize=SMALL, color=QUIET)
