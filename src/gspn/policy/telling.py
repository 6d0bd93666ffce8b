"""A choice of models in words: what a candidate is, why it was chosen; and a bar with the remaining time meanwhile.

Commands and the page make tables. The bar is shown on a terminal only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from tqdm import tqdm

from gspn.policy.ahead import Stopwatch
from gspn.policy.candidates import Candidate
from gspn.policy.selection import Notice, Selection, Step, Tried

_USES = {
    "no edges": "ignoring edges",
    "states": "using which kinds their neighbours are",
    "neighbours": "following their neighbours' values",
    "two_hops": "following values up to two edges away",
}

_FORMAT = "{desc}{percentage:3.0f}%|{bar}| {elapsed}{postfix}"


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


@contextmanager
def choosing(shown: bool = True) -> Iterator[Notice]:
    """What `select` is to call before every model that learns."""
    watch = Stopwatch()
    # disable=None: shown on a terminal only.
    with tqdm(total=1.0, desc="choose", disable=None if shown else True, dynamic_ncols=True, bar_format=_FORMAT) as bar:

        def notice(step: Step) -> None:
            watch.begin(step.ahead[0])
            share, left = how_far(watch, step)
            bar.set_description(told(step), refresh=False)
            bar.set_postfix_str("" if left is None else f"about {bar.format_interval(left)} left", refresh=False)
            bar.update(max(0.0, share - bar.n))  # estimates may grow; what is done stays done
            bar.refresh()

        yield notice
        bar.set_postfix_str("", refresh=False)
        bar.update(1.0 - bar.n)


def how_far(watch: Stopwatch, step: Step) -> tuple[float, float | None]:
    """The share of the time that has passed, and the seconds that are left, None while there is nothing to tell by."""
    left = watch.remaining(step.ahead)
    if left is None:
        return 0.0, None
    return watch.elapsed() / max(watch.elapsed() + left, 1e-9), left


def told(step: Step) -> str:
    """What is being done, in a few words for a line."""
    if step.learns_on:
        return f"learn on {step.candidate}"
    return f"try {step.number + 1} of about {step.candidates}, {step.candidate}"
