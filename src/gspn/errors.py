"""The one exception family of the library.

Everything that `gspn` raises on purpose is a `GSPNError`. The subclasses exist only where a caller would want to react
differently, and each also is the builtin exception that people already catch for that situation.
"""

from __future__ import annotations

import zlib

DAMAGE = (OSError, EOFError, zlib.error)
"""What reading a file raises that is absent, cut short or damaged, gzipped or plain; it becomes an InputError."""


class GSPNError(Exception):
    """Something is wrong with what the library was given or asked; the message says what, where and what to do."""


class InputError(GSPNError, ValueError):
    """A value, graph, schema, setting or file that cannot be used as given.

    Where one value of an attribute is to blame, `attribute` and `row` say which; the text then begins with them, and
    `reason` is the rest of it.
    """

    def __init__(self, reason: object = "", *, attribute: str | None = None, row: int | None = None) -> None:
        self.reason, self.attribute, self.row = str(reason), attribute, row
        place = "" if attribute is None else f"attribute {attribute!r}{'' if row is None else f', row {row}'}: "
        super().__init__(f"{place}{reason}")


class CircuitError(InputError):
    """A template that is no valid circuit: the message names the unit and the reason."""


class NotFittedError(GSPNError, ValueError, AttributeError):
    """A question to a model that has no learned or given parameters yet (with the bases of scikit-learn's own)."""


class CheckpointError(InputError):
    """A checkpoint or saved model that is damaged, foreign, or belongs to another run."""


class MissingExtraError(GSPNError, ImportError):
    """An optional dependency is not installed; the message names the extra that brings it."""
