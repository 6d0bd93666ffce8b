"""`python -m gspn.web.speed`: how long the page's server takes to answer about a molecule of 50 atoms, over HTTP.

It stands here because `gspn.benchmarks`, which experiments use, may know nothing of the page.
"""

from __future__ import annotations

import http.client
import json
import statistics
import sys
import time
from typing import Any
from urllib.parse import urlsplit

import torch

from gspn.benchmarks.measure import show
from gspn.web.learning import Learning, load_default
from gspn.web.limits import Limits
from gspn.web.notebook import NotebookPage

FIFTY_ATOMS = "CC(C)c1c(C(=O)Nc2ccccc2)c(-c2ccccc2)c(-c2ccc(F)cc2)n1CCC(O)CC(O)CC(=O)OCCCCCCCCC"
REPETITIONS = 30


def run() -> list[dict[str, Any]]:
    """One row per question: median and slowest of several, in milliseconds; each edit is new to the server."""
    learning = Learning()
    load_default(learning)
    with NotebookPage(learning.model, limits=Limits(requests_per_second=1e6)) as page:
        connection = http.client.HTTPConnection(urlsplit(page.address).netloc)
        rows = [
            _measure(connection, path, leave_one_out)
            for path in ("what-if", "replacements", "conditional")
            for leave_one_out in (False, True)
        ]
        connection.close()
    return rows


def _measure(connection: http.client.HTTPConnection, path: str, leave_one_out: bool) -> dict[str, Any]:
    seconds = []
    for number in range(REPETITIONS + 1):
        edits = [{"do": "set", "vertex": number % 50, "attribute": "element", "value": "N"}]
        question: dict[str, Any] = {"smiles": FIFTY_ATOMS, "edits": edits, "leave_one_out": leave_one_out}
        if path != "what-if":
            question |= {"vertex": (7 * number) % 50, "attribute": "element"}
        start = time.perf_counter()
        connection.request("POST", f"/api/{path}", json.dumps(question), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        body = answer.read()
        seconds.append(time.perf_counter() - start)
        if answer.status != http.client.OK:
            raise RuntimeError(body.decode())
    kept = [1e3 * second for second in seconds[1:]]  # the first one finds nothing compiled and no molecule read
    return {
        "question": path,
        "leave one out": leave_one_out,
        "median ms": statistics.median(kept),
        "most ms": max(kept),
    }


def main() -> int:
    torch.set_num_threads(1)  # as `serve` does
    show(run(), as_json=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
