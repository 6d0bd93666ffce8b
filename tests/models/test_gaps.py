"""Models for which gaps are evidence: what they learn, answers, kernels, files; and what it is good for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from em_cases import SCHEMA, graph
from sklearn.linear_model import LogisticRegression
from torch_geometric.data import Data

import gspn
from gspn.circuits.evidence import Evidence
from gspn.circuits.leaves import leaves_for
from gspn.graphs.missing import with_missing, withholding
from gspn.policy import HeldOutEntries
from gspn.testing import oracle, oracle_graph, oracle_model

USUAL: dict[str, Any] = {"num_layers": 2, "num_states": 3, "epochs": 0, "start": "em", "prior": 1.0}
INFORMATIVE = USUAL | {"gaps": "informative"}


def fitted(data: Any = None, **settings: Any) -> gspn.GSPN:
    model = gspn.GSPN(SCHEMA, **{**INFORMATIVE, **settings})
    return model.fit(graph() if data is None else data, progress=False, keep_scores=False)


def gaps_of(model: gspn.GSPN, level: int = 0) -> torch.Tensor:
    """[leaves, attributes] of models whose attributes have leaves of their own."""
    leaves = model.get_parameters()["leaves"]
    return torch.stack([leaves[name]["gaps"][level] for name in model.schema.names], dim=1)


# Learning.


def test_ignorable_gaps_are_the_model_without_the_argument() -> None:
    settings = USUAL | {"seed": 3}
    states = [
        gspn.GSPN(SCHEMA, **own).fit(graph(), progress=False, keep_scores=False).hierarchy.state_dict()
        for own in (settings, settings | {"gaps": "ignorable"})
    ]
    assert list(states[0]) == list(states[1])
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert not any("gaps" in name for name in states[0])


@pytest.mark.parametrize("prior", [0.0, 2.0])
def test_the_estimate_counts_gaps_among_what_is_not_hidden(prior: float) -> None:
    """(α + Σ r [missing]) / (2 α + Σ r [not hidden]), and with a prior as many rows as it says, with the usual gaps."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(60, 2)))
    x[torch.from_numpy(rng.random((60, 2)) < 0.3)] = torch.nan
    family = leaves_for([gspn.Continuous("a"), gspn.Continuous("b")], 1, 2, family="full_gaussian", gaps="informative")
    family.double().set_units(x)
    hidden, weights = torch.from_numpy(rng.random((60, 2)) < 0.2), torch.from_numpy(rng.random((60, 2)))
    family.estimate(Evidence(x.masked_fill(hidden, torch.nan), hidden), weights, prior=prior)
    missing = x.isnan() & ~hidden
    usual = (x.isnan().double().sum(0) + 0.5) / 61
    above = 0.5 + weights.T @ missing.double() + prior * usual
    expected = above / (1.0 + weights.T @ (~hidden).double() + prior)
    torch.testing.assert_close(family.export(family.natural())["gaps"][0].detach(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("aggregation", ["mean", "product"])
@pytest.mark.parametrize(("covariance", "context"), [("diagonal", None), ("shrunk", "neighbours")])
def test_em_never_falls(covariance: str, context: str | None, aggregation: str) -> None:
    """`hierarchy.em` itself raises where it does; its last objective is what it is said to be."""
    model = fitted(covariance=covariance, context=context, aggregation=aggregation, num_edge_types=2, prior=0.0)
    found = [record["objective"] for record in model.em_history_ if record["level"] == 1]
    assert len(found) > 1
    data, double = graph(), model.double()
    receives = torch.bincount(data.edge_index[1], minlength=len(data.x)) > 0
    held = sum(
        float(one.log_prior(one.natural(), 0.0)[1].detach()) for one in model.hierarchy.families if one.penalised
    )
    expected = (float(double.log_likelihood(data)[receives].sum()) + held) / int(receives.sum())
    assert found[-1] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("objective", ["masked", "pseudo", "leave_one_out"])
def test_artificial_hiding_moves_no_gaps(objective: str) -> None:
    """A fifth is missing, at random: that is what every objective learns, whatever it hides meanwhile.

    If masks left gaps alone, or if hidden entries counted as missing, it would be 0.26 and more.
    """
    rng = np.random.default_rng(1)
    group = rng.integers(2, size=400)
    x = np.where(group, 2.0, -2.0)[:, None] + rng.normal(size=(400, 3))
    x[rng.random(x.shape) < 0.2] = np.nan
    graphs = [
        Data(x=torch.from_numpy(part), edge_index=torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]))
        for part in x.reshape(40, 10, 3)
    ]
    schema = gspn.Schema([gspn.Continuous(name) for name in "abc"])
    model = gspn.GSPN(
        schema, 2, 2, objective=objective, mask_rate=0.5, epochs=30, lr=0.1, halve_every=8, gaps="informative"
    )
    model.fit(graphs, progress=False, keep_scores=False)
    share = np.isnan(x).mean(0)
    np.testing.assert_allclose(gaps_of(model, 1).mean(0), share, atol=0.025)


# What it is good for.


def planted(seed: int, dependent: bool, size: int = 500) -> tuple[Data, torch.Tensor, np.ndarray[Any, Any]]:
    """Three groups, rather alike, whose gaps differ, or do not: the graph, the truth and the groups."""
    rng = np.random.default_rng(seed)
    group = rng.integers(3, size=size)
    x = 1.2 * np.array([[0, 0, 0, 0], [1, 1, 0, -1], [-1, 1, 1, 1]])[group] + rng.normal(size=(size, 4))
    rates = np.array([[0.05, 0.5, 0.3, 0.1], [0.6, 0.1, 0.1, 0.6], [0.2, 0.2, 0.8, 0.3]])[group]
    truth, missing = torch.from_numpy(x.copy()), rng.random(x.shape) < (rates if dependent else 0.3)
    x[missing] = np.nan
    ends = rng.integers(size, size=(2, 5 * size))
    ends = ends[:, (ends[0] != ends[1]) & ((group[ends[0]] == group[ends[1]]) | (rng.random(5 * size) < 0.3))]
    edges = torch.from_numpy(np.concatenate([ends, ends[::-1]], axis=1))
    return Data(x=torch.from_numpy(x), edge_index=edges), truth, group


def outcome(gaps: str, dependent: bool) -> tuple[float, float, float]:
    """Nats per missing entry, root mean square error, and how well the groups can be read off the embeddings."""
    found, schema = [], gspn.Schema([gspn.Continuous(name) for name in "abcd"])
    for seed in range(2):
        data, truth, group = planted(seed, dependent)
        model = gspn.GSPN(schema, **USUAL | {"gaps": gaps, "n_init": 3})
        model.fit(data, progress=False, keep_scores=False)
        missing = data.x.isnan()
        nats = float(model.log_prob_missing(data, truth).sum() / missing.sum())
        error = float((model.impute(data).x - truth)[missing].square().mean().sqrt())
        rows, half = model.embed(data).numpy(), len(group) // 2
        probe = LogisticRegression(max_iter=500).fit(rows[:half], group[:half])
        found.append((nats, error, float(probe.score(rows[half:], group[half:]))))
    nats, error, accuracy = np.mean(found, axis=0)
    return float(nats), float(error), float(accuracy)


def test_gaps_that_depend_on_the_state_are_of_use_and_others_cost_next_to_nothing() -> None:
    """Measured: −1.52 for −1.68 nats, an error of 1.10 for 1.32, an accuracy of 0.87 for 0.73; at random −0.01 nats."""
    before, after = outcome("ignorable", True), outcome("informative", True)
    assert after[0] > before[0] + 0.05
    assert after[1] < before[1] - 0.05
    assert after[2] > before[2] + 0.05
    before, after = outcome("ignorable", False), outcome("informative", False)
    assert after[0] > before[0] - 0.02
    assert after[1] < before[1] * 1.02
    assert after[2] > before[2] - 0.05


# Answers.


@pytest.mark.parametrize("left_out", [False, True])
def test_what_is_hypothetically_unknown_is_no_gap(left_out: bool) -> None:
    """An entry that becomes unknown says nothing to others, in `what_if` and in `what_if_all`."""
    data = graph(size=20, missing=0.0)
    model = fitted(num_edge_types=2).double()
    theirs, small = oracle_model(model), oracle_graph(data)
    v = int(data.edge_index[0, 0])
    found = model.what_if(data, {v: {"a": None}}, leave_one_out=left_out)
    others = [u for u in range(20) if u != v]
    expected = []
    for u in others:
        own = {(u, column) for column in range(len(SCHEMA)) if left_out}
        sides = [oracle.root(theirs, small, u, hidden).log_likelihood for hidden in (own, own | {(v, 0)})]
        expected.append(sides[1] - sides[0])
    assert max(map(abs, expected)) > 1e-3
    np.testing.assert_allclose(found.change.numpy()[others], expected, rtol=0, atol=1e-9)
    changes = model.what_if_all(data, "a", vertices=[v], leave_one_out=left_out, values=[None])
    assert float(changes) == pytest.approx(float(found.total), abs=1e-9)


def test_sweeps_keep_gaps_as_evidence() -> None:
    """Vertex 1 hears of vertex 0 a value that was drawn for a gap: its state follows from both."""
    model = gspn.GSPN(gspn.Schema([gspn.Binary("b")]), 2, 2, gaps="informative").double()
    gap, p = np.array([[0.9, 0.1], [0.2, 0.6]]), np.array([[0.3, 0.9], [0.1, 0.8]])  # by level
    prior, theta = np.array([0.4, 0.6]), np.array([[0.9, 0.1], [0.2, 0.8]])
    given = model.get_parameters()
    given |= {"prior": torch.tensor(prior)[None], "transitions": torch.tensor(theta)[None, None, None]}
    given["leaves"] = {"b": {"probs": torch.tensor(p), "gaps": torch.tensor(gap)}}
    model.set_parameters(given)
    data = Data(x=torch.full((2, 1), torch.nan, dtype=torch.float64), edge_index=torch.tensor([[0], [1]]))
    drawn = model.pseudo_gibbs(data, 4_000, 2, "missing", generator=torch.Generator().manual_seed(0))[..., 0].numpy()
    alone = prior * gap[1] / (prior @ gap[1])  # vertex 0 hears nothing: level 0's prior, the leaves of level 1
    of_0 = np.array([alone @ (1 - p[1]), alone @ p[1]])
    expected = np.zeros((2, 2))
    for first, chance in enumerate(of_0):
        h = prior * gap[0] * (p[0] if first else 1 - p[0])
        weights = (theta.T @ (h / h.sum())) * gap[1]
        one = float(weights / weights.sum() @ p[1])
        expected[first] = chance * (1 - one), chance * one
    counts = np.array([[np.mean((drawn == (a, b)).all(1)) for b in (0, 1)] for a in (0, 1)])
    np.testing.assert_allclose(counts, expected, atol=0.03)
    assert int(model.pseudo_gibbs(data, 3, 1, "all").isnan().sum()) == 0


def test_rows_without_any_value_say_that_they_are_gaps() -> None:
    data = graph()
    data.x[7] = torch.nan
    model = fitted(data)
    assert float(model.log_likelihood(data)[7]) < -1.0
    assert bool(model.score_vertices(data)[7].isnan())
    assert bool(model.score_vertices(data)[:7].isfinite().all())


def test_what_is_withheld_to_judge_by_is_no_gap() -> None:
    """Probabilities of gaps are learned as if nothing were withheld; the judge asks for it as for what is hidden."""
    dataset = gspn.pack(graph(size=400), SCHEMA)
    held = HeldOutEntries(dataset, 0, 0.3)
    share = dataset.entries().isnan().double().mean(0)
    found = fitted(held.training, num_layers=1, num_states=1, prior=0.0)
    torch.testing.assert_close(gaps_of(found)[0], (share * 400 + 0.5) / 401, rtol=1e-5, atol=1e-5)
    model, mask = fitted(dataset, num_layers=1), torch.zeros(400, len(SCHEMA), dtype=torch.bool)
    v = int((~dataset.entries()[:, 0].isnan()).nonzero()[0])
    mask[v, 0] = True
    asked = model.log_prob_missing(withholding(dataset, mask), list(dataset))[0][v]
    answer = model.conditional(dataset[0], "a", vertices=[v]).log_prob(dataset.entries()[v, :1])
    torch.testing.assert_close(asked.double(), answer[0], rtol=1e-4, atol=1e-4)
    assert abs(float(model.log_prob_missing(with_missing(dataset, mask), list(dataset))[0][v] - asked)) > 1e-3


# Kernels, files and other models.


def test_kernels_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values and gradients, gaps, hidden entries and entries with neither among the evidence."""
    model = fitted().double()
    batch = model.collate(graph())
    masks = [None, torch.from_numpy(np.random.default_rng(0).random(batch.x.shape) < 0.3)]
    found, gradients = [], []
    for kernel in ("fast", "reference"):
        monkeypatch.setenv("GSPN_KERNEL", kernel)
        value = torch.stack([model(batch.hiding(mask)).log_likelihood for mask in masks])
        found.append(value)
        gradients.append(torch.autograd.grad(value.sum(), list(model.hierarchy.parameters())))
    torch.testing.assert_close(*found, rtol=1e-10, atol=1e-10)
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10 * float(theirs.abs().max() + 1))


@pytest.mark.parametrize(
    "settings", [{}, {"covariance": "full", "context": "neighbours", "context_variance": 0.5, "atoms": {"a": [0.0]}}]
)
def test_saved_and_loaded(settings: dict[str, Any], tmp_path: Path) -> None:
    before = fitted(**settings)
    before.save(tmp_path / "model")
    assert json.loads((tmp_path / "model" / "model.json").read_text())["settings"]["gaps"] == "informative"
    assert torch.equal(gspn.load(tmp_path / "model").log_likelihood(graph()), before.log_likelihood(graph()))
    again = gspn.GSPN(SCHEMA, **INFORMATIVE | settings).set_parameters(before.get_parameters())
    torch.testing.assert_close(again.log_likelihood(graph()), before.log_likelihood(graph()), rtol=1e-5, atol=1e-5)
    fitted(gaps="ignorable").save(tmp_path / "plain")
    assert "gaps" not in json.loads((tmp_path / "plain" / "model.json").read_text())["settings"]


def test_a_shortcut_weighs_probabilities(tmp_path: Path) -> None:
    model = gspn.GSPN(SCHEMA, 3, 2, shortcut="learned", epochs=2, gaps="informative")
    model.fit(graph(), progress=False, keep_scores=False)
    parameters = model.get_parameters()
    gaps, weights = parameters["leaves"]["kind"]["gaps"], parameters["shortcut"]
    torch.testing.assert_close(gaps[2], weights @ gaps[:2], rtol=1e-6, atol=1e-6)
    again = gspn.GSPN(SCHEMA, 3, 2, shortcut="learned", gaps="informative").set_parameters(parameters)
    torch.testing.assert_close(again.log_likelihood(graph()), model.log_likelihood(graph()), rtol=1e-5, atol=1e-5)


def test_a_stack_has_gaps_of_one_kind() -> None:
    members, data = [fitted(num_states=states) for states in (2, 3)], graph()
    stack = gspn.Stack(members, [0.3, 0.7])
    each = torch.stack([one.log_likelihood(data).exp() for one in members])
    torch.testing.assert_close(stack.log_likelihood(data).exp(), 0.3 * each[0] + 0.7 * each[1], rtol=1e-4, atol=1e-9)
    assert not stack.impute(data).x.isnan().any()
    with pytest.raises(gspn.GSPNError, match="model 1 has gaps='ignorable'"):
        gspn.Stack([members[0], fitted(gaps="ignorable")])


def test_a_stored_graph_gives_the_same(tmp_path: Path) -> None:
    model, data = fitted(num_edge_types=1), graph()
    stored = gspn.store_graph(tmp_path / "graph", data.x, data.edge_index, SCHEMA, progress=False)
    shards = model.evaluate_stored(stored, tmp_path / "results", memory="128 MiB", progress=False)
    torch.testing.assert_close(shards.log_likelihood(), model.log_likelihood(data), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("labels", ["targets", "evidence"])
def test_supervised_models_have_them_too(labels: str, tmp_path: Path) -> None:
    """That a neighbour's or an own entry is missing changes a prediction, where labels are evidence and where not."""
    data, schema = graph(size=60), gspn.Schema([gspn.Continuous("a"), gspn.Continuous("b")])
    data.x, data.y = data.x[:, [0, 2]], data.x[:, 3].clone()
    model = gspn.SupervisedGSPN(
        schema, gspn.Binary("y"), 2, 3, 4, target_level="vertex", labels=labels, hidden=0, epochs=2,
        likelihood_weight=1.0, objective="masked", gaps="informative",
    )  # fmt: skip
    model.fit(data, progress=False, keep_scores=False)
    assert all(((leaf["gaps"] > 0) & (leaf["gaps"] < 1)).all() for leaf in model.get_parameters()["leaves"].values())
    model.save(tmp_path)
    found = model.predict_proba(data)
    np.testing.assert_array_equal(gspn.load(tmp_path, gspn.SupervisedGSPN).predict_proba(data), found)
    parameters = model.get_parameters()
    for leaf in parameters["leaves"].values():
        leaf["gaps"] = leaf["gaps"].flip(1) ** 3
    assert float(np.abs(model.set_parameters(parameters).predict_proba(data) - found).max()) > 1e-4
