"""The what-if page: a small server on this machine, and the page that it shows.

`serve` is the way in. The app is in `app`, what may ask and how much in `guard` and `limits`, graphs in `subjects` and
`shelf`, the numbers in `answers`; the page itself, plain HTML, CSS and ES modules, in `static`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gspn.web.serving import serve

__all__ = ["serve"]


def __getattr__(name: str) -> object:
    if name == "serve":  # imported on use: the page needs an extra
        from gspn.web.serving import serve

        return serve
    raise AttributeError(f"module 'gspn.web' has no attribute '{name}'")
