"""Reading drawings back: where vertices stand, their colours, texts and what the legend says."""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree import ElementTree as ET

SVG = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True)
class Vertex:
    place: tuple[float, float]
    colour: str
    text: str
    name: str
    dashed: bool


def panels(svg: str) -> list[list[Vertex]]:
    """The vertices of every panel, places relative to it."""
    root = ET.fromstring(svg)
    return [[_vertex(g) for g in _of_class(panel, "vertex")] for panel in _of_class(root, "panel")]


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter(f"{SVG}text")]


def tags(svg: str) -> set[str]:
    return {element.tag.removeprefix(SVG) for element in ET.fromstring(svg).iter()}


def size(svg: str) -> tuple[int, int]:
    root = ET.fromstring(svg)
    return int(root.attrib["width"]), int(root.attrib["height"])


def edges(svg: str) -> list[list[str]]:
    root = ET.fromstring(svg)
    groups = [_of_class(panel, "edges")[0] for panel in _of_class(root, "panel")]
    return [[path.attrib["d"] for path in group.iter(f"{SVG}path")] for group in groups]


def legend(svg: str) -> list[str]:
    (group,) = _of_class(ET.fromstring(svg), "legend")
    return [element.text or "" for element in group.iter(f"{SVG}text")]


def _of_class(element: ET.Element, name: str) -> list[ET.Element]:
    return [found for found in element.iter() if found.attrib.get("class") == name]


def _vertex(group: ET.Element) -> Vertex:
    circle, text, title = (group.find(f"{SVG}{tag}") for tag in ("circle", "text", "title"))
    assert circle is not None
    assert title is not None
    place = (float(circle.attrib["cx"]), float(circle.attrib["cy"]))
    written = "" if text is None else text.text or ""
    return Vertex(place, circle.attrib["fill"], written, title.text or "", "stroke-dasharray" in circle.attrib)
