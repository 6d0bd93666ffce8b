"""Missing entries: their likelihood is the oracle's, filling keeps what is known, draws are joint within a vertex."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from oracle_cases import draw_values, make_case
from seeded import generator
from small_distributions import as_mixture
from small_graphs import EVERY_KIND, draw_graphs
from small_models import TEMPLATES, random_model, template
from torch import Tensor
from torch_geometric.data import Batch, Data

import gspn
from gspn import GSPN, Binary, Continuous, GSPNError, Schema
from gspn.circuits.distributions import MixtureDistribution
from gspn.testing import oracle

SIGNIFICANCE = 1e-4
over_templates = pytest.mark.parametrize("name", TEMPLATES)


def model_of(name: str, seed: int = 1, **arguments: Any) -> GSPN:
    return random_model(EVERY_KIND, seed, template=template(name, EVERY_KIND, 3, seed), **arguments)


# ---- log_prob_missing


@pytest.mark.parametrize("seed", range(1, 240, 8))
def test_likelihood_of_the_truth_is_the_oracles(seed: int) -> None:
    case = make_case(seed)
    missing = np.isnan(case.graph.x)
    truth = draw_values(np.random.default_rng(500 + seed), case.model.schema, len(missing), 0.1)
    asked = [{int(c): x[c] for c in np.flatnonzero(own & ~np.isnan(x))} for own, x in zip(missing, truth, strict=True)]
    theirs = [oracle.answer(case.theirs, case.graph, v, values) for v, values in enumerate(asked)]
    for given in (torch.from_numpy(truth), Data(x=torch.from_numpy(truth))):
        ours = case.model.log_prob_missing(case.data, given)
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-9, atol=1e-9, err_msg=str(case.axes))
        assert bool((ours[~torch.from_numpy(missing).any(1)] == 0).all())


def test_likelihood_of_the_truth_in_a_sequence() -> None:
    model = model_of("naive Bayes")
    graphs = draw_graphs(5, seed=2, missing=0.4)
    truths = [graph.x for graph in draw_graphs(5, seed=2, missing=0.0)]
    together = model.log_prob_missing(graphs, truths)
    packed = model.log_prob_missing(gspn.pack(graphs, EVERY_KIND), [Data(x=x) for x in truths])
    for graph, truth, one, other in zip(graphs, truths, together, packed, strict=True):
        alone = model.log_prob_missing(graph, truth)
        torch.testing.assert_close(alone, one, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(alone, other, rtol=1e-12, atol=1e-12)


def test_observed_entries_of_the_truth_are_not_read() -> None:
    model, graph = model_of("random"), draw_graphs(1, seed=3, missing=0.4)[0]
    truth = model.impute(graph).x
    other = truth.clone()
    other[~torch.isnan(graph.x)] = 1.0
    assert torch.equal(model.log_prob_missing(graph, truth), model.log_prob_missing(graph, other))


# ---- impute


FIVE = draw_graphs(1, seed=3, sizes=(5, 5))[0]


def with_entry(row: int, column: int, value: float) -> torch.Tensor:
    truth = torch.zeros(5, 5)
    truth[row, column] = value
    return truth


@pytest.mark.parametrize(
    ("graphs", "truth", "named"),
    [
        (FIVE, torch.zeros(4, 5), r"truth of graph 0 must have shape \[5, 5\], got \[4, 5\]"),
        (FIVE, torch.zeros(5, 4), "truth: graph 0: x has shape"),
        ([FIVE, FIVE], [torch.zeros(5, 5)], "there are 2 graphs, but truth has 1"),
        (FIVE, None, "truth of graph 0 must have shape .* got NoneType"),
        (FIVE, with_entry(2, 1, 7.0), "truth: graph 0, vertex 2, attribute 'element': code 7 is none"),
        (FIVE, with_entry(1, 0, 1e9), "truth: graph 0, vertex 1, attribute 'charge': .* deviations"),
    ],
)
def test_wrong_truths(graphs: Any, truth: Any, named: str) -> None:
    with pytest.raises(GSPNError, match=named):
        model_of("naive Bayes").log_prob_missing(graphs, truth)


def test_the_mean_is_the_papers_formula() -> None:
    """x = Σ_i E[X | i] h(i), with h the root's posterior given what is observed."""
    model, graph = model_of("naive Bayes"), draw_graphs(1, seed=4, missing=0.4)[0]
    h = model.posteriors(graph)[:, -1, 0]
    leaves = model.get_parameters()["leaves"]
    filled = model.impute(graph)
    gaps = torch.isnan(graph.x)
    expected = h @ leaves["charge"]["mean"][-1]
    torch.testing.assert_close(filled.x[gaps[:, 0], 0], expected[gaps[:, 0]], rtol=1e-12, atol=1e-12)
    element = (h @ leaves["element"]["probs"][-1]).argmax(1).double()
    assert torch.equal(filled.x[gaps[:, 1], 1], element[gaps[:, 1]])
    aromatic = (h @ leaves["aromatic"]["probs"][-1] > 0.5).double()
    assert torch.equal(filled.x[gaps[:, 2], 2], aromatic[gaps[:, 2]])


@over_templates
@pytest.mark.parametrize("how", ["mean", "median", "mode", "closest"])
def test_filled_entries_are_means_and_modes_of_their_conditionals(name: str, how: str) -> None:
    """A vertex with one gap: what fills it is what `conditional` says there."""
    model, graph = model_of(name, 2), draw_graphs(1, seed=5, sizes=(6, 6), missing=0.0)[0]
    for column, attribute in enumerate(EVERY_KIND):
        hidden = graph.clone()
        hidden.x[3, column] = math.nan
        distribution = model.conditional(hidden, attribute.name, vertices=[3])
        expected = distribution.mode.double()
        if attribute.kind == "continuous" and how in ("mean", "closest"):
            expected = distribution.mean
        elif attribute.kind == "count" and how == "closest":
            expected = distribution.mean.round()
        elif isinstance(distribution, MixtureDistribution) and how == "median":
            expected = distribution.quantile(0.5)
        torch.testing.assert_close(model.impute(hidden, how).x[3, column], expected[0], rtol=1e-9, atol=1e-9)


@over_templates
@pytest.mark.parametrize("how", ["mean", "median", "mode", "closest", "sample"])
def test_filling_keeps_what_is_known(name: str, how: str) -> None:
    model = model_of(name)
    graphs = draw_graphs(4, seed=6, missing=0.5)
    graphs[0].x = graphs[0].x.float()
    graphs[1].x[:] = math.nan
    for number, graph in enumerate(graphs):
        graph.name, graph.y = f"molecule {number}", torch.tensor([number])
    before = [graph.clone() for graph in graphs]
    filled = model.impute(graphs, how, generator=generator())
    assert isinstance(filled, list)
    for graph, old, new in zip(graphs, before, filled, strict=True):
        known = ~torch.isnan(old.x)
        assert torch.equal(graph.x[known], old.x[known])
        assert torch.equal(torch.isnan(graph.x), ~known), "the given graph is left alone"
        assert new.x.dtype == old.x.dtype
        assert torch.equal(new.x[known], old.x[known])
        assert not torch.isnan(new.x).any()
        assert torch.equal(new.edge_index, old.edge_index)
        assert EVERY_KIND.find_fault(new.x) is None
    assert filled[2].name == "molecule 2"
    assert filled[2].y.tolist() == [2]
    alone = model.impute(graphs[3], how, generator=generator())
    assert isinstance(alone, Data)
    if how != "sample":
        torch.testing.assert_close(alone.x, filled[3].x, rtol=1e-9, atol=1e-9)
        containers: tuple[Any, ...] = (
            gspn.pack(graphs[3:], EVERY_KIND),
            Batch.from_data_list(graphs[3:]),
            iter(graphs[3:]),
        )
        for container in containers:
            torch.testing.assert_close(model.impute(container, how)[0].x, filled[3].x, rtol=1e-9, atol=1e-9)


def test_nothing_missing_and_no_vertices() -> None:
    model, graph = model_of("random"), draw_graphs(1, seed=7, missing=0.0)[0]
    for how in ("mean", "median", "mode", "closest", "sample"):
        assert torch.equal(model.impute(graph, how).x, graph.x)
    assert model.log_prob_missing(graph, graph).tolist() == [0.0] * graph.num_nodes
    assert torch.equal(model.sample_missing(graph, 2), graph.x.expand(2, -1, -1))
    empty = Data(x=torch.zeros(0, 5), edge_index=torch.zeros(2, 0, dtype=torch.long))
    assert model.impute(empty).x.shape == (0, 5)
    assert model.sample_missing(empty, 3).shape == (3, 0, 5)
    assert len(model.conditional(empty, "charge")) == 0


def test_wrong_ways() -> None:
    model, graph = model_of("naive Bayes"), draw_graphs(1, seed=8)[0]
    with pytest.raises(GSPNError, match=r"how must be one of .*'sample', got 'likeliest'"):
        model.impute(graph, "likeliest")
    for n in (-1, 1.5, "many"):
        with pytest.raises(GSPNError, match="n must be a number of draws"):
            model.sample_missing(graph, n)  # type: ignore[arg-type]
    for ask in (GSPN.impute, lambda m, g: m.sample_missing(g, 1), lambda m, g: m.log_prob_missing(g, g)):
        with pytest.raises(GSPNError, match="not fitted"):
            ask(GSPN(EVERY_KIND), graph)


# ---- sample_missing


@over_templates
def test_draws_of_missing_entries(name: str) -> None:
    """Joint within a vertex: the cells of (element, aromatic) by chi-square, the charge by Kolmogorov–Smirnov."""
    model, graph = model_of(name), draw_graphs(1, seed=9, sizes=(4, 4), missing=0.0)[0]
    graph.x[1, :3] = math.nan
    graph.x[2, 3] = math.nan
    n = 10_000
    draws = model.sample_missing(graph, n, generator())
    assert draws.shape == (n, 4, 5)
    assert torch.equal(draws, model.sample_missing(graph, n, generator()))
    known = ~torch.isnan(graph.x)
    assert torch.equal(draws[:, known], graph.x[known].double().expand(n, -1))
    joint = model.conditional(graph, ["charge", "element", "aromatic"], vertices=[1])
    cells = torch.cartesian_prod(torch.arange(3.0), torch.arange(2.0)).double()
    expected = joint.marginal(["element", "aromatic"])[torch.zeros(6, dtype=torch.long)].log_prob(cells).exp().numpy()
    found = np.bincount((2 * draws[:, 1, 1] + draws[:, 1, 2]).numpy().astype(int), minlength=6)
    assert scipy.stats.chisquare(found, n * expected / expected.sum()).pvalue > SIGNIFICANCE
    charge = as_mixture(joint.marginal("charge"))[torch.zeros(n, dtype=torch.long)]
    assert scipy.stats.kstest(charge.cumulative(draws[:, 1, 0]).numpy(), "uniform").pvalue > SIGNIFICANCE
    hydrogens = as_mixture(model.conditional(graph, "hydrogens", vertices=[2]))
    values = torch.arange(float(hydrogens.quantile(1 - 1e-9)) + 1)
    p = hydrogens[torch.zeros(len(values), dtype=torch.long)].log_prob(values).exp().numpy()
    counts = np.bincount(draws[:, 2, 3].numpy().astype(int), minlength=len(p))[: len(p)]
    often = n * p > 5
    found, likely = np.append(counts[often], counts[~often].sum()), np.append(p[often], p[~often].sum())
    assert scipy.stats.chisquare(found, n * likely / likely.sum()).pvalue > SIGNIFICANCE


def test_draws_are_joint_within_a_vertex_and_come_by_graph() -> None:
    """Two attributes that one state ties together are never drawn apart."""
    schema = Schema([Binary("a"), Continuous("b")])
    model = GSPN(schema, num_layers=1, num_states=2).double()
    model.set_parameters(
        {
            "prior": [[0.5, 0.5]],
            "transitions": np.empty((0, 1, 1, 2, 2)),
            "leaves": {"a": {"probs": [[0.0, 1.0]]}, "b": {"mean": [[-100.0, 100.0]], "std": [[1.0, 1.0]]}},
        }
    )
    unknown = Data(x=torch.full((3, 2), math.nan))
    one, two = model.sample_missing([unknown, Data(x=torch.tensor([[1.0, math.nan]]))], 200, generator())
    assert one.shape == (200, 3, 2)
    assert torch.equal(one[..., 0] == 1, one[..., 1] > 0)
    assert 0.3 < one[..., 0].mean() < 0.7
    assert two.shape == (200, 1, 2)
    assert bool((two[..., 1] > 0).all())


@over_templates
def test_small_pieces_change_no_draw(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In pieces the stream of random numbers is used in another order, so what can be compared are shapes and gaps."""
    model, graph = model_of(name), draw_graphs(1, seed=10, missing=0.5)[0]

    def moments() -> Tensor:
        draws: Tensor = model.sample_missing(graph, 2_000, generator())
        return draws[..., 0].mean(0)

    before = moments()
    monkeypatch.setattr("gspn.circuits.given._NUMBERS_AT_ONCE", 5_000)
    after = moments()
    spread = model.conditional(graph, "charge").variance.sqrt()
    assert bool(((before - after).abs() <= 8 * spread / math.sqrt(2_000)).all())
