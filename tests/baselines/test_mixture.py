"""The mixture by EM: exact on rows with gaps, never worse after a step, the same model as a GSPN of one level."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import torch
from sklearn.mixture import GaussianMixture
from torch_geometric.data import Data

from gspn import GSPN, Binary, Categorical, Continuous, Count, Schema
from gspn.baselines import Mixture

NUMBERS = Schema([Continuous("a"), Continuous("b"), Continuous("c")])
MIXED = Schema([Continuous("a"), Categorical("k", ["u", "v", "w"]), Binary("t"), Count("n")])
WEIGHTS = np.array([0.2, 0.3, 0.5])
MEANS = np.array([[-6.0, 50.0, 0.0], [0.0, 56.0, 3.0], [6.0, 50.0, -3.0]])
STDS = np.array([[1.0, 2.0, 0.5], [0.5, 1.0, 1.0], [1.5, 1.0, 0.7]])


def as_graphs(x: np.ndarray, size: int = 50) -> list[Data]:
    empty = torch.empty(2, 0, dtype=torch.long)
    return [Data(x=part, edge_index=empty) for part in torch.from_numpy(x).split(size)]


def planted(n: int, seed: int, missing: float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    state = rng.choice(3, size=n, p=WEIGHTS)
    x = rng.normal(MEANS[state], STDS[state])
    x[rng.random(x.shape) < missing] = np.nan
    return x


def mixed(n: int, seed: int, missing: float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    state = rng.integers(2, size=n)
    x = np.stack(
        [
            rng.normal(3.0 * state, 1.0),
            np.where(rng.random(n) < 0.6, state, 2),
            rng.random(n) < np.where(state, 0.8, 0.3),
            rng.poisson(np.where(state, 6.0, 1.0)),
        ],
        axis=1,
    ).astype(float)
    x[rng.random(x.shape) < missing] = np.nan
    return x


def test_recovers_planted_parameters_with_a_third_missing() -> None:
    model = Mixture(NUMBERS, num_states=3, seed=0).fit(as_graphs(planted(6000, 0, 0.33)))
    found = model.model_.get_parameters()
    mean = np.stack([found["leaves"][name]["mean"][0].numpy() for name in NUMBERS.names], axis=1)
    std = np.stack([found["leaves"][name]["std"][0].numpy() for name in NUMBERS.names], axis=1)
    order = np.argsort(mean[:, 0])
    # The least state has 6000 · 0.2 · 0.67 = 800 observations a column: a standard error of 2.0/√800 = 0.07 in its
    # widest mean, of 0.05 in its deviation, and of 0.006 in its weight; four of each, and room for uncertain states.
    np.testing.assert_allclose(mean[order], MEANS, atol=0.3)
    np.testing.assert_allclose(std[order], STDS, atol=0.2)
    np.testing.assert_allclose(found["prior"][0].numpy()[order], WEIGHTS, atol=0.03)


@pytest.mark.parametrize(("schema", "rows"), [(NUMBERS, planted), (MIXED, mixed)], ids=["numbers", "mixed"])
@pytest.mark.parametrize("states", [1, 4])
def test_the_likelihood_never_falls(schema: Schema, rows: object, states: int) -> None:
    x = rows(300, 1, 0.4)  # type: ignore[operator]
    model = Mixture(schema, num_states=states, epochs=60, tolerance=0.0, seed=1).fit(as_graphs(x))
    losses = np.array([record["train"] for record in model.history_])
    # Rounding of a mean of 300 log-densities in double precision.
    assert (np.diff(losses) <= 1e-12 * np.abs(losses).max()).all()
    if states == 1:  # one step is enough
        np.testing.assert_allclose(losses[1:], losses[1], rtol=1e-12)
    else:
        assert losses[0] - losses[-1] > 1e-3


def test_the_floor_does_not_break_it() -> None:
    """Columns of repeated values: deviations fall to the floor, the likelihood rises all the same."""
    x = np.repeat(np.array([[0.0, 1.0, 2.0], [5.0, 5.0, 5.0], [9.0, 1.0, 7.0]]), 20, axis=0)
    model = Mixture(NUMBERS, num_states=3, epochs=30, tolerance=0.0).fit(as_graphs(x))
    losses = np.array([record["train"] for record in model.history_])
    assert (np.diff(losses) <= 1e-12 * np.abs(losses).max()).all()
    assert np.isfinite(model.score(as_graphs(x)))


def test_agrees_with_scikit_learn_without_gaps() -> None:
    x = planted(900, 2, 0.0)
    ours = Mixture(NUMBERS, num_states=3, epochs=500, tolerance=1e-10).fit(as_graphs(x))
    theirs = GaussianMixture(3, covariance_type="diag", tol=1e-10, reg_covar=0, max_iter=500, random_state=0).fit(x)
    # Both at the same maximum, where a step is worth 1e-10; parameters err by its square root.
    assert ours.score(as_graphs(x)) == pytest.approx(theirs.score(x), abs=1e-6)
    found = ours.model_.get_parameters()["leaves"]["b"]["mean"][0].sort().values
    np.testing.assert_allclose(found.numpy(), np.sort(theirs.means_[:, 1]), atol=1e-3)


def test_agrees_with_the_gradient() -> None:
    """One level of GSPN reaches the same likelihood, and gives the same densities of missing entries."""
    graphs, truth = as_graphs(planted(600, 3, 0.25)), as_graphs(planted(600, 3, 0.0))
    em = Mixture(NUMBERS, num_states=3, epochs=300, tolerance=1e-9).fit(graphs)
    gradient = GSPN(NUMBERS, num_layers=1, num_states=3, epochs=60, batch_size=4, lr=0.02).double()
    gradient.fit(graphs, progress=False)
    reached = float(torch.cat(gradient.log_likelihood(graphs)).mean())
    # EM is at the maximum; Adam comes near to it from below.
    assert em.score(graphs) - 0.01 < reached < em.score(graphs) + 1e-6
    by_em, by_gradient = (float(torch.cat(m.log_prob_missing(graphs, truth)).mean()) for m in (em, gradient))
    assert by_em == pytest.approx(by_gradient, abs=0.02)


def test_one_state_is_each_attribute_by_itself() -> None:
    x = mixed(500, 4, 0.3)
    found = Mixture(MIXED, num_states=1).fit(as_graphs(x)).model_.get_parameters()["leaves"]
    assert found["a"]["mean"].item() == pytest.approx(np.nanmean(x[:, 0]))
    assert found["a"]["std"].item() == pytest.approx(np.nanstd(x[:, 0]))
    assert found["n"]["rate"].item() == pytest.approx(np.nanmean(x[:, 3]))
    assert found["t"]["probs"].flatten().numpy() == pytest.approx(np.nanmean(x[:, 2]))
    shares = np.bincount(x[~np.isnan(x[:, 1]), 1].astype(int)) / (~np.isnan(x[:, 1])).sum()
    np.testing.assert_allclose(found["k"]["probs"].flatten().numpy(), shares)


def test_what_is_always_true_is_certain() -> None:
    """A weighted mean of ones, summed in another order than its weights, may exceed 1 by a rounding error."""
    rng = np.random.default_rng(5)
    x = np.column_stack([np.ones(333), rng.normal(size=333)])
    model = Mixture(Schema([Binary("t"), Continuous("a")]), num_states=3, epochs=20).fit(as_graphs(x))
    probs = model.model_.get_parameters()["leaves"]["t"]["probs"].numpy()
    np.testing.assert_allclose(probs, 1.0, rtol=1e-12)
    assert probs.max() <= 1.0


def test_dispersions_are_the_likeliest() -> None:
    """A single state: the mean is that of the counts, and no other dispersion explains them better."""
    counts = np.random.default_rng(0).negative_binomial(2.0, 0.2, size=(3000, 1)).astype(float)
    schema = Schema([Count("degree", distribution="negative_binomial")])
    found = Mixture(schema, num_states=1).fit(as_graphs(counts)).model_.get_parameters()["leaves"]["degree"]
    mean, dispersion = found["mean"].item(), found["dispersion"].item()
    assert mean == pytest.approx(counts.mean(), rel=1e-9)

    def likelihood(alpha: float) -> float:
        return float(scipy.stats.nbinom(1 / alpha, 1 / (1 + alpha * mean)).logpmf(counts).sum())

    assert all(likelihood(dispersion) > likelihood(dispersion * factor) for factor in (0.99, 0.999, 1.001, 1.01))
