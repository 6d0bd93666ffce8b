"""A whole epoch of training on NCI1, data loading included: GSPN's `fit` against GIN with PyG's DataLoader.

Both see all graphs once, in random order and in batches of 32, with the models of `step`. Ours is the call of `fit` as
people make it, with its checks and all.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from gspn import Categorical, SupervisedGSPN, datasets
from gspn.benchmarks.measure import medians
from gspn.benchmarks.step import BATCH, THREADS, USUAL, gin_of_equal_size, size

NAME = "NCI1"
REPETITIONS = 7


def run() -> list[dict[str, Any]]:
    """One row: seconds of both, and their ratio."""
    threads = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        return [_compare()]
    finally:
        torch.set_num_threads(threads)


def _compare() -> dict[str, Any]:
    torch.manual_seed(0)
    dataset = datasets.load(NAME)
    (attribute,) = dataset.schema
    if not isinstance(attribute, Categorical) or not isinstance(dataset.target, Categorical):
        raise TypeError(f"{NAME} should have labels at its vertices and classes of graphs")
    categories, classes = len(attribute.categories), len(dataset.target.categories)
    ours = SupervisedGSPN(dataset.schema, dataset.target, **asdict(USUAL), batch_size=BATCH)
    ours.fit(dataset, epochs=1, progress=False)
    theirs = gin_of_equal_size(size(ours.network), categories, USUAL.num_layers, classes)
    optimizer = torch.optim.Adam(theirs.parameters(), lr=1e-3, fused=True)
    graphs = [
        Data(x=F.one_hot(data.x[:, 0].long(), categories).float(), edge_index=data.edge_index, y=data.y.long())
        for data in (dataset[i] for i in range(len(dataset)))
    ]
    loader = DataLoader(graphs, batch_size=BATCH, shuffle=True)

    def our_epoch() -> None:
        ours.fit(dataset, epochs=1, warm_start=True, progress=False)

    def their_epoch() -> None:
        for batch in loader:
            optimizer.zero_grad()
            theirs(batch.x, batch.edge_index, batch.batch, batch.y).backward()
            optimizer.step()

    found = medians({"ours": our_epoch, "theirs": their_epoch}, REPETITIONS, warm_up=1)
    return {
        "dataset": NAME,
        "graphs": len(dataset),
        "GSPN epoch s": found["ours"],
        "GIN epoch s": found["theirs"],
        "ratio": found["ours"] / found["theirs"],
        "threads": torch.get_num_threads(),
    }
