"""What is refused costs nothing: a fitted model, and a file, are as they were before."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from small_graphs import EVERY_KIND, draw_graphs
from torch_geometric.data import Data

import gspn
from gspn import GSPN, Continuous, Schema

CHARGE, ELEMENT = 0, 1


@pytest.fixture(scope="module")
def graphs() -> list[Data]:
    return draw_graphs(6, seed=0, missing=0.1)


@pytest.fixture
def own(graphs: list[Data]) -> GSPN:
    return small_model().fit(graphs, progress=False)


def small_model(**settings: Any) -> GSPN:
    return GSPN(EVERY_KIND, **{"num_layers": 2, "num_states": 2, "epochs": 1} | settings)


def spoil(graphs: list[Data], graph: int, vertex: int, column: int, value: float) -> list[Data]:
    """The same graphs with one other entry."""
    spoiled = [data.clone() for data in graphs]
    spoiled[graph].x[vertex, column] = value
    return spoiled


def test_a_checkpoint_of_another_run(graphs: list[Data], tmp_path: Path) -> None:
    file = tmp_path / "run.safetensors"
    small_model().fit(graphs, checkpoint=file, progress=False)
    kept = file.read_bytes()
    with pytest.raises(gspn.GSPNError, match=r"run\.safetensors belongs to another run \(lr: 0\.1 there, 0\.2 here\)"):
        small_model(lr=0.2).fit(graphs, checkpoint=file, progress=False)
    with pytest.raises(gspn.GSPNError, match=r"another run \(num_states: 2 there, 3 here\)"):
        small_model(num_states=3).fit(graphs, checkpoint=file, progress=False)
    with pytest.raises(gspn.GSPNError, match=r"another run \(training data: "):
        small_model().fit(graphs[1:], checkpoint=file, progress=False)
    with pytest.raises(gspn.GSPNError, match=r"another run \(validation data: None there"):
        small_model().fit(graphs, validation=graphs, checkpoint=file, progress=False)
    with pytest.raises(gspn.GSPNError, match=r"another run \(dtype: 'torch.float32' there, 'torch.float64' here\)"):
        small_model().double().fit(graphs, checkpoint=file, progress=False)
    assert file.read_bytes() == kept
    small_model().fit(graphs, checkpoint=file, progress=False)


def test_a_file_that_is_no_checkpoint(graphs: list[Data], tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a checkpoint")
    with pytest.raises(gspn.GSPNError, match=r"notes\.txt is not readable"):
        small_model().fit(graphs, checkpoint=file, progress=False)
    assert file.read_text() == "not a checkpoint"


def far_value(graphs: list[Data]) -> dict[str, Any]:
    return {"graphs": graphs, "validation": spoil(graphs, 2, 0, CHARGE, 1e12)}


def missing_attribute(graphs: list[Data]) -> dict[str, Any]:
    """The units of `charge` could be taken from these graphs before `degree` is found to be missing."""
    blind = [data.clone() for data in graphs]
    for data in blind:
        data.x[:, CHARGE] *= 10
        data.x[:, -1] = math.nan
    return {"graphs": blind}


@pytest.mark.parametrize(
    "bad",
    [
        lambda graphs: {"graphs": []},
        lambda graphs: {"graphs": spoil(graphs, 0, 0, ELEMENT, 9.0)},
        lambda graphs: {"graphs": graphs, "validation": []},
        lambda graphs: {"graphs": graphs, "validation": spoil(graphs, 0, 0, ELEMENT, 9.0)},
        lambda graphs: {"graphs": graphs, "lr": -1.0},
        lambda graphs: {"graphs": graphs, "num_layers": 7},
        far_value,
        missing_attribute,
    ],
    ids=["no graphs", "category", "no validation", "validation category", "lr", "override", "far value", "missing"],
)
def test_a_refused_fit_leaves_a_fitted_model_as_it_was(
    own: GSPN, graphs: list[Data], bad: Callable[[list[Data]], dict[str, Any]]
) -> None:
    assert_untouched(own, graphs, bad(graphs))


def test_a_foreign_checkpoint_leaves_a_fitted_model_as_it_was(own: GSPN, graphs: list[Data], tmp_path: Path) -> None:
    file = tmp_path / "run.safetensors"
    small_model(seed=5).fit(graphs, checkpoint=file, progress=False)
    assert_untouched(own, graphs, {"graphs": graphs, "checkpoint": file})


def assert_untouched(model: GSPN, graphs: list[Data], arguments: dict[str, Any]) -> None:
    before, history, nll = copy.deepcopy(model.state_dict()), copy.deepcopy(model.history_), model.leave_one_out_nll_
    answers = model.log_likelihood(graphs)
    with pytest.raises(gspn.GSPNError):
        model.fit(progress=False, **arguments)
    after = model.state_dict()
    assert list(after) == list(before)
    for name, value in before.items():
        assert torch.equal(after[name], value), name
    assert all(torch.equal(a, b) for a, b in zip(model.log_likelihood(graphs), answers, strict=True))
    assert model.history_ == history
    assert model.leave_one_out_nll_ == nll


def test_a_refused_fit_leaves_an_unfitted_model_unfitted(graphs: list[Data]) -> None:
    model = small_model()
    with pytest.raises(gspn.GSPNError):
        model.fit(**far_value(graphs), progress=False)
    with pytest.raises(gspn.GSPNError, match="not fitted"):
        model.log_likelihood(graphs)


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
