"""Models with atoms: kernels, files, training, questions; and models without any are what they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import gspn
from gspn.circuits.distributions import MixtureDistribution
from gspn.experiments.yardstick.scores import bin_width, judge

SCHEMA = gspn.Schema([gspn.Continuous("a"), gspn.Binary("flag"), gspn.Continuous("b")])
ATOMS = {"b": [99.0], "a": [0.0, -999.0]}


def graph(size: int = 150, seed: int = 0) -> Data:
    """a is 0 where the flag is True, mostly; b is capped at 99 now and then; a fifth missing."""
    rng = np.random.default_rng(seed)
    flag = rng.random(size) < 0.5
    a = np.where(rng.random(size) < np.where(flag, 0.8, 0.1), 0.0, rng.normal(3, 1, size))
    a[rng.random(size) < 0.05] = -999.0
    b = np.where(rng.random(size) < 0.2, 99.0, 2 * a.clip(0) + rng.normal(size=size))
    x = np.stack([a, flag, b], axis=1)
    x[rng.random(x.shape) < 0.2] = np.nan
    edges = rng.integers(size, size=(2, 3 * size))
    return Data(x=torch.from_numpy(x), edge_index=torch.from_numpy(edges[:, edges[0] != edges[1]]))


def model(**settings: Any) -> gspn.GSPN:
    usual: dict[str, Any] = {"num_layers": 2, "num_states": 3, "epochs": 0, "start": "em", "prior": 1.0, "atoms": ATOMS}
    return gspn.GSPN(SCHEMA, **{**usual, **settings})


def fitted(**settings: Any) -> gspn.GSPN:
    return model(**settings).fit(graph(), progress=False, keep_scores=False)


def test_no_atoms_is_the_model_without_the_argument() -> None:
    nothing: list[Any] = [None, {}, {"a": []}]
    states = [fitted(atoms=atoms).hierarchy.state_dict() for atoms in nothing]
    usual = gspn.GSPN(SCHEMA, 2, 3, epochs=0, start="em", prior=1.0)
    states.append(usual.fit(graph(), progress=False, keep_scores=False).hierarchy.state_dict())
    for state in states[1:]:
        assert list(state) == list(states[0])
        assert all(torch.equal(state[name], states[0][name]) for name in state)
    assert not any("shares" in name for name in states[0])


@pytest.mark.parametrize("settings", [{}, {"covariance": "shrunk", "context": "neighbours", "context_variance": 0.5}])
def test_saved_and_loaded(settings: dict[str, Any], tmp_path: Path) -> None:
    before = fitted(**settings)
    before.save(tmp_path)
    after = gspn.load(tmp_path)
    assert torch.equal(after.log_likelihood(graph()), before.log_likelihood(graph()))
    assert json.loads((tmp_path / "model.json").read_text())["settings"]["atoms"] == {"a": [-999.0, 0.0], "b": [99.0]}
    again = model(**settings).set_parameters(before.get_parameters())
    torch.testing.assert_close(again.log_likelihood(graph()), before.log_likelihood(graph()), rtol=1e-5, atol=1e-5)
    model(atoms=None).save(tmp_path / "plain")
    assert "atoms" not in json.loads((tmp_path / "plain" / "model.json").read_text())["settings"]


def test_kernels_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    one = fitted().double()
    found, gradients = [], []
    for kernel in ("fast", "reference"):
        monkeypatch.setenv("GSPN_KERNEL", kernel)
        value = one(one.collate(graph())).log_likelihood
        found.append(value)
        gradients.append(torch.autograd.grad(value.sum(), list(one.hierarchy.parameters())))
    torch.testing.assert_close(*found, rtol=1e-10, atol=1e-10)
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9 * float(theirs.abs().max() + 1))


@pytest.mark.parametrize("objective", ["pseudo", "masked"])
def test_gradient_descent_learns_them(objective: str) -> None:
    """From clusters, without EM: the share of zeros in each state is that of the rows it explains."""
    one = model(start="clusters", epochs=60, objective=objective, num_layers=1, num_states=2, prior=0.0)
    data = graph(400)
    one.fit(data, progress=False, keep_scores=False)
    parameters = one.get_parameters()
    shares = parameters["leaves"]["a"]["atoms"][0].sum(-1) @ parameters["prior"][0]
    known = data.x[~torch.isnan(data.x[:, 0]), 0]
    actual = torch.isin(known, torch.tensor([0.0, -999.0]).double()).double().mean()
    assert float(shares) == pytest.approx(float(actual), abs=0.05)


def test_units_are_those_of_values_elsewhere() -> None:
    """A sentinel neither decides them nor is too far away for them."""
    for covariance in ("diagonal", "full"):
        units = fitted(covariance=covariance).get_parameters()["units"]
        assert 2.0 < units["a"][0] < 4.0
        assert units["a"][1] < 2.0
    far = graph()
    far.x[0, 0] = 1e9
    with pytest.raises(gspn.GSPNError, match="deviations"):
        fitted().log_likelihood(far)
    far.x[0, 0] = -1e9
    assert torch.isfinite(fitted(atoms={"a": [-1e9, 0.0, -999.0]}).log_likelihood(far)).all()


def test_a_column_that_is_always_at_its_atom() -> None:
    data = graph()
    data.x[:, 0] = torch.where(torch.isnan(data.x[:, 0]), torch.nan, 7.0)
    one = model(atoms={"a": [7.0]}, covariance="full").fit(data, progress=False, keep_scores=False)
    answer = one.conditional(data, "a")
    assert float(answer.log_prob(7.0).exp().min()) > 0.9
    assert bool((answer.mode == 7.0).all())
    assert bool(torch.isfinite(answer.entropy).all())


@pytest.mark.parametrize("guard", [0.0, 1e-3])
@pytest.mark.parametrize("settings", [{}, {"covariance": "full", "context": "neighbours"}])
def test_answers(settings: dict[str, Any], guard: float) -> None:
    """Given the flag, a is likely 0 or not; draws, modes, medians and filled gaps are exactly at the atom."""
    one = fitted(**settings, guard=guard)
    data = graph()
    answer = one.conditional(data, "a")
    assert isinstance(answer, MixtureDistribution)
    at_0 = answer.log_prob(0.0).exp()
    flag = data.x[:, 1]
    assert float(at_0[flag == 1].mean()) > 0.6 > 0.3 > float(at_0[flag == 0].mean())
    assert bool((answer.quantile(0.5)[at_0 > 0.6] == 0.0).all())
    assert bool((answer.mode[at_0 > 0.6] == 0.0).all())
    drawn = answer.sample(2_000, torch.Generator().manual_seed(0))
    torch.testing.assert_close((drawn == 0.0).double().mean(0), at_0, rtol=0, atol=0.06)
    missing = torch.isnan(data.x[:, 0])
    filled = one.impute(data, how="mode").x[:, 0]
    assert bool((filled[missing & (at_0 > 0.6)] == 0.0).all())
    assert torch.equal(filled[~missing], data.x[~missing, 0])
    samples = one.sample_missing(data, 500, generator=torch.Generator().manual_seed(1))[:, missing, 0]
    torch.testing.assert_close((samples == 0.0).double().mean(0), at_0[missing], rtol=0, atol=0.1)


def test_scores_of_the_yardstick_are_right_at_atoms() -> None:
    """Bins hold masses; an interval that ends at an atom holds it; PITs are uniform on average."""
    one, data = fitted(guard=1e-3), graph(1_000, seed=5)
    answer = one.conditional(data, "a")
    assert isinstance(answer, MixtureDistribution)
    x = data.x[:, 0]
    known = ~torch.isnan(x)
    scores = judge(data.x, list(SCHEMA), [(0, torch.arange(len(x)), answer)])
    delta = bin_width(SCHEMA[0], x)
    filled = x.nan_to_num(0.0)
    mass = answer.cumulative(filled + delta / 2) - answer.cumulative(filled - delta / 2)
    assert bool((mass >= answer.log_prob(filled).exp())[x == 0.0].all())
    spread = float(x[known].std(correction=0))
    expected = -(mass[known].clamp_min(1e-9).log().mean() - np.log(delta)) - np.log(spread)
    assert scores["nll"] == pytest.approx(float(expected), abs=0.02)
    low, high = answer.interval(0.9).unbind(1)
    inside = ((x >= low) & (x <= high))[known].double().mean()
    assert scores["coverage"] == pytest.approx(float(inside), abs=1e-9)
    assert scores["coverage"] > 0.9


def test_supervised_models_have_them_too() -> None:
    one = gspn.SupervisedGSPN(SCHEMA, gspn.Binary("y"), num_layers=2, num_states=2, epochs=1, atoms=ATOMS)
    graphs = [graph(10, seed) for seed in range(4)]
    for i, data in enumerate(graphs):
        data.y = torch.tensor([i % 2])
    assert one.fit(graphs, progress=False).predict_proba(graphs).shape == (4, 2)


def test_a_stored_graph_gives_the_same(tmp_path: Path) -> None:
    one, data = fitted(), graph()
    stored = gspn.store_graph(tmp_path / "graph", data.x, data.edge_index, SCHEMA, progress=False)
    shards = one.evaluate_stored(stored, tmp_path / "results", memory="128 MiB", progress=False)
    torch.testing.assert_close(shards.log_likelihood(), one.log_likelihood(data), rtol=1e-5, atol=1e-5)


def test_a_probability_above_1_is_refused() -> None:
    one = fitted()
    parameters = one.get_parameters()
    parameters["leaves"]["a"]["atoms"][0, 0] = torch.tensor([0.7, 0.7])
    with pytest.raises(gspn.GSPNError, match="'a': 'atoms' must be probabilities"):
        one.set_parameters(parameters)


def test_a_stack_has_the_same_atoms_in_all_models() -> None:
    """Its answers are mixtures of masses and densities, atom by atom."""
    data, members = graph(), [fitted(num_states=states, guard=guard) for states, guard in ((2, 0.0), (3, 1e-3))]
    stack = gspn.Stack(members, [0.3, 0.7])
    answers = [one.conditional(data, "a") for one in members]
    found = stack.conditional(data, "a")
    for value in (0.0, -999.0, 2.5):
        each = [answer.log_prob(value).exp() for answer in answers]
        torch.testing.assert_close(found.log_prob(value).exp(), 0.3 * each[0] + 0.7 * each[1], rtol=1e-9, atol=1e-12)
    assert isinstance(found, MixtureDistribution)
    assert found.atoms.tolist() == [-999.0, 0.0]
    with pytest.raises(gspn.GSPNError, match=r"model 1 has the atoms \{\}"):
        gspn.Stack([members[0], fitted(atoms=None)])
