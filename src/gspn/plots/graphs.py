"""Graphs with a number at every vertex, several versions of one graph on one scale with vertices in the same places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch_geometric.data import Data

from gspn.errors import InputError, from_extra
from gspn.plots.drawings import Edge, Panel, Points, draw
from gspn.plots.inputs import check_length, read_numbers
from gspn.plots.scales import scale_for

MOST_VERTICES, MOST_EDGES = 500, 5_000
SIZE = (420, 340)
_EXACTLY_LAID_OUT = 100
"""Vertices of a part up to which distances between all pairs are honoured; larger ones are laid out by springs."""


def draw_graph(
    graph: Data,
    values: Any,
    *,
    label: str = "",
    title: str = "",
    labels: Sequence[Any] | None = None,
    positions: Any = None,
    centre: float | None = 0.0,
    limit: float | None = None,
    size: tuple[int, int] = SIZE,
) -> str:
    """One graph with a value per vertex, as SVG text; everything is as for `draw_graphs`."""
    return draw_graphs(
        [graph],
        [values],
        label=label,
        titles=[title],
        labels=labels,
        positions=positions,
        centre=centre,
        limit=limit,
        size=size,
    )


def draw_graphs(
    graphs: Sequence[Data],
    values: Sequence[Any],
    *,
    label: str = "",
    titles: Sequence[str] | None = None,
    labels: Sequence[Any] | None = None,
    positions: Any = None,
    centre: float | None = 0.0,
    limit: float | None = None,
    size: tuple[int, int] = SIZE,
) -> str:
    """Graphs over the same vertices side by side on one scale, as SVG text; edges may differ.

    An edge whose opposite is there, too, is a line, any other one an arrow; parallel edges are drawn once.

    values: one number per vertex for each graph; NaN is drawn without colour.
    label: what the numbers are, with their unit; it stands in the legend.
    labels: what is written on the vertices, if there is room.
    positions: [N, 2] where the vertices stand, y upwards; by default `vertex_positions` of the first graph.
    centre, limit: the neutral number, and how far from it the colours reach (by default as far as the values do).
        A centre of None takes a scale from the least to the greatest value.
    size: of one drawing, in pixels; the legend comes below.
    """
    if not len(graphs):
        raise InputError("there are no graphs to draw")
    titles = [""] * len(graphs) if titles is None else titles
    for name, several in (("values", values), ("titles", titles)):
        if len(several) != len(graphs):
            raise InputError(f"there are {len(graphs)} graphs, but {len(several)} {name}")
    for graph in graphs:
        _check(graph)
    count = int(graphs[0].num_nodes or 0)
    for i, graph in enumerate(graphs):
        if graph.num_nodes != count:
            raise InputError(f"graph {i} has {graph.num_nodes} vertices and the first one {count}: draw them apart")
    if positions is None:
        places = vertex_positions(graphs[0])
    else:
        places = read_numbers(positions, "positions", ndim=2)
        if places.shape != (count, 2):
            raise InputError(f"positions must be [{count}, 2], got {list(places.shape)}")
    written = [""] * count if labels is None else [str(each) for each in labels]
    if len(written) != count:
        raise InputError(f"there are {len(written)} labels for {count} vertices")
    numbers = [read_numbers(each, f"values[{i}]", gaps=True) for i, each in enumerate(values)]
    for i, each in enumerate(numbers):
        check_length(each, count, f"values[{i}]", "vertices")
    names = [f"vertex {v}" + (f" ({text})" if text else "") for v, text in enumerate(written)]
    panels = [
        Panel(places, written, names, number, _edges(graph), str(title))
        for graph, number, title in zip(graphs, numbers, titles, strict=True)
    ]
    return draw(panels, scale_for(numbers, centre, limit), label, size)


def vertex_positions(graph: Data) -> Points:
    """[N, 2] a layout of the graph, the same every time: neighbours near each other, parts side by side."""
    _check(graph)
    with from_extra("plots", "graphs are laid out with networkx"):
        import networkx
    whole = networkx.Graph()
    whole.add_nodes_from(range(graph.num_nodes))
    whole.add_edges_from((u, v) for u, v in graph.edge_index.T.tolist() if u != v)
    parts = sorted((sorted(part) for part in networkx.connected_components(whole)), key=lambda part: (-len(part), part))
    positions = np.zeros((graph.num_nodes, 2))
    for part, corner, laid in zip(
        parts, *_shelves([_laid_out(networkx, whole.subgraph(p), p) for p in parts]), strict=True
    ):
        positions[part] = laid + corner
    return positions


def _laid_out(networkx: Any, part: Any, order: list[int]) -> Points:
    """A connected part with its lower left corner in the origin and edges of about unit length."""
    if len(order) == 1:
        return np.zeros((1, 2))
    # A graph of its own, in order: the layout would else depend on how vertices happened to be stored.
    ordered = networkx.Graph()
    ordered.add_nodes_from(order)
    ordered.add_edges_from(sorted(tuple(sorted(edge)) for edge in part.edges))
    if len(order) <= _EXACTLY_LAID_OUT:
        placed = networkx.kamada_kawai_layout(ordered)
    else:
        placed = networkx.spring_layout(ordered, seed=0, iterations=200)
    points = np.array([placed[v] for v in order])
    lengths = [np.linalg.norm(np.subtract(placed[u], placed[v])) for u, v in ordered.edges]
    points = points / (np.median(lengths) or 1.0)
    laid: Points = points - points.min(0)
    return laid


def _shelves(parts: list[Points]) -> tuple[list[Points], list[Points]]:
    """Corners that put the parts, largest first, in rows of about the width of the whole; and the parts themselves."""
    sizes = [part.max(0) + 1.0 for part in parts]
    width = max(max(size[0] for size in sizes), 1.3 * float(np.sqrt(sum(np.prod(size) for size in sizes))))
    corners, x, y, tallest = [], 0.0, 0.0, 0.0
    for size in sizes:
        if x and x + size[0] > width * 1.001:
            x, y, tallest = 0.0, y + tallest, 0.0
        corners.append(np.array([x, -y - size[1]]))
        x, tallest = x + size[0], max(tallest, size[1])
    return corners, parts


def _edges(graph: Data) -> list[Edge]:
    pairs = dict.fromkeys(map(tuple, graph.edge_index.T.tolist()))
    return [Edge(u, v, "single" if (v, u) in pairs else "arrow") for u, v in pairs if not ((v, u) in pairs and v < u)]


def _check(graph: Any) -> None:
    if not isinstance(graph, Data):
        raise InputError(f"a graph is a torch_geometric Data, got {type(graph).__name__}")
    vertices, edges = int(graph.num_nodes or 0), int(graph.num_edges)
    if not vertices:
        raise InputError("a graph without vertices cannot be drawn")
    if vertices > MOST_VERTICES or edges > MOST_EDGES:
        raise InputError(
            f"a drawing of {vertices:,} vertices and {edges:,} edges cannot be read: at most {MOST_VERTICES:,} and "
            f"{MOST_EDGES:,} are drawn; take a part of the graph (torch_geometric.utils.k_hop_subgraph)"
        )
    ends = graph.edge_index
    if edges and (int(ends.min()) < 0 or int(ends.max()) >= vertices):
        raise InputError(f"edge_index goes to vertex {int(ends.max())}, but there are {vertices} vertices")
