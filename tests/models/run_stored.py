"""One evaluation of a stored graph in a process of its own, which sends itself SIGKILL after some ranges.

    python run_stored.py HOME FOLDER RANGES

evaluates the graph HOME/graph into HOME/FOLDER; with 0 ranges it is not killed.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from small_graphs import EVERY_KIND, draw_graph
from small_models import random_model

from gspn import StoredGraph, store_graph
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
    home, folder = Path(sys.argv[1]), sys.argv[2]
    if sys.argv[3] != "0":
        die_after(int(sys.argv[3]))
    if not (home / "graph").exists():
        data = draw_graph(np.random.default_rng(0), 230)
        store_graph(home / "graph", data.x, data.edge_index, EVERY_KIND)
    graph = StoredGraph.open(home / "graph")
    random_model(EVERY_KIND, 1).evaluate_stored(graph, home / folder, embeddings=True)
