"""Vertices as coloured discs and edges as lines, panel by panel on one scale, as SVG text of a fixed size.

Where vertices stand and what is written on them comes from `molecules` and `graphs`. Elements are made by an XML
library, so text from outside stays text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from gspn.columns import is_number, shorten
from gspn.errors import InputError
from gspn.plots.colours import EDGE, INK, PAPER, QUIET, ink_on
from gspn.plots.scales import Scale, write_number

Points = NDArray[np.float64]

FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
_TITLE, _LEGEND, _MARGIN = 34, 62, 24
_SMALLEST = 60
_LONGEST_EDGE, _LARGEST_DISC, _SMALLEST_DISC = 46.0, 15.0, 2.5
_READABLE = 6.5
"""Radius in pixels from which on a disc carries its text."""
_STEPS = 80
# Everything that XML 1.0 has no way to write.
_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Edge:
    """A line between two vertices: single, double, triple, aromatic, or an arrow to the second one.

    `inside` is a point on the side that a second line belongs to, such as the middle of a ring.
    """

    source: int
    target: int
    kind: str = "single"
    inside: tuple[float, float] | None = None


@dataclass(frozen=True)
class Panel:
    """One drawing: positions [N, 2] (y upwards), what stands on the discs, what they are called, their values [N]."""

    positions: Points
    labels: Sequence[str]
    names: Sequence[str]
    values: NDArray[np.float64]
    edges: Sequence[Edge]
    title: str = ""


def draw(panels: Sequence[Panel], scale: Scale, label: str, size: tuple[int, int]) -> str:
    """The panels side by side, each of the given size in pixels, above the legend of their common scale."""
    width, height = _check_size(size)
    head = _TITLE if any(panel.title for panel in panels) else 0
    whole = (len(panels) * width, head + height + _LEGEND)
    root = ET.Element("svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {whole[0]} {whole[1]}")
    root.attrib |= {"width": str(whole[0]), "height": str(whole[1]), "role": "img", "font-family": FONT}
    _add(root, "title", text=" · ".join(filter(None, [*(panel.title for panel in panels), label])) or "values")
    _add(root, "rect", width=whole[0], height=whole[1], fill=PAPER)
    for number, panel in enumerate(panels):
        group = _add(root, "g", class_="panel", transform=f"translate({number * width} {head})")
        if panel.title:
            group.append(_text(panel.title, width / 2, -12, 15, weight="bold", room=width - 2 * _MARGIN))
        _draw_panel(group, panel, scale, width, height)
    legend = _add(root, "g", class_="legend", transform=f"translate(0 {head + height})")
    gaps = any(np.isnan(panel.values).any() for panel in panels)
    _draw_legend(legend, scale, " · ".join(filter(None, [label, "dashed: no value" if gaps else ""])), whole[0])
    return ET.tostring(root, encoding="unicode")


def _draw_panel(group: ET.Element, panel: Panel, scale: Scale, width: int, height: int) -> None:
    places = _move(panel.positions, panel, width, height)
    radius = _radius(places)
    lines = _add(group, "g", class_="edges", stroke=EDGE, fill="none")
    lines.set("stroke-width", _brief(max(0.8, min(2.0, radius / 6))))
    for edge in panel.edges:
        inside = None if edge.inside is None else _move(np.array(edge.inside), panel, width, height)
        for path, dashed in _strokes(places, edge, radius, inside):
            line = _add(lines, "path", d=path)
            if dashed:
                line.set("stroke-dasharray", f"{radius * 0.25:.2f} {radius * 0.2:.2f}")
    for v, (x, y) in enumerate(places):
        value, colour = float(panel.values[v]), scale.colour(float(panel.values[v]))
        missing = np.isnan(value)
        disc = _add(group, "g", class_="vertex")
        disc.set("data-vertex", str(v))
        _add(disc, "title", text=f"{panel.names[v]}: {'no value' if missing else write_number(value)}")
        circle = _add(disc, "circle", cx=x, cy=y, r=radius, fill=colour, stroke=EDGE)
        circle.set("stroke-width", _brief(min(1.0, radius / 8)))
        if missing:
            circle.set("stroke-dasharray", "2 2")
        if panel.labels[v] and radius >= _READABLE:
            letters = max(1.0, len(panel.labels[v]) / 1.7)
            disc.append(_text(panel.labels[v], x, y, radius * 1.2 / letters**0.6, colour=ink_on(colour), centred=True))


def _draw_legend(group: ET.Element, scale: Scale, label: str, width: int) -> None:
    """A bar of the scale's colours with numbers below and its meaning above."""
    length = min(320.0, width - 4.0 * _MARGIN)
    left, step = (width - length) / 2, length / _STEPS
    if label:
        group.append(_text(label, width / 2, 14, 13, room=width - 2 * _MARGIN))
    bar = _add(group, "g", class_="scale")
    bar.set("shape-rendering", "crispEdges")
    for i in range(_STEPS):
        colour = scale.colour(scale.low + (scale.high - scale.low) * (i + 0.5) / _STEPS)
        # Each reaches under the next, so that no seam shows between them.
        _add(bar, "rect", x=left + i * step, y=22, width=min(2 * step, length - i * step), height=12, fill=colour)
    _add(group, "rect", x=left, y=22, width=length, height=12, fill="none", stroke=EDGE).set("stroke-width", "0.75")
    for value, written in scale.ticks():
        x = left + length * (value - scale.low) / (scale.high - scale.low)
        _add(group, "path", d=f"M{x:.2f} 34v4", stroke=EDGE)
        group.append(_text(written, x, 51, 12, colour=QUIET))


def _move(points: Points, panel: Panel, width: int, height: int) -> Points:
    """Points of the plane in pixels, with the drawing in the middle of its panel."""
    middle = (panel.positions.min(0) + panel.positions.max(0)) / 2
    moved: Points = (points - middle) * [1, -1] * _unit(panel, width, height) + [width / 2, height / 2]
    return moved


def _unit(panel: Panel, width: int, height: int) -> float:
    """Pixels per unit of length: as many as fit, but no edge longer than is pleasant."""
    extent = np.ptp(panel.positions, axis=0)
    room = np.array([width, height]) - 2.0 * _MARGIN
    fitting = (room[extent > 0] / extent[extent > 0]).min(initial=np.inf)
    ends = np.array([(e.source, e.target) for e in panel.edges if e.source != e.target], dtype=np.int64).reshape(-1, 2)
    lengths = np.linalg.norm(np.subtract(*panel.positions[ends.T]), axis=1)
    usual = float(np.median(lengths)) if len(lengths) else float(extent.max()) / 4
    most = _LONGEST_EDGE / usual if usual else np.inf
    return float(min(fitting, most)) if np.isfinite(min(fitting, most)) else 1.0


def _radius(places: Points) -> float:
    """As large as the nearest two vertices permit."""
    if len(places) == 1:
        return _LARGEST_DISC
    nearest = float(np.quantile(cKDTree(places).query(places, k=2)[0][:, 1], 0.05))
    return min(_LARGEST_DISC, max(_SMALLEST_DISC, 0.36 * nearest))


def _strokes(places: Points, edge: Edge, radius: float, inside: Points | None) -> Iterator[tuple[str, bool]]:
    """The lines of an edge as SVG paths, and whether they are dashed."""
    start, end = places[edge.source], places[edge.target]
    along = end - start
    length = float(np.hypot(*along))
    if edge.source == edge.target:
        r = 0.8 * radius
        yield f"M{start[0] - r / 2:.2f} {start[1] - radius:.2f}a{r:.2f} {r:.2f} 0 1 1 {r:.2f} 0", False
        return
    if not length:
        return
    along = along / length
    across = np.array([-along[1], along[0]])
    if edge.kind == "arrow":
        tip = end - along * radius
        back = tip - along * (0.5 * radius + 2)
        wing = across * (0.25 * radius + 1.5)
        yield _path(start, tip), False
        yield f"{_path(back + wing, tip)}L{_pair(back - wing)}", False
        return
    gap = max(2.0, 0.3 * radius)
    if edge.kind in ("double", "aromatic") and inside is not None:
        side = across if np.dot(inside - start, across) > 0 else -across
        yield _path(start, end), False
        yield _path(start + side * gap, end + side * gap), edge.kind == "aromatic"
        return
    offsets = {"double": (-0.5, 0.5), "aromatic": (-0.5, 0.5), "triple": (-1.0, 0.0, 1.0)}.get(edge.kind, (0.0,))
    for i, offset in enumerate(offsets):
        yield _path(start + across * gap * offset, end + across * gap * offset), edge.kind == "aromatic" and i == 1


def _path(start: Points, end: Points) -> str:
    return f"M{_pair(start)}L{_pair(end)}"


def _pair(point: Points) -> str:
    return f"{point[0]:.2f} {point[1]:.2f}"


def _add(parent: ET.Element, tag: str, text: str | None = None, **attributes: Any) -> ET.Element:
    written = {name.rstrip("_"): _brief(value) for name, value in attributes.items()}
    element = ET.SubElement(parent, tag, written)
    element.text = None if text is None else _writable(text)
    return element


def _text(
    text: str,
    x: float,
    y: float,
    size: float,
    *,
    colour: str = INK,
    weight: str = "normal",
    centred: bool = False,
    room: float | None = None,
) -> ET.Element:
    """Text around x; a line that would not fit into the room is set narrower."""
    element = ET.Element("text", x=_brief(x), y=_brief(y), fill=colour)
    element.attrib |= {"text-anchor": "middle", "font-size": _brief(size)}
    if weight != "normal":
        element.set("font-weight", weight)
    if centred:
        element.set("dy", "0.35em")
    if room is not None and len(text) * size * 0.6 > room:
        element.attrib |= {"textLength": _brief(room), "lengthAdjust": "spacingAndGlyphs"}
    element.text = _writable(text)
    return element


def _writable(text: str) -> str:
    return _UNWRITABLE.sub("\ufffd", text)


def _brief(value: Any) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _check_size(size: tuple[int, int]) -> tuple[int, int]:
    plain = isinstance(size, tuple | list) and len(size) == 2 and all(is_number(side) for side in size)
    if not plain or not all(_SMALLEST <= side <= 10_000 for side in size):
        raise InputError(f"size must be (width, height) in pixels, each {_SMALLEST} … 10,000; got {shorten(size)}")
    return int(size[0]), int(size[1])
