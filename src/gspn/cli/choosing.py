"""What a command that lets the policy choose says of it: which models were tried, and which fill the gaps, and why.

What is tried, and how it is judged, is `gspn.policy`'s business, the same for all who do not say otherwise.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gspn.cli.console import Console
    from gspn.graphs import GraphDataset
    from gspn.policy import Effort, Selection, Tried

_SHOWN = 12
"""Candidates of which people read; machines get all."""


def choose(dataset: GraphDataset, effort: Effort, seed: int, console: Console) -> tuple[Selection, dict[str, Any]]:
    """What the policy chooses, and what is to be said of it to machines; people read it now."""
    from gspn import policy

    start = time.perf_counter()
    with policy.choosing(console.progress) as notice:
        selection = policy.select(dataset, effort=effort, seed=seed, notice=notice)
    seconds = time.perf_counter() - start
    shown = console.progress or console.as_json
    of_columns = policy.loss_of_columns(dataset, effort=effort, seed=seed) if shown else math.nan
    show_selection(console, selection, of_columns, seconds)
    return selection, {
        "effort": effort,
        "held_out": selection.held_out,
        "loss": selection.loss,
        "loss_of_columns": of_columns,
        "seconds": seconds,
        "tried": [
            {"candidate": str(one.candidate), "loss": one.loss, "weight": one.weight, "error": one.error}
            for one in selection.tried
        ],
    }


def show_selection(console: Console, selection: Selection, of_columns: float, seconds: float) -> None:
    """A table of what was tried, a sentence on what was chosen and why, and a yardstick for its loss."""
    from gspn.policy.telling import is_in_vain, judged, why

    tried = selection.tried
    if not selection.held_out:
        console.note(why(selection))
        console.note_table([{"model": str(one.candidate), "weight": one.weight} for one in tried if one.weight > 0])
        return
    best = judged(selection)
    console.note_table(
        [
            {"model": str(one.candidate), "nats per held-out entry": one.loss, "weight": one.weight or None}
            for one in _shown(best)
        ],
        f"what was tried, the best {min(len(best), _SHOWN)} of {len(tried)} models:",
    )
    errors = [one.error for one in tried if one.error is not None]
    for error in dict.fromkeys(errors):
        console.note(f"{errors.count(error)} of them could not be learned from these data: {error}")
    console.note(f"chosen in {seconds:.0f} s: {why(selection)}. With independent columns: {of_columns:.4f}")
    if is_in_vain(selection, of_columns):
        console.note(
            "warning: held-out entries are filled no better than by every column's mean or most common value; there "
            "may be too few rows, or --types may help"
        )


def _shown(judged: list[Tried]) -> list[Tried]:
    """Of those in order of their loss the best, and all that were chosen."""
    others = _SHOWN - sum(one.weight > 0 for one in judged)
    shown = []
    for one in judged:
        if one.weight > 0:
            shown.append(one)
        elif others > 0:
            shown.append(one)
            others -= 1
    return shown
