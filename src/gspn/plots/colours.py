"""The colours of all figures, in one place: ink, a palette for things, two scales for numbers.

All can be told apart without red and green, and on paper. Nothing here draws; how numbers are put on a scale is in
`scales`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from gspn.errors import InputError

INK = "#1f2328"
QUIET = "#5b6470"
"""What is said beside the matter: ticks, tooltips, reference lines; still 5 : 1 against paper."""
GRID = "#e3e6ea"
EDGE = "#6b7480"
PAPER = "#ffffff"
BLANK = "#ffffff"
"""A missing value: no colour, for it is none of the scale's numbers."""

PALETTE = ("#0b6bb5", "#d4570a", "#0f8a63", "#a8528f", "#7a5c00", "#3c9fd4", "#5b6470")
"""Things that are compared, in this order: blue, vermilion, green, purple, olive, sky, grey."""

IN_THE_DARK = {
    INK: "#e6e9ee", QUIET: "#a3adb9", GRID: "#333a43", EDGE: "#8b95a1", PAPER: "#191d23",
    "#0b6bb5": "#5aa9ec", "#d4570a": "#f08a48", "#0f8a63": "#41bf93", "#a8528f": "#d58cc0", "#7a5c00": "#cfae4f",
    "#3c9fd4": "#8fd0f2",
}  # fmt: skip
"""What ink, paper and the palette become on a dark page. The scales for numbers stay: they bring their own ground."""

# Low, neutral, high; both arms lose lightness alike, so that equal strength looks equally strong.
DIVERGING = (
    "#0c3f77", "#2a6fb0", "#6aa3d5", "#b3d0ea", "#f3f3f1", "#f7cfa0", "#e99f4d", "#c26a14", "#7f3b04",
)  # fmt: skip
SEQUENTIAL = ("#f6f7f4", "#cfe3ea", "#93c3dc", "#4d9bcb", "#1f6cab", "#0c3f77")


def blend(stops: Sequence[str], place: float) -> str:
    """The colour at a place between 0 and 1 along evenly spaced stops."""
    at = min(max(place, 0.0), 1.0) * (len(stops) - 1)
    left = min(int(at), len(stops) - 2)
    pairs = zip(_channels(stops[left]), _channels(stops[left + 1]), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * (at - left)):02x}" for a, b in pairs)


def ink_on(colour: str) -> str:
    """Dark or light text, whichever is easier to read on the colour."""
    return max((INK, PAPER), key=lambda ink: contrast(ink, colour))


def contrast(one: str, other: str) -> float:
    """Ratio of the luminances of two colours as WCAG has it: 1 … 21."""
    dark, light = sorted(_luminance(colour) + 0.05 for colour in (one, other))
    return light / dark


def tell_apart(number: int) -> tuple[str, str, str]:
    """Colour, marker and dashes of the number-th thing; they repeat together only after many."""
    style = bisect_right((len(PALETTE), 2 * len(PALETTE)), number)
    return PALETTE[number % len(PALETTE)], "osD^vPX"[number % 7], ("-", "--", ":")[style]


def colour_map(stops: Sequence[str]) -> Any:
    """The stops as a colour map of matplotlib."""
    from gspn.plots.canvas import import_matplotlib

    import_matplotlib()
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("gspn", list(stops))


def _channels(colour: str) -> tuple[int, int, int]:
    try:
        red, green, blue = bytes.fromhex(colour.removeprefix("#"))
    except ValueError:
        raise InputError(f"a colour is written #rrggbb, got {colour!r}") from None
    return red, green, blue


def _luminance(colour: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in _channels(colour))]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
