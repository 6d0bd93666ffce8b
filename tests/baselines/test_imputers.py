"""Each imputer uses what it sees: its own columns, or its neighbours."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gspn import Categorical, Continuous, Count, Schema
from gspn.baselines import FeatureImputer
from gspn.errors import InputError

SCHEMA = Schema([Continuous("a"), Continuous("b"), Categorical("k", ["u", "v"]), Count("n")])


def graphs(count: int, seed: int, noise: float = 0.0) -> tuple[list[Data], list[Data]]:
    """Complete graphs, and the same with gaps. b follows a; k and n are the same along each of two cliques.

    With `noise` a share of k, and another of n, are those of the other clique.
    """
    rng = np.random.default_rng(seed)
    whole, gappy = [], []
    for _ in range(count):
        a = rng.normal(1e6, 100.0, size=12)  # far from 0, as time stamps are
        side = np.repeat([0, 1], 6)
        k, n = (np.abs(side - (rng.random(12) < noise)) for _ in range(2)) if noise else (side, side)
        x = np.stack([a, 2 * a + rng.normal(0, 5, size=12), k, 3 + 6 * n], axis=1)
        edges = torch.tensor([[i, j] for i in range(12) for j in range(12) if i != j and side[i] == side[j]]).T
        holes = x.copy()
        holes[rng.random(x.shape) < 0.25] = np.nan
        whole.append(Data(x=torch.from_numpy(x), edge_index=edges))
        gappy.append(Data(x=torch.from_numpy(holes), edge_index=edges))
    return whole, gappy


def errors(method: str, neighbours: bool = False, noise: float = 0.0) -> dict[str, float]:
    """Mean absolute error of b, share of wrong categories and mean absolute error of n, over the gaps."""
    _, training = graphs(40, 0, noise)
    truth, held_out = graphs(20, 1, noise)
    found = FeatureImputer(SCHEMA, method, neighbours=neighbours).fit(training).impute(held_out)
    gaps = torch.cat([graph.x for graph in held_out]).isnan()
    wrong = (torch.cat([graph.x for graph in found]) - torch.cat([graph.x for graph in truth])).abs()
    return {name: wrong[gaps[:, i], i].double().mean().item() for i, name in enumerate(SCHEMA.names)}


def test_what_each_can_and_cannot_see() -> None:
    mean, iterative, nearest, propagation = map(errors, ("mean", "iterative", "nearest", "propagation"))
    # b has a deviation of 200, of which 5 is left once a is known (where it is: three times in four).
    assert mean["b"] > 130
    assert iterative["b"] < 0.6 * mean["b"]
    assert propagation["b"] > 0.8 * mean["b"]  # neighbours know nothing of b
    # The nearest rows are those that lack a: by scikit-learn's distance, which k and n alone then make 0.
    assert nearest["b"] > 0.8 * mean["b"]
    # k and n tell of each other, and neighbours tell of both.
    assert mean["k"] > 0.3
    assert max(other["k"] for other in (iterative, nearest, propagation)) < 0.2
    assert propagation["n"] < 0.3 * mean["n"]


@pytest.mark.parametrize("method", ["iterative", "trees"])
def test_neighbours_are_further_columns(method: str) -> None:
    # Exact copies leave regressions open which of them to take, and rounds of them go on for ever.
    alone, told = errors(method, noise=0.1), errors(method, neighbours=True, noise=0.1)
    assert alone["b"] < 0.6 * errors("mean")["b"]
    assert told["k"] < 0.5 * alone["k"]  # the same along each clique
    assert told["n"] < 0.5 * alone["n"]
    assert told["b"] < 1.2 * alone["b"]  # columns that copy each other would lead rounds of regressions astray


def test_mean_and_mode_by_hand() -> None:
    nan = torch.nan
    x = torch.tensor([[1.0, 2, 1, 0], [3.0, 2, 1, 3], [nan, 2, 0, nan], [nan, nan, nan, nan]], dtype=torch.float64)
    graph = Data(x=x, edge_index=torch.empty(2, 0, dtype=torch.long))
    found = FeatureImputer(SCHEMA).fit(graph).impute(graph)
    # Counts are averaged on a log scale: √(1 · 4) − 1 = 1.
    assert found.x[3].tolist() == [2, 2, 1, 1]
    # Without an edge, propagation has nothing but the mean.
    alone = FeatureImputer(SCHEMA, "propagation").fit(graph).impute(graph)
    torch.testing.assert_close(alone.x, found.x)


def test_the_rest_of_a_graph_stays() -> None:
    _, (graph,) = graphs(1, 2)
    graph.name = "mine"
    found = FeatureImputer(SCHEMA, "nearest", max_rows=5).fit(graph).impute(graph)
    assert found.name == "mine"
    assert torch.isnan(graph.x).any()


def test_refusals() -> None:
    _, training = graphs(2, 3)
    with pytest.raises(InputError, match="method must be one of 'mean'"):
        FeatureImputer(SCHEMA, "magic").fit(training)
    with pytest.raises(InputError, match="max_rows"):
        FeatureImputer(SCHEMA, max_rows=0).fit(training)
