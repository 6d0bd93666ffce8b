"""A warm start: from a new process to the end of the first step on NCI1, beyond importing torch and PyG.

The kernel's machine code is on disk from an earlier run (a first run, not counted, sees to that). Each repetition is a
process of its own, which tells when the imports and when the step are done.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from typing import Any

REPETITIONS = 7
THREADS = 2

_SCRIPT = f"""
import json, time
import torch, torch_geometric
torch.set_num_threads({THREADS})
imported = time.time()
import gspn
dataset = gspn.datasets.load("NCI1")
model = gspn.SupervisedGSPN(dataset.schema, dataset.target, num_layers=10, num_states=20, num_graph_states=128)
optimizer = torch.optim.Adam(model.parameters(), fused=True)
batch = dataset.batch(torch.arange(32))
(-model(batch).log_prob.mean()).backward()
optimizer.step()
print(json.dumps([imported, time.time()]))
"""


def run() -> list[dict[str, Any]]:
    """One row: seconds of the imports, and from there to the end of the first step."""
    _once()
    runs = [_once() for _ in range(REPETITIONS)]
    imports, step = (statistics.median(times) for times in zip(*runs, strict=True))
    return [{"imports s": imports, "first step s beyond": step, "threads": THREADS}]


def _once() -> tuple[float, float]:
    start = time.time()
    done = subprocess.run([sys.executable, "-c", _SCRIPT], check=True, stdout=subprocess.PIPE, text=True)
    imported, finished = json.loads(done.stdout)
    return imported - start, finished - imported
