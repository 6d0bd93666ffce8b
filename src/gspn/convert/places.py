"""Edges from where vertices are: places that touch each other, or the nearest ones.

Places are the geometries of a GeoDataFrame, or columns of coordinates; columns of geometries are recognised by their
type, so that nothing is imported for other tables. Which of these edges are one is the business of `edges`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gspn.columns import enumerate_briefly
from gspn.convert.files import Table
from gspn.errors import InputError

CONTIGUITY, NEAREST = "contiguity", "nearest"
_USUALLY = 5
"""So many nearest places are neighbours where nobody says how many."""
_WORDS = re.compile(rf"{CONTIGUITY}|{NEAREST}(?::([1-9]\d*))?")
_COORDINATES = (("x", "y"), ("lon", "lat"), ("lng", "lat"), ("long", "lat"), ("longitude", "latitude"))


@dataclass(frozen=True)
class Nearby:
    """Which places are neighbours of a place."""

    kind: str
    count: int = _USUALLY
    """how many, of the nearest"""

    @classmethod
    def named(cls, edges: Any) -> Nearby | None:
        """What is meant by "contiguity", "nearest" or "nearest:8"; None of anything else."""
        found = _WORDS.fullmatch(os.fspath(edges)) if isinstance(edges, str | os.PathLike) else None
        if found is None:
            return None
        return cls(found[0].partition(":")[0], _USUALLY if found[1] is None else int(found[1]))

    def rows(self, table: Table, graph: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows that send and rows that receive, all within graphs, by receiver."""
        if self.kind == CONTIGUITY:
            source, target = _touching(table)
            within = graph[source] == graph[target]
            source, target = source[within], target[within]
        else:
            source, target = _nearest(_points(table), graph, self.count)
        order = np.lexsort([source, target])
        return source[order], target[order]


def geometries(frame: Any) -> list[str]:
    """The columns of geometries, the one in use first: they say where a vertex is, and are no attributes."""
    used = getattr(frame, "_geometry_column_name", None)  # geopandas' own; `frame.geometry` is an error without one
    found = [str(name) for name in frame.columns if str(getattr(frame[name], "dtype", "")) == "geometry"]
    return sorted(found, key=lambda name: name != used)


def _shapes(table: Table, name: str) -> Any:
    """The geometries, one for each row."""
    shapes = table.frame[name].reset_index(drop=True)
    for row in np.flatnonzero((shapes.isna() | shapes.is_empty).to_numpy())[:1].tolist():
        raise InputError(f"{table.place(row)}: the geometry (column {name!r}) is missing, so it has no neighbours")
    return shapes


def _touching(table: Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    named = geometries(table.frame)
    if not named:
        raise InputError(f"{CONTIGUITY!r} needs geometries, and {table.name} has none: {_known(table)}")
    shapes = _shapes(table, named[0])
    if shapes.geom_type.isin(["Point", "MultiPoint"]).all():
        raise InputError(f"{table.name} holds points, which do not touch each other; use {NEAREST!r}")
    # Also where outlines of different makers overlap a little, which "touches" would not count.
    pairs = shapes.sindex.query(shapes, predicate="intersects").astype(np.int64)
    apart = pairs[0] != pairs[1]
    return pairs[0][apart], pairs[1][apart]


def _points(table: Table) -> NDArray[np.float64]:
    """[N, 2] points on a plane, or [N, 3] on a sphere: degrees are not equally long everywhere."""
    named = geometries(table.frame)
    if named:
        import shapely  # geopandas has it

        shapes = _shapes(table, named[0])
        points = shapely.get_coordinates(shapely.centroid(np.asarray(shapes)))
        return _on_sphere(points) if getattr(shapes.crs, "is_geographic", False) else points
    lower = {str(name).lower(): name for name in table.frame.columns}
    for across, up in _COORDINATES:
        if across in lower and up in lower:
            names = [lower[across], lower[up]]
            points = table.frame[names].to_numpy(dtype=np.float64)
            for row in np.flatnonzero(~np.isfinite(points).all(1))[:1].tolist():
                raise InputError(f"{table.place(row)}: {' or '.join(map(repr, names))} is missing: where is it?")
            return points if across == "x" else _on_sphere(points)
    raise InputError(
        f"{NEAREST!r} needs geometries, or columns of coordinates called x and y or lon and lat; {table.name} has "
        f"{_known(table)}"
    )


def _known(table: Table) -> str:
    return f"the columns {enumerate_briefly(table.frame.columns)}"


def _on_sphere(degrees: NDArray[np.float64]) -> NDArray[np.float64]:
    longitude, latitude = np.deg2rad(degrees).T
    across = np.cos(latitude)
    return np.column_stack([across * np.cos(longitude), across * np.sin(longitude), np.sin(latitude)])


def _nearest(
    points: NDArray[np.float64], graph: NDArray[np.int64], count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    from scipy.spatial import KDTree

    sources, targets = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for number in np.unique(graph).tolist():
        rows = np.flatnonzero(graph == number)
        most = min(count, len(rows) - 1)
        if not most:
            continue
        _, near = KDTree(points[rows]).query(points[rows], k=most + 1)
        own = near == np.arange(len(rows))[:, None]
        own[~own.any(1), -1] = True  # as many others are at the very same place
        sources.append(rows[near[~own]])
        targets.append(np.repeat(rows, most))
    return np.concatenate(sources), np.concatenate(targets)
