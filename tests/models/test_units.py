"""Units: what is measured in grams and what in kilograms makes the same model; gaps stay gaps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from small_graphs import EVERY_KIND, draw_graphs
from torch import Tensor
from torch_geometric.data import Data

from gspn import GSPN, Categorical, Continuous, Schema
from gspn.circuits import random_circuit

UNITS = Schema([Continuous("charge"), Continuous("mass"), Categorical("element", ["C", "N", "O"])])


def draw_units(scale: float, shift: float = 0.0, missing: float = 0.2) -> list[Data]:
    """Graphs whose second column is scaled and shifted; its numbers have few bits, so that shifting is exact."""
    graphs = draw_graphs(12, seed=16, missing=missing)
    rng = np.random.default_rng(17)
    for data in graphs:
        mass = torch.from_numpy(np.round(rng.gamma(2.0, 3.0, data.num_nodes) * 1024) / 1024)
        mass = torch.where(torch.isnan(data.x[:, 2]), torch.nan, mass)
        data.x = torch.stack([data.x[:, 0], scale * (mass + shift), data.x[:, 1]], dim=1)
    return graphs


def fit_units(graphs: list[Data], **arguments: Any) -> GSPN:
    model = GSPN(UNITS, **{"num_layers": 3, "num_states": 4, "epochs": 5, "batch_size": 4} | arguments).double()
    return model.fit(graphs, progress=False)


def assert_close(one: Tensor, other: Tensor, tolerance: float) -> None:
    torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


def assert_all_close(ours: list[Tensor], theirs: list[Tensor], tolerance: float) -> None:
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, tolerance)


# In standardised units both runs see the same numbers up to relative rounding of 1e-16. Adam divides gradients by their
# size, so the rounding of a tiny gradient is blown up, but by 1e8 (its epsilon) at most: differences of some 1e-10 a
# step are possible, 15 steps are made. A wrong Jacobian or an unscaled floor is off by 1e-2 or more.
TRAINED = 1e-6


@pytest.mark.parametrize("circuit", [False, True])
@pytest.mark.parametrize("scale", [1000.0, 0.001, 1024.0, 7.3])
def test_scaling_a_column_shifts_log_likelihoods(scale: float, circuit: bool) -> None:
    structure = random_circuit(UNITS, 4, depth=2, repetitions=2, seed=1) if circuit else None
    plain, scaled = draw_units(1.0), draw_units(scale)
    one, other = fit_units(plain, template=structure), fit_units(scaled, template=structure)
    for data, moved in zip(plain, scaled, strict=True):
        shift = -np.log(scale) * (~torch.isnan(data.x[:, 1])).double()
        for leave_one_out in (False, True):
            ours = one.log_likelihood(data, leave_one_out=leave_one_out) + shift
            assert_close(other.log_likelihood(moved, leave_one_out=leave_one_out), ours, TRAINED)
        assert_close(other.posteriors(moved), one.posteriors(data), TRAINED)
    ours, theirs = other.get_parameters(), one.get_parameters()
    for name in ("mean", "std"):
        assert_close(ours["leaves"]["mass"][name] / scale, theirs["leaves"]["mass"][name], TRAINED)


@pytest.mark.parametrize("circuit", [False, True])
def test_the_start_does_not_depend_on_units(circuit: bool) -> None:
    """Without steps only rounding can differ, so that no tie between equally good clusterings may be left to it."""
    structure = random_circuit(UNITS, 4, depth=2, repetitions=2, seed=1) if circuit else None
    plain = draw_units(1.0)
    expected = fit_units(plain, template=structure, epochs=0).posteriors(plain)
    for scale in (1000.0, 0.001, 7.3, 3.0, 100.0, 12345.0, 1 / 3):
        scaled = draw_units(scale)
        assert_all_close(fit_units(scaled, template=structure, epochs=0).posteriors(scaled), expected, 1e-9)


@pytest.mark.parametrize("shift", [1024.0, -50.0])
def test_shifting_a_column_changes_nothing(shift: float) -> None:
    plain, moved = draw_units(1.0), draw_units(1.0, shift)
    one, other = fit_units(plain), fit_units(moved)
    assert_all_close(other.log_likelihood(moved), one.log_likelihood(plain), TRAINED)
    assert_all_close(
        other.log_likelihood(moved, leave_one_out=True), one.log_likelihood(plain, leave_one_out=True), TRAINED
    )
    assert_all_close(other.posteriors(moved), one.posteriors(plain), TRAINED)


@pytest.mark.parametrize("value", [0.0, 0.1, -3.0, 1e9, 1.7e18])
def test_a_constant_column_is_measured_in_units_of_one(value: float) -> None:
    graphs = draw_units(1.0)
    for data in graphs:
        data.x[~torch.isnan(data.x[:, 1]), 1] = value
    model = fit_units(graphs)
    center, spread = model.get_parameters()["units"]["mass"].tolist()
    assert spread == 1.0
    assert center == pytest.approx(value, rel=1e-12)
    for result in (*model.log_likelihood(graphs), *model.log_likelihood(graphs, leave_one_out=True)):
        assert torch.isfinite(result).all()


def test_training_with_half_of_the_values_missing() -> None:
    graphs = draw_graphs(40, seed=18, missing=0.5)
    held_out = draw_graphs(20, seed=19, missing=0.0)
    model = GSPN(EVERY_KIND, num_layers=2, num_states=4, epochs=0).double().fit(graphs, progress=False)
    before = torch.cat(model.log_likelihood(held_out)).mean()
    model.fit(graphs, epochs=20, progress=False)
    after = torch.cat(model.log_likelihood(held_out)).mean()
    # Complete vertices that were never seen become more likely: the gaps were not taken for values.
    assert after > before + 0.1
    assert all(torch.isfinite(value).all() for value in model.state_dict().values())
