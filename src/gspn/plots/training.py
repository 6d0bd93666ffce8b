"""How training went: what `history_` of a model, or of several runs, says of every epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gspn.columns import is_missing, shorten
from gspn.errors import InputError
from gspn.plots.canvas import SMALL, name_axes, new_figure, plain
from gspn.plots.colours import INK, QUIET, tell_apart
from gspn.plots.inputs import read_numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

History = Sequence[Mapping[str, Any]]
_LINES = {"train": ":", "validation": "-"}
_MOST_RUNS = 20


def training_curves(histories: History | Mapping[str, History], *, y_label: str = "loss", title: str = "") -> Figure:
    """Loss over epochs, dotted in training and solid in validation, and the score beside it where there is one.

    `histories` is a model's `history_`, or several by name. The least validation loss of each run is marked.
    """
    runs = histories if isinstance(histories, Mapping) else {"": histories}
    if not runs:
        raise InputError("there are no histories to draw")
    if len(runs) > _MOST_RUNS:
        raise InputError(f"{len(runs)} runs in one chart cannot be told apart: at most {_MOST_RUNS} are drawn")
    for name, history in runs.items():
        _check(name, history)
    with_score = any("score" in epoch for history in runs.values() for epoch in history)
    figure, axes = new_figure(columns=1 + with_score, height=3.6 if with_score else 4.0)
    losses = axes[0]
    for number, (name, history) in enumerate(runs.items()):
        colour, _, _ = tell_apart(number)
        for key, dashes in _LINES.items():
            if (curve := _curve(history, key, name)) is None:
                continue
            losses.plot(*curve, dashes, color=colour, linewidth=1.6)
            if key == "validation":
                best = int(np.nanargmin(curve[1]))
                losses.plot(curve[0][best], curve[1][best], "o", color=colour, markersize=6, markerfacecolor="none")
        if with_score and (curve := _curve(history, "score", name)) is not None:
            axes[1].plot(*curve, color=colour, linewidth=1.6)
        losses.plot([], [], color=colour, label=plain(name or "_"))
    name_axes(losses, "epoch", y_label, title)
    if with_score:
        name_axes(axes[1], "epoch", "score")
    _explain(losses, runs)
    return figure


def _explain(axes: Any, runs: Mapping[str, History]) -> None:
    """Which colour is which run, and what the styles mean."""
    present = [key for key in _LINES if any(key in epoch for history in runs.values() for epoch in history)]
    for key in present:
        axes.plot([], [], _LINES[key], color=INK if len(runs) == 1 else QUIET, label=key)
    if "validation" in present:
        axes.plot([], [], "o", color=QUIET, markerfacecolor="none", label="least validation")
    axes.figure.legend(loc="outside lower left", ncols=5, frameon=False, fontsize=SMALL, labelcolor=INK)


def _curve(history: History, key: str, name: str) -> tuple[Any, Any] | None:
    """Epochs and numbers; None where nothing was measured. An epoch without the number is a gap."""
    values = [epoch.get(key) for epoch in history]
    if all(is_missing(value) for value in values):
        return None
    what = f"{key} of {name!r}" if name else f"{key} of the history"
    numbers = read_numbers([np.nan if is_missing(value) else value for value in values], what, gaps=True)
    return np.array([epoch["epoch"] for epoch in history]), numbers


def _check(name: str, history: Any) -> None:
    called = f"history {name!r}" if name else "the history"
    if (
        isinstance(history, str)
        or not isinstance(history, Sequence)
        or not all(isinstance(e, Mapping) for e in history)
    ):
        raise InputError(f"{called} must be a list with one dict an epoch, as `history_` is; got {shorten(history)}")
    if not history:
        raise InputError(f"{called} is empty: nothing was trained")
    if not all("epoch" in epoch for epoch in history):
        raise InputError(f"{called} has an entry without 'epoch'")
    if all(is_missing(epoch.get(key)) for epoch in history for key in _LINES):
        raise InputError(f"{called} has no numbers under 'train' or 'validation'")
