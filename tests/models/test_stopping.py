"""Training that stops by held-out entries."""

from __future__ import annotations

import pytest
import torch
from small_graphs import EVERY_KIND, draw_graphs

from gspn import GSPN, pack
from gspn.errors import InputError
from gspn.models.stopping import fit_holding_out_entries


def test_the_best_weights_are_kept() -> None:
    dataset = pack(draw_graphs(4, seed=3), EVERY_KIND)
    model = GSPN(EVERY_KIND, num_layers=2, num_states=6, objective="masked", epochs=60, seed=2)
    assert fit_holding_out_entries(model, dataset, share=0.2, rounds=12, patience=2, progress=False) is model
    losses = [epoch["validation"] for epoch in model.history_ if "validation" in epoch]
    assert [epoch["epoch"] for epoch in model.history_] == list(range(len(model.history_)))
    best = losses.index(min(losses))
    assert len(losses) == 12 or len(losses) - 1 - best == 2
    again = GSPN(EVERY_KIND, num_layers=2, num_states=6, objective="masked", epochs=60, seed=2)
    fit_holding_out_entries(again, dataset, share=0.2, rounds=12, patience=2, progress=False)
    first, second = model.state_dict(), again.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert model.training_scores_ is not None


def test_something_must_be_there_to_hold_out() -> None:
    dataset = pack(draw_graphs(1, seed=3), EVERY_KIND)
    with pytest.raises(InputError, match="too few observed entries"):
        fit_holding_out_entries(GSPN(EVERY_KIND, epochs=1), dataset, share=0.0, progress=False)
