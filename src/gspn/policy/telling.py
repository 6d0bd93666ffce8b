"""What people read of a choice: what a candidate is, and why those that were chosen were. Tables are made by doors."""

from __future__ import annotations

import math

from gspn.policy.candidates import Candidate
from gspn.policy.selection import Selection, Tried

_HEARS = {
    "no edges": "ignoring edges",
    "states": "hearing of which kinds their neighbours are",
    "neighbours": "following their neighbours' values",
    "two_hops": "following values up to two edges away",
}


def in_words(candidate: Candidate) -> str:
    """A candidate for those who do not know the library's words."""
    states = candidate.num_states
    kinds = "one kind of vertices" if states == 1 else f"{states} kinds of vertices"
    hears = _HEARS[candidate.edges]
    if candidate.descends:
        hears = f"hearing of the kinds of others up to {candidate.levels - 1} edges away"
    hears += ", each in its own way" * (candidate.slopes == "free")
    return f"{kinds}, {hears}" + ", and how sure these are" * bool(candidate.context_variance)


def judged(selection: Selection) -> list[Tried]:
    """What was tried and could be judged, the best first."""
    return sorted((one for one in selection.tried if not math.isnan(one.loss)), key=lambda one: one.loss)


def why(selection: Selection) -> str:
    """How many models were chosen, and why these."""
    chosen = sum(one.weight > 0 for one in selection.tried)
    models = "1 model" if chosen == 1 else f"{chosen} models"
    if not selection.held_out:
        return f"too few entries to hold any out and judge by: {models} of few states, weighed alike"
    most_likely = f"the {selection.held_out:,} held-out entries most likely: {selection.loss:.4f} nats per entry"
    if chosen == 1:
        return f"{models}, since it holds {most_likely}, and no other adds much to it"
    best = judged(selection)[0].loss
    return f"{models}, since together they hold {most_likely} (the best alone: {best:.4f})"


def is_in_vain(selection: Selection, of_columns: float) -> bool:
    """Whether columns by themselves, with the loss `of_columns`, would do as well."""
    return selection.loss >= of_columns
