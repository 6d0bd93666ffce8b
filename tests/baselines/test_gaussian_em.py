"""Gaussians by EM with gaps: closed forms, scikit-learn where nothing is missing, and no step that loses."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture as Reference
from torch import Tensor
from torch_geometric.data import Data

from gspn.attributes import Continuous, Schema
from gspn.baselines import gaussian_em
from gspn.baselines.gaussian_em import GaussianMixture, fit_gaussian_mixture
from gspn.baselines.neighbour_means import neighbour_means
from gspn.graphs import pack


def two_clouds(seed: int = 0, gaps: float = 0.0) -> Tensor:
    rng = np.random.default_rng(seed)
    shear = np.array([[1.0, 0.8, 0.0], [0.0, 0.5, 0.3], [0.0, 0.0, 0.7]])
    x = np.concatenate([rng.normal(size=(150, 3)), rng.normal(size=(100, 3)) @ shear + 3.0])
    x[rng.random(x.shape) < gaps] = np.nan
    return torch.from_numpy(x)


def test_one_gaussian_of_complete_rows_has_their_moments() -> None:
    x = two_clouds()
    found = fit_gaussian_mixture(x, prior=0.0)
    torch.testing.assert_close(found.means[0], x.mean(0))
    torch.testing.assert_close(found.covariances[0], torch.from_numpy(np.cov(x.numpy().T, bias=True)))


def test_two_gaussians_of_complete_rows_are_those_of_scikit_learn() -> None:
    x = two_clouds()
    reference = Reference(2, reg_covar=0.0, tol=1e-12, max_iter=1_000, random_state=0).fit(x.numpy())
    start = GaussianMixture(
        torch.tensor([0.5, 0.5]).double(),
        torch.from_numpy(reference.means_ + 0.2),
        torch.eye(3).double().expand(2, 3, 3),
    )
    found = fit_gaussian_mixture(x, 2, prior=0.0, start=start, iterations=1_000, tolerance=1e-13)
    wanted = torch.from_numpy(reference.score_samples(x.numpy()))
    torch.testing.assert_close(found.log_density(x), wanted, atol=1e-5, rtol=0)


def test_monotone_gaps_have_a_closed_form() -> None:
    """b is missing in some rows, a never: the moments of a, and the regression of b on a where both are there."""
    rng = np.random.default_rng(1)
    a = rng.normal(2.0, 1.5, size=400)
    b = 0.7 * a + rng.normal(0.0, 0.5, size=400)
    gone = rng.random(400) < 1 / (1 + np.exp(-a))  # given a, as it may be
    slope, offset = np.polyfit(a[~gone], b[~gone], 1)
    left = np.var(b[~gone] - slope * a[~gone] - offset)
    x = torch.from_numpy(np.stack([a, np.where(gone, np.nan, b)], axis=1))
    found = fit_gaussian_mixture(x, prior=0.0, iterations=5_000, tolerance=1e-14)
    wanted = torch.tensor([a.mean(), slope * a.mean() + offset], dtype=torch.float64)
    torch.testing.assert_close(found.means[0], wanted, atol=1e-5, rtol=0)
    v = np.var(a)
    covariance = torch.tensor([[v, slope * v], [slope * v, slope**2 * v + left]], dtype=torch.float64)
    torch.testing.assert_close(found.covariances[0], covariance, atol=1e-4, rtol=0)


def test_conditionals_and_densities_of_single_rows() -> None:
    """Each row by itself, with the blocks written out."""
    model = fit_gaussian_mixture(two_clouds(), 2)
    rows = two_clouds(3, gaps=0.5)[:40]
    weights, means, variances = model.conditional(rows)
    for number, row in enumerate(rows.numpy()):
        seen = ~np.isnan(row)
        joint: list[float] = []
        for weight, mean, covariance in zip(*(part.numpy() for part in vars(model).values()), strict=True):
            density = 1.0
            wanted_mean, wanted_variance = np.where(seen, row, mean), np.where(seen, 0.0, np.diag(covariance))
            if seen.any():
                block = covariance[np.ix_(seen, seen)]
                density = multivariate_normal(mean[seen], block).pdf(row[seen])
                cross = covariance[np.ix_(~seen, seen)] @ np.linalg.inv(block)
                wanted_mean[~seen] = mean[~seen] + cross @ (row[seen] - mean[seen])
                schur = covariance[np.ix_(~seen, ~seen)] - cross @ covariance[np.ix_(seen, ~seen)]
                wanted_variance[~seen] = np.diag(schur)
            place = len(joint)
            joint.append(weight * density)
            np.testing.assert_allclose(means[number, place].numpy(), wanted_mean, atol=1e-9)
            np.testing.assert_allclose(variances[number, place].numpy(), wanted_variance, atol=1e-9)
        np.testing.assert_allclose(weights[number].numpy(), np.array(joint) / sum(joint), atol=1e-9)
        assert model.log_density(rows[number : number + 1]).item() == pytest.approx(np.log(sum(joint)))


@pytest.mark.parametrize(("components", "prior"), [(1, 0.0), (1, 3.0), (3, 5.0)])
def test_no_step_lowers_the_objective(components: int, prior: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaussian_em, "_JITTER", 0.0)
    x = two_clouds(2, gaps=0.4)
    scale = gaussian_em._variances(x).diag() / components
    model = gaussian_em._from_clusters(x, components, scale, 0)
    seen = []
    for _ in range(30):
        now, model = gaussian_em._step(model, x, prior, scale)
        seen.append(now)
    assert np.diff(seen).min() > -1e-9
    assert seen[-1] > seen[0] + 1


def test_copied_and_constant_columns_break_nothing() -> None:
    x = two_clouds(4, gaps=0.3)
    x = torch.cat([x, x[:, :1], torch.ones(len(x), 1).double()], dim=1)
    for components in (1, 2):
        model = fit_gaussian_mixture(x, components)
        assert all(part.isfinite().all() for part in model.conditional(x))


def test_means_over_neighbours_by_hand() -> None:
    x = torch.tensor([[1.0, torch.nan], [3.0, 5.0], [torch.nan, torch.nan]])
    edges = torch.tensor([[0, 1, 2, 0], [2, 2, 0, 1]])
    graphs = pack([Data(x=x, edge_index=edges)], Schema([Continuous("a"), Continuous("b")]))
    nan = torch.nan
    wanted = torch.tensor([[nan, nan], [1.0, nan], [2.0, 5.0]])
    torch.testing.assert_close(neighbour_means(graphs, x), wanted, equal_nan=True)
