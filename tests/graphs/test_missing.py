"""Masks that make entries missing: the shares they promise, the same for any selection of graphs, nothing else touched.

Shares are tested within 5 standard errors of a binomial count, with fixed seeds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats
import torch
from torch import Tensor
from torch_geometric.data import Data

from gspn import Continuous, GraphDataset, Schema, pack
from gspn.errors import InputError
from gspn.graphs.missing import column_mask, gamma_mask, uniform_mask, with_missing

SIZE = 12
SCHEMA = Schema([Continuous(f"x{i}") for i in range(6)])


def rings(count: int) -> GraphDataset:
    one_way = torch.stack([torch.arange(SIZE), (torch.arange(SIZE) + 1) % SIZE])
    edges = torch.cat([one_way, one_way.flip(0)], dim=1)
    generator = torch.Generator().manual_seed(0)
    return pack([Data(x=torch.randn(SIZE, 6, generator=generator), edge_index=edges) for _ in range(count)], SCHEMA)


@pytest.fixture(scope="module")
def dataset() -> GraphDataset:
    return rings(1_000)


def assert_share(marks: Tensor, share: float) -> None:
    error = 5 * np.sqrt(share * (1 - share) / marks.numel())
    assert abs(marks.double().mean().item() - share) <= error


def test_gamma_mask_is_the_papers(dataset: GraphDataset) -> None:
    mask = gamma_mask(dataset, seed=3)
    # P(⌊6·min(g, 10)/10⌋ = k) by the distribution function of the Gamma.
    edges = scipy.stats.gamma.cdf(np.arange(7) * 10 / 6, a=1.5, scale=2.0)
    expected = np.append(np.diff(edges), 1 - edges[-1])
    counts = np.bincount(mask.sum(1).numpy(), minlength=7)
    assert scipy.stats.chisquare(counts, expected * len(mask)).pvalue > 1e-4
    assert np.dot(np.arange(7), expected) == pytest.approx(1.30, abs=0.005)
    # Given how many are missing, the columns are alike.
    assert scipy.stats.chisquare(mask.sum(0).numpy()).pvalue > 1e-4


def test_uniform_and_column_masks_keep_their_shares(dataset: GraphDataset) -> None:
    assert_share(uniform_mask(dataset, 0.3, seed=1), 0.3)
    mask = column_mask(dataset, {"x1": 0.5, "x4": 0.1}, seed=1)
    assert_share(mask[:, 1], 0.5)
    assert_share(mask[:, 4], 0.1)
    assert not mask[:, [0, 2, 3, 5]].any()
    assert uniform_mask(dataset, 1.0).all()
    assert not uniform_mask(dataset, 0.0).any()


DRAWS: list[Callable[[GraphDataset, int], Tensor]] = [
    gamma_mask,
    lambda dataset, seed: uniform_mask(dataset, 0.3, seed),
]


@pytest.mark.parametrize("draw", DRAWS)
def test_masks_depend_on_seed_and_place_alone(
    draw: Callable[[GraphDataset, int], Tensor], dataset: GraphDataset
) -> None:
    whole = draw(dataset, 5)
    assert torch.equal(draw(dataset[:10], 5), whole[: 10 * SIZE])
    assert torch.equal(draw(dataset, 5), whole)
    assert not torch.equal(draw(dataset, 6), whole)


def test_with_missing_touches_nothing_else(dataset: GraphDataset) -> None:
    some = dataset[[7, 2]]
    mask = uniform_mask(some, 0.5, seed=1)
    gaps = with_missing(some, mask)
    assert torch.equal(torch.isnan(gaps.entries()), mask)
    assert torch.equal(gaps.entries()[~mask], some.entries()[~mask])
    assert not torch.isnan(dataset.x).any()
    twice = dataset[[1, 1]]
    with pytest.raises(InputError, match="a graph occurs twice"):
        with_missing(twice, uniform_mask(twice, 0.5))
    with pytest.raises(InputError, match=r"mask has shape \[3, 6\]"):
        with_missing(some, mask[:3])


def test_shares_and_names_are_checked(dataset: GraphDataset) -> None:
    with pytest.raises(InputError, match=r"between 0 and 1, got 1\.5"):
        uniform_mask(dataset, 1.5)
    with pytest.raises(InputError, match="colour"):
        column_mask(dataset, {"colour": 0.5})
