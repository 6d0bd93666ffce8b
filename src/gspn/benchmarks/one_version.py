"""The program that holds one version of the library and times it, for `versions`, which starts it twice.

It is run as a file, with the sources to be measured first on the path, which may be older than this file. So it uses
only what they have had for long, and nothing else of this package.

    python -P one_version.py THREADS

says in a line of JSON where `gspn` was imported from. Then every line that it reads is a JSON object with the arguments
of `Held.prepare` (with "do": "prepare") or of `Held.time` ("do": "time"), and is answered by a line with the result.
"""

from __future__ import annotations

import copy
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

import gspn
from gspn import SupervisedGSPN, datasets

WARM_UP = 2
"""Batches that go before and are not counted: while the other version was at work, caches became cold."""


class Held:
    """Of every dataset a model with its starting weights, and batches."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[Any, Any, list[Any], dict[str, Any]]] = {}

    def prepare(self, name: str, sizes: dict[str, int], batch_size: int, batches: int) -> int:
        """Load a dataset and get ready for all measures; gives its number of graphs."""
        dataset = datasets.load(name, progress=False)
        generator = torch.Generator().manual_seed(0)
        draws = [torch.randperm(len(dataset), generator=generator)[:batch_size] for _ in range(batches)]
        model: Any = SupervisedGSPN(dataset.schema, dataset.target, **sizes, batch_size=batch_size)  # type: ignore[arg-type]
        model.fit(dataset[:: max(1, len(dataset) // 200)], epochs=0, progress=False)
        start = copy.deepcopy(model.network.state_dict())
        self._of[name] = dataset, model, [dataset.batch(draw) for draw in draws], start
        return len(dataset)

    def time(self, name: str, measure: str, laps: int) -> list[float]:
        """Seconds of every lap: a step or a forward pass on each of the batches, or an epoch.

        All begins at the starting weights, so that it is the same work whenever it is asked for.
        """
        dataset, model, batches, start = self._of[name]
        model.network.load_state_dict(start)
        model.network.train()
        optimizer = torch.optim.Adam(model.network.parameters(), lr=1e-3, fused=True)

        def step(batch: Any) -> None:
            optimizer.zero_grad()
            (-model.network(batch).log_prob.mean()).backward()
            optimizer.step()

        def forward(batch: Any) -> None:
            """With everything recorded that a backward pass would need."""
            model.network(batch).log_prob.mean()

        def epoch(dataset: Any) -> None:
            model.fit(dataset, epochs=1, warm_start=True, progress=False)

        if measure == "epoch":
            return _laps(epoch, [dataset], laps)
        one = {"step": step, "forward": forward}[measure]
        _laps(one, batches[:WARM_UP], 1)
        return _laps(one, batches, laps)


def _laps(run: Callable[[Any], None], inputs: list[Any], laps: int) -> list[float]:
    seconds = []
    for _ in range(laps):
        begin = time.perf_counter()
        for value in inputs:
            run(value)
        seconds.append(time.perf_counter() - begin)
    return seconds


def main(threads: int) -> None:
    # Whatever else may be printed goes where errors go; the answers keep the pipe for themselves.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def answer(value: object) -> None:
        print(json.dumps(value), file=answers, flush=True)

    torch.set_num_threads(threads)
    held = Held()
    answer(gspn.__file__)
    for line in sys.stdin:
        request = json.loads(line)
        answer(held.prepare(**request) if request.pop("do") == "prepare" else held.time(**request))


if __name__ == "__main__":
    main(int(sys.argv[1]))
