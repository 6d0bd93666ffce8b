"""Prints the most anonymous memory, beyond what there was before, that storing and evaluating a graph took."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from gspn import GSPN, Categorical, Continuous, Schema, store_graph
from gspn.benchmarks.anonymous import watch
from gspn.benchmarks.bounded import write_graph

SETTING = "128 MiB"

if __name__ == "__main__":
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    write_graph(folder, 200_000, 4)  # whose arrays are gone again before memory is looked at
    schema = Schema([Continuous("value"), Categorical("label", range(10))])
    model = GSPN(schema, num_layers=5, num_states=60)
    model.set_parameters(model.get_parameters())

    def work() -> None:
        graph = store_graph(folder / "graph", folder / "x.npy", folder / "edge_index.npy", schema, memory=SETTING)
        model.evaluate_stored(graph, folder / "results", memory=SETTING, progress=False)

    print(watch(work)[1])
