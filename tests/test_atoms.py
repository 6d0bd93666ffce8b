"""Atoms are found in columns that have some, and in few others; sampled columns with fixed seeds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import gspn

SIZE = 400


def found(*columns: NDArray[np.float64]) -> list[tuple[float, ...]]:
    return gspn.find_atoms(torch.from_numpy(np.stack(columns, axis=1)))


def with_share(x: NDArray[np.float64], value: float, share: float, seed: int = 9) -> NDArray[np.float64]:
    return np.where(np.random.default_rng(seed).random(len(x)) < share, value, x)


@pytest.mark.parametrize("seed", range(20))
def test_columns_with_atoms(seed: int) -> None:
    rng = np.random.default_rng(seed)
    smooth, whole = rng.normal(3, 2, SIZE), np.round(rng.normal(50, 10, SIZE))
    income, skewed = rng.exponential(2.0, SIZE), np.round(rng.exponential(20.0, SIZE), 1)
    assert found(
        with_share(income, 0.0, 0.3),
        np.minimum(smooth, 5.5),
        np.clip(smooth, 0.0, 5.5),
        with_share(smooth, -999.0, 0.1),
        with_share(whole, -999.0, 0.1),
        with_share(whole, 50.0, 0.4),
        with_share(skewed, 0.0, 0.5),
        with_share(with_share(smooth, -999.0, 0.1, 1), -998.0, 0.1, 2),
    ) == [(0.0,), (5.5,), (0.0, 5.5), (-999.0,), (-999.0,), (50.0,), (0.0,), (-999.0, -998.0)]


@pytest.mark.parametrize("seed", range(20))
def test_columns_without(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    stars = rng.choice(5, SIZE, p=[0.02, 0.03, 0.05, 0.2, 0.7]).astype(float)
    x = found(
        rng.normal(size=SIZE),
        np.round(rng.normal(50, 10, SIZE)),
        np.round(rng.normal(0, 3, SIZE)),
        np.round(rng.normal(0, 0.5, SIZE), 1),
        np.round(rng.exponential(1.0, SIZE)),
        np.floor(rng.exponential(4.0, SIZE)),
        np.repeat(rng.normal(size=SIZE // 4), 4),
        np.full(SIZE, 3.7),
        stars,
        with_share(np.full(SIZE, 1.0), 0.0, 0.9),
    )
    assert x == [()] * 10


def test_gaps_are_no_values() -> None:
    x = with_share(np.random.default_rng(0).normal(size=SIZE), np.nan, 0.5)
    assert found(x, np.full(SIZE, np.nan)) == [(), ()]
    assert found(np.where(np.arange(SIZE) % 8 == 0, 2.0, x)) == [(2.0,)]


def test_thresholds() -> None:
    """Three per cent and five repeats; at most five atoms."""
    smooth = np.random.default_rng(0).normal(size=1_000)
    for repeats, expected in ((29, ()), (30, (9.0,))):
        assert found(np.where(np.arange(1_000) < repeats, 9.0, smooth)) == [expected]
    for repeats, expected in ((4, ()), (6, (9.0,))):
        assert found(np.where(np.arange(60) < repeats, 9.0, smooth[:60])) == [expected]
    many = np.where(np.arange(1_000) < 420, (np.arange(1_000) % 7 - 3) / 2, smooth)
    assert len(found(many)[0]) == 5
    refused = np.where(np.arange(1_000) < 300, 97.0 + np.arange(1_000) % 3, smooth)
    assert found(refused) == [(97.0, 98.0, 99.0)]
