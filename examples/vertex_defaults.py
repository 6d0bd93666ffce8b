"""Do the defaults of `SupervisedGSPN(target_level="vertex")` ever fail? Two hundred small graphs of twenty kinds.

Graphs are homophilous, heterophilous, informative only through attributes, only through labels or not at all; they have
2 to 5 classes, balanced or not, and gaps. Checked is that no fit predicts a single class where a logistic regression on
own attributes, means of neighbours and known labels does not and is right more often than the largest class by two
standard errors (where nothing can be known, a single class is the right answer), and that no fit is worse than the
frequencies of the training labels by more than 0.01 nats per label. Run it as `python examples/vertex_defaults.py
[fits [first]]`; it takes some seconds for each fit.
"""

from __future__ import annotations

import logging
import sys
import warnings

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from torch_geometric.data import Data

import gspn

BOUND = 0.01
"""Nats per label that a fit may cost more than frequencies."""


def make(seed: int) -> tuple[Data, gspn.Schema, NDArray[np.float64], NDArray[np.bool_]]:
    """A graph with gaps, its schema, all labels, and which of them are known."""
    rng = np.random.default_rng([29, seed])
    n = int(rng.integers(60, 200))
    classes = int(rng.integers(2, 6))
    share = rng.dirichlet(np.full(classes, 1.0 if seed % 3 == 0 else 20.0))
    label = rng.choice(classes, p=share, size=n)
    homophily, told = [(0.9, 0.5), (0.05, 0.5), (0.5, 1.5), (0.8, 0.0), (None, 0.0)][seed % 5]
    ends = rng.integers(n, size=(2, 8 * n))
    if homophily is not None:
        same = label[ends[0]] == label[ends[1]]
        ends = ends[:, rng.random(8 * n) < np.where(same, homophily, 1 - homophily)]
    ends = ends[:, : int(rng.integers(n // 2, 3 * n))]
    means = rng.normal(size=(classes, 3))
    x = np.column_stack([rng.normal(told * means[label], 1.0), rng.integers(3, size=n), rng.poisson(2, size=n)])
    x[rng.random(x.shape) < [0.0, 0.3, 0.6, 0.9][seed // 5 % 4]] = np.nan
    schema = gspn.Schema(
        [*(gspn.Continuous(f"c{i}") for i in range(3)), gspn.Categorical("k", [0, 1, 2]), gspn.Count("n")]
    )
    for column in range(x.shape[1]):  # no column without any value
        x[rng.integers(n, size=3), column] = [0.0, 1.0, 2.0]
    known = rng.random(n) < [0.2, 0.5, 0.8][seed // 20 % 3]
    known[rng.integers(n, size=4)] = True
    edges = torch.from_numpy(np.concatenate([ends, ends[::-1]], axis=1).copy())
    return Data(x=torch.from_numpy(x), edge_index=edges), schema, label.astype(float), known


def rows(graph: Data, label: NDArray[np.float64], known: NDArray[np.bool_]) -> NDArray[np.float64]:
    """What the logistic regression sees: attributes, means over neighbours, counts of their known labels."""
    x = graph.x.numpy()
    x = np.where(np.isnan(x), np.nanmean(x, axis=0), x)
    source, target = graph.edge_index.numpy()
    told = np.eye(int(label.max()) + 1)[label.astype(int)] * known[:, None]
    near, labels, count = np.zeros_like(x), np.zeros_like(told), np.zeros(len(x))
    np.add.at(near, target, x[source])
    np.add.at(count, target, 1.0)
    others = source != target
    np.add.at(labels, target[others], told[source[others]])
    return np.column_stack([x, near / np.maximum(count, 1)[:, None], labels])


def main(fits: int, first: int = 0) -> int:
    logging.getLogger("gspn").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    failures, gains = 0, []
    for seed in range(first, first + fits):
        graph, schema, label, known = make(seed)
        classes = int(label.max()) + 1
        asked = ~known
        carried = graph.clone()
        carried.y = torch.from_numpy(np.where(known, label, np.nan))
        model = gspn.SupervisedGSPN(schema, gspn.Categorical("label", list(range(classes))), target_level="vertex")
        found = model.fit(carried, progress=False).predict_proba(carried)[asked]
        truth = label[asked].astype(int)
        loss = -float(np.log(found[np.arange(len(truth)), truth]).mean())
        counts = np.bincount(label[known].astype(int), minlength=classes) + 1.0
        usual = -float(np.log((counts / counts.sum())[truth]).mean())
        table = rows(graph, label, known)
        linear = LogisticRegression(max_iter=300).fit(table[known], label[known]).predict(table[asked])
        most = max(np.bincount(truth)) / len(truth)
        finds = (linear == truth).mean() > most + 2 * (most * (1 - most) / len(truth)) ** 0.5
        single = len(set(found.argmax(1))) == 1 and len(set(linear)) > 1 and bool(finds)
        gains.append(usual - loss)
        if single or loss > usual + BOUND:
            failures += 1
            print(f"seed {seed}: {loss:.4f} nats, frequencies {usual:.4f}{', a single class' if single else ''}")
    low, middle, high = np.quantile(gains, [0.0, 0.5, 1.0])
    print(f"{failures} of {fits} failed; gained on frequencies: least {low:.4f}, median {middle:.3f}, most {high:.3f}")
    return failures


if __name__ == "__main__":
    given = [int(one) for one in sys.argv[1:3]]
    raise SystemExit(main(*(given or [200])) > 0)
