"""Clusters of rows with gaps: found where they are plain to see, as good as scikit-learn's where nothing is missing."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats
import torch
from seeded import generator
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture
from torch import Tensor

from gspn.circuits.initialisation import cluster, kmeans, refine

K, COLUMNS = 4, 4


def separated(n: int = 400, missing: float = 0.0) -> tuple[Tensor, Tensor]:
    """Rows in K clusters ten deviations apart in every column, so that any one entry tells the cluster; and which."""
    centres = torch.stack([10.0 * torch.randperm(K, generator=generator(c)) for c in range(COLUMNS)], dim=1)
    truth = torch.arange(n) % K
    rows = centres[truth].double() + torch.randn(n, COLUMNS, generator=generator(1), dtype=torch.float64)
    gaps = torch.rand(rows.shape, generator=generator(2)) < missing
    gaps[gaps.all(1), 0] = False
    rows[gaps] = torch.nan
    return rows - 15.0, truth


def agreement(assignment: Tensor, truth: Tensor) -> float:
    """Share of rows in the right cluster under the best naming of clusters."""
    return max(
        (torch.tensor(names)[assignment] == truth).double().mean().item() for names in itertools.permutations(range(K))
    )


def inertia(rows: Tensor, assignment: Tensor) -> float:
    total = 0.0
    for k in assignment.unique():
        own = rows[assignment == k]
        total += (own - own.mean(0)).square().sum().item()
    return total


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(5))
def test_separated_clusters_are_found(missing: float, seed: int) -> None:
    """Several runs are made and judged, so a bad seed of one must not matter."""
    rows, truth = separated(missing=missing)
    assert agreement(cluster(rows, K, generator(seed)), truth) > 0.99


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("offset", [100.0, -1e4])
def test_clusters_do_not_depend_on_the_origin(offset: float, seed: int) -> None:
    """A logarithm of large counts lies a hundred deviations from 0; a gap must not be taken for a 0."""
    rows, truth = separated(missing=0.3)
    assert agreement(cluster(rows + offset, K, generator(seed)), truth) > 0.99


@pytest.mark.parametrize("seed", range(5))
def test_kmeans_alone_finds_separated_clusters(seed: int) -> None:
    """Without gaps greedy seeding is enough."""
    rows, truth = separated()
    assert agreement(kmeans(rows, K, generator(seed)), truth) == 1.0


@pytest.mark.parametrize(
    "rows",
    [
        torch.randn(600, 5, generator=generator(9), dtype=torch.float64),
        torch.rand(600, 2, generator=generator(9), dtype=torch.float64),
        torch.cat([torch.randn(300, 3, generator=generator(8)) * s for s in (1, 5)]).double(),
    ],
    ids=["one blob", "a square", "two scales"],
)
def test_inertia_is_scikit_learns(rows: Tensor) -> None:
    """Nothing to be found, so many local optima: the best of ten is within 2 % of theirs, each within 10 %."""
    theirs = KMeans(8, n_init=10, random_state=0).fit(rows.numpy()).inertia_
    ours = [inertia(rows, kmeans(rows, 8, generator(seed))) for seed in range(10)]
    assert min(ours) < 1.02 * theirs
    assert max(ours) < 1.10 * theirs


def test_kmeans_stops_where_no_row_wants_to_move() -> None:
    """With gaps: a row's distance is the mean over its observed entries, a centre the mean of the observed ones."""
    rows = torch.randn(200, 3, generator=generator(3), dtype=torch.float64)
    rows[torch.rand(rows.shape, generator=generator(4)) < 0.2] = torch.nan
    rows = rows[~torch.isnan(rows).all(1)]
    assignment = kmeans(rows, 5, generator(5), iterations=1000)
    centres = torch.stack([rows[assignment == k].nanmean(0) for k in range(5)])
    distances = (rows[:, None] - centres).square().nanmean(-1)
    assert torch.equal(distances.argmin(1), assignment)


def test_refine_reaches_the_likelihood_of_scikit_learns_mixture() -> None:
    """Shares are smoothed by one row per cluster and variances start from hard clusters, so not to the last digit."""
    rows, truth = separated()
    log_likelihood, assignment = refine(rows, kmeans(rows, K, generator()), K)
    mixture = GaussianMixture(K, covariance_type="diag", n_init=5, random_state=0).fit(rows.numpy())
    assert log_likelihood == pytest.approx(mixture.score(rows.numpy()), abs=1e-3)
    assert agreement(assignment, truth) == 1.0


def test_refine_of_one_cluster_is_a_gaussian() -> None:
    """Exactly: the mean log-density under the observed entries' own mean and deviation, gaps left out."""
    rows = 3 * torch.randn(100, 2, generator=generator(), dtype=torch.float64) + 1
    rows[::3, 0] = torch.nan
    rows[1::3, 1] = torch.nan
    log_likelihood, assignment = refine(rows, torch.zeros(100, dtype=torch.long), 1)
    x = rows.numpy()
    log_density = scipy.stats.norm(np.nanmean(x, axis=0), np.nanstd(x, axis=0)).logpdf(x)
    assert log_likelihood == pytest.approx(np.nansum(log_density, axis=1).mean(), rel=1e-12)
    assert torch.equal(assignment, torch.zeros(100, dtype=torch.long))


def test_refine_moves_towards_the_better_mixture() -> None:
    """From an assignment with errors EM finds the way; k-means' border is moved to where densities are equal."""
    narrow = 0.1 * torch.randn(300, 1, generator=generator(1), dtype=torch.float64)
    wide = 3.0 + torch.randn(300, 1, generator=generator(2), dtype=torch.float64)
    rows = torch.cat([narrow, wide])
    truth = torch.arange(600) // 300
    start = kmeans(rows, 2, generator())
    _, refined = refine(rows, start, 2)

    def errors(assignment: Tensor) -> int:
        wrong = int((assignment != truth).sum())
        return min(wrong, 600 - wrong)

    # Of the wide ones, Φ(−1.5) = 7 % lie beyond the middle at 1.5, but hardly any among the narrow ones.
    assert errors(refined) < 5 < errors(start)


def test_restarts_are_judged_by_likelihood() -> None:
    """Among rows without clear clusters, more tries give a likelier mixture, and never a less likely one on average."""
    rows = torch.rand(300, 2, generator=generator(9), dtype=torch.float64)

    def mean_of(restarts: int) -> float:
        tries = [refine(rows, cluster(rows, 6, generator(seed), restarts), 6)[0] for seed in range(8)]
        return sum(tries) / len(tries)

    assert mean_of(8) > mean_of(1)


def test_rows_without_anything_observed_go_somewhere() -> None:
    rows, truth = separated()
    gaps = torch.arange(len(rows)) % 5 == 0
    rows[gaps] = torch.nan
    assignment = cluster(rows, K, generator())
    assert agreement(assignment[~gaps], truth[~gaps]) == 1.0
    # Eighty rows dealt at random leave no cluster out.
    assert set(assignment[gaps].tolist()) == set(range(K))
    nothing = cluster(torch.full((50, 2), torch.nan, dtype=torch.float64), K, generator())
    assert set(nothing.tolist()) == set(range(K))


def test_a_column_without_anything_observed_changes_nothing() -> None:
    rows, truth = separated(missing=0.3)
    empty = torch.full((len(rows), 1), torch.nan, dtype=torch.float64)
    assert agreement(cluster(torch.cat([rows, empty], dim=1), K, generator()), truth) > 0.99


@pytest.mark.parametrize("group", [kmeans, cluster])
def test_more_clusters_than_rows(group: Callable[..., Tensor]) -> None:
    """Every row has its own cluster; the others stay empty."""
    rows = torch.tensor([[0.0, 1.0], [5.0, 5.0], [9.0, -9.0]], dtype=torch.float64)
    for seed in range(5):
        assignment = group(rows, 7, generator(seed))
        assert len(assignment.unique()) == 3
        assert set(assignment.tolist()) <= set(range(7))
    one = group(rows[:1], 2, generator())
    assert one.shape == (1,)


@pytest.mark.parametrize("group", [kmeans, cluster])
@pytest.mark.parametrize("constant", [0.0, 3.0])
def test_constant_rows(group: Callable[..., Tensor], constant: float) -> None:
    """Nothing tells the rows apart, so they stay together."""
    assignment = group(torch.full((20, 2), constant, dtype=torch.float64), 3, generator())
    assert assignment.shape == (20,)
    assert len(assignment.unique()) == 1


def test_repeated_values_are_kept_together() -> None:
    """Few distinct values, as degrees have: equal rows are never torn apart."""
    rows = torch.tensor([0.0] * 40 + [1.0] * 9 + [2.0, 5.0], dtype=torch.float64)[:, None]
    assignment = cluster(rows, 4, generator())
    for value in rows.unique():
        assert len(assignment[rows[:, 0] == value].unique()) == 1
    assert len(assignment.unique()) > 1


def test_no_rows() -> None:
    assert cluster(torch.empty(0, 2, dtype=torch.float64), 3, generator()).shape == (0,)


def test_the_generator_decides_alone() -> None:
    rows = torch.rand(200, 2, generator=generator(9), dtype=torch.float64)
    rows[::7] = torch.nan
    before = torch.get_rng_state()
    first, again, other = (cluster(rows, 5, generator(seed)) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
