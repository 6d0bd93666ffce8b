"""Pseudo-Gibbs sweeps: the distribution after so many sweeps is that of the chain, written out by enumeration."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from numpy.typing import NDArray
from seeded import generator
from small_graphs import EVERY_KIND, draw_graphs
from small_models import random_model, template
from torch_geometric.data import Data

from gspn import GSPN, Binary, Categorical, GSPNError, Schema
from gspn.queries.pseudo_gibbs import side_by_side

SCHEMA = Schema([Binary("a"), Categorical("b", ["u", "v", "w"])])
VALUES = list(itertools.product((0.0, 1.0), (0.0, 1.0, 2.0)))
SIGNIFICANCE = 1e-4


def graph_of(x: Any, edges: list[tuple[int, int]]) -> Data:
    return Data(x=torch.tensor(x, dtype=torch.float64), edge_index=torch.tensor(edges).reshape(-1, 2).T)


def chain_by_hand(model: GSPN, graph: Data, order: list[int], sweeps: int) -> NDArray[np.float64]:
    """[36] probabilities of the two vertices' values after the start and so many sweeps, vertex after vertex."""

    def of_vertex(x: torch.Tensor, v: int) -> NDArray[np.float64]:
        joint = model.conditional(Data(x=x, edge_index=graph.edge_index), ["a", "b"], vertices=[v])
        rows = joint[torch.zeros(len(VALUES), dtype=torch.long)]
        probabilities: NDArray[np.float64] = rows.log_prob(torch.tensor(VALUES)).exp().numpy()
        return probabilities

    nothing = torch.full((2, 2), math.nan, dtype=torch.float64)
    p = np.outer(of_vertex(nothing, 0), of_vertex(nothing, 1))
    for _ in range(sweeps):
        for v in order:
            # The vertex's own value is forgotten and drawn given the other's.
            other = p.sum(v)
            given = [of_vertex(torch.tensor([VALUES[k]] * 2).double(), v) for k in range(len(VALUES))]
            p = np.stack([other[k] * given[k] for k in range(len(VALUES))], axis=1 if v == 0 else 0)
    return p.flatten()


@pytest.mark.parametrize("name", ["naive Bayes", "hand-made"])
@pytest.mark.parametrize("sweeps", [0, 2])
def test_two_vertices_after_some_sweeps(name: str, sweeps: int) -> None:
    model = random_model(SCHEMA, 3, template=template(name, SCHEMA, 3))
    graph = graph_of([[0, 0], [1, 2]], [(0, 1), (1, 0)])
    n = 8_000
    draws = model.pseudo_gibbs(graph, n, sweeps=sweeps, generator=generator(sweeps))
    assert draws.shape == (n, 2, 2)
    code = (3 * draws[..., 0] + draws[..., 1]).numpy().astype(int)
    found = np.bincount(6 * code[:, 0] + code[:, 1], minlength=36)
    expected = n * chain_by_hand(model, graph, [0, 1], sweeps)
    rare = expected < 5  # put together, as a chi-square test wants it
    if rare.any():
        found = np.append(found[~rare], found[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    assert scipy.stats.chisquare(found, expected * n / expected.sum()).pvalue > SIGNIFICANCE


def test_one_level_is_exact_at_once() -> None:
    """Vertices that hear nobody are drawn from their own distribution, whatever the number of sweeps."""
    model = random_model(SCHEMA, 4, num_layers=1)
    graph = graph_of([[0, 0]] * 3, [(0, 1), (1, 2)])
    p = model.conditional(graph, ["a", "b"], vertices=[0])[torch.zeros(6, dtype=torch.long)]
    expected = p.log_prob(torch.tensor(VALUES)).exp().numpy()
    for sweeps in (0, 2):
        draws = model.pseudo_gibbs(graph, 3_000, sweeps=sweeps, generator=generator())
        found = np.bincount((3 * draws[..., 0] + draws[..., 1]).numpy().astype(int).flatten(), minlength=6)
        assert scipy.stats.chisquare(found, 9_000 * expected / expected.sum()).pvalue > SIGNIFICANCE


@pytest.mark.parametrize("name", ["naive Bayes", "random"])
def test_what_is_redrawn(name: str) -> None:
    model = random_model(EVERY_KIND, 5, template=template(name, EVERY_KIND, 3))
    graph = draw_graphs(1, seed=5, sizes=(6, 6), missing=0.3)[0]
    known = ~torch.isnan(graph.x)
    filled = model.pseudo_gibbs(graph, 3, sweeps=2, entries="missing", generator=generator())
    assert torch.equal(filled[:, known], graph.x[known].double().expand(3, -1))
    assert not torch.isnan(filled).any()
    anew = model.pseudo_gibbs(graph, 3, sweeps=2, vertices=[1, 4], generator=generator())
    rest = torch.tensor([0, 2, 3, 5])
    torch.testing.assert_close(anew[:, rest], graph.x[rest].double().expand(3, -1, -1), equal_nan=True)
    assert not torch.isnan(anew[:, [1, 4]]).any()
    for one in anew:
        assert EVERY_KIND.find_fault(one) is None
    again = model.pseudo_gibbs(graph, 3, sweeps=2, vertices=[1, 4], generator=generator())
    assert torch.equal(anew[:, [1, 4]], again[:, [1, 4]])


def test_sequences_and_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(EVERY_KIND, 6)
    graphs = draw_graphs(3, seed=6)
    monkeypatch.setattr("gspn.queries.pseudo_gibbs._NUMBERS_AT_ONCE", 1)
    drawn = model.pseudo_gibbs(graphs, 2, sweeps=1, generator=generator())
    assert [one.shape for one in drawn] == [(2, graph.num_nodes, 5) for graph in graphs]
    assert not any(torch.isnan(one).any() for one in drawn)
    assert model.pseudo_gibbs(graphs[0], 0).shape == (0, graphs[0].num_nodes, 5)


def test_a_batch_side_by_side_says_the_same() -> None:
    model = random_model(EVERY_KIND, 7, num_edge_types=2)
    batch = model.collate(draw_graphs(3, seed=7, edge_types=2))
    once, twice = model(batch), model(side_by_side(batch, 2))
    torch.testing.assert_close(twice.posteriors, once.posteriors.repeat(2, 1, 1, 1), rtol=1e-12, atol=1e-12)


def test_errors() -> None:
    model, graph = random_model(EVERY_KIND, 8), draw_graphs(1, seed=8)[0]
    for arguments, message in (
        ({"n": -1}, "n must be a number of draws"),
        ({"sweeps": -1}, "sweeps must be"),
        ({"sweeps": 1.5}, "sweeps must be"),
        ({"entries": "some"}, "entries must be one of 'all', 'missing'"),
        ({"vertices": [99]}, "vertex 99 does not exist"),
    ):
        with pytest.raises(GSPNError, match=message):
            model.pseudo_gibbs(graph, **arguments)
