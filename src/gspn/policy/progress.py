"""A bar with the remaining time while models are chosen; it is shown on a terminal only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tqdm import tqdm

from gspn.policy.ahead import Stopwatch
from gspn.policy.selection import Notice, Step

_FORMAT = "{desc}{percentage:3.0f}%|{bar}| {elapsed}{postfix}"


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
