"""The baseline learns what the multiset of attributes says, and nothing of the structure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.model_selection import GridSearchCV
from small_graphs import EVERY_KIND, draw_graphs
from torch_geometric.data import Data

from gspn import Binary, Categorical, Continuous, Count, GSPNError, Schema
from gspn.baselines import StructureAgnostic
from gspn.baselines.features import Features

GRAPHS = draw_graphs(60, seed=0)
HELD_OUT = draw_graphs(30, seed=1)


def planted(graphs: list[Data], target: Any) -> torch.Tensor:
    """Labels that the vertices' mean charge decides."""
    charge = torch.tensor([graph.x[:, 0].nanmean() for graph in graphs]).nan_to_num(0.0)
    if isinstance(target, Schema):
        return torch.stack([charge > 0, charge < 1], dim=1).double()
    if isinstance(target, Continuous):
        return 10 * charge + 3
    return (charge > 0).double()


def make(target: Any, **arguments: Any) -> StructureAgnostic:
    return StructureAgnostic(EVERY_KIND, target, **{"epochs": 150, "lr": 0.01} | arguments)


TARGETS: list[Any] = [
    Categorical("y", ["low", "high"]),
    Binary("y"),
    Continuous("y"),
    Schema([Binary("high"), Binary("low")]),
]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: type(target).__name__)
def test_learns_what_the_attributes_say(target: Any) -> None:
    held_out = (HELD_OUT, planted(HELD_OUT, target))
    model = make(target).fit(GRAPHS, planted(GRAPHS, target), validation=held_out, progress=False)
    # Half or nothing is chance; the sign of a mean is nearly linear in the sums.
    assert model.score(*held_out) > 0.85


def test_sees_no_edge_and_no_order() -> None:
    model = make(Binary("y"), epochs=5).fit(GRAPHS, planted(GRAPHS, Binary("y")), progress=False)
    changed = [Data(x=graph.x.flip(0), edge_index=torch.tensor([[0], [1]])) for graph in HELD_OUT]
    np.testing.assert_allclose(model.predict_proba(changed), model.predict_proba(HELD_OUT), atol=1e-5)


def test_grid_search() -> None:
    y = planted(GRAPHS, Binary("y")).bool().numpy()
    search = GridSearchCV(make(Binary("y"), epochs=20), {"hidden": [4, 8]}, cv=2).fit(GRAPHS, y)
    assert search.best_params_["hidden"] in (4, 8)


# ---- Features


def test_features_of_every_kind() -> None:
    schema = Schema([Continuous("a"), Categorical("b", ["u", "v"]), Binary("c"), Count("d")])
    nan = torch.nan
    x = torch.tensor([[1.0, 0, 1, 0], [3.0, 1, 0, nan], [nan, nan, nan, 3]], dtype=torch.float64)
    found = Features.of(schema, x)(x)
    half = np.log(4) / 2
    expected = torch.tensor(
        [
            [-1, 1, 0, 1, -half / half],
            [1, 0, 1, 0, 0],  # a missing count is the mean, 0 once standardised
            [0, 0.5, 0.5, 0.5, 1],  # a missing category is the training frequencies
        ],
        dtype=torch.float32,
    )
    torch.testing.assert_close(found, expected)


def test_features_of_columns_that_say_nothing() -> None:
    x = torch.tensor([[5.0, torch.nan], [5.0, torch.nan]], dtype=torch.float64)
    constant = Schema([Continuous("constant")])
    assert Features.of(constant, x[:, :1])(x[:, :1]).tolist() == [[0], [0]]
    with pytest.raises(GSPNError, match="'missing' is missing at every vertex"):
        Features.of(Schema([Continuous("constant"), Continuous("missing")]), x)
