"""EM with weights of the vertices: what it maximises, that it never lowers it, and what weights mean."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest
import torch
from em_cases import ATOMS, COVARIANCES, SCHEMA, graph, with_atoms
from seeded import generator
from torch_geometric.data import Data

import gspn
from gspn.hierarchy.em import frozen_below, learn_level, learn_mixture
from gspn.models.expectation_maximisation import bootstrap_by_em, bootstrap_weights


def fitted(data: Data, **settings: Any) -> gspn.GSPN:
    usual = {"num_layers": 2, "num_states": 3, "start": "em", "epochs": 0, "num_edge_types": 2}
    model = gspn.GSPN(SCHEMA, **{**usual, **settings}).double()
    return model.fit(data, progress=False, keep_scores=False)


def batch_of(data: Data) -> Any:
    return gspn.pack([data], SCHEMA).batch(torch.arange(1))


@pytest.mark.parametrize("prior", [0.0, 2.0])
@pytest.mark.parametrize(
    ("context", "slopes"), [(None, "tied"), ("neighbours", "tied"), ("neighbours", "free"), ("two_hops", "tied")]
)
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_never_falls(covariance: str, context: str | None, slopes: str, prior: float) -> None:
    """The weighted objective rises from step to step, with gaps and atoms."""
    data, leaves = with_atoms(graph(size=70)), {"number": "negative_binomial"}
    of_leaves: dict[str, Any] = {"covariance": covariance, "leaves": leaves, "atoms": ATOMS}
    model = fitted(data, context=context, slopes=slopes, prior=prior, **of_leaves)
    history = bootstrap_by_em(model.hierarchy, gspn.pack([data], SCHEMA), prior, generator())
    for level in (0, 1):
        found = [record["objective"] for record in history if record["level"] == level]
        assert len(found) > 2, "other weights ask for other parameters"
        assert all(after >= before - 1e-9 * abs(before) for before, after in itertools.pairwise(found))


@pytest.mark.parametrize("context", [None, "neighbours"])
def test_the_objective_counts_vertices_by_their_weights(context: str | None) -> None:
    """What is reached: weighted likelihoods, and the log-densities of leaves and of mixing weights or transitions."""
    prior, data = 1.5, graph()
    one, two = (fitted(data, covariance="shrunk", num_layers=n, context=context if n > 1 else None) for n in (1, 2))
    batch = batch_of(data)
    weights = bootstrap_weights(batch.num_vertices, generator())

    def of_leaves(model: gspn.GSPN, level: int) -> float:
        families = model.hierarchy.families
        return sum(float(family.log_prior(family.natural(), prior)[level].detach()) for family in families)

    reached = learn_mixture(one.hierarchy, batch, prior, weights=weights)
    shares = prior / 3 * float(one.hierarchy.prior().detach().log().sum())
    likelihood = float((weights * one.log_likelihood(data)).sum())
    assert reached == pytest.approx(likelihood + of_leaves(one, 0) + shares, rel=1e-9)

    reached = learn_level(two.hierarchy, 1, frozen_below(two.hierarchy, 1, batch, weights), prior)
    transitions = prior / 3 * float(two.hierarchy.transitions().detach().log().sum())
    likelihood = float((weights * two.log_likelihood(data))[batch.in_degree > 0].sum())
    assert reached == pytest.approx(likelihood + of_leaves(two, 1) + transitions, rel=1e-9)


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("context", [None, "two_hops"])
def test_weights_of_one_change_no_bit(covariance: str, context: str | None) -> None:
    data = with_atoms(graph())
    one = fitted(data, covariance=covariance, context=context, prior=1.0, atoms=ATOMS).hierarchy
    other, batch = copy.deepcopy(one), batch_of(data)
    ones = torch.ones(batch.num_vertices, dtype=torch.float64)
    reached = learn_mixture(one, batch, 2.0), learn_mixture(other, batch, 2.0, weights=ones)
    assert reached[0] == reached[1]
    reached = (
        learn_level(one, 1, frozen_below(one, 1, batch), 2.0),
        learn_level(other, 1, frozen_below(other, 1, batch, ones), 2.0),
    )
    assert reached[0] == reached[1]
    for name, value in one.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name


@pytest.mark.parametrize("leaves", [None, {"number": "negative_binomial"}, {"number": "count_table"}])
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_whole_weights_are_repeated_rows(covariance: str, leaves: dict[str, str] | None) -> None:
    """Without edges a vertex of weight 2 is two, and one of weight 0 is none."""
    data = with_atoms(graph(size=80))
    edges = torch.zeros(2, 0, dtype=torch.long)
    times = torch.randint(4, (len(data.x),), generator=generator(1))
    few, many = Data(x=data.x, edge_index=edges), Data(x=data.x.repeat_interleave(times, 0), edge_index=edges)
    settings = {"covariance": covariance, "num_layers": 1, "num_edge_types": 1, "prior": 0.5, "leaves": leaves}
    one = fitted(few, atoms=ATOMS, **settings).hierarchy
    other = copy.deepcopy(one)
    reached = [
        learn_mixture(one, batch_of(few), 0.5, steps=20, weights=times.double()),
        learn_mixture(other, batch_of(many), 0.5, steps=20),
    ]
    # Steps and searches without a formula (negative binomials) stop at other digits.
    assert reached[0] == pytest.approx(reached[1], rel=1e-8)
    for name, value in one.state_dict().items():
        torch.testing.assert_close(value, other.state_dict()[name], rtol=1e-4, atol=1e-5, msg=name)


def test_whole_weights_are_repeated_receivers() -> None:
    """Nor do transitions count them otherwise: copies receive what the vertex receives, and send nothing."""
    data = graph()
    size, source, target = len(data.x), data.edge_index[0], data.edge_index[1]
    copies = torch.arange(0, size, 3)
    edges, types = [data.edge_index], [data.edge_type]
    for number, vertex in enumerate(copies.tolist()):
        into = target == vertex
        edges.append(torch.stack([source[into], torch.full_like(source[into], size + number)]))
        types.append(data.edge_type[into])
    many = Data(x=torch.cat([data.x, data.x[copies]]), edge_index=torch.cat(edges, 1), edge_type=torch.cat(types))
    weights = torch.ones(size, dtype=torch.float64)
    weights[copies] = 2.0
    one = fitted(data, covariance="full", prior=0.5).hierarchy
    other = copy.deepcopy(one)
    few, more = batch_of(data), batch_of(many)
    reached = [
        learn_level(one, 1, frozen_below(one, 1, few, weights), 0.5, steps=20),
        learn_level(other, 1, frozen_below(other, 1, more), 0.5, steps=20),
    ]
    assert reached[0] == pytest.approx(reached[1], rel=1e-10)
    for name, value in one.state_dict().items():
        torch.testing.assert_close(value, other.state_dict()[name], rtol=1e-6, atol=1e-7, msg=name)


def test_weights_of_a_bootstrap_are_those_of_rubin() -> None:
    """Uniform on the simplex: mean 1, variance (n − 1) / (n + 1)."""
    drawn = torch.stack([bootstrap_weights(50, generator(seed)) for seed in range(400)])
    torch.testing.assert_close(drawn.mean(1), torch.ones(400, dtype=torch.float64))
    # 20,000 numbers: the standard error of their variance is about 0.02.
    assert float(drawn.var()) == pytest.approx(49 / 51, abs=0.08)
