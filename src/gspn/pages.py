"""Pages that need nothing else: HTML from a template, and pictures that stand in it as SVG. Looks are in the rooms."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from gspn.columns import shorten
from gspn.errors import InputError


def render(template: Path, **values: Any) -> str:
    """The template with these values, all text of them escaped; templates beside it can be included."""
    environment = Environment(
        loader=FileSystemLoader(template.parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template.name).render(values)


def inline_svg(svg: str, prefix: str, title: str) -> Markup:
    """SVG as a part of a page: well formed, announced by its title, and with names that no other picture has.

    What else it may contain does not matter: the page forbids scripts and everything from elsewhere.
    """
    try:
        root = ET.fromstring(svg)
    except ET.ParseError as error:
        raise InputError(f"the picture {shorten(title)} is no well-formed SVG: {error}") from None
    if root.tag != "{http://www.w3.org/2000/svg}svg":
        raise InputError(f"the picture {shorten(title)} is no SVG but begins with <{root.tag}>")
    text = svg[svg.index("<svg") :]
    names = "|".join(re.escape(element.attrib["id"]) for element in root.iter() if "id" in element.attrib)
    if names:
        text = re.sub(rf'(\bid="|url\(#|href="#)({names})(?=["\)])', rf"\g<1>{prefix}\g<2>", text)
    return Markup(text)
