"""Assembling a random batch of 32 graphs: the packed dataset against PyG's `Batch.from_data_list`, same graphs."""

from __future__ import annotations

from typing import Any

import torch
from torch_geometric.data import Batch

from gspn import datasets
from gspn.benchmarks.measure import medians

NAMES = ("NCI1", "REDDIT-BINARY", "REDDIT-MULTI-5K", "COLLAB")
BATCH = 32
REPETITIONS = 200


def run() -> list[dict[str, Any]]:
    """One row per dataset: milliseconds of both, and how many times faster ours is."""
    return [_compare(name) for name in NAMES]


def _compare(name: str) -> dict[str, Any]:
    dataset = datasets.load(name)
    generator = torch.Generator().manual_seed(0)
    draws = [torch.randperm(len(dataset), generator=generator)[:BATCH] for _ in range(REPETITIONS + 2)]
    # PyG gets its graphs as ready objects, so that only assembling is timed.
    graphs = [[dataset[int(i)] for i in draw] for draw in draws]
    ours, theirs = iter(draws), iter(graphs)
    found = medians(
        {"gspn": lambda: dataset.batch(next(ours)), "pyg": lambda: Batch.from_data_list(next(theirs))}, REPETITIONS
    )
    return {
        "dataset": name,
        "gspn ms": 1e3 * found["gspn"],
        "PyG ms": 1e3 * found["pyg"],
        "times faster": found["pyg"] / found["gspn"],
        "threads": torch.get_num_threads(),
    }
