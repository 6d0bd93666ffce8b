"""A bar with the remaining time while candidates are tried; it is shown on a terminal only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tqdm import tqdm

from gspn.policy.candidates import Candidate
from gspn.policy.selection import Notice


@contextmanager
def choosing(shown: bool = True) -> Iterator[Notice]:
    """What `select` is to call before every candidate."""
    # disable=None: shown on a terminal only. Candidates take times that differ much: the mean of all tells most.
    settings = {"unit": "model", "disable": None if shown else True, "dynamic_ncols": True, "smoothing": 0}
    with tqdm(total=0, desc="choose", **settings) as bar:

        def notice(number: int, known: int, candidate: Candidate) -> None:
            bar.total = known  # later stages build on what won before, so that it grows
            bar.set_description(f"try {candidate}", refresh=False)
            bar.update(number - bar.n)
            bar.refresh()

        yield notice
