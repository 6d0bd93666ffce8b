"""Training 48 heads on vertex embeddings: together, one after the other, and one after the other in plain torch.

The graphs have the sizes and labels of NCI1, their embeddings the shape of posteriors: 20 blocks of 20 numbers that sum
to 1. All train one epoch in batches of 32 graphs and validate once. Reading the embeddings, which heads that are
trained together share, is left out. One after the other, 2 heads are trained and their time is scaled to all. Plain
torch runs with all threads and with one, and the better of the two counts: small products do not gain from threads.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gspn import Categorical, datasets
from gspn.benchmarks.measure import medians
from gspn.predictors.embeddings import PackedEmbeddings
from gspn.predictors.heads import Head, starting_weights
from gspn.predictors.outputs import Outputs, outputs_for
from gspn.predictors.training import LabelledEmbeddings, Lesson, Member, train_alone, train_together
from gspn.training import Progress, Settings

CASES = ((8, 48), (32, 48), (128, 48), (8, 1), (32, 1), (128, 1))
"""Width and number of heads."""

BATCH = 32
BLOCKS, STATES = 20, 20
VALIDATION = 411
TEST = 411
ALONE = 2
REPETITIONS = 5

_SETTINGS = Settings(epochs=1, batch_size=BATCH, lr=1e-3, weight_decay=0.0, clip=None, patience=1, seed=0)


def run() -> list[dict[str, Any]]:
    """One row a case: seconds of an epoch of all heads, and how many times faster together is."""
    training, validation = _data()
    outputs = outputs_for(Categorical("y", [0, 1]), training.labels.numpy())
    return [_compare(hidden, heads, outputs, training, validation) for hidden, heads in CASES]


def _compare(
    hidden: int, heads: int, outputs: Outputs, training: LabelledEmbeddings, validation: LabelledEmbeddings
) -> dict[str, Any]:
    alone, threads = min(heads, ALONE), torch.get_num_threads()

    lesson, columns = Lesson(outputs, training, validation, ["loss"]), training.rows.width

    def start(seed: int) -> Head:
        weights = starting_weights(columns, hidden, int(outputs.ends[-1]), seed, training.rows.values.dtype)
        return Head(weights, "sum")

    def fit(seeds: range) -> None:
        train_together([Member(start(seed), _SETTINGS) for seed in seeds], lesson, show_progress=False)

    def fit_one_by_one() -> None:
        for seed in range(alone):
            train_alone(start(seed), _SETTINGS, lesson, Progress(), show_progress=False)

    def fit_plain(used: int) -> None:
        torch.set_num_threads(used)
        for seed in range(alone):
            _plain_epoch(hidden, seed, training, validation)
        torch.set_num_threads(threads)

    found = medians(
        {
            "together": lambda: fit(range(heads)),
            "alone": fit_one_by_one,
            "torch": lambda: fit_plain(threads),
            "torch, one thread": lambda: fit_plain(1),
        },
        REPETITIONS,
        warm_up=1,
    )
    one_by_one = found["alone"] * heads / alone
    plain = min(found["torch"], found["torch, one thread"]) * heads / alone
    return {
        "width": hidden,
        "heads": heads,
        "together s": found["together"],
        "one by one s": one_by_one,
        "plain torch s": plain,
        "faster than one by one": one_by_one / found["together"],
        "faster than plain torch": plain / found["together"],
        "threads": threads,
    }


def _data() -> tuple[LabelledEmbeddings, LabelledEmbeddings]:
    dataset = datasets.load("NCI1")
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(0))
    parts = order[: -VALIDATION - TEST], order[-VALIDATION - TEST : -TEST]
    training, validation = (_labelled(dataset[part], seed) for seed, part in enumerate(parts))
    return training, validation


def _labelled(dataset: Any, seed: int) -> LabelledEmbeddings:
    batch = dataset.batch(torch.arange(len(dataset)))
    generator = torch.Generator().manual_seed(seed)
    # A fourth power makes some states much more probable than others, as posteriors have it.
    blocks = torch.rand(batch.num_vertices, BLOCKS, STATES, generator=generator) ** 4
    values = (blocks / blocks.sum(2, keepdim=True)).flatten(1)
    return LabelledEmbeddings(PackedEmbeddings(values, batch.vertex_ptr), batch.y.reshape(-1, 1).double())


class _Plain(nn.Module):
    """The same network as one would write it with torch's own layers."""

    def __init__(self, columns: int, hidden: int) -> None:
        super().__init__()
        self.vertex, self.graph = nn.Linear(columns, hidden), nn.Linear(hidden, hidden)
        self.output = nn.Linear(hidden, 2)

    def forward(self, x: Tensor, sizes: Tensor) -> Tensor:
        owner = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
        vertices = self.vertex(x).relu()
        pooled = vertices.new_zeros(len(sizes), vertices.shape[1]).index_add(0, owner, vertices)
        logits: Tensor = self.output(self.graph(pooled).relu())
        return logits


def _plain_epoch(hidden: int, seed: int, training: LabelledEmbeddings, validation: LabelledEmbeddings) -> float:
    """An epoch in plain torch, with the embeddings in one tensor and the fused Adam; gives the validation loss."""
    torch.manual_seed(seed)
    rows, labels = training.rows, training.labels[:, 0].long()
    network = _Plain(rows.width, hidden)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True)
    for batch in torch.randperm(len(rows)).split(BATCH):
        starts, sizes = rows.ptr[batch], rows.ptr[batch + 1] - rows.ptr[batch]
        shift = torch.repeat_interleave(starts - (sizes.cumsum(0) - sizes), sizes)
        x = rows.values.index_select(0, shift + torch.arange(len(shift)))
        optimizer.zero_grad()
        F.cross_entropy(network(x, sizes), labels[batch]).backward()
        optimizer.step()
    with torch.no_grad():
        logits = network(validation.rows.values, validation.rows.ptr.diff())
        return float(F.cross_entropy(logits, validation.labels[:, 0].long()))
