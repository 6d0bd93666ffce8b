"""A hook of MkDocs: equations become MathML while the site is built, so that pages need no scripts for them."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

_EQUATION = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\(?P<open>[(\[])(?P<tex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL
)


def on_page_content(content: str, **_: Any) -> str:
    """The page with every equation that arithmatex has marked as MathML."""
    return _EQUATION.sub(_mathml, content)


def _mathml(found: re.Match[str]) -> str:
    block = found["open"] == "["
    made = convert(html.unescape(found["tex"]).strip(), display="block" if block else "inline")
    return f'<div class="equation">{made}</div>' if block else made
