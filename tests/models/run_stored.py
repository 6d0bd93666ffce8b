"""One evaluation of a stored graph in a process of its own, which sends itself SIGKILL after some ranges.

python run_stored.py GRAPH FOLDER RANGES
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import count
from typing import Any

from small_graphs import EVERY_KIND
from small_models import random_model

from gspn.models import bounded

bounded.MOST_VERTICES = 50


def die_after(number: int) -> None:
    """In the middle of writing the journal's line of that number."""
    add, calls = bounded._Journal.add, count(1)

    def dying(journal: Any, *entry: int) -> None:
        if next(calls) == number:
            with journal.path.open("a") as file:
                file.write(f"{entry[0]} {entry[1]}")
            os.kill(os.getpid(), signal.SIGKILL)
        add(journal, *entry)

    bounded._Journal.add = dying  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    die_after(int(sys.argv[3]))
    random_model(EVERY_KIND, 1).evaluate_stored(sys.argv[1], sys.argv[2], embeddings=True)
