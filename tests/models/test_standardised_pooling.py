"""Standardised pooling and learning without labels first: what they compute, how they begin, their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_graphs import EVERY_KIND, draw_graphs
from torch_geometric.data import Data

import gspn
from gspn import GSPN, Binary, GSPNError, SupervisedGSPN

TARGET = Binary("y")
GRAPHS, HELD_OUT = draw_graphs(60, seed=0), draw_graphs(30, seed=1)


def charged(graphs: list[Data]) -> torch.Tensor:
    return torch.stack([graph.x[:, 0].nanmean().nan_to_num(0.0) > 0 for graph in graphs]).double()


def fitted(**arguments: Any) -> SupervisedGSPN:
    settings: dict[str, Any] = {"num_layers": 2, "num_states": 3, "num_graph_states": 4, "pooling": "standardised"}
    model = SupervisedGSPN(EVERY_KIND, TARGET, **settings | {"epochs": 5} | arguments)
    return model.fit(GRAPHS, charged(GRAPHS), progress=False)


def test_weights_of_graph_states_are_those_of_the_definition() -> None:
    model = fitted(pretraining=3).double()
    sums = np.stack([posteriors.sum(0).flatten().numpy() for posteriors in model.posteriors(HELD_OUT)])
    readout = model.get_parameters()["readout"]
    weights, centre, scale = (readout[name].numpy() for name in ("transitions", "centre", "scale"))
    logits = (np.log1p(sums) - centre.ravel()) / scale.ravel() @ weights.reshape(-1, 4)
    prior = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    by_state = readout["leaves"]["y"]["probs"].reshape(4).numpy()
    np.testing.assert_allclose(model.predict_proba(HELD_OUT)[:, 1], prior @ by_state, rtol=1e-9)


def test_units_are_those_of_the_training_graphs() -> None:
    model = fitted(lr=1e-12, epochs=1).double()
    logs = np.log1p(np.stack([posteriors.sum(0).numpy() for posteriors in model.posteriors(GRAPHS)]))
    units = model.get_parameters()["readout"]
    np.testing.assert_allclose(units["centre"].numpy(), logs.mean(0), atol=1e-5)  # learned in single precision
    np.testing.assert_allclose(units["scale"].numpy(), logs.std(0), atol=1e-5)


def test_the_number_of_parameters_is_that_of_sums() -> None:
    numbers = {
        pooling: sum(own.numel() for own in SupervisedGSPN(EVERY_KIND, TARGET, pooling=pooling).parameters())
        for pooling in ("sum", "standardised")
    }
    assert numbers["sum"] == numbers["standardised"]


def test_it_learns() -> None:
    model = fitted(epochs=40, pretraining=5)
    assert model.score(HELD_OUT, charged(HELD_OUT)) > 0.8


def test_learning_without_labels_comes_first() -> None:
    """After one epoch that changes nothing, the vertices are as likely as a GSPN's."""
    likely = {number: fitted(pretraining=number, epochs=1, lr=1e-12) for number in (0, 8)}
    mean = {number: float(torch.cat(model.log_likelihood(GRAPHS)).mean()) for number, model in likely.items()}
    alone = GSPN(EVERY_KIND, num_layers=2, num_states=3, epochs=8, halve_every=4).fit(GRAPHS, progress=False)
    assert mean[8] > mean[0] + 0.05
    assert mean[8] == pytest.approx(float(torch.cat(alone.log_likelihood(GRAPHS)).mean()), abs=1e-3)
    assert len(likely[8].history_) == 1


def test_parameters_and_files_come_back(tmp_path: Path) -> None:
    model = fitted(pretraining=2)
    expected = model.predict_proba(HELD_OUT)
    model.save(tmp_path)
    loaded = gspn.load(tmp_path, SupervisedGSPN)
    np.testing.assert_array_equal(loaded.predict_proba(HELD_OUT), expected)
    assert (loaded.pooling, loaded.pretraining) == ("standardised", 2)
    again = fitted(seed=1).set_parameters(model.get_parameters())
    np.testing.assert_allclose(again.predict_proba(HELD_OUT), expected, atol=1e-6)
    wrong = model.get_parameters()
    wrong["readout"]["scale"] = -wrong["readout"]["scale"]
    with pytest.raises(GSPNError, match="scale"):
        model.set_parameters(wrong)
    np.testing.assert_array_equal(model.predict_proba(HELD_OUT), expected)


@pytest.mark.parametrize("number", [-1, 0.5, "ten"])
def test_wrong_numbers_of_epochs_are_refused(number: Any) -> None:
    with pytest.raises(GSPNError, match="pretraining"):
        SupervisedGSPN(EVERY_KIND, TARGET, pretraining=number)
