"""Labels of vertices of one large graph: seconds and memory of fit and predict, up to 10⁶ vertices and 10⁷ edges.

Labels are shared along most edges; attributes tell them weakly and have gaps; one vertex in ten is labelled. Every size
has a process of its own, whose memory is counted from after the imports.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np

from gspn.benchmarks.anonymous import watch

VERTICES = (10_000, 100_000, 1_000_000)
DEGREE, CLASSES, LABELLED = 10, 4, 0.1
THREADS = 2


def run() -> list[dict[str, Any]]:
    """A row for each size: seconds of fit and of predict, MiB, and the share of right predictions without a label."""
    return [_in_own_process(vertices) for vertices in VERTICES]


def _in_own_process(vertices: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "gspn.benchmarks.vertices", str(vertices)]
    row: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return row


def main(vertices: int) -> None:
    """One size, in this process."""
    import torch
    from torch_geometric.data import Data

    from gspn import Binary, Categorical, Continuous, Schema, SupervisedGSPN, pack

    torch.set_num_threads(THREADS)
    rng = np.random.default_rng(0)
    label = rng.integers(CLASSES, size=vertices)
    ends = _edges(rng, label, vertices * DEGREE // 2)
    x = np.column_stack(
        [rng.normal(0.5 * (label == 0), 1.0), rng.normal(size=(vertices, 2)), rng.random(vertices) < 0.5]
    )
    x[rng.random(x.shape) < 0.3] = np.nan
    y = np.where(rng.random(vertices) < LABELLED, label, np.nan)
    schema = Schema([Continuous("a"), Continuous("b"), Continuous("c"), Binary("d")])
    edge_index = torch.from_numpy(np.concatenate([ends, ends[::-1]], axis=1))
    data = Data(x=torch.from_numpy(x), edge_index=edge_index, y=torch.from_numpy(y))
    graph = pack(data, schema)
    target = Categorical("class", range(CLASSES))
    model = SupervisedGSPN(schema, target, target_level="vertex")
    fit, fitted = watch(lambda: model.fit(graph, progress=False))
    found: list[Any] = []
    predict, predicted = watch(lambda: found.append(model.predict(graph)))
    asked = np.isnan(y)
    most = None if fitted is None or predicted is None else max(fitted, predicted) / 2**20
    row = {
        "vertices": vertices,
        "edges": edge_index.shape[1],
        "fit s": fit,
        "predict s": predict,
        "MiB": "unknown" if most is None else most,
        "right": float((np.concatenate(found[0])[asked] == label[asked]).mean()),
        "commonest": float(np.bincount(label[asked]).max() / asked.sum()),
        "threads": THREADS,
    }
    print(json.dumps(row))


def _edges(rng: np.random.Generator, label: np.ndarray, number: int) -> np.ndarray:
    """[2, number] four of five between vertices of one class, the others between any two."""
    order = np.argsort(label, kind="stable")
    first = np.searchsorted(label[order], np.arange(CLASSES + 1))
    source = rng.integers(len(label), size=number)
    own = label[source]
    alike = order[first[own] + (rng.random(number) * (first[own + 1] - first[own])).astype(int)]
    target = np.where(rng.random(number) < 0.8, alike, rng.integers(len(label), size=number))
    return np.stack([source, target])


if __name__ == "__main__":
    main(int(sys.argv[1]))
