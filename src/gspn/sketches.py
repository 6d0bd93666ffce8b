"""Small static pictures of answers, as HTML for notebooks: shares, changes, curves. Plain SVG, so nothing is imported.

Charts for papers and pages are in `plots`; what the numbers mean is said by whoever shows them. Text has the colour of
the page around it, dark or light, and marks can be told from both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from gspn.columns import shorten

MARK, OTHER = "#2f7fc1", "#d9731f"
_ROW, _LABELS, _BARS = 18, 130, 220
_CURVE = (260, 64)


def shown(title: str, *parts: str, note: str = "") -> str:
    """Pictures below a title, beside each other as far as there is room."""
    inside = "".join(f"<div>{part}</div>" for part in parts)
    small = f"<div style='opacity:.75;font-size:12px'>{escape(note)}</div>" if note else ""
    return (
        "<div style='font-family:system-ui,sans-serif;font-size:13px'>"
        f"<div style='font-weight:600'>{escape(title)}</div>"
        f"<div style='display:flex;flex-wrap:wrap;gap:16px;align-items:flex-start'>{inside}</div>{small}</div>"
    )


def listed(rows: Iterable[tuple[str, object]]) -> str:
    """Names and values below each other."""
    cells = "".join(
        f"<tr><td style='text-align:left;opacity:.75;padding-right:10px'>{escape(name)}</td>"
        f"<td style='text-align:left'>{escape(str(value))}</td></tr>"
        for name, value in rows
    )
    return f"<table style='font-size:12px;border-collapse:collapse'>{cells}</table>"


def shares(labels: Sequence[object], values: Sequence[float], title: str = "") -> str:
    """A bar for each share of 1, with its number."""
    rows = [
        _label(label, place)
        + _bar(_LABELS, place, _BARS * value, MARK)
        + _number(_LABELS + _BARS * value, place, f"{value:.1%}")
        for place, (label, value) in enumerate(zip(labels, values, strict=True))
    ]
    return _headed(title, _svg(_LABELS + _BARS + 60, _ROW * len(rows) + 4, rows, title or "shares"))


def changes(labels: Sequence[object], values: Sequence[float], title: str = "") -> str:
    """A bar to the left or to the right for each change, with its number."""
    most = max((abs(value) for value in values if math.isfinite(value)), default=0.0) or 1.0
    middle, rows = _LABELS + _BARS / 2, list[str]()
    for place, (label, value) in enumerate(zip(labels, values, strict=True)):
        length = _BARS / 2 * min(max(value / most, -1.0), 1.0) if not math.isnan(value) else 0.0
        rows.append(
            _label(label, place) + _bar(middle + min(length, 0.0), place, abs(length), OTHER if length > 0 else MARK)
        )
        rows.append(_number(_LABELS + _BARS, place, f"{value:+.3g}".replace("-", "−")))
    rows.append(f"<path d='M{middle:g} 0V{_ROW * len(labels)}' stroke='currentColor' stroke-width='.6'/>")
    return _headed(title, _svg(_LABELS + _BARS + 60, _ROW * len(labels) + 4, rows, title or "changes"))


def curve(
    x: Sequence[float], y: Sequence[float], title: str = "", band: tuple[float, float] | None = None, dots: bool = False
) -> str:
    """A line over x, with a band between two places of x; the ends of x are written below."""
    points = [(a, b) for a, b in zip(x, y, strict=True) if math.isfinite(a) and math.isfinite(b)]
    if not points:
        return _headed(title, "")
    width, height = _CURVE
    left, right = min(a for a, _ in points), max(a for a, _ in points)
    low, high = min(b for _, b in points), max(b for _, b in points)

    def across(value: float) -> float:
        return 4 + (width - 8) * (value - left) / ((right - left) or 1.0)

    def up(value: float) -> float:
        return height - 4 - (height - 8) * (value - low) / ((high - low) or 1.0)

    parts = []
    if band is not None:
        start, end = (min(max(across(value), 4.0), width - 4.0) for value in band)
        parts.append(
            f"<rect x='{start:.1f}' y='2' width='{end - start:.1f}' height='{height - 4}' fill='{MARK}' opacity='.18'/>"
        )
    path = " ".join(f"{across(a):.1f},{up(b):.1f}" for a, b in points)
    parts.append(f"<polyline points='{path}' fill='none' stroke='{MARK}' stroke-width='1.6'/>")
    if dots:
        parts += [f"<circle cx='{across(a):.1f}' cy='{up(b):.1f}' r='2' fill='{MARK}'/>" for a, b in points]
    for place, anchor, value in ((4, "start", left), (width - 4, "end", right)):
        parts.append(_text(place, height + 12, f"{value:.4g}", anchor))
    return _headed(title, _svg(width, height + 18, parts, title or "curve"))


def _headed(title: str, picture: str) -> str:
    return f"<div style='font-size:12px'>{escape(title)}</div>{picture}" if title else picture


def _svg(width: float, height: float, parts: Iterable[str], title: str) -> str:
    inside = "".join(parts)
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width:g}' height='{height:g}' "
        f"viewBox='0 0 {width:g} {height:g}' role='img' style='max-width:100%' font-size='12' "
        "font-family='system-ui,sans-serif'>"
        f"<title>{escape(title)}</title>{inside}</svg>"
    )


def _label(label: object, place: int) -> str:
    return _text(
        _LABELS - 6, _ROW * place + 14, shorten(label, 20) if not isinstance(label, str) else label[:20], "end"
    )


def _number(x: float, place: int, words: str) -> str:
    return _text(x + 5, _ROW * place + 14, words, "start")


def _bar(x: float, place: int, width: float, colour: str) -> str:
    return (
        f"<rect x='{x:.1f}' y='{_ROW * place + 4}' width='{max(width, 0.5):.1f}' height='{_ROW - 6}' fill='{colour}'/>"
    )


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' fill='currentColor'>{escape(words)}</text>"
