"""A small dataset in the public format, small grids over it, and a runner in this process, for tests of experiments."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path

import numpy as np

from gspn import GraphDataset
from gspn.experiments.running import Outcome
from gspn.experiments.runs import Piece
from gspn.experiments.work import perform

GRAPHS = 40

PREDICT = """
title = "Toy classes"
question = "predict"
measure = "accuracy"
figures = ["curves"]
[protocol]
division = "published"
runs = 2
[data.TOY]
[models.Constant]
system = "Constant"
[models.GSPN_S]
system = "SupervisedGSPN"
settings = { num_layers = 2, num_graph_states = 4, epochs = 3, lr = 0.05 }
search = { num_states = [2, 3] }
[models."GSPN_U+DS"]
system = "GSPN"
settings = { num_layers = 2, epochs = 2 }
search = { num_states = [2, 3] }
head = { hidden = 4, epochs = 3 }
head_search = { pooling = ["sum", "mean"] }
"""

TIME = """
title = "Time"
question = "time"
measure = "accuracy"
[protocol]
division = "hold-out"
runs = 1
[data.TOY]
graphs = 20
[models.both]
system = "SupervisedGSPN"
settings = { num_layers = 3, num_states = 4, num_graph_states = 5 }
"""

FILL = """
title = "Toy gaps"
question = "fill"
measure = "nll per vertex"
paper = "missing data"
[protocol]
division = "hold-out"
runs = 2
[asked]
mask_seed = 0
[data.TOY]
[models.Gaussian]
system = "GSPN"
settings = { num_layers = 1, num_states = 1, epochs = 0 }
[models.GMM]
system = "GSPN"
settings = { num_layers = 1, epochs = 3 }
search = { num_states = [2, 3] }
[models.GSPN_U]
system = "GrownGSPN"
settings = { num_layers = 2, num_states = 2, epochs = 4 }
"""


class Here:
    """A runner that does one piece at a time in this process, and may be told what to do instead."""

    capacity = 2

    def __init__(self, folder: Path) -> None:
        self.folder, self.submitted, self.waiting = folder, list[Piece](), list[Piece]()

    def submit(self, piece: Piece) -> None:
        self.submitted.append(piece)
        self.waiting.append(piece)

    def wait(self, seconds: float) -> list[Outcome]:
        piece = self.waiting.pop(0)
        return [self.outcome(piece)]

    def outcome(self, piece: Piece) -> Outcome:
        return Outcome(piece, perform(piece, self.folder))

    def close(self) -> None:
        pass


def write_toy(root: Path, seed: int = 0) -> Path:
    """The dataset TOY below a data root: paths of 4 to 7 vertices with a label and three numbers, two classes."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(4, 8, GRAPHS)
    classes = rng.integers(0, 2, GRAPHS)
    graph = np.repeat(np.arange(GRAPHS), sizes)
    labels = (rng.random(len(graph)) < 0.2 + 0.6 * classes[graph]).astype(int)
    numbers = rng.normal(labels[:, None] * 2.0, 1.0, (len(graph), 3))
    vertex = np.arange(1, len(graph) + 1)
    joined = graph[:-1] == graph[1:]
    pairs = np.stack([vertex[:-1][joined], vertex[1:][joined]], 1)
    edges = np.concatenate([pairs, pairs[:, ::-1]])
    tables = {
        "A": edges,
        "graph_indicator": graph[:, None] + 1,
        "graph_labels": classes[:, None],
        "node_labels": labels[:, None],
        "node_attributes": numbers.round(4),
    }
    (root / "tu").mkdir(parents=True)
    with zipfile.ZipFile(root / "tu" / "TOY.zip", "w") as archive:
        for name, rows in tables.items():
            text = "\n".join(", ".join(str(value) for value in row) for row in rows.tolist())
            archive.writestr(f"TOY/TOY_{name}.txt", text + "\n")
    order = rng.permutation(GRAPHS).tolist()
    folds = [
        {"test": order[:8], "model_selection": [{"train": order[16:], "validation": order[8:16]}]},
        {"test": order[16:24], "model_selection": [{"train": order[:8] + order[24:], "validation": order[8:16]}]},
    ]
    (root / "splits").mkdir()
    (root / "splits" / "TOY.json.gz").write_bytes(gzip.compress(json.dumps(folds).encode()))
    return root


def with_other_test_labels(dataset: GraphDataset) -> GraphDataset:
    """The labels of the first fold's test graphs turned round."""
    assert dataset.y is not None
    y = dataset.y[dataset.positions].double().clone()
    test = dataset.splits[0].test
    y[test] = 1 - y[test]
    return dataset.with_targets(y, "graph")
