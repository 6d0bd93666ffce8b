"""Exact probabilities equal what other code computes for the same model. That they sum to one: the oracle shows it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.mixture import GaussianMixture
from small_graphs import EVERY_KIND, draw_graphs
from small_models import random_model
from torch import Tensor
from torch_geometric.data import Data

from gspn import GSPN, Categorical, Continuous, Schema
from gspn.circuits import naive_bayes

# ---- One level is a mixture model


def clusters(n: int, columns: int, groups: int, seed: int) -> NDArray[np.float64]:
    """Groups of different size, place and shape, in different units."""
    rng = np.random.default_rng(seed)
    means, stds = rng.normal(0, 3, (groups, columns)), rng.uniform(0.3, 1.5, (groups, columns))
    group = rng.choice(groups, size=n, p=rng.dirichlet(np.full(groups, 5.0)))
    rows: NDArray[np.float64] = rng.normal(means[group], stds[group]) * 10.0 ** np.arange(columns) + 5
    return rows


def as_graphs(rows: NDArray[np.float64], graphs: int) -> list[Data]:
    """Edges are there to be ignored."""
    ring = torch.stack([torch.arange(len(rows) // graphs), torch.arange(len(rows) // graphs).roll(1)])
    return [Data(x=torch.from_numpy(part), edge_index=ring) for part in np.split(rows, graphs)]


MIXTURES = [(3, 2, 3), (8, 4, 6), (5, 1, 5)]  # states, columns, groups in the data


@pytest.mark.parametrize(("states", "columns", "groups"), MIXTURES)
def test_one_level_equals_a_diagonal_gaussian_mixture(states: int, columns: int, groups: int) -> None:
    rows = clusters(600, columns, groups, seed=states)
    theirs = GaussianMixture(states, covariance_type="diag", random_state=0).fit(rows)
    schema = Schema([Continuous(f"x{column}") for column in range(columns)])
    model = GSPN(schema, num_layers=1, num_states=states).double()
    model.set_parameters(
        {
            "prior": theirs.weights_[None],
            "transitions": np.empty((0, 1, 1, states, states)),
            "leaves": {
                name: {"mean": theirs.means_[None, :, c], "std": np.sqrt(theirs.covariances_)[None, :, c]}
                for c, name in enumerate(schema.names)
            },
        }
    )
    graphs = as_graphs(rows, 6)
    for leave_one_out in (False, True):  # no vertex hears another
        ours = torch.cat(model.log_likelihood(graphs, leave_one_out=leave_one_out)).numpy()
        # Both are right to 1e-12 or so, but scikit-learn expands the square, which costs digits.
        np.testing.assert_allclose(ours, theirs.score_samples(rows), rtol=1e-8, atol=1e-8)
    responsibilities = torch.cat(model.posteriors(graphs)).reshape(len(rows), states).numpy()
    np.testing.assert_allclose(responsibilities, theirs.predict_proba(rows), rtol=0, atol=1e-8)


@pytest.mark.parametrize(("states", "columns", "groups"), MIXTURES)
def test_training_one_level_finds_what_em_finds(states: int, columns: int, groups: int) -> None:
    rows = clusters(3000, columns, groups, seed=10 + states)
    theirs = GaussianMixture(states, covariance_type="diag", random_state=0).fit(rows)
    schema = Schema([Continuous(f"x{column}") for column in range(columns)])
    model = GSPN(schema, num_layers=1, num_states=states).fit(as_graphs(rows, 60), progress=False)
    ours = float(torch.cat(model.log_likelihood(as_graphs(rows, 60))).double().mean())
    assert ours >= theirs.score(rows) - 0.02


# ---- Counting, and two codes for one model


def test_number_of_parameters_with_a_shortcut_and_edge_types() -> None:
    schema = Schema([Categorical("element", range(37)), Continuous("mass")])
    for shortcut, weights in (("mean", 0), ("learned", 9)):
        model = GSPN(schema, num_layers=10, num_states=20, shortcut=shortcut, num_edge_types=3)
        expected = 9 * 20 * (37 + 2) + 9 * 3 * 400 + 20 + weights  # the root has no leaves of its own
        assert sum(p.numel() for p in model.parameters()) == expected


@pytest.mark.parametrize("shortcut", [None, "mean", "learned"])
@pytest.mark.parametrize("levels", [2, 4])
def test_naive_bayes_as_a_circuit_equals_naive_bayes(levels: int, shortcut: str | None) -> None:
    arguments: dict[str, Any] = {"num_layers": levels, "num_states": 4, "shortcut": shortcut, "num_edge_types": 2}
    plain = random_model(EVERY_KIND, 5, **arguments)
    circuit = random_model(EVERY_KIND, 6, template=naive_bayes(EVERY_KIND, 4), **arguments)
    assert type(plain.hierarchy.template) is not type(circuit.hierarchy.template)
    circuit.set_parameters(plain.get_parameters())
    graphs = draw_graphs(4, seed=5, missing=0.3, edge_types=2)
    graphs[0].x[0] = math.nan

    def answers(model: GSPN) -> list[Tensor]:
        return [
            *model.log_likelihood(graphs),
            *model.log_likelihood(graphs, leave_one_out=True),
            *model.posteriors(graphs),
        ]

    for one, other in zip(answers(plain), answers(circuit), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
