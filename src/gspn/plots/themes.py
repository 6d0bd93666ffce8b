"""Charts that follow a page's colours, light or dark: their ink, paper and palette become variables of CSS.

The variables, with both sets of values, are `CSS`; a page that shows themed charts has it among its styles.
"""

from __future__ import annotations

import re

from gspn.plots.colours import EDGE, GRID, IN_THE_DARK, INK, PALETTE, PAPER, QUIET

_NAMES = {INK: "ink", QUIET: "quiet", GRID: "grid", EDGE: "edge", PAPER: "paper"}
_NAMES |= {colour: f"colour-{number}" for number, colour in enumerate(PALETTE) if colour not in _NAMES}


def _declared(colours: dict[str, str]) -> str:
    return " ".join(f"--plot-{_NAMES[light]}: {shown};" for light, shown in colours.items())


CSS = (
    f":root {{ color-scheme: light dark; {_declared({light: light for light in IN_THE_DARK})} }}\n"
    f"@media (prefers-color-scheme: dark) {{ :root {{ {_declared(IN_THE_DARK)} }} }}\n"
)
"""Style rules for the page"""


def themed(svg: str) -> str:
    """The chart with variables in its styles; a program that does not know them uses the light colours."""
    pattern = "|".join(map(re.escape, IN_THE_DARK))
    return re.sub(
        rf"(?<=[:\s])({pattern})(?=[;\"'\s])", lambda found: f"var(--plot-{_NAMES[found[1]]}, {found[1]})", svg
    )


def variable(colour: str) -> str:
    """A colour as the page's own styles name it."""
    return f"var(--plot-{_NAMES[colour]})"
