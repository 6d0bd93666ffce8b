"""A choice of models in words: what a candidate is, and why it was chosen. Commands and the page make tables."""

from __future__ import annotations

import math

from gspn.policy.candidates import Candidate
from gspn.policy.selection import Selection, Tried

_USES = {
    "no edges": "ignoring edges",
    "states": "using which kinds their neighbours are",
    "neighbours": "following their neighbours' values",
    "two_hops": "following values up to two edges away",
}


def in_words(candidate: Candidate) -> str:
    """A candidate in words that need no knowledge of the library."""
    states = candidate.num_states
    kinds = "one kind of vertices" if states == 1 else f"{states} kinds of vertices"
    uses = _USES[candidate.edges]
    if candidate.descends:
        uses = f"using the kinds of others up to {candidate.levels - 1} edges away"
    uses += ", each in its own way" * (candidate.slopes == "free")
    return f"{kinds}, {uses}" + ", and how sure these are" * bool(candidate.context_variance)


def judged(selection: Selection) -> list[Tried]:
    """What was tried and could be judged, the best first."""
    return sorted((one for one in selection.tried if not math.isnan(one.loss)), key=lambda one: one.loss)


def why(selection: Selection) -> str:
    """How many models were chosen, and why these."""
    chosen = sum(one.weight > 0 for one in selection.tried)
    models = "1 model" if chosen == 1 else f"{chosen} models"
    if not selection.held_out:
        return f"too few entries to hold any out: {models} with few states, weighted equally"
    most_likely = f"the {selection.held_out:,} held-out entries most likely: {selection.loss:.4f} nats per entry"
    if chosen == 1:
        return f"{models}, which makes {most_likely}; no other adds much to it"
    best = judged(selection)[0].loss
    return f"{models}, which together make {most_likely} (the best alone: {best:.4f})"


def is_in_vain(selection: Selection, of_columns: float) -> bool:
    """Whether independent columns, with the loss `of_columns`, would do as well."""
    return selection.loss >= of_columns
