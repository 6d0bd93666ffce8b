"""A graph of 2 million vertices and 20 million edges within 512 MiB, against the usual evaluation in memory.

Both begin with entries and edges in .npy files and end with log-likelihoods on the disk; the bounded run prepares its
memory-mapped arrays as part of the work. Each run is a process of its own, started afresh; anonymous memory is counted
from after the imports. A second row has embeddings too. Where the system does not tell anonymous memory, the table says
"unknown".
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from gspn.benchmarks.anonymous import watch

VERTICES, DEGREE = 2_000_000, 10
LEVELS, STATES = 5, 20
MEMORY = "512 MiB"
THREADS = 2
REPETITIONS = 3


def run() -> list[dict[str, Any]]:
    """One row without and one with embeddings: seconds and anonymous MiB of both, and the ratio of seconds."""
    with tempfile.TemporaryDirectory() as folder:
        write_graph(Path(folder), VERTICES, DEGREE)
        return [_compare(Path(folder), what) for what in ("log-likelihoods", "embeddings too")]


def _compare(folder: Path, what: str) -> dict[str, Any]:
    found: dict[str, list[dict[str, Any]]] = {"bounded": [], "in memory": []}
    for _ in range(REPETITIONS):
        for how, results in found.items():
            results.append(_in_own_process(folder, how, what))
    seconds = {how: statistics.median(result["seconds"] for result in results) for how, results in found.items()}
    return {
        "results": what,
        "bounded s": seconds["bounded"],
        "in memory s": seconds["in memory"],
        "ratio": seconds["bounded"] / seconds["in memory"],
        "setting": MEMORY,
        "bounded MiB": _most(found["bounded"]),
        "in memory MiB": _most(found["in memory"]),
        "vertices": VERTICES,
        "edges": VERTICES * DEGREE,
        "threads": THREADS,
    }


def _most(results: list[dict[str, Any]]) -> float | str:
    amounts = [result["anonymous"] for result in results]
    return "unknown" if None in amounts else max(amounts) / 2**20


def _in_own_process(folder: Path, how: str, what: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "gspn.benchmarks.bounded", str(folder), how, what]
    finished = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    for leftover in ("graph", "results"):
        shutil.rmtree(folder / leftover, ignore_errors=True)
    result: dict[str, Any] = json.loads(finished.stdout)
    return result


def write_graph(folder: Path, vertices: int, degree: int) -> None:
    """A random graph with two attributes, one of them continuous, so that all rows of evidence differ."""
    rng = np.random.default_rng(0)
    x = np.stack([rng.normal(size=vertices), rng.integers(10, size=vertices)], axis=1)
    x[rng.random(x.shape) < 0.1] = np.nan
    np.save(folder / "x.npy", x)
    np.save(folder / "edge_index.npy", rng.integers(vertices, size=(2, vertices * degree)))


def main(folder: Path, how: str, what: str) -> None:
    """One run, in this process."""
    import torch
    from torch_geometric.data import Data

    from gspn import GSPN, Categorical, Continuous, Schema, pack, store_graph

    torch.set_num_threads(THREADS)
    schema = Schema([Continuous("value"), Categorical("label", range(10))])
    model = GSPN(schema, num_layers=LEVELS, num_states=STATES)
    model.set_parameters(model.get_parameters())  # which makes it count as fitted
    x, edges, embeddings = folder / "x.npy", folder / "edge_index.npy", what != "log-likelihoods"

    def bounded() -> None:
        graph = store_graph(folder / "graph", x, edges, schema, memory=MEMORY, progress=False)
        model.evaluate_stored(graph, folder / "results", embeddings=embeddings, memory=MEMORY, progress=False)

    def in_memory() -> None:
        data = Data(x=torch.from_numpy(np.load(x)), edge_index=torch.from_numpy(np.load(edges)))
        dataset = pack(data, schema)
        with torch.no_grad():
            evaluation = model(model.collate(dataset))
        (folder / "results").mkdir()
        np.save(folder / "results" / "log_likelihood.npy", evaluation.log_likelihood.numpy())
        if embeddings:
            np.save(folder / "results" / "embeddings.npy", evaluation.posteriors.flatten(1).numpy())

    seconds, most = watch(bounded if how == "bounded" else in_memory)
    print(json.dumps({"seconds": seconds, "anonymous": most}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
