"""What is refused costs nothing: a fitted model, and a file, are as they were before."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from small_graphs import spoil
from small_models import small_model
from torch_geometric.data import Data

import gspn
from gspn import GSPN, Continuous, Schema

CHARGE, ELEMENT = 0, 1


def test_a_foreign_checkpoint_leaves_a_fitted_model_as_it_was(own: GSPN, graphs: list[Data], tmp_path: Path) -> None:
    """What makes a run another one: `training/test_checkpoint.py`."""
    file = tmp_path / "run.safetensors"
    small_model(seed=5).fit(graphs, checkpoint=file, progress=False)
    kept = file.read_bytes()
    assert_untouched(own, graphs, {"graphs": graphs, "checkpoint": file}, "another run .seed: 5 there, 0 here")
    assert file.read_bytes() == kept


def test_a_file_that_is_no_checkpoint(graphs: list[Data], tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a checkpoint")
    with pytest.raises(gspn.GSPNError, match=r"notes\.txt is not readable"):
        small_model().fit(graphs, checkpoint=file, progress=False)
    assert file.read_text() == "not a checkpoint"


def missing_attribute(graphs: list[Data]) -> dict[str, Any]:
    """The units of `charge` could be taken from these graphs before `degree` is found to be missing."""
    blind = [data.clone() for data in graphs]
    for data in blind:
        data.x[:, CHARGE] *= 10
        data.x[:, -1] = math.nan
    return {"graphs": blind}


def given(arguments: dict[str, Any]) -> Callable[[list[Data]], dict[str, Any]]:
    return lambda graphs: arguments


REFUSED: dict[str, tuple[Callable[[list[Data]], dict[str, Any]], str]] = {
    "no graphs": (given({"graphs": []}), "empty"),
    "category": (
        lambda graphs: {"graphs": spoil(graphs, 0, 0, ELEMENT, 9.0)},
        "graph 0, vertex 0, attribute 'element': code 9",
    ),
    "no validation": (given({"validation": []}), "empty"),
    "validation category": (lambda graphs: {"validation": spoil(graphs, 0, 0, ELEMENT, 9.0)}, "'element': code 9"),
    "far value": (
        lambda graphs: {"validation": spoil(graphs, 2, 0, CHARGE, 1e12)},
        r"graph 2, vertex 0, attribute 'charge': 1e\+12 is more than 1e\+06",
    ),
    "missing": (missing_attribute, "'degree' is missing at every vertex"),
    "lr": (given({"lr": -1.0}), "lr must be a number above 0, got -1"),
    "objective": (given({"objective": "x"}), "objective must be one of 'pseudo', 'masked', 'leave_one_out'"),
    **{
        name: (given({name: 1}), f"cannot override {name}; it takes objective, mask_rate, epochs")
        for name in ("num_layers", "num_states", "schema", "shortcut", "epoch", "learning_rate")
    },
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_refused_fit_leaves_a_model_as_it_was(own: GSPN, graphs: list[Data], what: str) -> None:
    bad, named = REFUSED[what]
    assert_untouched(own, graphs, {"graphs": graphs} | bad(graphs), named)
    unfitted = small_model()
    with pytest.raises(gspn.GSPNError, match=named):
        unfitted.fit(**{"graphs": graphs} | bad(graphs), progress=False)
    with pytest.raises(gspn.GSPNError, match="not fitted"):
        unfitted.log_likelihood(graphs)


def assert_untouched(model: GSPN, graphs: list[Data], arguments: dict[str, Any], named: str) -> None:
    before, history, nll = copy.deepcopy(model.state_dict()), copy.deepcopy(model.history_), model.leave_one_out_nll_
    answers = model.log_likelihood(graphs)
    with pytest.raises(gspn.GSPNError, match=named):
        model.fit(progress=False, **arguments)
    after = model.state_dict()
    assert list(after) == list(before)
    for name, value in before.items():
        assert torch.equal(after[name], value), name
    assert all(torch.equal(a, b) for a, b in zip(model.log_likelihood(graphs), answers, strict=True))
    assert model.history_ == history
    assert model.leave_one_out_nll_ == nll


def test_refused_parameters_leave_a_model_as_it_was(own: GSPN, graphs: list[Data]) -> None:
    with pytest.raises(gspn.GSPNError, match=r"^num_layers must be an integer of at least 1, got 0"):
        own.set_params(num_layers=0)
    assert own.num_layers == 2
    assert len(own.log_likelihood(graphs)) == len(graphs)


@pytest.mark.parametrize("size", [1e200, 1e308])
def test_values_too_large_to_square_are_named(size: float) -> None:
    """Their deviation overflows float64: an error about the loss in epoch 0 would send people the wrong way."""
    schema = Schema([Continuous("mass")])
    data = Data(x=size * torch.tensor([[1.0], [1.5], [-1.2], [0.3]], dtype=torch.float64))
    with pytest.raises(gspn.GSPNError, match=r"attribute 'mass'"):
        GSPN(schema, num_layers=1, num_states=2, epochs=2).fit(data, progress=False)
