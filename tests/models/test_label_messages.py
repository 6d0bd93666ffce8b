"""Regressions that look through two layers of messages: learned, of use where others are not, deaf to the own label."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

import gspn
from gspn import Categorical, Continuous, Schema, SupervisedGSPN
from gspn.hierarchy.label_readout import KINDS, LabelReadout
from gspn.models import label_exams
from gspn.models.label_exams import LabelledBatch
from gspn.models.label_messages import MessageLearning

SCHEMA = Schema([Continuous(f"c{i}") for i in range(4)])
TARGET = Categorical("kind", ["a", "b"])
LOOKING = [m for m, kind in enumerate(KINDS.values()) if kind.messages]


def by_network(seed: int = 0, n: int = 260) -> tuple[Data, NDArray[np.float64]]:
    """Labels are an exclusive or of signs of neighbours' means, twice averaged: no line tells them."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(n, size=(2, 2 * n))
    edges = np.concatenate([ends, ends[::-1], np.tile(np.arange(3), (2, 1))], axis=1)
    x = rng.normal(size=(n, 4))
    mixing = np.eye(n)
    np.add.at(mixing, (edges[1], edges[0]), 1.0)
    mixing /= mixing.sum(1, keepdims=True)
    inner = np.abs(mixing @ x[:, :2])
    score = mixing @ (inner[:, 0] - inner[:, 1])
    return Data(x=torch.from_numpy(x), edge_index=torch.from_numpy(edges)), (score > np.median(score)).astype(float)


def carrying(graph: Data, y: NDArray[np.float64]) -> Data:
    found = graph.clone()
    found.y = torch.from_numpy(y)
    return found


Fitted = tuple[SupervisedGSPN, Data, NDArray[np.float64], NDArray[np.float64]]


@pytest.fixture(scope="module")
def fitted() -> Fitted:
    graph, y = by_network()
    known = np.where(np.random.default_rng(1).random(len(y)) < 0.6, y, np.nan)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(label_exams, "_JUDGES", 60)
        model = SupervisedGSPN(SCHEMA, TARGET, target_level="vertex", num_layers=1, num_states=2)
        model.fit(carrying(graph, known), progress=False)
    return model, graph, y, known


def readout_of(model: SupervisedGSPN) -> LabelReadout:
    assert isinstance(model.readout, LabelReadout)
    return model.readout


def test_what_only_messages_see_is_learned_through_them(fitted: Fitted) -> None:
    model, graph, y, known = fitted
    assert float(readout_of(model).weights[1, LOOKING].sum()) > 0.3
    asked = np.isnan(known)
    right = (model.predict_proba(carrying(graph, known)).argmax(1) == y)[asked].mean()
    assert right > 0.75
    losses = model.label_outcome_.losses
    assert min(losses, key=lambda key: losses[key])[0] in {list(KINDS)[m] for m in LOOKING}


def test_the_own_label_changes_nothing_bit_for_bit(fitted: Fitted) -> None:
    model, graph, _, known = fitted
    before, reached = model.predict_proba(carrying(graph, known)), 0
    for v in [*range(3), *range(3, 260, 40)]:
        for other in (0.0, 1.0, np.nan):
            changed = known.copy()
            changed[v] = other
            after = model.predict_proba(carrying(graph, changed))
            assert np.array_equal(before[v], after[v])
            reached += int((before != after).sum())
    assert reached > 0


def test_saved_and_loaded_it_answers_the_same(fitted: Fitted, tmp_path: Path) -> None:
    model, graph, _, known = fitted
    model.save(tmp_path / "model")
    again = gspn.load(tmp_path / "model")
    assert isinstance(again, SupervisedGSPN)
    asked = carrying(graph, known)
    assert np.array_equal(again.predict_proba(asked), model.predict_proba(asked))


def test_epochs_in_parts_are_epochs_at_once(fitted: Fitted) -> None:
    model, graph, y, _ = fitted
    readout = readout_of(model)
    batch = gspn.pack(graph, SCHEMA).batch(torch.arange(1))
    truth = torch.from_numpy(y)[:, None]
    attributes = torch.randn(len(y), readout.context.first_of_labels, generator=torch.Generator().manual_seed(3))
    own = LabelledBatch(batch, attributes, truth, truth)
    part, kind = list(readout)[LOOKING[1]], list(KINDS.values())[LOOKING[1]]
    known = (truth, torch.full_like(truth, torch.nan))
    copies = [own.inputs(readout.context, one, kind.attributes) for one in known]
    found = []
    for steps in ((5.0,), (2.0, 5.0)):
        learning = MessageLearning(part, 0.5, copies, own.rows, truth, torch.ones(len(y)).double(), seed=7)
        for step in steps:
            learning.until(step)
        found.append({name: value.clone() for name, value in part.state_dict().items()})
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])
    assert float(part.strength) == 5.0
