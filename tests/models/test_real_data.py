"""The model on real molecules: what the paper's objective and the masked one are worth as predictions."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from gspn import GSPN, datasets


@pytest.mark.data
def test_masked_objective_beats_the_marginal_on_nci1(data_root: Path, tmp_path: Path) -> None:
    """A label given all other labels, after three epochs: already below the entropy of the labels, 0.88 nats."""
    dataset = datasets.load("NCI1", root=data_root, cache=tmp_path)
    fold = dataset.splits[0]
    labels = torch.bincount(dataset[fold.train].entries().long().flatten()).double()
    share = labels[labels > 0] / labels.sum()
    entropy = -(share * share.log()).sum().item()
    assert entropy == pytest.approx(0.88, abs=0.01)
    model = GSPN(dataset.schema, num_layers=5, num_states=20, objective="masked", epochs=3)
    model.fit(dataset[fold.train], validation=dataset[fold.validation])
    assert model.leave_one_out_nll_ is not None
    assert model.leave_one_out_nll_ < 0.95 * entropy
