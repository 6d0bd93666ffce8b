"""Exact probabilities: they sum to one, and they equal what other code computes for the same model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.mixture import GaussianMixture
from small_graphs import EVERY_KIND, draw_graphs
from small_models import TEMPLATES, random_model, template
from torch import Tensor
from torch_geometric.data import Data

from gspn import GSPN, Binary, Categorical, Continuous, Schema
from gspn.circuits import naive_bayes

# ---- Probabilities of all values of a vertex

DISCRETE = Schema([Categorical("element", ["C", "N", "O"]), Binary("aromatic"), Categorical("charge", [-1, 1])])
SIZES = (3, 2, 2)
LEVELS = 5

# In every one of them the vertex 0 is within four steps of itself, so that it hears its own echo.
CYCLES: dict[str, tuple[int, list[tuple[int, int]]]] = {
    "triangle": (3, [(0, 1), (1, 0), (1, 2), (2, 1), (2, 0), (0, 2)]),
    "one-way triangle": (3, [(0, 1), (1, 2), (2, 0)]),
    "square": (4, [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2), (3, 0), (0, 3)]),
    "one-way square": (4, [(0, 1), (1, 2), (2, 3), (3, 0)]),
    "self-loop": (2, [(0, 0), (0, 1)]),
    "edge, parallel edges and a self-loop": (3, [(0, 0), (0, 1), (1, 0), (1, 0), (1, 2)]),
}


def draw_cycle(shape: str, seed: int, missing: float = 0.0) -> Data:
    n, edges = CYCLES[shape]
    rng = np.random.default_rng(seed)
    x = np.stack([rng.integers(size, size=n) for size in SIZES], axis=1).astype(np.float64)
    x[rng.random(x.shape) < missing] = np.nan
    index = torch.tensor(edges).T
    return Data(x=torch.from_numpy(x), edge_index=index, edge_type=torch.from_numpy(rng.integers(2, size=len(edges))))


def completions(data: Data, v: int, columns: list[int]) -> Iterator[Data]:
    """The graph with all combinations of values of v's entries in these columns."""
    for values in itertools.product(*(range(SIZES[column]) for column in columns)):
        other = data.clone()
        other.x[v, columns] = torch.tensor(values, dtype=torch.float64)
        yield other


def total_probability(model: GSPN, data: Data, v: int, columns: list[int], leave_one_out: bool) -> float:
    log_likelihoods = model.log_likelihood(list(completions(data, v, columns)), leave_one_out=leave_one_out)
    return float(torch.stack([result[v] for result in log_likelihoods]).exp().sum())


def cyclic_model(name: str, seed: int, **arguments: Any) -> GSPN:
    circuit = template(name, DISCRETE, 3, seed)
    return random_model(DISCRETE, seed, template=circuit, num_layers=LEVELS, num_edge_types=2, **arguments)


@pytest.mark.parametrize("shape", CYCLES)
@pytest.mark.parametrize("name", TEMPLATES)
def test_all_values_of_a_vertex_given_the_others_sum_to_one(name: str, shape: str) -> None:
    model, data = cyclic_model(name, 1), draw_cycle(shape, 1, missing=0.2)
    for v in range(data.num_nodes):
        # Twelve probabilities that are right to 1e-13 or so.
        assert total_probability(model, data, v, [0, 1, 2], leave_one_out=True) == pytest.approx(1, abs=1e-9)
    # The pseudo-likelihood is none of a distribution there: without leaving v out, its tree knows its value.
    assert abs(total_probability(model, data, 0, [0, 1, 2], leave_one_out=False) - 1) > 1e-6


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("columns", [[0], [1, 2], [0, 2]])
def test_all_values_of_some_entries_sum_to_one_where_the_others_are_missing(columns: list[int], name: str) -> None:
    model, data = cyclic_model(name, 2, shortcut="learned"), draw_cycle("triangle", 2)
    data.x[0, [c for c in range(3) if c not in columns]] = math.nan
    assert total_probability(model, data, 0, columns, leave_one_out=True) == pytest.approx(1, abs=1e-9)
    assert abs(total_probability(model, data, 0, columns, leave_one_out=False) - 1) > 1e-6


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_missing_entry_is_summed_out(name: str) -> None:
    """P(known entries | others) is the sum over the values of the missing ones."""
    model, data = cyclic_model(name, 3), draw_cycle("square", 3)
    data.x[0, [0, 2]] = math.nan
    expected = float(model.log_likelihood(data, leave_one_out=True)[0].exp())
    assert total_probability(model, data, 0, [0, 2], leave_one_out=True) == pytest.approx(expected, rel=1e-9)


def test_a_vertex_given_the_others_does_not_depend_on_its_own_values_elsewhere() -> None:
    """The answer for v changes with v's value only through the root: ratios equal those of the mixture itself."""
    model, data = cyclic_model("naive Bayes", 4), draw_cycle("triangle", 4)
    unknown = data.clone()
    unknown.x[0] = math.nan
    prior = model(model.collate(unknown)).root_log_prior[0, 0].detach().exp()
    leaves = model.get_parameters()["leaves"]
    for other in completions(data, 0, [0, 1, 2]):
        element, aromatic, charge = (int(value) for value in other.x[0])
        p = leaves["aromatic"]["probs"][-1]
        density = leaves["element"]["probs"][-1, :, element] * leaves["charge"]["probs"][-1, :, charge]
        density = density * (p if aromatic else 1 - p)
        ours = model.log_likelihood(other, leave_one_out=True, vertices=[0])[0]
        torch.testing.assert_close(ours.exp(), (prior * density).sum(), rtol=1e-10, atol=0)


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


def test_number_of_parameters() -> None:
    """The paper's 36,876 for 10 levels, 20 states, 37 categories, 128 graph states and 2 classes.

    Those of the readout, 10·20·128 + 128·2 = 25,856, belong to the supervised model; 11,020 are left: leaves of ten
    levels, transitions between them, one prior.
    """
    model = GSPN(Schema([Categorical("element", range(37))]), num_layers=10, num_states=20)
    assert sum(p.numel() for p in model.parameters()) == 10 * 20 * 37 + 9 * 400 + 20 == 11_020
    assert 11_020 + 10 * 20 * 128 + 128 * 2 == 36_876


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


def test_naive_bayes_as_a_circuit_learns_like_naive_bayes() -> None:
    """The same start and the same steps; Adam may blow up rounding to some 1e-9 a step, six are made."""
    graphs = draw_graphs(12, seed=7)
    settings: dict[str, Any] = {"num_layers": 3, "num_states": 3, "epochs": 3, "batch_size": 6}
    plain, circuit = (
        GSPN(EVERY_KIND, template=structure, **settings).double().fit(graphs, progress=False)
        for structure in (None, naive_bayes(EVERY_KIND, 3))
    )
    for one, other in zip(plain.log_likelihood(graphs), circuit.log_likelihood(graphs), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)
