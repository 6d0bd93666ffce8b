"""Judges: what `fit` may be given as `validation` in place of graphs, and how such a judge is asked.

A judge looks at the model after every epoch and says how good it is; the best epoch is kept, and training ends when
there is none for `patience` epochs. What is worth judging by, and when, is not decided here.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any, Protocol, runtime_checkable

from torch_geometric.data import Data

from gspn.columns import shorten
from gspn.errors import InputError
from gspn.training import Validate

_GIVEN = ("validation", "score")


@runtime_checkable
class Judge(Protocol):
    """Evaluates the model after every epoch of a training."""

    def __call__(self, model: Any, /) -> Mapping[str, float]:
        """A loss as "validation" and, if `monitor="score"` is to choose by it, a "score" (higher is better).

        The model has the weights of the epoch and can be asked anything; it must be left as it is.
        """

    def digest(self) -> str:
        """A fingerprint of what it judges by: a checkpoint is continued only under the same judge."""


def as_judge(validation: Any) -> Judge | None:
    """What judges by itself; None for graphs to judge by. PyG's Data happen to be callable."""
    if not callable(validation) or isinstance(validation, Data):
        return None
    if not isinstance(validation, Judge):
        raise InputError(
            "validation must be graphs or a judge, which is called with the model and has digest(); got "
            f"{shorten(validation)}"
        )
    return validation


def asked(judge: Judge, model: Any, monitor: str) -> Validate:
    """The judge of this model, as the fit loop calls it: its answers are checked."""
    needed = _GIVEN if monitor == "score" else _GIVEN[:1]

    def validate() -> dict[str, float]:
        found = judge(model)
        if not isinstance(found, Mapping) or not set(needed) <= set(found) <= set(_GIVEN):
            raise InputError(f"a judge must give {' and '.join(map(repr, needed))} by name, got {shorten(found)}")
        for name, value in found.items():
            if not isinstance(value, Real):
                raise InputError(f"a judge must give numbers, got {shorten(value)} as {name!r}")
        return {name: float(found[name]) for name in _GIVEN if name in found}

    return validate
