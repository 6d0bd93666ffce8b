"""The one exception family of the library.

Everything that `gspn` raises on purpose is a `GSPNError`. The subclasses exist only where a caller would want to react
differently, and each also is the builtin exception that people already catch for that situation.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

DAMAGE = (OSError, EOFError, zlib.error)
"""What reading a file raises that is absent, cut short or damaged, gzipped or plain; it becomes an InputError."""


@dataclass(frozen=True)
class Advice:
    """An argument that mends what is wrong. The command line, which has other names for them, words it in its own."""

    argument: str
    purpose: str = "with the right name"
    value: Any = ...
    """`...` where only the caller knows it"""
    doubtful: bool = False
    """whether something else is more likely to be right, so that nobody should follow it without a thought"""

    def __str__(self) -> str:
        return f"{self.argument}={'' if self.value is ... else repr(self.value)} {self.purpose}"


class GSPNError(Exception):
    """Something is wrong with what the library was given or asked; the message says what, where and what to do."""


class InputError(GSPNError, ValueError):
    """A value, graph, schema, setting or file that cannot be used as given.

    Where an attribute, or one value of it, is to blame, `attribute` and `row` say which. The message is the place, the
    `reason` and the `advice`; `told` is the message without the advice. Of several problems that are told at once,
    `parts` has each.
    """

    parts: tuple[InputError, ...] = ()

    def __init__(
        self,
        reason: object = "",
        *,
        attribute: str | None = None,
        row: int | None = None,
        advice: Sequence[Advice] = (),
    ) -> None:
        self.reason, self.attribute, self.row, self.advice = str(reason), attribute, row, tuple(advice)
        place = "" if attribute is None else f"attribute {attribute!r}{'' if row is None else f', row {row}'}: "
        self.told = f"{place}{reason}"
        super().__init__(f"{self.told}; pass {', or '.join(map(str, self.advice))}" if self.advice else self.told)


class Problems:
    """What is wrong with an input, all of it: steps that fail are noted and passed over, and told together."""

    def __init__(self) -> None:
        self.found: list[InputError] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        """A step that may fail without keeping later ones from being tried."""
        try:
            yield
        except InputError as error:
            self.found += error.parts or (error,)

    def tell(self) -> None:
        """Raise what was found, if anything was."""
        if self.found:
            raise together(self.found)


def together(errors: Sequence[InputError]) -> InputError:
    """Several problems as one error; a single one stays as it is."""
    if len(errors) == 1:
        return errors[0]
    joint = InputError("\n- ".join([f"{len(errors)} problems:", *map(str, errors)]))
    joint.parts = tuple(errors)
    return joint


class CircuitError(InputError):
    """A template that is no valid circuit: the message names the unit and the reason."""


class NotFittedError(GSPNError, ValueError, AttributeError):
    """A question to a model that has no learned or given parameters yet (with the bases of scikit-learn's own)."""


class CheckpointError(InputError):
    """A checkpoint or saved model that is damaged, foreign, or belongs to another run."""


class MissingExtraError(GSPNError, ImportError):
    """An optional dependency is not installed; the message names the extra that brings it."""


@contextmanager
def from_extra(extra: str, purpose: str) -> Iterator[None]:
    """Around imports of what an extra brings: where it is missing, the error says what for, and names the extra."""
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(f"{purpose}, which is not installed: pip install 'gspn[{extra}]'") from error
