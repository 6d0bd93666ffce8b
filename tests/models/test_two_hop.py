"""Both ways to labels of graphs see two hops of structure; a model that knows no edges is at chance.

400 test graphs: chance is 0.5 with a deviation of 0.025, and 0.95 is what a model must reach.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from two_hop import SCHEMA, TARGET, rings

from gspn import GSPN, DeepSets, SupervisedGSPN
from gspn.baselines import StructureAgnostic

TRAIN, HELD_OUT, TEST = rings(200, seed=0), rings(100, seed=1), rings(400, seed=2)


def labels(graphs: list[Data]) -> torch.Tensor:
    return torch.cat([graph.y for graph in graphs])


def test_the_multiset_of_attributes_says_nothing() -> None:
    """Graphs of one size have the same multiset of attributes, and both labels occur at every size."""
    by_size: dict[int, set[tuple[int, tuple[float, ...]]]] = {}
    for graph in TEST:
        content = tuple(sorted(graph.x[:, 0].tolist()))
        by_size.setdefault(len(graph.x), set()).add((int(graph.y), content))
    for found in by_size.values():
        assert len({content for _, content in found}) == 1
        assert {label for label, _ in found} == {0, 1}


def test_unsupervised_and_deep_sets() -> None:
    model = GSPN(SCHEMA, num_layers=4, num_states=6, epochs=40).fit(TRAIN, validation=HELD_OUT)
    head = DeepSets(TARGET, hidden=16, epochs=150, lr=0.01, patience=50)
    head.fit(model.embed(TRAIN), labels(TRAIN), validation=(model.embed(HELD_OUT), labels(HELD_OUT)))
    assert head.score(model.embed(TEST), labels(TEST)) >= 0.95


@pytest.mark.parametrize("head", ["circuit", "linear"])
@pytest.mark.parametrize("pooling", ["sum", "mean"])
def test_supervised(pooling: str, head: str) -> None:
    model = SupervisedGSPN(
        SCHEMA, TARGET, num_layers=4, num_states=6, num_graph_states=8, lr=0.05, epochs=80, pooling=pooling, head=head
    )
    assert model.fit(TRAIN, validation=HELD_OUT).score(TEST) >= 0.95


def test_one_hop_is_not_enough() -> None:
    model = SupervisedGSPN(SCHEMA, TARGET, num_layers=2, num_states=6, num_graph_states=8, lr=0.05, epochs=30)
    assert model.fit(TRAIN, validation=HELD_OUT).score(TEST) < 0.6


def test_the_structure_agnostic_baseline_is_at_chance() -> None:
    model = StructureAgnostic(SCHEMA, TARGET, epochs=100, lr=0.01).fit(TRAIN, validation=HELD_OUT)
    # It answers by the size alone, which is drawn independently of the label: within four deviations of a half.
    assert abs(model.score(TEST) - 0.5) < 0.1
    assert np.isfinite(model.predict_proba(TEST)).all()
