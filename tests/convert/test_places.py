"""Neighbours in space, and that edges of every kind give the same model."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.neighbors import kneighbors_graph

import gspn
from gspn.errors import InputError

geopandas = pytest.importorskip("geopandas")
shapely = pytest.importorskip("shapely")

COUNT = 12
RING = [(v, (v + 1) % COUNT) for v in range(COUNT)]


def around(step: int, of: int, radius: float) -> tuple[float, float]:
    """A point on a circle; the last step is exactly the first."""
    angle = 2 * np.pi * (step % of) / of
    return radius * np.cos(angle), radius * np.sin(angle)


def sector(number: int) -> Any:
    """A piece of a ring; each touches the one before and the one after."""
    steps = range(4 * number, 4 * number + 5)
    outer = [around(step, 4 * COUNT, 2.0) for step in steps]
    return shapely.Polygon(outer + [around(step, 4 * COUNT, 1.0) for step in reversed(steps)])


def draw_places(**columns: Any) -> Any:
    rng = np.random.default_rng(3)
    frame = {"id": [f"p{v}" for v in range(COUNT)], "a": rng.normal(size=COUNT), "b": list("xy") * (COUNT // 2)}
    places = geopandas.GeoDataFrame(frame | columns, geometry=[sector(v) for v in range(COUNT)])
    places.loc[[1, 6], "a"] = np.nan
    places.loc[[4], "b"] = None
    return places


def edges_of(dataset: gspn.GraphDataset) -> set[tuple[int, int]]:
    return set(zip(*dataset[0].edge_index.tolist(), strict=True))


def matrix() -> Any:
    found = np.zeros((COUNT, COUNT))
    found[tuple(np.array(RING).T)] = 1.0
    return csr_array(found + found.T)


def every_kind(places: Any, folder: Path) -> dict[str, Any]:
    """The ring in every form of edges, whole or from one end, in several orders."""
    ids = places["id"].tolist()
    named = [(ids[u], ids[v]) for u, v in RING]
    table = pd.DataFrame(named, columns=["source", "target"])
    table.iloc[::-1].to_csv(folder / "edges.csv", index=False)
    points = np.array([around(2 * v + 1, 2 * COUNT, 1.5) for v in range(COUNT)])
    index = np.array(RING).T
    weights = pytest.importorskip("libpysal").weights
    return {
        "a table": table,
        "a table from the other end": table.rename(columns={"source": "target", "target": "source"}).sample(
            frac=1, random_state=0
        ),
        "a file": folder / "edges.csv",
        "pairs": named[5:] + named[:5],
        "edge_index": torch.tensor(np.concatenate([index, index[::-1]], axis=1)),
        "an array, one way": index[:, ::-1],
        "a matrix": matrix(),
        "a weighted matrix": matrix() * np.random.default_rng(0).random((COUNT, COUNT)),
        "NetworkX": nx.cycle_graph(ids),
        "kneighbors_graph": kneighbors_graph(points, 2),
        "kneighbors_graph, distances": kneighbors_graph(points, 2, mode="distance"),
        "AnnData": SimpleNamespace(obsp={"connectivities": matrix(), "distances": 2 * matrix()}),
        "obsp": matrix().tocoo(),
        "libpysal, contiguity": weights.Queen.from_dataframe(places, ids=ids),
        "libpysal, nearest": weights.KNN.from_dataframe(places, k=2, ids=ids),
        "contiguity": "contiguity",
        "nearest": "nearest:2",
    }


def test_edges_of_every_kind_give_the_same_model(tmp_path: Path) -> None:
    """To the last digit: parameters, and what is filled in."""
    places = draw_places()
    found = {}
    for kind, edges in every_kind(places, tmp_path).items():
        imputer = gspn.TableImputer(num_layers=2, num_states=2, epochs=1)
        filled, spread = imputer.fit_transform(places, edges=edges, return_spread=True, progress=False)
        model: Any = imputer.model_
        found[kind] = filled, spread, model.network.state_dict()
    first, *others = found
    for kind in others:
        for one, other in zip(found[first][:2], found[kind][:2], strict=True):
            pd.testing.assert_frame_equal(pd.DataFrame(one), pd.DataFrame(other), check_exact=True, obj=kind)
        for name, tensor in found[first][2].items():
            assert torch.equal(tensor, found[kind][2][name]), (kind, name)
    alone = gspn.TableImputer(num_layers=2, num_states=2, epochs=1).fit_transform(places, progress=False)
    assert not alone.equals(found[first][0])


def test_completed_places_are_places() -> None:
    places = draw_places()
    filled = gspn.TableImputer(num_layers=2, num_states=2, epochs=1).fit_transform(
        places, edges="contiguity", progress=False
    )
    assert isinstance(filled, geopandas.GeoDataFrame)
    assert filled.geometry.equals(places.geometry)
    assert filled[["a", "b"]].notna().all(axis=None)


def test_geometries_are_no_attributes() -> None:
    places = draw_places().rename_geometry("where")
    places["centre"] = places.centroid
    assert gspn.from_tables(places, "contiguity").schema.names == ("a", "b")


def test_neighbours_are_those_of_one_graph() -> None:
    places = draw_places(district=["s"] * 6 + ["t"] * 6)
    for edges in ("contiguity", "nearest:1"):
        found = gspn.from_tables(places, edges, graph="district")
        assert found.num_edges_per_graph().tolist()[0] >= 6
        assert len(found) == 2
    assert not len(gspn.from_tables(draw_places(g=range(COUNT)), "nearest", graph="g").source)


def test_nearest_by_columns_on_a_sphere_and_with_equal_places() -> None:
    # 0 and 1 are 2 degrees apart across the date line; 2 lies north of 1, 1.5 degrees of latitude away.
    cities = pd.DataFrame({"Lon": [179.0, -179.0, -179.0], "Lat": [0.0, 0.0, 1.5], "a": [0.5, 1.5, 2.5]})
    assert edges_of(gspn.from_tables(cities, "nearest:1", directed=True)) == {(1, 0), (2, 1), (1, 2)}
    same = pd.DataFrame({"x": [0.0] * 4, "y": [0.0] * 4, "a": [0.5, 1.5, 2.5, 3.0]})
    found = edges_of(gspn.from_tables(same, "nearest:2", directed=True))
    assert len(found) == 8
    assert all(source != target for source, target in found)


def test_it_is_said_that_directions_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    line = pd.DataFrame({"x": [0.0, 1.0, 2.5], "y": [0.0] * 3, "a": [0.5, 1.5, 2.5]})
    with caplog.at_level(logging.INFO, logger="gspn"):
        gspn.from_tables(line, "nearest:1")
    assert "1 of 2 edges are named from one end only, and apply both ways" in caplog.text


def nowhere() -> Any:
    places = draw_places()
    places.loc[3, "geometry"] = None
    return places


@pytest.mark.parametrize(
    ("nodes", "edges", "reason"),
    [
        (lambda: draw_places().drop(columns="geometry"), "contiguity", "needs geometries, and nodes has none"),
        (lambda: draw_places().drop(columns="geometry"), "nearest", "columns of coordinates called x and y or lon"),
        (lambda: draw_places().set_geometry(draw_places().centroid), "contiguity", "holds points, .* use 'nearest'"),
        (nowhere, "nearest", r"nodes, row 3: the geometry \(column 'geometry'\) is missing"),
        (lambda: pd.DataFrame({"x": [0.0, np.nan], "y": 1.0, "a": 1.5}), "nearest", "row 1: 'x' or 'y' is missing"),
        (draw_places, SimpleNamespace(obsp={"u": matrix(), "v": matrix()}), "obsp holds the matrices u, v"),
    ],
)
def test_refusals(nodes: Any, edges: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        gspn.from_tables(nodes(), edges)


def test_commands_read_files_of_places(tmp_path: Path) -> None:
    from gspn.cli.outputs import write_table
    from gspn.convert.files import read_table

    places = draw_places().set_crs("EPSG:25832")
    places.to_file(tmp_path / "places.gpkg")
    read = read_table(tmp_path / "places.gpkg", "nodes", ["id"])
    # As typer passes it on.
    found = gspn.from_tables(read.frame, Path("contiguity"))
    assert edges_of(found) == {*RING, *((v, u) for u, v in RING)}
    for name in ("done.csv", "done.parquet", "done.json"):
        write_table(places, tmp_path / name)
    again = pd.read_csv(tmp_path / "done.csv")
    assert again["geometry"].tolist() == pd.read_parquet(tmp_path / "done.parquet")["geometry"].tolist()
    shapes = shapely.from_wkt(again["geometry"].to_numpy(dtype=object))
    assert shapely.equals_exact(shapes, np.asarray(places.geometry), tolerance=1e-12).all()
    (tmp_path / "broken.gpkg").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"broken\.gpkg cannot be read"):
        read_table(tmp_path / "broken.gpkg", "nodes", [])
