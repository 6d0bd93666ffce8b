"""EM level by level: it never lowers its penalised objective, finds what others find, and refuses what it cannot."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from em_cases import ATOMS, COVARIANCES, SCHEMA, graph, with_atoms
from sklearn.mixture import GaussianMixture
from torch_geometric.data import Data

import gspn
from gspn.circuits.evidence import Evidence
from gspn.errors import InputError
from gspn.hierarchy import em
from gspn.hierarchy.aggregation import Mean
from gspn.models.expectation_maximisation import learn_by_em


def model(**settings: Any) -> gspn.GSPN:
    usual = {"num_layers": 2, "num_states": 3, "start": "em", "epochs": 0, "num_edge_types": 2}
    return gspn.GSPN(SCHEMA, **{**usual, **settings})


@pytest.mark.parametrize("prior", [0.0, 2.0])
@pytest.mark.parametrize("slopes", ["tied", "free"])
@pytest.mark.parametrize("context", [None, "neighbours", "two_hops"])
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_never_falls(covariance: str, context: str | None, slopes: str, prior: float) -> None:
    """The objective of every level rises from step to step; `hierarchy.em` itself raises where it does not."""
    if context is None and slopes == "free":
        return  # the same as tied
    fitted = model(covariance=covariance, context=context, slopes=slopes, prior=prior)
    fitted.fit(graph(), progress=False, keep_scores=False)
    for level in (0, 1):
        found = [record["objective"] for record in fitted.em_history_ if record["level"] == level]
        assert len(found) > 1
        assert all(after >= before - 1e-9 * abs(before) for before, after in itertools.pairwise(found))


@pytest.mark.parametrize("prior", [0.0, 2.0])
@pytest.mark.parametrize("context", [None, "neighbours", "two_hops"])
@pytest.mark.parametrize("aggregation", ["symmetric", "product"])
def test_never_falls_with_other_aggregations(aggregation: str, context: str | None, prior: float) -> None:
    """With the exact estimate of weighted means, and with that of products, which climbs."""
    fitted = model(aggregation=aggregation, covariance="shrunk", context=context, prior=prior).double()
    fitted.fit(graph(), progress=False, keep_scores=False)
    found = [record["objective"] for record in fitted.em_history_ if record["level"] == 1]
    assert len(found) > 1
    assert all(after >= before - 1e-9 * abs(before) for before, after in itertools.pairwise(found))


@pytest.mark.parametrize("prior", [0.0, 2.0])
@pytest.mark.parametrize(
    ("context", "slopes"), [(None, "tied"), ("neighbours", "tied"), ("neighbours", "free"), ("two_hops", "tied")]
)
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_never_falls_with_atoms(covariance: str, context: str | None, slopes: str, prior: float) -> None:
    """Nor is an atom's probability in a state another than that of the entries it explains."""
    data = with_atoms(graph())
    fitted = model(covariance=covariance, context=context, slopes=slopes, prior=prior, atoms=ATOMS).double()
    fitted.fit(data, progress=False, keep_scores=False)
    for level in (0, 1):
        found = [record["objective"] for record in fitted.em_history_ if record["level"] == level]
        assert len(found) > 1
        assert all(after >= before - 1e-9 * abs(before) for before, after in itertools.pairwise(found))
    own = next(leaves for leaves in fitted.get_parameters()["leaves"].values() if "atoms" in leaves)["atoms"]
    assert bool((own > 0).any())
    assert bool((own < 1).all())


@pytest.mark.parametrize("aggregation", ["mean", "symmetric", "product"])
def test_the_objective_is_what_it_is_said_to_be(aggregation: str) -> None:
    """The last record: likelihoods of vertices that receive, log-densities of leaves, of transitions and of b."""
    prior, data = 1.5, graph()
    fitted = model(aggregation=aggregation, covariance="shrunk", context="neighbours", prior=prior).double()
    fitted.fit(data, progress=False, keep_scores=False)
    receives = torch.bincount(data.edge_index[1], minlength=len(data.x)) > 0
    likelihood = fitted.log_likelihood(data)[receives].sum()
    hierarchy = fitted.hierarchy
    of_leaves = sum(float(family.log_prior(family.natural(), prior)[1].detach()) for family in hierarchy.families)
    of_transitions = prior / 3 * float(hierarchy.transitions().detach().log().sum())
    own = fitted.get_parameters().get("aggregation", {"prior": torch.ones(1)})["prior"]
    of_own = prior / 3 * float(own.log().sum())
    expected = (float(likelihood) + of_leaves + of_transitions + of_own) / int(receives.sum())
    assert fitted.em_history_[-1]["objective"] == pytest.approx(expected, rel=1e-9)


def test_two_levels_have_no_echo() -> None:
    data = graph()
    for context in ("neighbours", "two_hops"):
        fitted = model(covariance="full", context=context).double().fit(data, progress=False, keep_scores=False)
        alone = fitted.log_likelihood(data, leave_one_out=True)
        torch.testing.assert_close(fitted.log_likelihood(data), alone, rtol=1e-9, atol=1e-9)


def test_one_level_finds_what_scikit_learn_finds() -> None:
    """From the same start, on complete rows: the same densities."""
    rng = np.random.default_rng(0)
    near = rng.normal(size=(150, 2)) @ np.array([[1.0, 0.8], [0.0, 0.5]])
    rows = np.concatenate([near, rng.normal(size=(100, 2)) + np.array([4.0, -3.0])])
    schema = gspn.Schema([gspn.Continuous("a"), gspn.Continuous("b")])
    ours = gspn.GSPN(schema, num_layers=1, num_states=2, covariance="full", start="em", epochs=0).double()
    data = Data(x=torch.from_numpy(rows), edge_index=torch.zeros(2, 0, dtype=torch.long))
    ours.fit(data, progress=False, keep_scores=False)
    theirs = GaussianMixture(2, covariance_type="full", reg_covar=0.0, tol=1e-9, max_iter=500, random_state=0).fit(rows)
    assert float(ours.log_likelihood(data).mean()) == pytest.approx(theirs.score(rows), abs=2e-4)
    # With their parameters, their densities.
    parameters = ours.get_parameters()
    parameters["prior"] = torch.from_numpy(theirs.weights_[None])
    leaf = parameters["leaves"]["a", "b"]
    leaf["mean"] = torch.from_numpy(theirs.means_[None])
    leaf["covariance"] = torch.from_numpy(theirs.covariances_[None])
    found = ours.set_parameters(parameters).log_likelihood(data)
    torch.testing.assert_close(found, torch.from_numpy(theirs.score_samples(rows)), rtol=1e-8, atol=1e-8)


def test_slopes_find_a_regression() -> None:
    """x_v = 2 · mean of the neighbours' y + noise: one state, and the slope is found."""
    rng = np.random.default_rng(1)
    size = 2_000
    ends = rng.integers(size, size=(2, 4 * size))
    ends = ends[:, ends[0] != ends[1]]
    y = rng.normal(size=size)
    degree = np.bincount(ends[1], minlength=size).clip(min=1)
    x = 2 * np.bincount(ends[1], weights=y[ends[0]], minlength=size) / degree + 0.1 * rng.normal(size=size)
    schema = gspn.Schema([gspn.Continuous("x"), gspn.Continuous("y")])
    data = Data(x=torch.from_numpy(np.stack([x, y], axis=1)), edge_index=torch.from_numpy(ends))
    for covariance in COVARIANCES:
        found = gspn.GSPN(
            schema, num_layers=2, num_states=1, covariance=covariance, context="neighbours", start="em", epochs=0
        ).fit(data, progress=False, keep_scores=False)
        slope = found.get_parameters()["leaves"]["x", "y"]["slope"][1, 0]
        spread = y.std()
        expected = torch.tensor([[0.0, 2 * spread], [0.0, 0.0]], dtype=torch.float64)
        torch.testing.assert_close(slope, expected, rtol=0.05, atol=0.05)


def test_missing_second_moments_count() -> None:
    """With gaps the estimate of one Gaussian is the maximum of the likelihood: no step along any axis is better."""
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(300, 3)) @ np.array([[1.0, 0.7, 0.2], [0.0, 1.0, 0.5], [0.0, 0.0, 1.0]])
    rows[rng.random(rows.shape) < 0.3] = np.nan
    schema = gspn.Schema([gspn.Continuous(name) for name in "abc"])
    data = Data(x=torch.from_numpy(rows), edge_index=torch.zeros(2, 0, dtype=torch.long))
    fitted = gspn.GSPN(schema, num_layers=1, num_states=1, covariance="full", start="em", epochs=0).double()
    fitted.fit(data, progress=False, keep_scores=False)
    best = float(fitted.log_likelihood(data).sum())
    parameters = fitted.get_parameters()
    for i, j in ((0, 0), (1, 1), (0, 1), (1, 2)):
        for step in (-0.05, 0.05):
            changed = parameters["leaves"]["a", "b", "c"]["covariance"].clone()
            changed[0, 0, i, j] += step
            changed[0, 0, j, i] = changed[0, 0, i, j]
            leaves = {("a", "b", "c"): {**parameters["leaves"]["a", "b", "c"], "covariance": changed}}
            fitted.set_parameters({**parameters, "leaves": leaves})
            assert float(fitted.log_likelihood(data).sum()) < best


def test_all_parameters_of_a_product_are_learned() -> None:
    """Where neighbours are alike and half of the entries missing, messages say more together than their mean."""
    data, ends = graph(size=400, missing=0.6), {}
    for name in ("mean", "product"):
        ends[name] = model(aggregation=name).double().fit(data, progress=False, keep_scores=False)
    gain = ends["product"].em_history_[-1]["objective"] - ends["mean"].em_history_[-1]["objective"]
    assert gain > 0.05
    parameters = ends["product"].get_parameters()
    own, edges = parameters["aggregation"], torch.bincount(data.edge_type).double()
    usual = torch.einsum("t,tski,sk->si", edges / edges.sum(), parameters["transitions"][0], parameters["prior"])
    assert float((own["beta"] - 0.5).abs()) > 0.01
    assert float((own["prior"][0] - usual).abs().max()) > 0.01


def test_a_product_above_the_second_level_starts_as_the_second() -> None:
    fitted = model(num_layers=3, aggregation="product").double().fit(graph(), progress=False, keep_scores=False)
    own, parameters = fitted.get_parameters()["aggregation"], fitted.get_parameters()
    assert float(own["beta"][1]) == float(own["beta"][0])
    edges = torch.bincount(graph().edge_type).double()
    usual = torch.einsum("t,tski,sk->si", edges / edges.sum(), parameters["transitions"][1], own["prior"][0])
    torch.testing.assert_close(own["prior"][1], usual)


@pytest.mark.usefixtures("own_registries")
def test_other_aggregations_are_refused_by_name() -> None:
    gspn.register_aggregation("theirs", Mean)
    with pytest.raises(InputError, match="'mean', 'symmetric', 'product', not 'theirs'"):
        model(aggregation="theirs").fit(graph(), progress=False)


def test_refusals() -> None:
    data = graph()
    looped = Data(x=data.x, edge_index=torch.cat([data.edge_index, torch.tensor([[3], [3]])], dim=1))
    with pytest.raises(InputError, match="self-loops"):
        model(num_edge_types=1).fit(looped, progress=False)
    with pytest.raises(InputError, match="shortcut"):
        model(shortcut="mean", num_layers=3).fit(data, progress=False)
    template = gspn.circuits.random_circuit(SCHEMA, 3, 1, 1, seed=0)
    with pytest.raises(InputError, match="naive Bayes"):
        model(template=template).fit(data, progress=False)
    with pytest.raises(InputError, match="two levels"):
        model(num_layers=1, context="neighbours")


def test_a_run_that_diverges_is_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A first fit that ends in no number is dropped; if all do, that is an error."""
    tries = []
    learn = em.learn_mixture

    def first_fails(*arguments: Any) -> float:
        tries.append(1)
        if len(tries) <= fails:
            raise gspn.GSPNError("diverged")
        return learn(*arguments)

    monkeypatch.setattr("gspn.models.expectation_maximisation.learn_mixture", first_fails)
    fails = 2
    fitted = model().fit(graph(), progress=False, keep_scores=False)
    assert len(tries) == 3
    assert math.isfinite(float(fitted.log_likelihood(graph()).sum()))
    tries.clear()
    fails = 100
    with pytest.raises(gspn.GSPNError, match="diverged"):
        model().fit(graph(), progress=False)


def test_a_level_that_diverges_is_begun_anew_from_another_mixture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where solving fails, which is an error of torch's."""
    tries = []
    learn = em.learn_level

    def first_fails(*arguments: Any) -> float:
        tries.append(arguments[0].raw_prior.detach().clone())
        if len(tries) == 1:
            raise gspn.GSPNError("diverged")
        return learn(*arguments)

    monkeypatch.setattr("gspn.models.expectation_maximisation.learn_level", first_fails)
    fitted = model(covariance="full").fit(graph(), progress=False, keep_scores=False)
    assert len(tries) == 2
    assert not torch.equal(*tries)
    assert {record["level"] for record in fitted.em_history_} == {0, 1}

    def cannot(*_: Any, **__: Any) -> None:
        raise torch.linalg.LinAlgError("not positive definite")  # type: ignore[attr-defined]

    monkeypatch.setattr("gspn.circuits.leaves.CorrelatedGaussianLeaves.estimate", cannot)
    with pytest.raises(gspn.GSPNError, match=r"level 0 has diverged.*not positive definite"):
        model(covariance="full").fit(graph(), progress=False)


def test_same_seed_same_bits_and_dtype_is_kept() -> None:
    found = [model(covariance="shrunk", context="neighbours", seed=3).fit(graph(), progress=False) for _ in range(2)]
    states = [one.hierarchy.state_dict() for one in found]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0] if torch.is_tensor(states[0][name]))
    assert found[0].hierarchy.raw_prior.dtype == torch.float32


def test_levels_above_the_second_start_as_the_second() -> None:
    fitted = model(num_layers=3, covariance="tied", context="neighbours").fit(graph(), progress=False)
    for family in fitted.hierarchy.families:
        for parameter in family.parameters():
            assert torch.equal(parameter[2], parameter[1])
    assert torch.isfinite(fitted.log_likelihood(graph())).all()


def test_the_first_fit_is_the_best_of_several() -> None:
    data = graph(size=200)
    objectives = []
    for seeds in ([0], [1], [0, 1]):
        hierarchy = model(covariance="full", num_states=4, num_layers=1).double().hierarchy
        dataset = gspn.pack([data], SCHEMA)
        hierarchy.set_units(dataset.entries())
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        objectives.append(learn_by_em(hierarchy, dataset, 1.0, generators)[-1]["objective"])
    assert objectives[2] == pytest.approx(max(objectives[:2]), abs=1e-9)


def test_what_nobody_knows_is_estimated_too() -> None:
    """A vertex without any entry has the prior's responsibilities, and harms nobody."""
    data = graph()
    data.x[5] = torch.nan
    fitted = model(covariance="full", context="neighbours").fit(data, progress=False, keep_scores=False)
    assert float(fitted.log_likelihood(data)[5]) == 0.0
    assert bool(Evidence(data.x).known.any())
